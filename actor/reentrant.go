package actor

import (
	"context"
	"slices"
)

// A reentrant actor handles other messages while a handler of its waits. The wait then ends
// the turn: what belongs to the message is put aside, with the stack, and the actor is idle
// or queued like any other. When the wait is over the stack waits for a turn, in which the
// handler goes on. So the actor still does one thing at a time, and its word needs no state
// more; with one exception: while no message may begin (blocked) nobody has the actor, and yet
// it stays scheduled, so that mail does not wake it.
//
// A signal that would end the incarnation waits until no handler is under way any more:
// what they wait for is cut short, and no message begins meanwhile.

// reentrantMost is how many handlers of an actor may wait at the same time: then no message
// begins until one of them goes on.
const reentrantMost = 1000

// Reentrant lets the actor begin its next messages while a handler waits in [Ask], [Gather],
// [System.Wait], [Future.Wait] or [Context.Sleep] with the handler's own context, for up to 1000
// handlers at the same time. Its handlers still run one at a time, and switch only where one waits:
// after a wait the state may have changed. Two actors that ask each other are not a deadlock if one
// of them is reentrant, unless the other one waits for the very request in whose handler it is
// asked.
//
// When a handler fails, the others under way end before the supervisor's directive is carried out;
// if that is to restart or to stop the actor, their waits end with [context.Canceled]. A Stop or
// Kill ends the waits as well; Drain, ErrStop and [Context.Stop] let them finish. A Kill does not
// take the actor away from a handler that does not return while others wait.
//
// Messages do not interrupt Init and Terminate, Blocking, waits with a derived context, or a handler on whose stack an
// Inline actor or the Init of a child waits.
// Pinned and Inline actors cannot be reentrant: spawning one fails.
func Reentrant() SpawnOption { return spawnOption(func(c *spawnConfig) { c.reentrant = true }) }

// reentry is what a reentrant actor knows of its handlers that wait.
type reentry struct {
	waiting   []*inquiry   // changed by the turn under mu
	deferred  []signal     // signals for when nobody waits, changed by the turn under mu
	resumable []*coroutine // stacks whose wait is over, guarded by mu
	mailFirst bool         // the last turn went to a stack: the next goes to the mail; guarded by mu
	recheck   bool         // see handlesLast; guarded by mu
	blocked   bool         // scheduled, and yet nobody has the actor: guarded by mu
}

// reentry returns what c knows of its handlers that wait, nil when it is not reentrant.
func (c *core) reentry() *reentry {
	if !c.traits.reentrant() {
		return nil
	}
	return c.ext.reentry
}

// resumable reports whether a handler is to be resumed. REQUIRES: c.mu held.
func (c *core) resumable() bool {
	r := c.reentry()
	return r != nil && len(r.resumable) > 0
}

// mayBegin reports whether the next message may begin. REQUIRES: the turn owns c.
func (c *core) mayBegin() bool { return !c.traits.reentrant() || !c.mustBlock() }

// waitingHandlers returns the handlers that wait while others run. REQUIRES: the turn owns c, or
// c.mu held.
func (c *core) waitingHandlers() []*inquiry {
	if !c.traits.reentrant() {
		return nil
	}
	return c.ext.reentry.waiting
}

// stackReady makes a stack ready whose wait is over.
func (c *core) stackReady(co *coroutine, w *worker) {
	c.mu.Lock()
	r := c.ext.reentry
	r.resumable = append(r.resumable, co)
	wake := c.scheduleTurn()
	c.mu.Unlock()
	if wake {
		c.sched().ready(c, w)
	}
}

// nextResumable returns the stack that the turn is to go on with, nil when it is to begin with
// signals and mail. Stacks and mail take turns: a handler that waits again and again would
// otherwise keep the mail away. REQUIRES: c is reentrant.
func (c *core) nextResumable() *coroutine {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ext.reentry
	r.mailFirst = !r.mailFirst && len(r.resumable) > 0
	if !r.mailFirst {
		return nil
	}
	co := r.resumable[0]
	r.resumable = slices.Delete(r.resumable, 0, 1)
	return co
}

// resumesNext reports whether the next turn belongs to a stack.
func (c *core) resumesNext() bool {
	if !c.traits.reentrant() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.ext.reentry.mailFirst && len(c.ext.reentry.resumable) > 0
}

// mustBlock reports whether no message may begin until a handler under way has returned.
// REQUIRES: the turn owns c.
func (c *core) mustBlock() bool {
	r := c.reentry()
	if r == nil {
		return false
	}
	n := len(r.waiting)
	return n > 0 && (n >= reentrantMost || len(r.deferred) > 0)
}

// defers reports whether the signal must wait for the handlers under way, and keeps it then.
// REQUIRES: the turn owns c.
func (c *core) defers(s signal) bool {
	if len(c.waitingHandlers()) == 0 {
		return false
	}
	ends := false
	switch s.kind {
	case sigFailed, sigEnded, sigHalted, sigStarted, sigRegroup, sigLook, sigPassivate, sigActivate: // about its children, or a tool's, or one that heeds them
		return false
	case sigQuit, sigYield: // who waits may wait once more
	case sigStart: // it concerns an incarnation that nobody is in
		return false
	case sigExit, sigResume, sigRelease:
		if len(c.ext.reentry.deferred) == 0 {
			return false
		}
	case sigRestart:
		if c.phase != suspended {
			return false // and is late
		}
		ends = true
	default:
		ends = true
	}
	c.postpone(s)
	if ends {
		c.mu.Lock()
		c.ext.cut = true
		x := c.cutShort()
		c.mu.Unlock()
		x.end(c)
	}
	return true
}

