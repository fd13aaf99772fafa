package actor

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Queue is the order of a mailbox that the program decides itself: see [Ordered]. The engine calls one
// method at a time: Put on the goroutines of senders, Take in the actor's turn. They must be quick, and
// must not send anything or wait. A panic in Put is the sender's, whose message is not taken. A panic in Take
// is a failure of the actor, which calls Take again for the same place if it is resumed or restarted.
type Queue[M any] interface {
	// Put takes a message. To refuse it, or one that waits, it calls [Envelope.Drop].
	Put(m Envelope[M])
	// Take returns the message that is to be handled next and forgets it, and false when there is none. To return
	// one twice, or what Put was not given, is a failure of the actor.
	Take() (m Envelope[M], ok bool)
}

// Ordered makes a mailbox whose order a user's queue decides: by deadline, by turns among tenants, newest
// first. newQueue is called once for each actor that is spawned, and the queue lasts over restarts. M must
// be the actor's message type; otherwise spawning fails with [ErrNotAccepted].
//
// What the actor sends itself by timers, watches and pipes, and the order to drain, do not go through the
// queue: each keeps its place in the order of arrival, and the queue chooses only which message fills the
// other places. Ordered cannot be combined with [Bounded], nor used for a [Virtual] actor: only its queue
// may drop messages. Of Ordered, [Priority] and [Conflate] the last one given counts.
func Ordered[M any](newQueue func() Queue[M]) SpawnOption {
	required(newQueue != nil, "Ordered: the function that makes a queue is nil")
	return spawnOption(func(c *spawnConfig) {
		c.order(func() any { return &ownQueue[M]{own: &ownMail[M]{queue: newQueue()}} }, nameOf[M])
		c.ordered = true
	})
}

// Envelope is a message in a [Queue], with its sender and its asker. The zero Envelope is not valid.
type Envelope[M any] struct{ e *ownEntry[M] }

// Message returns the message.
func (m Envelope[M]) Message() M { return m.e.e.msg }

// Sender returns who has sent it, the zero PID if that was no actor.
func (m Envelope[M]) Sender() PID { return m.e.e.from().pid() }

// Drop turns the message into a dead letter, with the reason [Overflowed]; its asker gets [ErrMailboxFull].
// It is for the methods of the queue, which must not return the message afterwards. A second call changes
// nothing.
func (m Envelope[M]) Drop() {
	if m.e.listed {
		m.e.of.all.remove(m.e)
		m.e.of.dropped = append(m.e.of.dropped, m.e.e)
		m.e.of.surplus.Add(1)
	}
}

// ownEntry is a message that is in a Queue, or was taken out of it by the engine.
type ownEntry[M any] struct {
	links[ownEntry[M]] // of all; listed while somebody has to handle the message
	of                 *ownMail[M]
	e                  envelope[M]
	returned           bool // by Take; guarded by of.mu
}

// ownMail is what waits in a Queue. In the mailbox lies, for each message, an envelope that has the ownMail
// with it: when its turn comes the queue says which message that is. So the user's code is called under a
// lock that is this mailbox's alone, and never under the actor's. Who needs both acquires the actor's second.
type ownMail[M any] struct {
	mu      sync.Mutex
	queue   Queue[M]
	all     linkedList[ownEntry[M], *ownEntry[M]] // oldest first; the queue may have lost one
	dropped []envelope[M]                         // by the method of the queue that is being called
	surplus atomic.Int64                          // envelopes in the mailbox beyond the messages in all; guarded by mu, others may read it
}

// unlock releases o.mu and returns what the queue has dropped, for the caller to discard.
func (o *ownMail[M]) unlock() (dropped []envelope[M]) {
	dropped, o.dropped = o.dropped, nil
	o.mu.Unlock()
	return dropped
}

// take asks the queue for a message. It returns nil when there is none. What the queue drops becomes dead
// letters of c.
func (o *ownMail[M]) take(c *cell[M]) (next *ownEntry[M]) {
	o.mu.Lock()
	defer func() { c.discardDropped(o.unlock()) }()
	for next == nil {
		m, more := o.queue.Take()
		if !more {
			o.surplus.Add(-1)
			break
		}
		if m.e == nil || m.e.of != o {
			panic("actor: Take of a queue has returned an Envelope that it was not given")
		}
		if m.e.returned { // or it would go on for ever
			panic(fmt.Sprintf("actor: Take of a queue has returned the same %T twice", m.e.e.msg))
		}
		m.e.returned = true
		if m.e.listed { // otherwise it was dropped, or the actor did not take it
			o.all.remove(m.e)
			next = m.e
		}
	}
	return next
}

