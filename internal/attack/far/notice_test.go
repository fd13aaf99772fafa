package far_test

import (
	"fmt"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// notice is a Down that comes once.
type notice struct {
	w    *world
	by   interface{ lives() bool }
	of   actor.PID
	news atomic.Int64
	back atomic.Bool // its watch was taken back
}

func (x *notice) String() string { return fmt.Sprintf("Down of %s for a %T", x.of, x.by) }

func (w *world) expect(by interface{ lives() bool }, of actor.PID) *notice {
	x := &notice{w: w, by: by, of: of}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, x)
	return x
}

// came notes that it has come.
func (x *notice) came(d actor.Down) {
	x.w.counts.downs.Add(1)
	if n := x.news.Add(1); n > 1 || x.back.Load() {
		x.w.Report("down: %s has come %d times; its watch was taken back: %t", x, n, x.back.Load())
	}
	if d.PID != x.of {
		x.w.Report("down: %s for %s", d.PID, x.of)
	}
}

// open reports whether it has yet to come.
func (x *notice) open() bool { return x.news.Load() == 0 && !x.back.Load() && x.by.lives() }

// takeBack notes that the watches of an actor are taken back.
func takeBack(all []*notice) {
	for _, x := range all {
		x.back.Store(true)
	}
}
