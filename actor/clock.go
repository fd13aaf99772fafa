package actor

import (
	"container/heap"
	"sync"
	"time"
)

// clock fires the system's timers, all from one goroutine that sleeps until the
// earliest is due. It starts with the first timer.
type clock struct {
	mu      sync.Mutex
	nodes   timerHeap
	order   uint64
	running bool
	closed  bool
	wake    chan struct{}
	wg      sync.WaitGroup
}

// timerNode is a timer of the clock. fire runs on the clock's goroutine and must
// not block.
type timerNode struct {
	when   time.Time
	order  uint64 // timers of the same instant fire in the order in which they were set
	period time.Duration
	index  int // in the heap, -1 when it is not in it
	fire   func()
}

func newClock() *clock { return &clock{wake: make(chan struct{}, 1)} }

// after fires once, not before d has passed.
func (k *clock) after(d time.Duration, fire func()) *timerNode { return k.add(d, 0, fire) }

// every fires each period, the first time when one has passed. When the clock was
// late, what was missed is left out.
func (k *clock) every(period time.Duration, fire func()) *timerNode {
	return k.add(period, period, fire)
}

func (k *clock) add(d, period time.Duration, fire func()) *timerNode {
	n := &timerNode{when: time.Now().Add(d), period: period, index: -1, fire: fire}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return n
	}
	k.order++
	n.order = k.order
	heap.Push(&k.nodes, n)
	if !k.running {
		k.running = true
		k.wg.Go(k.run)
	} else if n.index == 0 {
		k.poke()
	}
	return n
}

// cancel stops a timer. One that is firing right now may still fire.
func (k *clock) cancel(n *timerNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n.period = 0
	if n.index >= 0 {
		heap.Remove(&k.nodes, n.index)
	}
}

func (k *clock) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *clock) run() {
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		wait, ok := k.fireDue()
		if !ok {
			return
		}
		alarm.Reset(wait)
		select {
		case <-alarm.C:
		case <-k.wake:
		}
	}
}

// fireDue fires what is due and returns how long to sleep.
func (k *clock) fireDue() (wait time.Duration, ok bool) {
	for {
		k.mu.Lock()
		if k.closed {
			k.mu.Unlock()
			return 0, false
		}
		now := time.Now()
		if len(k.nodes) == 0 {
			k.mu.Unlock()
			return time.Hour, true
		}
		n := k.nodes[0]
		if wait := n.when.Sub(now); wait > 0 {
			k.mu.Unlock()
			return wait, true
		}
		heap.Pop(&k.nodes)
		if n.period > 0 {
			missed := now.Sub(n.when) / n.period
			n.when = n.when.Add((missed + 1) * n.period)
			heap.Push(&k.nodes, n)
		}
		k.mu.Unlock()
		n.fire()
	}
}

func (k *clock) close() {
	k.mu.Lock()
	k.closed = true
	k.nodes = nil
	k.poke()
	k.mu.Unlock()
	k.wg.Wait()
}

func (k *clock) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.nodes)
}

// timerHeap is a heap by time.
type timerHeap []*timerNode

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].when.Equal(h[j].when) {
		return h[i].order < h[j].order
	}
	return h[i].when.Before(h[j].when)
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is called by package heap.
func (h *timerHeap) Push(x any) {
	n := x.(*timerNode)
	n.index = len(*h)
	*h = append(*h, n)
}

// Pop is called by package heap.
func (h *timerHeap) Pop() any {
	old := *h
	n := old[len(old)-1]
	old[len(old)-1] = nil
	n.index = -1
	*h = old[:len(old)-1]
	return n
}
