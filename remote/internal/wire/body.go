package wire

import (
	"encoding/binary"
	"fmt"
)

// Message is the body of a tell or an ask. Numbers stand for texts.
type Message struct {
	Ask       uint64 // 0: a tell
	Remaining uint64 // of an ask, in milliseconds; 0: no deadline
	To        uint32
	From      uint32 // 0: nobody
	Type      uint32
	Entries   int    // of the header
	Header    []byte // entries: number of the key, length, value
	Payload   []byte
}

// MaxMessageHead is the length of the longest body of a message without its header and
// payload.
const MaxMessageHead = 8 * binary.MaxVarintLen64

// AppendMessageHead appends the body up to the header's entries.
func AppendMessageHead(dst []byte, m *Message) []byte {
	if m.Ask != 0 {
		dst = binary.AppendUvarint(dst, m.Ask)
		dst = binary.AppendUvarint(dst, m.Remaining)
	}
	dst = binary.AppendUvarint(dst, uint64(m.To))
	dst = binary.AppendUvarint(dst, uint64(m.From))
	dst = binary.AppendUvarint(dst, uint64(m.Type))
	return binary.AppendUvarint(dst, uint64(m.Entries))
}

// AppendEntry appends an entry of a header.
func AppendEntry(dst []byte, key uint32, value []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(key))
	dst = binary.AppendUvarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// ReadMessage reads the body of a tell or an ask. The error is a [*ViolationError].
func ReadMessage(m *Message, k Kind, body []byte) error {
	r := reader{p: body}
	m.Ask, m.Remaining = 0, 0
	if k == KindAsk {
		m.Ask = r.number()
		m.Remaining = r.number()
		if m.Ask == 0 || m.Remaining > MaxRemaining {
			r.bad = true
		}
	}
	m.To = r.text()
	m.From = r.text()
	m.Type = r.text()
	entries := r.number()
	if entries > MaxHeaderEntries {
		return &ViolationError{"header", fmt.Sprintf("a header must have at most %d entries, not %d", MaxHeaderEntries, entries)}
	}
	m.Entries = int(entries)
	rest := r.p
	for range entries {
		r.text()
		r.bytes(MaxHeaderBytes)
	}
	if r.bad {
		return malformed(k)
	}
	m.Header, m.Payload = rest[:len(rest)-len(r.p)], r.p
	if len(m.Header) > MaxHeaderBytes {
		return &ViolationError{"header", fmt.Sprintf("a header must have at most %d bytes, not %d", MaxHeaderBytes, len(m.Header))}
	}
	return nil
}

// CutEntry returns the first entry of a header that [ReadMessage] has checked, and the rest.
func CutEntry(header []byte) (key uint32, value, rest []byte) {
	r := reader{p: header}
	key = r.text()
	value = r.bytes(MaxHeaderBytes)
	return key, value, r.p
}

// Define is the body of a define. An empty text takes the number back.
type Define struct {
	Number uint32
	Class  Class
	Text   []byte
}

// AppendDefine appends the body of a define.
func AppendDefine(dst []byte, number uint32, c Class, text string) []byte {
	dst = binary.AppendUvarint(dst, uint64(number))
	dst = append(dst, byte(c))
	return append(dst, text...)
}

// ReadDefine reads the body of a define. The error is a [*ViolationError].
func ReadDefine(body []byte) (Define, error) {
	r := reader{p: body}
	d := Define{Number: r.text()}
	d.Class = Class(r.byte())
	d.Text = r.p
	switch {
	case r.bad || d.Number == 0 || d.Class < ClassAddress || d.Class > ClassKey:
		return Define{}, malformed(KindDefine)
	case len(d.Text) > MaxText:
		return Define{}, &ViolationError{"text length", fmt.Sprintf("a text must have at most %d bytes, not %d", MaxText, len(d.Text))}
	}
	return d, nil
}

// Outcome is the body of an answer, a fail or a cancel.
type Outcome struct {
	Ask     uint64
	Payload []byte // of an answer
	Failure        // of a fail
}

// Failure is an error that travels: by its name, where both nodes know it, and with its text.
type Failure struct {
	Name string
	Text string
}

// AppendAnswer appends the body of an answer.
func AppendAnswer(dst []byte, ask uint64, payload []byte) []byte {
	return append(binary.AppendUvarint(dst, ask), payload...)
}

// AppendFail appends the body of a fail.
func AppendFail(dst []byte, ask uint64, f Failure) []byte {
	return appendFailure(binary.AppendUvarint(dst, ask), f)
}

// AppendCancel appends the body of a cancel.
func AppendCancel(dst []byte, ask uint64) []byte { return binary.AppendUvarint(dst, ask) }

