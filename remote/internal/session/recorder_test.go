package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// pair is two actors of two incarnations, in one direction.
type pair struct{ from, to string }

// recorder is a Handler that checks what it gets, and the book of one process.
type recorder struct {
	n        *node
	got      map[pair][]uint64 // numbers of what has arrived, in order
	sent     map[pair]uint64   // how many were sent
	answered map[*question]string
	opened   map[*Session]int
	losses   []*lostSession
	gaps     map[pair][][2]uint64 // from one to before another: lost by sessions that were never open
	cancels  int
	wrong    []string
}

// lostSession is what a Loss said.
type lostSession struct {
	s                      *Session
	err                    error
	sent, dropped, unknown uint64
	first                  map[pair]uint64 // of what was not confirmed
	firstDropped           map[pair]uint64
}

// question is an ask.
type question struct {
	to     string
	number uint64
	ends   time.Time
	w      *world
	over   bool
}

// Over implements [Asker].
func (q *question) Over() bool { return q.over || !q.ends.IsZero() && !q.w.now.Before(q.ends) }

func newRecorder(n *node) *recorder {
	return &recorder{
		n: n, got: map[pair][]uint64{}, sent: map[pair]uint64{},
		answered: map[*question]string{}, opened: map[*Session]int{}, gaps: map[pair][][2]uint64{},
	}
}

func (r *recorder) fail(format string, args ...any) {
	r.wrong = append(r.wrong, r.n.name+": "+fmt.Sprintf(format, args...))
}

// actor is a sender of a node.
type actor struct {
	n  *node
	id uint64
}

func (a actor) Address() string {
	return fmt.Sprintf("%s~%d/actor%d", a.n.name, a.n.host.config.Incarnation, a.id)
}

// payload is what each message has: who sent it to whom as which one.
func payload(from, to string, number uint64, size int) []byte {
	p := binary.AppendUvarint(nil, number)
	p = append(append(p, from+">"+to+"|"...), strings.Repeat("x", size)...)
	return p
}

func parsePayload(p []byte) (from, to string, number uint64) {
	number, n := binary.Uvarint(p)
	text, _, _ := strings.Cut(string(p[n:]), "|")
	from, to, _ = strings.Cut(text, ">")
	return from, to, number
}

// took books something that has arrived, and checks it against what it says itself.
func (r *recorder) took(to, from *Known, p []byte) (pair, uint64) {
	wantFrom, wantTo, number := parsePayload(p)
	if to.Text != wantTo || from == nil || from.Text != wantFrom {
		r.fail("a message from %q to %q arrived as one from %v to %q", wantFrom, wantTo, from, to.Text)
	}
	k := pair{wantFrom, wantTo}
	r.got[k] = append(r.got[k], number)
	return k, number
}

func (r *recorder) Messages(s *Session, to *Known, run []Received) {
	if r.n.dead {
		return
	}
	for _, m := range run {
		_, number := r.took(to, m.From, m.Payload)
		if want := typeOf(number); m.Type.Text != want {
			r.fail("a message of the type %q arrived as a %q", want, m.Type.Text)
		}
		var header []string
		for k, v := range m.Header.All() {
			header = append(header, k+"="+string(v))
		}
		if want := headerOf(number); !slices.Equal(header, headerTexts(want)) {
			r.fail("the header %v arrived as %v", want, header)
		}
		if m.Ask != 0 {
			r.serve(s, m.Ask, slices.Clone(m.Payload), m.Remaining)
		}
	}
}

// serve answers an ask a little later, or never if it has a deadline.
func (r *recorder) serve(s *Session, ask uint64, p []byte, remaining time.Duration) {
	s.Serve(ask, ask)
	if remaining > 0 && r.n.w.rand.IntN(4) == 0 {
		return
	}
	r.n.w.after(time.Duration(r.n.w.rand.Int64N(int64(50*time.Millisecond))), func() {
		if r.n.dead {
			return
		}
		if r.n.w.rand.IntN(4) == 0 {
			s.Fail(ask, wire.Failure{Name: "failed", Text: string(p)})
			return
		}
		s.Answer(ask, p)
	})
}

