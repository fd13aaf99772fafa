package actor

import (
	"cmp"
	"errors"
	"fmt"
	"sync/atomic"
)

// queue is the order of a mailbox that is not plain. post acquires the actor's lock, after it
// has called the user's function that ranks a message or finds its key, and ends in
// postSpecial; where the message is patient and has to wait for room it returns that wait, which
// has the message. All other methods are called with that lock held.
type queue[M any] interface {
	post(c *cell[M], e envelope[M], w *worker, as manner) (verdict, *roomWait[M])
	take() (e envelope[M], ok bool)
	oldest() *envelope[M] // what dropOldest would drop, nil for nothing
	dropOldest() envelope[M]
	len() int
	at(i int) *envelope[M] // in no particular order
	rest() []envelope[M]   // empties the queue, oldest first
	orderName() string     // what it is called
}

// special is the part of a mailbox that is bounded or not in plain order. It hands out
// one message at a time, so that the bound is exact and the order is that of the moment.
type special[M any] struct {
	queue    queue[M]
	bound    int // 0 for none
	overflow Overflow
	notes    int          // envelopes that do not count
	room     roomQueue[M] // who waits for room: nobody while there is some
	closed   atomic.Bool  // nobody is let in any more: the drain mark is in, or the actor takes nothing; set under the actor's lock

	observer MailboxObserver // nil for none; never changes
	arrivals arrivals        // unless the queue has another order
	ordered  *envelope[M]    // what a Queue has handed out for the envelope before head; guarded by the actor's lock
	handed   bool            // a message was handed out since the mailbox was empty, see Emptied
}

// newSpecial returns what the options ask for, nil for a plain mailbox.
func newSpecial[M any](cfg *spawnConfig) (*special[M], error) {
	if cfg.bound == 0 && cfg.queue == nil && cfg.observer == nil {
		return nil, nil
	}
	if cfg.ordered && (cfg.bound > 0 || cfg.virtual != nil) {
		return nil, errOrdered
	}
	s := &special[M]{queue: &fifoQueue[M]{}, bound: cfg.bound, overflow: cfg.overflow, observer: cfg.observer}
	if cfg.queue != nil {
		q := cfg.queue()
		typed, ok := q.(queue[M])
		if !ok {
			return nil, fmt.Errorf("%w: the mailbox option is for the message type %s, and the actor's is %s", ErrNotAccepted, cfg.queueOf(), nameOf[M]())
		}
		s.queue = typed
		if ranks, ok := q.(interface{ mayEvict() }); ok && cfg.bound > 0 && cfg.overflow.evicts() {
			ranks.mayEvict()
		}
	}
	return s, nil
}

var errOrdered = errors.New("Ordered cannot be combined with Bounded or used for a virtual actor: only its Queue may drop messages")

// manner says how a message comes to a mailbox that is bounded.
type manner uint8

const (
	hasty    manner = iota // its sender does not wait
	patient                // its sender waits for room, where the policy says so
	admitted               // it has been taken once: only a policy that drops messages drops it
)

// postSpecial is post for a mailbox with an order or a bound. replaces reports whether put will
// replace a message, and so needs no room; put puts the message into the queue and returns what
// it has replaced. Both are called with the actor's lock held, and do not call the user's code. If
// the verdict is verdictWait the sender waits from now on as wait says, which may be nil.
func (c *cell[M]) postSpecial(e *envelope[M], w *worker, wait *roomWait[M], as manner, replaces func() bool, put func() (old envelope[M], did bool)) verdict {
	c.core.lock(w)
	if c.core.takesNothing() {
		c.core.mu.Unlock()
		return verdictGone
	}
	s := c.mailbox()
	if _, drain := e.with.(drainMark); drain {
		c.core.flags.Or(draining)
		s.special.closed.Store(true)
		s.special.room.tellFirst()
	}
	out, v := s.special.admit(e, as, replaces, put)
	if v == verdictWait && wait != nil {
		wait.at = s.special
		s.special.room.push(wait)
	}
	wake := false
	if v == verdictTaken || v >= verdictReplaced {
		now := c.core.sched().monitor.coarse.Load()
		if s.inSince == 0 || s.special.queue.len() == 1 {
			s.inSince = now
		}
		if v != verdictReplaced {
			s.special.came(now)
		}
		if wake = c.core.phase == running && c.core.schedule(); wake {
			s.take()
		}
	}
	full := v.full() && !e.isEvent() // which is counted as lost
	overloaded, waits := s.alarmed(full), s.waiting()
	if overloaded {
		c.noteOverload(s) // now: it may be over as soon as the lock is released
	}
	c.core.mu.Unlock()
	if v == verdictTaken || v >= verdictReplaced {
		c.posted(s.special, e, waits)
	}
	if overloaded {
		c.core.tellOverloadsOf(e.byClock())
	}
	if v >= verdictReplaced {
		reason := Conflated
		if v == verdictEvicted {
			reason = Overflowed
		}
		c.discard(&out, reason, ErrMailboxFull)
		v = verdictTaken
	}
	if wake {
		c.dispatch(w, e)
	}
	return v
}

