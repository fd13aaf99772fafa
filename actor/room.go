package actor

import "sync/atomic"

// roomWait is a sender that waits for room in a bounded mailbox, with its message. Whoever
// makes room puts the message of the one that has waited longest into the queue and wakes that
// one alone: with thousands of senders a freed slot costs one of them a wake-up, and nobody who
// comes later takes the slot away. To wake a sender that then tries again would leave the slot
// empty meanwhile, and the actor idle.
type roomWait[M any] struct {
	c      *cell[M]
	waiter *waiter      // told when it is admitted, when it is interrupted, or when the actor takes nothing any more
	since  int64        // when it came, by the coarse clock
	at     *special[M]  // where it waits; set under the actor's lock before others can see it
	state  atomic.Int32 // roomWaits and so on; set under the actor's lock

	// Guarded by the actor's lock.
	links[roomWait[M]]
	replaces func() bool                        // reports whether the message needs no room
	put      func() (old envelope[M], did bool) // puts the message into the queue; nil when it has
	why      error                              // why it ends before that, nil if its context says so
	replaced bool                               // put has replaced old, which is the waiter's to discard
	old      envelope[M]                        // see replaced
}

const (
	roomWaits int32 = iota
	roomTaken
	roomLeft // it was interrupted, or has given up
)

// roomWaiter is a sender that waits for room, with its message: a roomWait, a placedWait or a wayWait.
type roomWaiter interface {
	interrupter
	wait(done <-chan struct{}) verdict
	giveUp() verdict
	interrupted() error // why wait has ended, nil if nobody has interrupted it
	admitted() bool     // reports whether the message is in; also before the sender's goroutine has been told
}

// askForRoom is an ask that waits for room, until the asker's goroutine goes on. It becomes the wait for the answer as
// soon as the request is in, which may be handled before.
type askForRoom struct {
	ask  interrupter
	room roomWaiter
}

func (a *askForRoom) now() interrupter {
	if a.room.admitted() {
		return a.ask
	}
	return a.room
}

// passedTo implements interrupter: whoever makes room for a request has to answer it, also where
// middleware has sent it.
func (a *askForRoom) passedTo() *answerer  { return a.ask.passedTo() }
func (a *askForRoom) request() interrupter { return a.now().request() }

// over implements interrupter: the request may come in meanwhile.
func (a *askForRoom) over() bool {
	if !a.room.admitted() && !a.room.over() {
		return false
	}
	return !a.room.admitted() || a.ask.over()
}

// interrupt implements interrupter: the request may come in meanwhile.
func (a *askForRoom) interrupt(why error) {
	a.room.interrupt(why)
	a.ask.interrupt(why)
}

// roomQueue is who waits for room, first in first out. Guarded by the actor's lock.
type roomQueue[M any] struct {
	linkedList[roomWait[M], *roomWait[M]]
	crowded atomic.Bool // somebody waits; may be read without the lock
}

func (q *roomQueue[M]) push(r *roomWait[M]) {
	q.linkedList.push(r)
	q.crowded.Store(true)
}

// remove takes r out, if it is in.
func (q *roomQueue[M]) remove(r *roomWait[M]) {
	if q.linkedList.remove(r); q.first == nil {
		q.crowded.Store(false)
	}
}

// tellFirst wakes the first, if there is one.
func (q *roomQueue[M]) tellFirst() {
	if r := q.first; r != nil {
		r.tell()
	}
}

func (r *roomWait[M]) tell() {
	select {
	case r.waiter.told <- struct{}{}:
	default: // it knows already
	}
}

// admitWaiting lets those in who wait, as long as there is room for the first. It reports since when the first
// of them has waited, and false when there was none. REQUIRES: the actor's lock held.
func (s *special[M]) admitWaiting() (since int64, ok bool) {
	for r := s.room.first; r != nil && !s.closed.Load() && (s.queue.len()-s.notes < s.bound || r.replaces()); r = s.room.first {
		s.room.remove(r)
		r.old, r.replaced = r.put()
		r.replaces, r.put = nil, nil
		r.state.Store(roomTaken)
		if !r.replaced {
			s.came(r.since)
		}
		r.tell()
		if !ok {
			since, ok = r.since, true
		}
	}
	return since, ok
}

// crowded reports whether somebody waits for room: then there is none.
// REQUIRES: the mailbox is not plain.
func (c *cell[M]) crowded() bool { return c.mailbox().special.room.crowded.Load() }

// postWaiting is postSpecial for a message that the mailbox had no room for: its sender waits,
// unless there is room now. put is called once, at once or later.
func (c *cell[M]) postWaiting(e *envelope[M], w *worker, replaces func() bool, put func() (old envelope[M], did bool)) (verdict, *roomWait[M]) {
	r := &roomWait[M]{c: c, replaces: replaces, put: put, waiter: c.core.sys().waiters.get(), since: c.core.sched().monitor.coarse.Load()}
	v := c.postSpecial(e, w, r, patient, replaces, put)
	if v != verdictWait {
		c.core.sys().waiters.put(r.waiter)
		return v, nil
	}
	return v, r
}

// wait returns when the message is taken or refused, or done is closed, and says what has become
// of it: it is still the caller's if the verdict is verdictGone, or verdictWait, when nobody has
// made room in time.
func (r *roomWait[M]) wait(done <-chan struct{}) (v verdict) {
	if told := r.c.core.sched().waitFor(r.waiter.told, done); told && r.admitted() {
		return r.ended(verdictTaken) // without the lock: who tells has set the state before, and nobody does after
	}
	return r.giveUp()
}

// giveUp is wait for who does not want to wait any longer.
func (r *roomWait[M]) giveUp() verdict { return r.ended(r.leave()) }

// ended gives back what the wait has used.
func (r *roomWait[M]) ended(v verdict) verdict {
	isClosed(r.waiter.told) // what was told and not waited for
	r.c.core.sys().waiters.put(r.waiter)
	if v == verdictTaken {
		r.c.observePosted()
	}
	if r.replaced {
		r.c.discard(&r.old, Conflated, ErrMailboxFull)
	}
	return v
}

// interrupt implements interrupter.
func (r *roomWait[M]) interrupt(why error) {
	r.c.core.mu.Lock()
	defer r.c.core.mu.Unlock()
	if r.put == nil { // it is over
		return
	}
	r.c.mailbox().special.room.remove(r)
	r.replaces, r.put, r.why = nil, nil, why
	r.state.Store(roomLeft)
	r.tell()
}

func (r *roomWait[M]) interrupted() error { return r.why }
func (r *roomWait[M]) admitted() bool     { return r.state.Load() == roomTaken }

// over implements interrupter: also before the sender's goroutine has been told.
func (r *roomWait[M]) over() bool           { return r.state.Load() != roomWaits || r.at.closed.Load() }
func (r *roomWait[M]) passedTo() *answerer  { return nil }
func (r *roomWait[M]) request() interrupter { return r }

// leave takes the sender out of the queue, if it is still in. Whoever leaves a mailbox that takes
// nothing any more wakes the next: so the turn that has closed it need not wake all.
func (r *roomWait[M]) leave() verdict {
	c := r.c
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	if r.admitted() {
		return verdictTaken
	}
	room := &c.mailbox().special.room
	room.remove(r)
	r.replaces, r.put = nil, nil
	r.state.Store(roomLeft)
	if !c.core.takesNothing() {
		return verdictWait
	}
	room.tellFirst()
	return verdictGone
}
