package actor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Handled is a message that an actor has handled while it was recorded, see [System.Record].
type Handled struct {
	Time    time.Time     // when its handler began
	Took    time.Duration // until the handler returned, what it waited for included
	From    PID           // zero when it came from outside of any actor
	Type    string        // the Go type of the message
	Origin  string        // what has made it, "timer poll" for example; empty for a message that was sent
	Message any           // the message itself: read it, do not change it
	Header  Header        // what came with it, nil for nothing: read it only
	Request bool          // somebody waits for an answer
	Err     error         // what the handler, or middleware around it, returned
}

// recordMost bounds how many messages one call of Record keeps alive.
const recordMost = 10_000

// errNotReturned is the error of a handler that did not return.
var errNotReturned = errors.New("the handler has panicked or ended its goroutine")

// Record records what the living actor with that address handles from its next message on, across
// restarts, until it has handled most messages, it has ended, or ctx ends: to see what one actor
// does in a running system. The messages are in the order in which their handlers returned. Other
// actors pay nothing for it.
//
// It blocks. It fails with [ErrStopped] if there is no such actor in this system. The end of ctx is
// not an error; an actor that was in one handler all the while has handled nothing. Several calls
// for one actor do not disturb each other. It must not be called in a handler. It panics unless
// most is from 1 to 10 000.
func (s *System) Record(ctx context.Context, pid PID, most int) ([]Handled, error) {
	required(1 <= most && most <= recordMost, fmt.Sprintf("Record(%d): from 1 to %d messages can be written down", most, recordMost))
	required(ctx != nil, "Record: the context is nil")
	c := s.local(pid)
	if c == nil {
		return nil, fmt.Errorf("record: %w", nobody(pid.String()))
	}
	r := &recording{most: most, full: make(chan struct{})}
	stop := s.AfterEnd(pid, func(Down) { r.end() })
	defer stop()
	c.signal(signal{kind: sigLook, look: func() { c.impl().record(r, true) }})
	s.sched.waitFor(r.full, ctx.Done())
	r.end()
	c.signal(signal{kind: sigLook, look: func() { c.impl().record(r, false) }})
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list, nil
}

// recording is what a call of Record has got so far.
type recording struct {
	most int
	full chan struct{} // closed when there is no more to come

	mu   sync.Mutex
	over bool // guarded by mu
	list []Handled
}

// end says that there is no more to come.
func (r *recording) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked()
}

// endLocked is end. REQUIRES: r.mu held.
func (r *recording) endLocked() {
	if !r.over {
		r.over = true
		close(r.full)
	}
}

func (r *recording) add(h Handled) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if r.list = append(r.list, h); len(r.list) == r.most {
		r.endLocked()
	}
}

// record begins or ends a recording. What is recorded goes the long way, through handle, since the
// incarnation has something. REQUIRES: the turn owns c.
func (c *cell[M]) record(r *recording, on bool) {
	if on {
		m := c.needIncarnation()
		m.recordings = append(m.recordings, r)
		return
	}
	m := c.peekIncarnation()
	if m == nil {
		return
	}
	m.recordings = slices.DeleteFunc(slices.Clone(m.recordings), func(o *recording) bool { return o == r }) // a handler that waits has the former list
	c.dropIncarnation(c.mailbox())
}

// dropIncarnation takes what the incarnation needs beside its mailbox away if it needs nothing: its
// messages go the short way again. A handler that waits may hold it, and does this when it has returned.
// REQUIRES: the turn owns c, and no handler is called.
func (c *cell[M]) dropIncarnation(s *mailbox[M]) {
	if m := s.inc; m != nil && len(m.recordings) == 0 && !m.holds() && !m.stashed && len(c.core.waitingHandlers()) == 0 {
		s.inc = nil
	}
}

// recorded hands the current message on and writes it down.
func (c *cell[M]) recorded(s *mailbox[M], recordings []*recording) error {
	h := Handled{Time: time.Now(), From: s.cur.from().pid(), Type: typeText(s.cur.messageType()), Message: s.cur.msg, Header: s.header, Err: errNotReturned}
	switch x := s.cur.with.(type) {
	case note[M]:
		h.Origin = x.origin()
	case pendingAsk:
		h.Request = true
	}
	defer func() {
		h.Took = time.Since(h.Time)
		for _, r := range recordings {
			r.add(h)
		}
	}()
	h.Err = c.pass(s)
	return h.Err
}