// admit decides about a message. REQUIRES: the actor's lock held.
func (s *special[M]) admit(e *envelope[M], as manner, replaces func() bool, put func() (envelope[M], bool)) (out envelope[M], v verdict) {
	if e.exempt() {
		put()
		s.notes++
		return out, verdictTaken
	}
	if s.bound > 0 && s.queue.len()-s.notes >= s.bound && !replaces() {
		switch s.overflow {
		case DropNewest:
			return out, verdictDropped
		case DropOldest:
			if e.isEvent() && !s.queue.oldest().isEvent() {
				return out, verdictDropped // the dead letter would be an event again
			}
			put()
			return s.queue.dropOldest(), verdictEvicted
		case Block:
			if as != admitted {
				return out, verdictWait
			}
		default:
			if as != admitted {
				return out, verdictFull
			}
		}
	}
	if out, did := put(); did {
		return out, verdictReplaced
	}
	return out, verdictTaken
}

// rest empties the mailbox and lets go of who waits for room, see roomWait.leave.
// REQUIRES: the actor's mutex held, and the actor takes nothing any more.
func (s *special[M]) rest() []envelope[M] {
	s.notes = 0
	s.room.tellFirst()
	return s.queue.rest()
}

// since returns when the oldest message came, or what it is given where the order of the queue is not that of arrival.
// REQUIRES: the actor's lock held.
func (s *special[M]) since(otherwise int64) int64 {
	if q, ok := s.queue.(*fifoQueue[M]); ok {
		return cmp.Or(s.arrivals.oldest(q.span()), otherwise)
	}
	return otherwise
}

// came notes when the message came that was just put into the queue. REQUIRES: the actor's lock held.
func (s *special[M]) came(at int64) {
	if q, ok := s.queue.(*fifoQueue[M]); ok {
		s.arrivals.note(at, q.span())
	}
}

// take hands out the next message. REQUIRES: the actor's mutex held.
func (s *special[M]) take() (e envelope[M], ok bool) {
	if e, ok = s.queue.take(); !ok {
		return e, false
	}
	if e.exempt() {
		s.notes--
	}
	s.handed = true
	return e, true
}

// internal reports whether the actor itself, or the runtime, has sent the envelope: then it has no
// rank and no key.
func (e *envelope[M]) internal() bool {
	switch e.with.(type) {
	case note[M], drainMark:
		return true
	default:
		return false
	}
}

// isEvent reports whether the envelope is an event of the system, see [Subscribe].
func (e *envelope[M]) isEvent() bool {
	_, ok := e.with.(eventNote[M])
	return ok
}

// exempt reports whether the envelope is outside of the mailbox's bound: what the actor itself has
// ordered, and the order to stop. Events are not, since others cause them.
func (e *envelope[M]) exempt() bool { return e.internal() && !e.isEvent() }

// byClock reports whether the envelope was posted on the clock's goroutine, or may have been.
func (e *envelope[M]) byClock() bool {
	switch x := e.with.(type) {
	case *timer[M], *idle[M]:
		return true
	case *result[M]:
		return x.timedOut
	default:
		return false
	}
}
