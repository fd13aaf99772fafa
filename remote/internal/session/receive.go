package session

import (
	"fmt"
	"iter"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Known is a text that the peer has given a number.
type Known struct {
	Class wire.Class
	Text  string
	// Value belongs to the [Handler]: what it has found out about the text. It is nil at
	// first.
	Value any
}

// Received is a message that has arrived. What it refers to is valid until the method of
// the [Handler] returns, except for the Knowns.
type Received struct {
	Ask       uint64 // its number; 0: a tell
	Remaining time.Duration
	From      *Known // nil: nobody
	Type      *Known
	Header    Header
	Payload   []byte
}

// Header is the header of a message that has arrived.
type Header struct {
	entries []byte
	keys    []*Known // one for each entry
}

// Len returns the number of entries.
func (h Header) Len() int { return len(h.keys) }

// All returns the entries in order: keys and values.
func (h Header) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest := h.entries
		for _, key := range h.keys {
			var value []byte
			_, value, rest = wire.CutEntry(rest)
			if !yield(key.Text, value) {
				return
			}
		}
	}
}

// ReceivedSignal is a signal that has arrived.
type ReceivedSignal struct {
	To, From *Known // nil: none
	Code     uint64
	wire.Failure
}

// ReceivedRequest is a find or a spawn that has arrived. It is answered as an ask is, by its
// number.
type ReceivedRequest struct {
	Ask       uint64
	Remaining time.Duration
	From      *Known // nil: nobody
	Payload   []byte
}

// Handler takes what arrives at a node. A session calls its methods one at a time, on the
// goroutine that called [Session.Receive] or took the loss, with no lock held. A frame is
// confirmed when the method that got it has returned.
type Handler interface {
	// Messages takes consecutive messages to one address.
	Messages(s *Session, to *Known, run []Received)
	// Answer and Fail end an ask of this node. The payload is valid until it returns.
	Answer(s *Session, ask Asker, payload []byte)
	Fail(s *Session, ask Asker, f wire.Failure)
	// Cancel says that nobody waits for the answer any more of the ask for which
	// [Session.Serve] was given what.
	Cancel(s *Session, what any)
	Signal(s *Session, k wire.Kind, sig ReceivedSignal)
	Request(s *Session, k wire.Kind, r ReceivedRequest)
	// Missed says what was sent to other incarnations of the peer before the session was
	// opened. It is called once at most, before Opened, or before Lost.
	Missed(s *Session, l *Loss)
	// Opened says that the session is open for the first time.
	Opened(s *Session)
	// Lost says that the session is lost. It is the last call.
	Lost(s *Session, l *Loss)
}

// maxRun is the length of the longest run of messages.
const maxRun = 256

// inbound is what a session knows about what it receives. It belongs to the one goroutine
// that calls Receive.
type inbound struct {
	names     []*Known // by number; 0 is none
	nameBytes int
	to        *Known // of the run
	run       []Received
	keys      []*Known // of the headers of the run
	pending   uint64   // frames that are confirmed with the run
	received  uint64   // frames that have taken effect
	opened    bool     // Opened was called
	bye       bool     // the peer has said that nothing more comes
}

// Receive takes the frames that have arrived on a connection, and calls the host's Handler. It is
// first called without any when the connection is open, for [Handler.Opened]. It must not be called
// concurrently, not even for different connections of the session. The error is that the connection
// has ended, or a [*wire.ViolationError] or [*wire.Refusal], for which the session is lost.
func (s *Session) Receive(c *Conn, frames *wire.Splitter, now time.Time) error {
	if !s.Has(c) {
		return ErrStale
	}
	if !s.in.opened {
		s.in.opened = true
		s.in.names = make([]*Known, 1, 16)
		s.miss()
		s.host.handler.Opened(s)
	}
	bytes, err := s.receive(frames)
	s.flush()
	s.confirm(c, bytes, now)
	if err != nil {
		s.Lose(err)
	}
	return err
}

// miss hands out what the peer has missed.
func (s *Session) miss() {
	s.mu.Lock()
	l := s.missed
	s.missed = nil
	s.mu.Unlock()
	if l != nil {
		s.host.handler.Missed(s, l)
	}
}

