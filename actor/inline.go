package actor

import "time"

// Inline runs the actor's turns on the goroutine of whoever sends it a message while it is idle:
// Tell then returns after the message was handled, along with what the actor has sent to itself,
// unless another sender or the pool is already running it. It is for tests, and for glue so thin
// that a hop is not worth it. The pool handles what the runtime itself sends, such as timers and
// signals, what is left after about the time of a turn, what a [Gated] actor sends, what an Inline or Pinned
// actor forwards, and messages for Inline actors that send to each other more than 100 deep. A handler
// that ends its goroutine with [runtime.Goexit] ends that of the sender.
func Inline() SpawnOption { return spawnOption(func(c *spawnConfig) { c.runOn(onSender) }) }

// inlineMost is how many Inline actors may run on one stack, each in a handler of the one before.
const inlineMost = 100

// nesting returns how many Inline actors senders run on the stack that c is at the top of. c may be nil.
func (c *core) nesting() int32 {
	for ; c != nil; c = c.below() {
		if c.traits.runsOn() == onSender {
			if n := c.ext.nesting.Load(); n > 0 {
				return n
			}
		}
	}
	return 0
}

// dispatch gives an actor that has just become runnable its turn, or queues it.
func (c *cell[M]) dispatch(w *worker, e *envelope[M]) {
	if c.core.traits.runsOn() != onSender {
		c.core.sched().ready(&c.core, w)
		return
	}
	from := e.from()
	below := onTop(from, w)
	_, internal := e.with.(note[M])
	h, _ := e.with.(*headed)
	depth := below.nesting() + 1
	if internal || h != nil && h.far || from.isGated() || depth > inlineMost { // what a gate has held leaves on a goroutine that must not block
		c.core.sched().ready(&c.core, nil)
		return
	}
	through := false
	defer func() {
		if !through && c.endTurn(nil) { // a handler has ended this goroutine with runtime.Goexit
			c.core.sched().ready(&c.core, nil)
		}
	}()
	c.core.mount(below, depth)
	again := c.core.play()
	for began := time.Now(); again && time.Since(began) < turnTime; {
		c.core.mount(below, depth)
		again = c.core.play()
	}
	if through = true; again { // others send all the time: this sender does not work for them
		c.core.sched().ready(&c.core, nil)
	}
}
