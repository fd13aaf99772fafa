package actor

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"
)

// Killing an actor whose handler does not return: the actor is taken away from the worker
// that runs it. It ends at once, on another worker; its name is free, its watchers are told.
// The goroutine with the handler cannot be ended by anybody. It is left behind, and when the
// handler returns, if ever, the goroutine ends without touching the actor again.
//
// state.go says how the monitor knows that the worker is in the handler, and not just before
// or after it with its hands on the actor. Whoever goes on with the actor calls nothing of the
// user's any more, since a killed actor has no Terminate: so whoever comes back from a callback
// of a fenced actor is the one who was left behind. It finds a mailbox that nobody else has.

// fenceAfter is how long a killed actor gets to finish its message.
const fenceAfter = 100 * time.Millisecond

// toBeKilled reports whether c has been told to end without delay, and how long ago.
func (c *core) toBeKilled(now time.Time) (since time.Duration, killed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil || !c.ext.killed || c.phase == stopped {
		return 0, false
	}
	return now.Sub(c.sys().began) - c.ext.killedAt, true
}

// fenceInTime fences c, which was to be killed so long ago, once its time to finish its message is over. It
// reports whether it has.
func (s *scheduler) fenceInTime(now time.Time, w *worker, c *core, since time.Duration) bool {
	if since = min(since, now.Sub(w.watched.since)); since >= fenceAfter && s.fence(w, c) {
		return true
	}
	// Those that cannot be fenced, or not yet, are looked at rarely after a while.
	s.monitor.hurry = s.monitor.hurry || since < 2*fenceAfter
	return false
}

// lost reports whether the actor that the worker runs was taken away from it.
func (w *worker) lost() bool {
	if c := w.current.Load(); c != nil {
		c.leftBehind()
	}
	return w.fenced.Load()
}

// fence takes c away from w. It reports false when w is not in user code of it.
func (s *scheduler) fence(w *worker, c *core) bool {
	settle, claimed := c.impl().claim(w)
	if !claimed {
		return false
	}
	w.away.Store(true)
	info := c.info()
	s.mu.Lock()
	if s.abandoned == nil {
		s.abandoned = make(map[*worker]Info)
	}
	s.abandoned[w] = info
	workers := slices.DeleteFunc(slices.Clone(*s.workers.Load()), func(o *worker) bool { return o == w })
	s.workers.Store(&workers)
	w.discount()
	s.handled += w.handled.Load() + w.done
	s.mu.Unlock()
	if next := w.runnext.Swap(nil); next != nil {
		s.global.push(next)
	}
	w.handOver()
	c.flags.And(^fencing) // from here on the goroutine left behind may go on, to its end
	settle()
	s.global.push(c)
	s.wakeIfNeeded()
	return true
}

// killWithAncestor kills c, whose handler holds a worker of a bulkhead while others wait for one, if one of its
// ancestors was to be killed long ago: that may wait for a worker itself, and could not tell its children.
func (s *scheduler) killWithAncestor(now time.Time, w *worker, c *core) {
	if now.Sub(w.watched.since) < fenceAfter || w.covered.Load() > 0 {
		return
	}
	for p := c.parent; p != nil; p = p.parent {
		if since, killed := p.toBeKilled(now); killed && since >= fenceAfter {
			c.stop(stopKill)
			s.monitor.hurry = true
			return
		}
	}
}

// fencedCovers in covered says that a worker was fenced: what is added to it for a wait has no effect.
const fencedCovers = math.MinInt32 / 2

// discount takes a worker that was fenced out of those that are active, once: a wait that is
// covered, and Blocking, have done so, or are about to.
func (w *worker) discount() {
	n := int32(-1)
	if w.out.Swap(false) && !w.s.bounded() {
		n++
	}
	if w.covered.Swap(fencedCovers) > 0 {
		n++
	}
	w.s.active.Add(n)
}

// leftBehind returns a copy of what is known of the actors that were taken away from handlers which
// still run.
func (s *scheduler) leftBehind() map[*worker]Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.abandoned)
}

// claim takes the actor away from the callback that w is in. It reports false when w is in none, or
// in a function of the runtime that touches the actor. Otherwise fencing stays raised, and settle
// ends what the callback had under way.
func (c *cell[M]) claim(w *worker) (settle func(), ok bool) {
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if !c.core.scheduled || w.current.Load() != &c.core || c.core.worker.Load() != w || len(c.core.waitingHandlers()) > 0 {
		return nil, false
	}
	before := c.core.flags.Or(fencing)
	s := c.mailbox()
	if before&(inside|fenced) != 0 || before&inUser == 0 && (s == nil || !s.claim()) {
		c.core.flags.And(^fencing)
		return nil, false
	}
	c.core.moved(stateFenced)
	w.fenced.Store(true) // before fencing ends: the one left behind looks at it then
	// Once more, since the callback may have been called for the signal; and first: the others would
	// call the user's code.
	c.core.ext.signals = append([]signal{{kind: sigStop, mode: stopKill}}, c.core.ext.signals...)
	if s == nil {
		c.fenceWith(c.mailboxes().get())
		return func() {}, true
	}
	under, endContext := s.under(), s.mergedOf
	if c.core.taken { // another one has to answer the request
		under = envelope[M]{}
	}
	s.handled += uint64(s.done() - s.clear)
	c.account(s, nil)
	c.fenceWith(s.successor())
	return func() { c.settleAbandoned(under, endContext) }, true
}

// fenceWith gives the actor a mailbox that the handler left behind does not touch.
// REQUIRES: c.mu held by the monitor.
func (c *cell[M]) fenceWith(s *mailbox[M]) {
	c.core.ext.inherited = s
	c.core.flags.Or(fenced | signaled)
}

// inherited returns the mailbox of a fenced actor.
func (c *cell[M]) inherited() *mailbox[M] { return c.core.ext.inherited.(*mailbox[M]) }

// under returns the message whose handler runs. REQUIRES: the actor's lock held.
func (s *mailbox[M]) under() envelope[M] {
	if s.resumed != nil {
		return *s.resumed
	}
	if i := s.done(); i > 0 {
		return *s.said(&s.batch[i-1])
	}
	return envelope[M]{}
}

// successor returns a mailbox with what lies in s and has not been handled. What the handler may
// look at, s itself and the message that it handles, stays as it is. REQUIRES: the actor's lock
// held; nobody uses s any more but the handler.
func (s *mailbox[M]) successor() *mailbox[M] {
	// The batch is copied: the one left behind may be about to look at what comes next in it.
	return &mailbox[M]{
		in: s.in, over: s.over, inSince: s.inSince, batch: slices.Clone(s.batch[s.done():]), since: s.since, behind: s.behind,
		spare: s.spare, special: s.special, inc: s.inc, alarm: s.alarm, limit: s.limit,
	}
}

// settleAbandoned ends the context and the ask of the message that was being handled.
func (c *cell[M]) settleAbandoned(under envelope[M], endContext context.CancelFunc) {
	if endContext != nil {
		endContext()
	}
	if ask, ok := askIn(under.with); ok {
		ask.reject(ErrStopped, nil)
	}
}
