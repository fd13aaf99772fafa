package actor

import (
	"fmt"
	"runtime"
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

func (c *spawnConfig) runOn(where runsOn) {
	required(c.runsOn == onPool || c.runsOn == where, "Spawn: an actor is Pinned or Inline, not both")
	c.runsOn = where
}

// Weight gives the actor a share of n, from 1 to 16, while others wait too: its turn may be n times
// as long, or n messages if each takes longer than a turn should. It is a share of what all workers
// do, those of its bulkhead if it has one; but an actor never gets more than one worker's time.
// Anything else panics.
func Weight(n int) SpawnOption {
	required(1 <= n && n <= 16, fmt.Sprintf("Weight(%d): a weight is from 1 to 16", n))
	return spawnOption(func(c *spawnConfig) { c.weight = uint8(n) })
}

// thread is where a pinned actor runs.
type thread struct {
	wake chan struct{} // a pinned actor's goroutine waits here; scheduled bounds it to one
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
	c.ext.goroutine.Store(currentG())
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
