package session

import (
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Verdict is what became of something that was to be sent.
type Verdict uint8

// The verdicts.
const (
	// Sent: it is kept until the peer confirms it or the session is lost.
	Sent Verdict = iota
	// Wait: a patient message finds too much before it that is not written, or not
	// confirmed: see [Session.Room].
	Wait
	// Overflow: too much is not confirmed, or too many asks are open.
	Overflow
	// Gone: the session is lost, or this node leaves.
	Gone
	// TooLarge: the peer accepts no frame of that length.
	TooLarge
	// NotOpen: an ask that is to be answered is not open any more.
	NotOpen
)

// HeaderField is an entry of a message's header.
type HeaderField struct {
	Key   string
	Value []byte
}

// Message is what an actor sends to an actor of the peer.
type Message struct {
	To      *Name
	From    Sender
	Type    string // of the payload, as both nodes know it
	Header  []HeaderField
	Payload []byte
	// Patient messages are not taken while much is unwritten or not confirmed.
	Patient bool
}

// Tell sends a message. It copies what m refers to.
func (s *Session) Tell(m *Message) Verdict { return s.send(m, nil, 0) }

// Ask sends a message whose answer, failure or loss is reported to the [Handler] with ask.
// It has remaining left, 0 for no deadline. When ask is over, the peer is told so.
func (s *Session) Ask(m *Message, ask Asker, remaining time.Duration) Verdict {
	return s.send(m, ask, remaining)
}

func (s *Session) send(m *Message, ask Asker, remaining time.Duration) Verdict {
	size := wire.FrameHead + wire.MaxMessageHead + len(m.Payload)
	for _, h := range m.Header {
		size += len(h.Key) + len(h.Value) + 16
	}
	if !m.fits() {
		return TooLarge
	}
	text, v := s.begin(m.To, m.From, size, m.Patient, ask != nil)
	if v != Sent {
		return v
	}
	// The sender first: enter has found its number, which another text may take.
	w := wire.Message{From: s.numberOfSender(m.From, text), Entries: len(m.Header)}
	w.To = s.numberOfName(m.To)
	if w.Type = s.names.typeName(m.Type); w.Type == 0 {
		w.Type = s.define(interned{class: wire.ClassType, text: m.Type})
	}
	for _, h := range m.Header { // a define may not come in between
		s.numberOfKey(h.Key)
	}
	kind := wire.KindTell
	if ask != nil {
		kind = wire.KindAsk
		w.Ask, w.Remaining = s.open(ask), milliseconds(remaining)
	}
	c := s.log.reserve(size)
	dst := wire.AppendMessageHead(wire.BeginFrame(c.data, kind), &w)
	for _, h := range m.Header {
		dst = wire.AppendEntry(dst, s.numberOfKey(h.Key), h.Value)
	}
	dst = append(dst, m.Payload...)
	wire.EndFrame(dst, len(c.data))
	s.log.commit(c, dst)
	s.stats.sent++
	s.unlock(s.wake(), s.sweepSoon())
	return Sent
}

// fits reports whether the texts and the header of a message are within the limits.
func (m *Message) fits() bool {
	header := 0
	for _, h := range m.Header {
		if h.Key == "" || len(h.Key) > wire.MaxText {
			return false
		}
		header += len(h.Value) + 8 // at most: two varints
	}
	return m.Type != "" && len(m.Type) <= wire.MaxText && m.To.text != "" && len(m.To.text) <= wire.MaxText &&
		len(m.Header) <= wire.MaxHeaderEntries && header <= wire.MaxHeaderBytes
}

// begin locks the mutex for a message or a request of a size. The mutex is not locked any more
// when the verdict is not Sent.
func (s *Session) begin(to *Name, from Sender, size int, patient, ask bool) (text string, v Verdict) {
	text, v = s.enter(from)
	switch {
	case v == Sent && s.isOther(to):
		v = Gone
	case v == Sent:
		v = s.admit(size, patient, ask)
	}
	if v != Sent {
		s.mu.Unlock()
		return "", v
	}
	s.names.frame++
	return text, Sent
}

// isOther reports whether a name is one of another incarnation of the peer than the session's.
func (s *Session) isOther(to *Name) bool {
	return to != nil && to.inc != 0 && s.inc != 0 && to.inc != s.inc
}

// enter locks the mutex, having asked a sender for its address where that is needed. The
// address is asked for without the mutex.
func (s *Session) enter(from Sender) (text string, v Verdict) {
	if from.Of == nil {
		s.mu.Lock()
		return "", Sent
	}
	if from.ID != 0 {
		s.mu.Lock()
		if s.names.sender(from.ID) != 0 {
			return "", Sent
		}
		s.mu.Unlock()
	}
	text = from.Of.Address()
	s.mu.Lock()
	if text == "" || len(text) > wire.MaxText {
		return "", TooLarge
	}
	return text, Sent
}

// admit reports whether a message, or a request, of a size may be sent.
func (s *Session) admit(size int, patient, ask bool) Verdict {
	switch {
	case s.state == Lost || s.bye:
		return Gone
	case size > s.frame:
		return TooLarge
	case patient && !s.hasRoom():
		return Wait
	case s.log.kept+size > hardBytes, ask && s.asks.full():
		return Overflow
	}
	return Sent
}

func (s *Session) numberOfName(n *Name) uint32 {
	if n == nil {
		return 0
	}
	if number := s.names.name(n); number != 0 {
		return number
	}
	return s.define(interned{class: wire.ClassAddress, text: n.text, name: n})
}

func (s *Session) numberOfSender(from Sender, text string) uint32 {
	switch {
	case from.Of == nil:
		return 0
	case from.ID == 0:
		if number := s.names.text(wire.ClassAddress, text); number != 0 {
			return number
		}
		return s.define(interned{class: wire.ClassAddress, text: text})
	}
	if number := s.names.sender(from.ID); number != 0 {
		return number
	}
	return s.define(interned{class: wire.ClassAddress, text: text, id: from.ID})
}

func (s *Session) numberOfKey(key string) uint32 {
	if number := s.names.text(wire.ClassKey, key); number != 0 {
		return number
	}
	return s.define(interned{class: wire.ClassKey, text: key})
}

// define gives a text a number and tells the peer.
func (s *Session) define(e interned) uint32 {
	return s.names.define(e, func(number uint32, c wire.Class, text string) uint64 {
		s.put(wire.KindDefine, func(dst []byte) []byte { return wire.AppendDefine(dst, number, c, text) }, len(text)+16)
		return s.log.total
	})
}

// put appends a frame whose body has at most size bytes.
func (s *Session) put(k wire.Kind, body func(dst []byte) []byte, size int) {
	c := s.log.reserve(wire.FrameHead + size)
	dst := body(wire.BeginFrame(c.data, k))
	wire.EndFrame(dst, len(c.data))
	s.log.commit(c, dst)
}

// open opens an ask.
func (s *Session) open(ask Asker) uint64 {
	if s.sweepAt.IsZero() {
		s.sweeping = true
	}
	return s.asks.add(ask)
}

// sweepSoon reports whether Tick has to be called so that it sets a timer for the sweep.
func (s *Session) sweepSoon() bool { return s.sweeping }

// milliseconds rounds up: an ask with a deadline has one on the wire, too.
func milliseconds(d time.Duration) uint64 {
	if d <= 0 {
		return 0
	}
	return uint64((d + time.Millisecond - 1) / time.Millisecond)
}

// Answer answers an ask of the peer with bytes that its asker decodes.
func (s *Session) Answer(ask uint64, payload []byte) Verdict {
	size := len(payload) + 16
	return s.settle(ask, wire.KindAnswer, size, func(dst []byte) []byte { return wire.AppendAnswer(dst, ask, payload) })
}

// Fail answers an ask of the peer with an error.
func (s *Session) Fail(ask uint64, f wire.Failure) Verdict {
	size := min(len(f.Name), wire.MaxErrorText) + min(len(f.Text), wire.MaxErrorText) + 32
	return s.settle(ask, wire.KindFail, size, func(dst []byte) []byte { return wire.AppendFail(dst, ask, f) })
}

// settle ends an ask of the peer. One that is answered too largely stays open.
func (s *Session) settle(ask uint64, k wire.Kind, size int, body func([]byte) []byte) Verdict {
	s.mu.Lock()
	if _, ok := s.served[ask]; !ok {
		s.mu.Unlock()
		return NotOpen
	}
	return s.vital(k, size, func(dst []byte) []byte {
		delete(s.served, ask)
		return body(dst)
	})
}

// Serve says what comes back with [Handler.Cancel] if the asker of an ask of the peer gives
// up. It is called from within the Handler, before or after the ask is answered.
func (s *Session) Serve(ask uint64, what any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.served[ask]; ok {
		s.served[ask] = what
	}
}

// Signal is what is to be sent by [Session.Signal]. What is not needed is zero.
type Signal struct {
	To   *Name
	From Sender
	Code uint64
	wire.Failure
}

// Signal sends a frame of a kind for which [wire.Kind.IsSignal] is true. There is room for
// it even when messages overflow; where there is none, the session is lost.
func (s *Session) Signal(k wire.Kind, sig Signal) Verdict {
	if sig.To != nil && (sig.To.text == "" || len(sig.To.text) > wire.MaxText) {
		return TooLarge
	}
	text, v := s.enter(sig.From)
	if v != Sent {
		s.mu.Unlock()
		return v
	}
	if s.state == Lost || s.bye || s.isOther(sig.To) {
		s.mu.Unlock()
		return Gone
	}
	s.names.frame++
	w := wire.Signal{From: s.numberOfSender(sig.From, text), Code: sig.Code, Failure: sig.Failure} // the sender first, as in send
	w.To = s.numberOfName(sig.To)
	size := min(len(w.Name), wire.MaxErrorText) + min(len(w.Text), wire.MaxErrorText) + 48
	return s.vital(k, size, func(dst []byte) []byte { return wire.AppendSignal(dst, &w) })
}

// vital appends a frame that must not be dropped, and unlocks the mutex.
func (s *Session) vital(k wire.Kind, size int, body func([]byte) []byte) Verdict {
	v, wake, tick := Sent, false, false
	switch {
	case s.state == Lost || s.bye:
		v = Gone
	case wire.FrameHead+size > s.frame:
		v = TooLarge
	case s.log.kept+size > hardBytes+reserveBytes:
		s.lose(ErrOverflow)
		v, tick = Gone, true
	default:
		s.put(k, body, size)
		wake = s.wake()
	}
	s.unlock(wake, tick)
	return v
}

// Request sends a find or a spawn, whose payload the nodes agree on. It is settled as an
// ask is.
func (s *Session) Request(k wire.Kind, from Sender, payload []byte, ask Asker, remaining time.Duration) Verdict {
	size := wire.FrameHead + len(payload) + 48
	text, v := s.begin(nil, from, size, false, true)
	if v != Sent {
		return v
	}
	q := wire.Request{From: s.numberOfSender(from, text), Remaining: milliseconds(remaining), Payload: payload}
	q.Ask = s.open(ask)
	s.put(k, func(dst []byte) []byte { return wire.AppendRequest(dst, &q) }, size)
	s.unlock(s.wake(), s.sweepSoon())
	return Sent
}
