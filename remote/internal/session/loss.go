package session

import (
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Loss is what a lost session leaves behind.
type Loss struct {
	// Err is why it was lost.
	Err error
	// Incarnation is the peer's, 0 if it was never known.
	Incarnation uint32
	// Asks are those of this node that were open.
	Asks []Asker
	// Served are what [Session.Serve] was given for the asks of the peer that were open.
	Served []any
	// Sent is how many messages were sent. The peer has taken all of them but the Dropped
	// ones, which were never written, and maybe some of the Unknown ones, which were.
	Sent, Dropped, Unknown uint64

	log   *log
	texts []knownText // what numbers stood for before the first frame of the log
	asks  asks
}

// Undelivered is a frame that was not confirmed: a message, a signal or a request.
type Undelivered struct {
	Kind    wire.Kind
	To      string // "": nobody
	From    string // "": nobody
	Type    string // of a message
	Ask     Asker  // of an ask or a request that was open when the session was lost
	Header  []HeaderField
	Payload []byte // of a message or a request
	Code    uint64 // of a signal
	wire.Failure
	// Unknown: it was written, so the peer may have taken it.
	Unknown bool
}

// Loss returns what a lost session leaves behind. It is nil if the session is not lost, or
// if the Loss was returned before. Whoever runs the session calls it when nobody is in
// [Session.Receive] any more, and then gives it to the [Handler].
func (s *Session) Loss() *Loss {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Lost || s.settled {
		return nil
	}
	s.settled = true
	l := &Loss{
		Err: s.err, Incarnation: s.inc, Asks: s.asks.all(), Sent: s.stats.sent - s.stats.missed,
		log: &s.log, texts: s.names.asOf(), asks: s.asks,
	}
	for _, ask := range slices.Sorted(maps.Keys(s.served)) {
		if what := s.served[ask]; what != nil {
			l.Served = append(l.Served, what)
		}
	}
	s.served = nil
	l.log.each(func(place uint64, f wire.Frame) {
		switch {
		case f.Kind != wire.KindTell && f.Kind != wire.KindAsk:
		case place <= l.log.handed:
			l.Unknown++
		default:
			l.Dropped++
		}
	})
	return l
}

// Each calls f with each message, signal and request that was not confirmed, in the order of
// sending. It is to be called at most once; what f is given is valid until f returns.
func (l *Loss) Each(f func(u *Undelivered)) {
	l.log.each(func(place uint64, frame wire.Frame) {
		if frame.Kind == wire.KindDefine {
			l.define(frame)
			return
		}
		if u, ok := l.undelivered(frame); ok {
			u.Unknown = place <= l.log.handed
			f(&u)
		}
	})
}

func (l *Loss) define(frame wire.Frame) {
	d, err := wire.ReadDefine(frame.Body)
	if err != nil {
		return // this node has written it
	}
	for int(d.Number) >= len(l.texts) {
		l.texts = append(l.texts, knownText{})
	}
	l.texts[d.Number] = knownText{d.Class, string(d.Text)}
}

func (l *Loss) text(number uint32) string {
	if int(number) < len(l.texts) {
		return l.texts[number].text
	}
	return ""
}

// undelivered returns what a frame of this node says. It is false for one of which the
// peer's actors would not know.
func (l *Loss) undelivered(f wire.Frame) (u Undelivered, ok bool) {
	u.Kind = f.Kind
	switch {
	case f.Kind == wire.KindTell || f.Kind == wire.KindAsk:
		var m wire.Message
		if wire.ReadMessage(&m, f.Kind, f.Body) != nil {
			return u, false
		}
		u.To, u.From, u.Type, u.Payload = l.text(m.To), l.text(m.From), l.text(m.Type), m.Payload
		u.Ask = l.asks.find(m.Ask)
		for rest := m.Header; len(rest) > 0; {
			var key uint32
			var value []byte
			key, value, rest = wire.CutEntry(rest)
			u.Header = append(u.Header, HeaderField{l.text(key), value})
		}
	case f.Kind.IsSignal():
		w, err := wire.ReadSignal(f.Kind, f.Body)
		if err != nil {
			return u, false
		}
		u.To, u.From, u.Code, u.Failure = l.text(w.To), l.text(w.From), w.Code, w.Failure
	case f.Kind.IsRequest():
		q, err := wire.ReadRequest(f.Kind, f.Body)
		if err != nil {
			return u, false
		}
		u.From, u.Payload, u.Ask = l.text(q.From), q.Payload, l.asks.find(q.Ask)
	default:
		return u, false
	}
	return u, true
}