func (r *recorder) outcome(ask Asker, p []byte, what string) {
	if r.n.dead {
		return
	}
	q := ask.(*question)
	if _, to, number := parsePayload(p); to != q.to || number != q.number {
		r.fail("the ask %d of %s got the answer for %d of %s", q.number, q.to, number, to)
	}
	if old := r.answered[q]; old != "" {
		r.fail("an ask ended with %s and with %s", old, what)
	}
	r.answered[q] = what
}

func (r *recorder) Answer(_ *Session, ask Asker, p []byte) { r.outcome(ask, p, "an answer") }

func (r *recorder) Fail(_ *Session, ask Asker, f wire.Failure) {
	r.outcome(ask, []byte(f.Text), "a failure")
}

func (r *recorder) Cancel(*Session, any) { r.cancels++ }

func (r *recorder) Signal(_ *Session, k wire.Kind, sig ReceivedSignal) {
	if r.n.dead {
		return
	}
	if k != wire.KindDown || sig.Name != "why" {
		r.fail("a Down arrived as %s %q", k, sig.Name)
	}
	r.took(sig.To, sig.From, []byte(sig.Text))
}

func (r *recorder) Request(s *Session, k wire.Kind, q ReceivedRequest) {
	if k != wire.KindFind {
		r.fail("a find arrived as %s", k)
	}
	r.serve(s, q.Ask, slices.Clone(q.Payload), 0)
}

func (r *recorder) Missed(*Session, *Loss) { panic("no address is of an incarnation") }

func (r *recorder) Opened(s *Session) {
	if r.opened[s]++; r.opened[s] > 1 {
		r.fail("a session was opened twice")
	}
}

func (r *recorder) Lost(s *Session, l *Loss) {
	lost := &lostSession{s: s, err: l.Err, sent: l.Sent, dropped: l.Dropped, unknown: l.Unknown, first: map[pair]uint64{}, firstDropped: map[pair]uint64{}}
	if l.Incarnation != 0 {
		r.losses = append(r.losses, lost)
	}
	next := map[pair]uint64{}
	var dropped, unknown uint64
	l.Each(func(u *Undelivered) {
		p := u.Payload
		if u.Kind.IsSignal() {
			p = []byte(u.Text)
		}
		from, to, number := parsePayload(p)
		if u.Kind.IsRequest() {
			return
		}
		if u.From != from || u.To != to {
			r.fail("what was lost from %q to %q is reported from %q to %q", from, to, u.From, u.To)
		}
		if !u.Kind.IsSignal() {
			if u.Type != typeOf(number) {
				r.fail("a lost %q is reported as a %q", typeOf(number), u.Type)
			}
			if u.Unknown {
				unknown++
			} else {
				dropped++
			}
		}
		k := pair{from, to}
		if _, ok := next[k]; !ok {
			lost.first[k] = number
			next[k] = number
		}
		if _, ok := lost.firstDropped[k]; !ok && !u.Unknown {
			lost.firstDropped[k] = number
		}
		if number != next[k] {
			r.fail("what is lost of %v is no suffix: %d, not %d", k, number, next[k])
		}
		next[k]++
	})
	if dropped != l.Dropped || unknown != l.Unknown {
		r.fail("%d dropped and %d unknown messages are reported as %d and %d", dropped, unknown, l.Dropped, l.Unknown)
	}
	for k, n := range next {
		if n != r.sent[k] {
			r.fail("what is lost of %v ends at %d, not at %d", k, n, r.sent[k])
		}
		if l.Incarnation == 0 {
			r.gaps[k] = append(r.gaps[k], [2]uint64{lost.first[k], n})
		}
	}
	for _, ask := range l.Asks {
		q := ask.(*question)
		if old := r.answered[q]; old != "" {
			r.fail("an ask ended with %s and with a loss", old)
		}
		r.answered[q] = "a loss"
	}
}

var types = []string{"add", "get", "set", "a rather long name of a type", "t4", "t5", "t6", "t7", "t8"}

func typeOf(number uint64) string { return types[number*7%uint64(len(types))] }

// headerOf returns the header of the message with a number: most have none.
func headerOf(number uint64) []HeaderField {
	if number%5 != 3 {
		return nil
	}
	return []HeaderField{{fmt.Sprintf("key%d", number%20), fmt.Append(nil, number)}, {"trace", nil}}
}

func headerTexts(header []HeaderField) []string {
	var texts []string
	for _, h := range header {
		texts = append(texts, h.Key+"="+string(h.Value))
	}
	return texts
}
