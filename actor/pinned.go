package actor

import (
	"fmt"
	"runtime"
	"time"
)

// runsOn is where an actor's turns run.
type runsOn uint8

const (
	onPool runsOn = iota
	onThread
	onSender
)

// Pinned gives the actor a goroutine of its own, locked to an operating system thread:
// for cgo, for libraries that want to be called from one thread, and for handlers that
// nearly always block. An actor without this option must not wait (Ask, Gather, Sleep) or
// return while its handler has called [runtime.LockOSThread]: its stack moves between
// goroutines, and Go ends the process.
func Pinned() SpawnOption { return spawnOption(func(c *spawnConfig) { c.runOn(onThread) }) }

// Inline runs the actor's turns on the goroutine of whoever sends it a message while it is idle:
// Tell then returns after the message was handled, along with what the actor has sent to itself,
// unless another sender or the pool is already running it. It is for tests, and for glue so thin
// that a hop is not worth it. The pool handles what the runtime itself sends, such as timers and
// signals, what is left after about the time of a turn, what a [Gated] actor sends, and messages for
// Inline actors that send to each other more than 100 deep.
func Inline() SpawnOption { return spawnOption(func(c *spawnConfig) { c.runOn(onSender) }) }

func (c *spawnConfig) runOn(where runsOn) {
	required(c.runsOn == onPool || c.runsOn == where, "Spawn: an actor is Pinned or Inline, not both")
	c.runsOn = where
}

// Weight gives the actor a share of n, from 1 to 16, while others wait too: its turn may be n times
// as long, or n messages if each takes longer than a turn should. Anything else panics.
func Weight(n int) SpawnOption {
	required(1 <= n && n <= 16, fmt.Sprintf("Weight(%d): a weight is from 1 to 16", n))
	return spawnOption(func(c *spawnConfig) { c.weight = uint8(n) })
}

// inlineMost is how many Inline actors may run on one stack, each in a handler of the one before.
const inlineMost = 100

// nesting returns how many Inline actors run on the stack of c's handler, c among them.
func (c *core) nesting() int32 {
	if c == nil || c.traits.runsOn() != onSender {
		return 0
	}
	return c.ext.nesting.Load()
}

// thread is where a pinned actor runs.
type thread struct {
	wake chan struct{} // a pinned actor's goroutine waits here; scheduled bounds it to one
}

// hostOf returns the actor on whose worker the handler of c runs: c itself, or the one at the bottom of a stack of
// Inline actors.
func hostOf(c *core) *core {
	if c.traits.runsOn() == onSender {
		if host := c.ext.host.Load(); host != nil {
			return host
		}
	}
	return c
}

// newThread returns nil for an actor that has no goroutine of its own.
func newThread(kind runsOn) *thread {
	if kind != onThread {
		return nil
	}
	return &thread{wake: make(chan struct{}, 1)}
}

// open starts the goroutine of a pinned actor. h may be nil.
func (h *thread) open(c *core) {
	if h != nil {
		c.sched().goroutines.start(func() { h.live(c) })
	}
}

// live runs a pinned actor until it has stopped.
func (h *thread) live(c *core) {
	runtime.LockOSThread()
	running := false
	defer func() {
		if !running {
			return
		}
		// A handler has ended the goroutine with runtime.Goexit: another one takes over.
		if c.impl().endTurn(nil) {
			h.wake <- struct{}{}
		}
		if !c.hasStopped() {
			c.sched().goroutines.start(func() { h.live(c) })
		}
	}()
	for !c.hasStopped() {
		<-h.wake
		if c.hasStopped() {
			return // it was woken to leave, and the turn is not its own
		}
		running = true
		for c.play() {
		}
		running = false
	}
}

// leave ends the goroutine of a pinned actor that has stopped. h may be nil.
func (h *thread) leave() {
	if h == nil {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (c *core) hasStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase == stopped
}

// dispatch gives an actor that has just become runnable its turn, or queues
// it.
func (c *cell[M]) dispatch(w *worker, e *envelope[M]) {
	if c.core.traits.runsOn() != onSender {
		c.core.sched().ready(&c.core, w)
		return
	}
	_, internal := e.with.(note[M])
	h, _ := e.with.(*headed)
	from := e.from()
	depth := from.nesting() + 1
	if internal || h != nil && h.far || from.isGated() || depth > inlineMost { // what a gate has held leaves on a goroutine that must not block
		c.core.leaveToPool()
		return
	}
	c.core.ext.nesting.Store(depth)
	through := false
	var host *core
	if w != nil {
		host = from
		host.occupy(nil, &c.core)
	}
	if from != nil && (w != nil || hostOf(from) != from) {
		// The bottom and not the one below: a sender that has ended may by now run on this actor's stack.
		bottom := hostOf(from)
		c.core.ext.host.Store(bottom)
		defer c.core.ext.host.CompareAndSwap(bottom, nil) // the actor may have the next turn already, by another sender
	} else {
		c.core.ext.host.Store(nil)
	}
	defer func() {
		host.occupy(&c.core, nil)
		if !through && c.endTurn(nil) { // a handler has ended this goroutine with runtime.Goexit
			c.core.leaveToPool()
		}
	}()
	again := c.core.play()
	for began := time.Now(); again && time.Since(began) < turnTime; {
		again = c.core.play()
	}
	if through = true; again { // others send all the time: this sender does not work for them
		c.core.leaveToPool()
	}
}

// leaveToPool queues an Inline actor for a worker.
func (c *core) leaveToPool() {
	c.ext.nesting.Store(0)
	c.ext.host.Store(nil)
	c.sched().ready(c, nil)
}

// play gives an actor a turn that is not one of the pool's.
func (c *core) play() (again bool) {
	ended := false
	defer func() {
		if ended {
			return
		}
		failure := recovered(recover())
		c.impl().crashed(failure)
		if failure != errGoexit { //nolint:errorlint // it is recovered's own and never wrapped
			again = c.impl().endTurn(nil)
		}
	}()
	again = c.impl().turn(nil)
	ended = true
	return again
}