// ReadOutcome reads the body of an answer, a fail or a cancel. The error is a [*ViolationError].
func ReadOutcome(k Kind, body []byte) (Outcome, error) {
	r := reader{p: body}
	o := Outcome{Ask: r.number()}
	switch k {
	case KindAnswer:
		o.Payload = r.p
	case KindFail:
		o.Failure = r.failure()
	default:
		r.bad = r.bad || len(r.p) > 0
	}
	if r.bad || o.Ask == 0 {
		return Outcome{}, malformed(k)
	}
	return o, nil
}

// Signal is the body of a frame of a kind for which [Kind.IsSignal] is true. What is not
// needed is zero.
type Signal struct {
	To   uint32
	From uint32
	Code uint64 // a reason, or which order
	Failure
}

// AppendSignal appends the body of a signal.
func AppendSignal(dst []byte, s *Signal) []byte {
	dst = binary.AppendUvarint(dst, uint64(s.To))
	dst = binary.AppendUvarint(dst, uint64(s.From))
	dst = binary.AppendUvarint(dst, s.Code)
	return appendFailure(dst, s.Failure)
}

// ReadSignal reads the body of a signal. The error is a [*ViolationError].
func ReadSignal(k Kind, body []byte) (Signal, error) {
	r := reader{p: body}
	s := Signal{To: r.text(), From: r.text(), Code: r.number()}
	s.Failure = r.failure()
	if r.bad {
		return Signal{}, malformed(k)
	}
	return s, nil
}

// Request is the body of a find or a spawn. It is settled as an ask is.
type Request struct {
	Ask       uint64
	Remaining uint64 // in milliseconds; 0: no deadline
	From      uint32
	Payload   []byte
}

// AppendRequest appends the body of a request.
func AppendRequest(dst []byte, q *Request) []byte {
	dst = binary.AppendUvarint(dst, q.Ask)
	dst = binary.AppendUvarint(dst, q.Remaining)
	dst = binary.AppendUvarint(dst, uint64(q.From))
	return append(dst, q.Payload...)
}

// ReadRequest reads the body of a request. The error is a [*ViolationError].
func ReadRequest(k Kind, body []byte) (Request, error) {
	r := reader{p: body}
	q := Request{Ask: r.number(), Remaining: r.number(), From: r.text()}
	q.Payload = r.p
	if r.bad || q.Ask == 0 || q.Remaining > MaxRemaining {
		return Request{}, malformed(k)
	}
	return q, nil
}

// AppendAck appends the body of an ack: how many frames have taken effect.
func AppendAck(dst []byte, frames uint64) []byte { return binary.AppendUvarint(dst, frames) }

// ReadAck reads the body of an ack. The error is a [*ViolationError].
func ReadAck(body []byte) (frames uint64, err error) {
	r := reader{p: body}
	frames = r.number()
	if r.bad || len(r.p) > 0 {
		return 0, malformed(KindAck)
	}
	return frames, nil
}

func malformed(k Kind) error {
	return &ViolationError{"malformed " + k.String(), fmt.Sprintf("the body of a frame of the kind %s is malformed", k)}
}

func appendFailure(dst []byte, f Failure) []byte {
	name, text := clip(f.Name, MaxErrorText), clip(f.Text, MaxErrorText)
	dst = binary.AppendUvarint(dst, uint64(len(name)))
	return append(append(dst, name...), text...)
}

// clip returns the first bytes of a text.
func clip(text string, n int) string { return text[:min(len(text), n)] }

// reader reads a body from its beginning. After something that is not there it is bad and
// returns zeros.
type reader struct {
	p   []byte
	bad bool
}

func (r *reader) number() uint64 {
	if len(r.p) > 0 && r.p[0] < 0x80 { // most numbers
		v := r.p[0]
		r.p = r.p[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.p)
	if n <= 0 {
		r.p, r.bad = nil, true
		return 0
	}
	r.p = r.p[n:]
	return v
}

// text reads the number of a text.
func (r *reader) text() uint32 {
	v := r.number()
	if v > MaxNumber {
		r.p, r.bad = nil, true
		return 0
	}
	return uint32(v)
}

func (r *reader) byte() byte {
	if len(r.p) == 0 {
		r.bad = true
		return 0
	}
	v := r.p[0]
	r.p = r.p[1:]
	return v
}

// bytes reads a length and as many bytes.
func (r *reader) bytes(most uint64) []byte {
	n := r.number()
	if n > most || n > uint64(len(r.p)) {
		r.p, r.bad = nil, true
		return nil
	}
	v := r.p[:n:n]
	r.p = r.p[n:]
	return v
}

// failure reads a name and a text, which is all that is left.
func (r *reader) failure() Failure {
	name := r.bytes(MaxErrorText)
	if len(r.p) > MaxErrorText {
		r.bad = true
		return Failure{}
	}
	return Failure{string(name), string(r.p)}
}