// postpone keeps a signal until no handler is under way. REQUIRES: the turn owns c, which is
// reentrant.
func (c *core) postpone(s signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.ext.reentry
	r.deferred, r.recheck = append(r.deferred, s), true
}

// handlesLast reports whether c handles that request, or makes that room, only after all handlers under way have
// returned, if at all: a signal waits for them, and no message begins meanwhile. While c has a turn that may have begun
// with the request nobody can tell: then c looks for cycles itself at the end of the turn, see endCycles.
// REQUIRES: c is reentrant and mu held; no handler that waits is that of the request.
func (c *core) handlesLast(request interrupter) bool {
	r := c.ext.reentry
	if len(r.deferred) == 0 || len(r.waiting) == 0 {
		return false
	}
	if passed := request.passedTo(); passed != nil && passed.c != c {
		return false
	}
	r.recheck = r.recheck || !r.blocked
	return r.blocked
}

// waitsToCheck returns what the handlers under way wait for, when somebody may have begun to wait for c who did not
// know that c begins no message any more. REQUIRES: c is blocked, mu held.
func (c *core) waitsToCheck() (waits []inquiry) {
	r := c.ext.reentry
	if len(r.deferred) == 0 || !r.recheck {
		return nil
	}
	r.recheck = false
	for _, i := range r.waiting {
		waits = i.split(waits)
	}
	return waits
}

// endCycles ends those of c's waits that are part of a cycle.
func (c *core) endCycles(waits []inquiry) {
	for _, i := range waits { // each has a call: nobody is above a handler whose stack was set aside
		if err := c.deadlock(i.target(), i.call); err != nil {
			i.call.interrupt(err)
		}
	}
}

// cut is what ends when callbacks are cut short.
type cut struct {
	life  *lifetime     // the context, nil if there is none
	waits []interrupter // what handlers wait for
	above []*core       // who is above the actor on its stack
}

// cutShort returns what is to end of c's callbacks. REQUIRES: c.mu held.
func (c *core) cutShort() cut {
	ext := c.ext
	x := cut{life: ext.life, above: ext.inquiry.stacks()}
	for _, i := range append([]*inquiry{&ext.inquiry}, c.waitingHandlers()...) {
		for ; i != nil && i.call != nil; i = i.before {
			x.waits = append(x.waits, i.call)
		}
	}
	return x
}

// end ends it. c is the actor with the callbacks.
func (x cut) end(c *core) {
	if x.life != nil {
		x.life.end()
		c.sys().sched.settle()
	}
	for _, wait := range x.waits {
		wait.interrupt(context.Canceled)
	}
	for _, other := range x.above {
		if !other.isLentBy(c) { // else it is below, and there because c waits with its context
			other.cutInit()
			c.cutChildrenAbove(other)
		}
	}
}

// setsAside reports whether a wait of c's handler lets it handle other messages: not while others are on its stack.
// REQUIRES: the caller is that handler, or on its stack.
func (c *core) setsAside() bool {
	return c.traits.reentrant() && c.impl().handling() && c.above() == nil
}

// inquiryFor returns what the handler of that ask's request waits for. REQUIRES: c is
// reentrant, and c.mu held.
func (c *core) inquiryFor(ask interrupter) inquiry {
	if i := &c.ext.inquiry; i.isFor(ask) {
		return *i
	}
	for _, i := range c.ext.reentry.waiting {
		if i.isFor(ask) {
			return *i
		}
	}
	return inquiry{}
}

// handling reports whether a message is being handled, and not Init or Terminate.
func (c *cell[M]) handling() bool {
	c.core.mu.Lock()
	s := c.mailbox()
	c.core.mu.Unlock()
	return s != nil && s.cur != nil
}

// waitAside is a wait in a handler of a reentrant actor: leave gives the stack away, and
// returns when it has a turn again.
func (c *cell[M]) waitAside(leave func()) {
	s, r := c.mailbox(), c.core.ext.reentry
	under := *s.cur
	i := new(inquiry)
	taken, halting := c.core.taken, c.core.halting
	stashed := s.inc != nil && s.inc.stashed
	c.core.mu.Lock()
	*i, c.core.ext.inquiry = c.core.ext.inquiry, inquiry{}
	header, asker, merged, mergedOf := s.header, s.asker, s.merged, s.mergedOf
	if i.call == nil && !taken { // it waits for no actor
		i.asked = asker
	}
	s.header, s.asker, s.merged, s.mergedOf = nil, nil, nil, nil
	s.cur, s.resumed = nil, nil
	r.waiting = append(r.waiting, i)
	c.unmark()
	c.core.mu.Unlock()
	c.core.taken, c.core.halting = false, false
	c.core.flags.And(^(inUser | inside))

	leave()

	c.core.beginTurn()
	c.core.flags.Or(inUser | inside)
	c.core.taken, c.core.halting = taken, halting
	if s.inc != nil {
		s.inc.stashed = stashed
	}
	c.core.mu.Lock()
	at := slices.Index(r.waiting, i)
	r.waiting = slices.Delete(r.waiting, at, at+1)
	if c.core.ext.inquiry = *i; i.call == nil {
		c.core.ext.inquiry.asked = nil
	}
	s.header, s.asker, s.merged, s.mergedOf = header, asker, merged, mergedOf
	s.cur, s.resumed = &under, &under
	var due []signal
	if len(r.waiting) == 0 {
		due, r.deferred = r.deferred, nil
	}
	c.core.mu.Unlock()
	c.core.putBackSignals(due)
}

// endResumed notes that the handler has returned, which had waited.
func (c *cell[M]) endResumed(s *mailbox[M]) {
	c.core.mu.Lock()
	s.resumed = nil
	c.core.mu.Unlock()
}