// senders counts who sent what waits, by the oldest and the newest messages.
func (o *ownMail[M]) senders() map[*core]int {
	m := make(map[*core]int)
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest, newest := o.all.first, o.all.last
	for n := range min(overloadSample, o.all.n) {
		if n%2 == 0 {
			m[oldest.e.from()]++
			oldest = oldest.next
		} else {
			m[newest.e.from()]++
			newest = newest.prev
		}
	}
	return m
}

// rest takes all that waits, oldest first.
func (o *ownMail[M]) rest() (all []envelope[M]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.all.first != nil {
		in := o.all.first
		o.all.remove(in)
		all = append(all, in.e)
	}
	o.surplus.Store(0)
	return all
}

// ownQueue is the plain order of what lies in the mailbox beside a Queue.
type ownQueue[M any] struct {
	fifoQueue[M]
	own *ownMail[M]
}

func (q *ownQueue[M]) orderName() string { return "own" }

func (q *ownQueue[M]) surplus() int { return int(q.own.surplus.Load()) }

func (q *ownQueue[M]) post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M]) {
	if e.internal() {
		return q.fifoQueue.post(c, e, w, as)
	}
	if c.core.flags.Load()&(ended|draining) != 0 {
		return verdictGone, nil
	}
	o, in := q.own, &ownEntry[M]{of: q.own, e: e}
	var dropped []envelope[M]
	o.mu.Lock()
	posted := false
	defer func() {
		if !posted { // Put has panicked, or the actor takes nothing any more
			if !in.listed {
				o.surplus.Add(-1)
			}
			o.all.remove(in)
			dropped = o.unlock()
		}
		c.discardDropped(dropped)
	}()
	o.all.push(in)
	o.queue.Put(Envelope[M]{in})
	if !in.listed { // the queue has dropped it: the mailbox need not know
		o.surplus.Add(-1)
		posted, dropped = true, o.unlock()
		c.observePosted()
		return verdictTaken, nil
	}
	// The lock is held until the envelope is in the mailbox. Otherwise this message could be taken in the place of
	// an older one, and be refused a place by a drain: then the older one would be left behind the mark.
	return c.postSpecial(&e, w, nil, hasty, never, func() (none envelope[M], did bool) {
		if o.surplus.Load() > 0 { // it takes the place of one that the queue has dropped
			o.surplus.Add(-1)
		} else {
			q.put(&envelope[M]{with: o})
		}
		posted, dropped = true, o.unlock()
		return none, false
	}), nil
}

// discardDropped makes dead letters of what a Queue has dropped.
func (c *cell[M]) discardDropped(dropped []envelope[M]) {
	for i := range dropped {
		c.discard(&dropped[i], Overflowed, ErrMailboxFull)
	}
}

// unwrapOwn makes the message that the queue says the current one, in place of the envelope that stands for
// one. It reports false when there is none any more. REQUIRES: the turn owns c.
func (c *cell[M]) unwrapOwn(s *mailbox[M], o *ownMail[M]) bool {
	c.core.enterUser()
	next := o.take(c)
	if !c.core.leftUser() { // whoever has the actor now has not found the message in the queue
		if next != nil {
			e := next.e
			c.discard(&e, Killed, ErrStopped)
		}
		runtime.Goexit()
	}
	if next == nil {
		return false
	}
	s.own = next.e
	s.cur, s.copied = &s.own, true
	c.core.mu.Lock()
	s.special.ordered = &next.e
	c.core.mu.Unlock()
	return true
}

// said returns the message that the handler has got for e, the last of the batch that was taken.
// REQUIRES: the actor's lock held.
func (s *mailbox[M]) said(e *envelope[M]) *envelope[M] {
	if _, ok := e.with.(*ownMail[M]); ok && s.special.ordered != nil {
		return s.special.ordered
	}
	return e
}

// putBack has the queue asked again if its Take has panicked or ended the goroutine: no message has
// taken that place. REQUIRES: the turn owns c.
func (c *cell[M]) putBack(s *mailbox[M]) {
	if _, ok := s.cur.with.(*ownMail[M]); ok {
		c.core.mu.Lock()
		s.setHead(s.done() - 1)
		c.core.mu.Unlock()
	}
}

// ownRest returns what a Queue has of the mail that nobody will handle, in place of the envelopes that
// stand for it. REQUIRES: the turn owns c, which takes nothing any more.
func (c *cell[M]) ownRest(rest [][]envelope[M]) [][]envelope[M] {
	q, ok := c.core.kind.queue.(*ownQueue[M])
	if !ok {
		return rest
	}
	return append(rest, q.own.rest())
}