// receive handles frames and returns how many bytes those took that the peer keeps.
func (s *Session) receive(frames *wire.Splitter) (bytes int, err error) {
	for {
		f, ok, err := frames.Next()
		if err != nil || !ok {
			return bytes, err
		}
		switch f.Kind {
		case wire.KindAck, wire.KindPing, wire.KindPong, wire.KindRefuse:
			err = s.control(f)
		case wire.KindTell, wire.KindAsk:
			bytes += f.Size()
			err = s.message(f)
		case wire.KindDefine:
			bytes += f.Size()
			s.in.pending++
			err = s.defined(f)
		default:
			bytes += f.Size()
			s.flush()
			if err = s.other(f); err == nil {
				s.in.received++
			}
		}
		if err != nil {
			return bytes, err
		}
	}
}

// confirm publishes what has taken effect and decides when the peer is told.
func (s *Session) confirm(c *Conn, bytes int, now time.Time) {
	s.mu.Lock()
	s.received, s.byeOf = s.in.received, s.in.bye // together: the ack of a bye is the last one
	if s.conn != c {
		s.mu.Unlock()
		return
	}
	s.heard = now
	tick := !s.pinged.IsZero() // while it is set the next ping is not in the timer
	s.pinged = time.Time{}
	s.unacked += bytes
	switch {
	case s.unacked >= ackBytes || s.byeOf:
		s.ackNow = true
	case bytes > 0 && s.ackAt.IsZero():
		s.ackAt = now.Add(ackDelay)
		tick = tick || s.next.IsZero() || s.ackAt.Before(s.next)
	}
	s.drained()
	tick = tick || s.state == Lost
	wake := (s.ackNow || s.pongNow) && s.wake()
	s.unlock(wake, tick)
}

// control handles a frame that has no number.
func (s *Session) control(f wire.Frame) error {
	switch f.Kind {
	case wire.KindAck:
		n, err := wire.ReadAck(f.Body)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.log.confirm(n) {
			return &wire.ViolationError{Cause: "ack", Text: fmt.Sprintf("an ack must be from %d to %d, not %d", s.log.confirmed, s.log.handed, n)}
		}
		s.names.confirm(n)
		s.openRoom()
	case wire.KindPing:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pongNow = true
	case wire.KindRefuse:
		refusal, err := wire.ReadRefusal(f.Body)
		if err != nil {
			return err
		}
		return refusal
	default: // of the optional ones
	}
	return nil
}

func (s *Session) message(f wire.Frame) error {
	in := &s.in
	var m wire.Message
	if err := wire.ReadMessage(&m, f.Kind, f.Body); err != nil {
		return err
	}
	to, err := in.known(m.To, wire.ClassAddress, false)
	if err != nil {
		return err
	}
	from, err := in.known(m.From, wire.ClassAddress, true)
	if err != nil {
		return err
	}
	typ, err := in.known(m.Type, wire.ClassType, false)
	if err != nil {
		return err
	}
	if to != in.to || len(in.run) == maxRun {
		s.flush()
		in.to = to
	}
	if m.Ask != 0 {
		if err := s.serve(m.Ask); err != nil {
			return err
		}
	}
	header, err := in.header(m.Header)
	if err != nil {
		return err
	}
	in.run = append(in.run, Received{
		Ask: m.Ask, Remaining: time.Duration(m.Remaining) * time.Millisecond,
		From: from, Type: typ, Header: header, Payload: m.Payload,
	})
	in.pending++
	return nil
}

// header returns the header with the given entries. Their keys are looked up now: a number
// may be defined again before the run is handled.
func (in *inbound) header(entries []byte) (Header, error) {
	if len(entries) == 0 {
		return Header{}, nil
	}
	begin := len(in.keys)
	for rest := entries; len(rest) > 0; {
		var number uint32
		number, _, rest = wire.CutEntry(rest)
		key, err := in.known(number, wire.ClassKey, false)
		if err != nil {
			return Header{}, err
		}
		in.keys = append(in.keys, key)
	}
	return Header{entries, in.keys[begin:len(in.keys):len(in.keys)]}, nil
}

// flush has the run handled.
func (s *Session) flush() {
	in := &s.in
	if len(in.run) > 0 {
		s.host.handler.Messages(s, in.to, in.run)
		clear(in.run)
		in.run = in.run[:0]
		clear(in.keys)
		in.keys = in.keys[:0]
	}
	in.received += in.pending
	in.pending = 0
	in.to = nil
}

