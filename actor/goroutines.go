package actor

import "sync"

// goroutines counts those of a system. Unlike with a [sync.WaitGroup] more may begin while
// somebody waits until there are none.
type goroutines struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n is 0 again, nil if nobody waits for that
}

// start runs f on a goroutine of its own.
func (g *goroutines) start(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.ended()
		f()
	}()
}

func (g *goroutines) ended() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.none != nil {
		close(g.none)
		g.none = nil
	}
}

// gone returns a channel that is closed when there are none.
func (g *goroutines) gone() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.none
	if c == nil {
		c = make(chan struct{})
		if g.n == 0 {
			close(c)
		} else {
			g.none = c
		}
	}
	return c
}
