package actor

import "time"

// Inline runs the actor's turns on the goroutine of whoever sends it a message while it is idle:
// Tell then returns after the message was handled, along with what the actor has sent to itself,
// unless another sender or the pool is already running it. It is for tests, and for glue so thin
// that a hop is not worth it. The pool handles what the runtime itself sends, such as timers and
// signals, what is left after about the time of a turn, what a [Gated] actor sends, what an Inline actor
// forwards, and messages for Inline actors that send to each other more than 100 deep.
func Inline() SpawnOption { return spawnOption(func(c *spawnConfig) { c.runOn(onSender) }) }

// inlineMost is how many Inline actors may run on one stack, each in a handler of the one before.
const inlineMost = 100

// nesting returns how many Inline actors run on the stack of c's handler, c among them. c may be nil.
func (c *core) nesting() int32 {
	if c == nil || c.traits.runsOn() != onSender || c.worker.Load() != nil { // the pool runs it
		return 0
	}
	return c.ext.nesting.Load()
}

// isHere reports whether the caller is on the goroutine on which c, which is Pinned or Inline, has a turn. Where
// [currentG] does not know it is not. c may be nil.
func (c *core) isHere() bool {
	if c == nil || c.traits.runsOn() == onPool {
		return false
	}
	g := currentG()
	return g != 0 && c.ext.goroutine.Load() == g
}

// host returns the worker on whose stack c has a turn that a sender has given it, nil for none.
func (c *core) host() *worker {
	if c.traits.runsOn() != onSender {
		return nil
	}
	return c.ext.host.Load()
}

// runner returns the worker that runs c's handler if that is the caller, as it may be with a context derived from its own;
// otherwise nil. c may be nil.
func (c *core) runner() *worker {
	if c == nil {
		return nil
	}
	if w := c.worker.Load(); w.isHere(c) {
		return w
	}
	return nil
}

// dispatch gives an actor that has just become runnable its turn, or queues it.
func (c *cell[M]) dispatch(w *worker, e *envelope[M]) {
	if c.core.traits.runsOn() != onSender {
		c.core.sched().ready(&c.core, w)
		return
	}
	from := e.from()
	below := from // whose handler is on this stack, nil for nobody's
	switch {
	case w != nil:
		below = w.current.Load() // which may pass on what from has sent
	case from.isHere():
		w = from.host()
	default:
		if w = from.runner(); w == nil {
			below = nil
		}
	}
	_, internal := e.with.(note[M])
	h, _ := e.with.(*headed)
	depth := below.nesting() + 1
	if internal || h != nil && h.far || from.isGated() || depth > inlineMost { // what a gate has held leaves on a goroutine that must not block
		c.core.sched().ready(&c.core, nil)
		return
	}
	c.core.beginInline(w, depth)
	below.occupy(nil, &c.core)
	through := false
	defer func() {
		below.occupy(&c.core, nil)
		if !through && c.endTurn(nil) { // a handler has ended this goroutine with runtime.Goexit
			c.core.sched().ready(&c.core, nil)
		}
		c.core.endInline(w)
	}()
	again := c.core.play()
	for began := time.Now(); again && time.Since(began) < turnTime; {
		again = c.core.play()
	}
	if through = true; again { // others send all the time: this sender does not work for them
		c.core.sched().ready(&c.core, nil)
	}
}

// beginInline notes that an Inline actor is about to have its turn on the caller's goroutine, which is that of host or of
// none, as so many on that stack.
func (c *core) beginInline(host *worker, depth int32) {
	c.ext.nesting.Store(depth)
	c.ext.host.Store(host)
	c.ext.goroutine.Store(currentG())
}

// endInline ends what beginInline began, unless the actor has the next turn already, by another sender.
func (c *core) endInline(host *worker) {
	if c.ext.goroutine.CompareAndSwap(currentG(), 0) {
		c.ext.host.CompareAndSwap(host, nil)
	}
}