// known returns what a number stands for.
func (in *inbound) known(number uint32, c wire.Class, optional bool) (*Known, error) {
	if number == 0 && optional {
		return nil, nil //nolint:nilnil // nobody
	}
	if int(number) < len(in.names) {
		if k := in.names[number]; k != nil && k.Class == c {
			return k, nil
		}
	}
	return nil, &wire.ViolationError{Cause: "unknown number", Text: fmt.Sprintf("%d must be the number of a text of the class %s", number, c)}
}

func (s *Session) defined(f wire.Frame) error {
	in := &s.in
	d, err := wire.ReadDefine(f.Body)
	if err != nil {
		return err
	}
	if int(d.Number) > len(in.names) {
		return &wire.ViolationError{Cause: "define", Text: fmt.Sprintf("a new number must be %d, not %d", len(in.names), d.Number)}
	}
	if int(d.Number) == len(in.names) {
		in.names = append(in.names, nil)
	}
	if old := in.names[d.Number]; old != nil {
		in.nameBytes -= len(old.Text)
		in.names[d.Number] = nil
	}
	if len(d.Text) == 0 {
		return nil
	}
	in.nameBytes += len(d.Text)
	if in.nameBytes > wire.MaxTextBytes {
		return &wire.ViolationError{Cause: "define", Text: fmt.Sprintf("texts must have at most %d bytes together", wire.MaxTextBytes)}
	}
	in.names[d.Number] = &Known{Class: d.Class, Text: string(d.Text)}
	return nil
}

// serve opens an ask of the peer.
func (s *Session) serve(ask uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.served[ask]; ok {
		return &wire.ViolationError{Cause: "ask", Text: fmt.Sprintf("the number of an ask must be new, not %d", ask)}
	}
	if len(s.served) >= wire.MaxAsks {
		return &wire.ViolationError{Cause: "ask", Text: fmt.Sprintf("at most %d asks may be open", wire.MaxAsks)}
	}
	s.served[ask] = nil
	return nil
}

// other handles a frame that is neither a message nor a define nor without a number.
func (s *Session) other(f wire.Frame) error {
	h := s.host.handler
	switch {
	case f.Kind == wire.KindAnswer || f.Kind == wire.KindFail || f.Kind == wire.KindCancel:
		return s.outcome(f)
	case f.Kind.IsSignal():
		w, err := wire.ReadSignal(f.Kind, f.Body)
		if err != nil {
			return err
		}
		to, err := s.in.known(w.To, wire.ClassAddress, true)
		if err != nil {
			return err
		}
		from, err := s.in.known(w.From, wire.ClassAddress, true)
		if err != nil {
			return err
		}
		h.Signal(s, f.Kind, ReceivedSignal{To: to, From: from, Code: w.Code, Failure: w.Failure})
	case f.Kind.IsRequest():
		q, err := wire.ReadRequest(f.Kind, f.Body)
		if err != nil {
			return err
		}
		from, err := s.in.known(q.From, wire.ClassAddress, true)
		if err != nil {
			return err
		}
		if err := s.serve(q.Ask); err != nil {
			return err
		}
		h.Request(s, f.Kind, ReceivedRequest{q.Ask, time.Duration(q.Remaining) * time.Millisecond, from, q.Payload})
	case f.Kind == wire.KindBye:
		s.in.bye = true
	case f.Kind >= wire.KindOptional: // of a later version, which does not need it
	default:
		return &wire.ViolationError{Cause: "kind", Text: fmt.Sprintf("the kind of a frame must be a known one, not %s", f.Kind)}
	}
	return nil
}

// outcome handles the end of an ask: of this node's, or by a cancel of the peer's.
func (s *Session) outcome(f wire.Frame) error {
	o, err := wire.ReadOutcome(f.Kind, f.Body)
	if err != nil {
		return err
	}
	if f.Kind == wire.KindCancel {
		s.mu.Lock()
		what, ok := s.served[o.Ask]
		delete(s.served, o.Ask)
		s.mu.Unlock()
		if ok && what != nil {
			s.host.handler.Cancel(s, what)
		}
		return nil
	}
	s.mu.Lock()
	ask := s.asks.take(o.Ask)
	s.mu.Unlock()
	switch {
	case ask == nil: // its cancel is on its way
	case f.Kind == wire.KindAnswer:
		s.host.handler.Answer(s, ask, o.Payload)
	default:
		s.host.handler.Fail(s, ask, o.Failure)
	}
	return nil
}
