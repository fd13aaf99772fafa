package actor

import (
	"math"
	"sync"
	"time"
)

// clock fires the system's timers, all from one goroutine that sleeps until the
// earliest is due. It starts with the first timer.
//
// The timers are a heap and not a wheel: nearly all of them are ends of asks, each later
// than those before and canceled long before it is due, and such a one costs a heap two
// comparisons. docs/limits.md has the figures for a million timers.
//
// Its times are counted from when it was made: that needs the monotonic clock only, which
// takes half as long to read as time.Now.
type clock struct {
	base    time.Time
	mu      sync.Mutex
	nodes   timerHeap
	order   uint64
	running bool // or somebody else fires what is due, see driveBy
	closed  bool
	planned time.Duration // when the goroutine wakes by itself
	wake    chan struct{}
	wg      sync.WaitGroup
}

// timerNode is a timer of the clock.
type timerNode struct {
	when   time.Duration // since the clock's base
	order  uint64        // timers of the same instant fire in the order in which they were set
	period time.Duration
	index  int // in the heap, counted from 1; 0 when it is not in it
	what   ringer
}

// ringer is what a timer does. ring runs on the clock's goroutine and must not block.
type ringer interface{ ring() }

// ringFunc is a ringer that is a function.
type ringFunc func()

func (f ringFunc) ring() { f() }

func newClock() *clock { return &clock{base: time.Now(), wake: make(chan struct{}, 1)} }

// now returns the time since the base.
func (k *clock) now() time.Duration { return time.Since(k.base) }

// in returns the time when d has passed from now on. What is too long to be counted never
// passes.
func (k *clock) in(d time.Duration) time.Duration {
	now := k.now()
	return now + min(max(d, 0), math.MaxInt64-now)
}

// after fires once, not before d has passed.
func (k *clock) after(d time.Duration, fire func()) *timerNode {
	n := new(timerNode)
	k.at(n, k.in(d), ringFunc(fire))
	return n
}

// every fires each period, the first time when one has passed. When the clock was
// late, what was missed is left out.
func (k *clock) every(period time.Duration, fire func()) *timerNode {
	n := &timerNode{period: period}
	k.at(n, k.in(period), ringFunc(fire))
	return n
}

// at sets the timer n, which must not be set.
func (k *clock) at(n *timerNode, when time.Duration, what ringer) {
	if !k.set(n, when, what) {
		n.shut()
	}
}

// set is at; it reports false when the clock is closed.
func (k *clock) set(n *timerNode, when time.Duration, what ringer) bool {
	if n.when != when { // that of an ask is known to others already
		n.when = when
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n.what = what
	if k.closed {
		return false
	}
	k.order++
	n.order = k.order
	k.nodes.push(n)
	switch {
	case !k.running:
		k.running = true
		k.wg.Go(k.run)
	case when < k.planned:
		k.planned = when
		k.poke()
	}
	return true
}

// shut ends what waits for the timer, and cannot end otherwise: the clock is closed.
func (n *timerNode) shut() {
	if a, ok := n.what.(interface{ shut() }); ok {
		a.shut()
	}
}

// cancel stops a timer. One that is firing right now may still fire.
func (k *clock) cancel(n *timerNode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n.period = 0
	if n.index > 0 && !k.closed {
		k.nodes.remove(n)
	}
}

// pending returns how long it is until the timer is due, and its period.
func (k *clock) pending(n *timerNode) (in, every time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return max(0, n.when-k.now()), n.period
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
		now := k.now()
		if len(k.nodes) == 0 {
			k.planned = now + time.Hour
			k.mu.Unlock()
			return time.Hour, true
		}
		n := k.nodes[0]
		if n.when > now {
			k.planned = n.when
			in := n.when - now
			k.mu.Unlock() // from here on the timer may be set anew
			return in, true
		}
		k.nodes.remove(n)
		if n.period > 0 {
			missed := (now - n.when) / n.period
			n.when += (missed + 1) * n.period
			k.nodes.push(n)
		}
		what := n.what
		k.mu.Unlock()
		what.ring()
	}
}

func (k *clock) close() {
	k.mu.Lock()
	k.closed = true
	left := k.nodes
	k.nodes = nil
	k.poke()
	k.mu.Unlock()
	for _, n := range left {
		n.shut()
	}
	k.wg.Wait()
}

func (k *clock) len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.nodes)
}

// timerHeap is a heap by time. It is written out because container/heap costs two calls
// through an interface for each comparison, and asks set and cancel a timer each.
type timerHeap []*timerNode

func (n *timerNode) before(o *timerNode) bool {
	if n.when == o.when {
		return n.order < o.order
	}
	return n.when < o.when
}

func (h *timerHeap) push(n *timerNode) {
	*h = append(*h, n)
	h.up(len(*h)-1, n)
}

func (h *timerHeap) remove(n *timerNode) {
	i, last := n.index-1, len(*h)-1
	n.index = 0
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	if i == last {
		return
	}
	h.up(i, m)
	h.down(m.index-1, m)
}

// up puts n at i, or above if it is earlier than what is there.
func (h timerHeap) up(i int, n *timerNode) {
	for i > 0 {
		parent := (i - 1) / 2
		if !n.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		h[i].index = i + 1
		i = parent
	}
	h[i], n.index = n, i+1
}

// down puts n at i, or below if it is later than what is there.
func (h timerHeap) down(i int, n *timerNode) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(n) {
			break
		}
		h[i] = h[child]
		h[i].index = i + 1
		i = child
	}
	h[i], n.index = n, i+1
}
