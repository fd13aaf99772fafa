package actor

import (
	"sync"
	"sync/atomic"
)

// Queue is the order of a mailbox that the program decides itself: see [Ordered]. The engine calls one
// method at a time: Put on the goroutines of senders, Take in the actor's turn. They must be quick, and
// must not send anything or wait.
type Queue[M any] interface {
	// Put takes a message. To refuse it, or one that waits, it calls [Envelope.Drop].
	Put(m Envelope[M])
	// Take returns the message that is to be handled next and forgets it, and false when there is none.
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
}

// ownMail is what waits in a Queue. In the mailbox lies, for each message, an envelope that has the ownMail
// with it: when its turn comes the queue says which message that is. So the user's code is called under a
// lock that is this mailbox's alone, and never under the actor's.
type ownMail[M any] struct {
	mu      sync.Mutex
	queue   Queue[M]
	all     linkedList[ownEntry[M], *ownEntry[M]] // oldest first; the queue may have lost one
	dropped []envelope[M]
	surplus atomic.Int64 // how many more envelopes lie in the mailbox than messages are in all; others may read it
}

// put gives the queue a message. What it drops is the caller's to discard.
func (o *ownMail[M]) put(e *envelope[M]) (in *ownEntry[M], dropped []envelope[M]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	in = &ownEntry[M]{of: o, e: *e}
	o.all.push(in)
	through := false
	defer func() {
		if !through && in.listed { // the message is still its sender's
			o.all.remove(in)
		} else if !through {
			o.surplus.Add(-1)
		}
	}()
	o.queue.Put(Envelope[M]{in})
	through = true
	dropped, o.dropped = o.dropped, nil
	return in, dropped
}

// withdraw takes back a message that the actor does not take. It reports false if the queue has dropped it.
func (o *ownMail[M]) withdraw(in *ownEntry[M]) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := in.listed
	o.all.remove(in)
	if !was {
		o.surplus.Add(-1)
	}
	return was
}

// take asks the queue for a message. What it drops is the caller's to discard.
func (o *ownMail[M]) take() (e envelope[M], ok bool, dropped []envelope[M]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !ok {
		m, more := o.queue.Take()
		if !more {
			break
		}
		if m.e != nil && m.e.of == o && m.e.listed { // otherwise it was dropped, withdrawn, or is none of ours
			o.all.remove(m.e)
			e, ok = m.e.e, true
		}
	}
	if !ok {
		o.surplus.Add(-1)
	}
	dropped, o.dropped = o.dropped, nil
	return e, ok, dropped
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
	in, dropped := q.own.put(&e)
	for i := range dropped {
		c.discard(&dropped[i], Overflowed, ErrMailboxFull)
	}
	v, _ := q.fifoQueue.post(c, envelope[M]{with: q.own}, w, hasty)
	if v != verdictTaken && !q.own.withdraw(in) {
		v = verdictTaken // and dropped
	}
	return v, nil
}

// unwrapOwn puts the message that the queue says in place of the envelope that stands for one. It reports
// false when there is none any more. REQUIRES: the turn owns c.
func (c *cell[M]) unwrapOwn(o *ownMail[M], into *envelope[M]) bool {
	c.core.enterUser()
	e, ok, dropped := o.take()
	c.core.leaveUser()
	for i := range dropped {
		c.discard(&dropped[i], Overflowed, ErrMailboxFull)
	}
	if ok {
		*into = e
	}
	return ok
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
