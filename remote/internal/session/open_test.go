package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Whoever answers at an address may be of any incarnation, if it is not the node that was dialed.
func TestAnAnswerOfAnotherNodeEndsNoSession(t *testing.T) {
	_, _, s, c := accepted(t)
	s.Break(c, errors.New("cut"), start)
	call := s.Dial(start)
	stranger := peerHello()
	stranger.Node, stranger.Incarnation, stranger.Session = "z", 8, call.Hello.Session
	var refusal *wire.Refusal
	if _, err := s.Greet(call, &stranger, start); !errors.As(err, &refusal) || refusal.Code != wire.CodeNotAllowed {
		t.Errorf("got %v", err)
	}
	if state, err := s.State(); state != Broken {
		t.Errorf("the session is %v: %v", state, err)
	}
}

func TestACallWithoutAnAnswerKeepsThePeerOutForASecond(t *testing.T) {
	host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5}, &sink{})
	s := host.Session("b", start)
	call, hello := s.Dial(start), peerHello()
	if _, refusal := host.Accept(&hello, start.Add(callPatience-1)); refusal == nil || refusal.Code != wire.CodeBusy {
		t.Errorf("while both dial: %v", refusal)
	}
	if _, refusal := host.Accept(&hello, start.Add(callPatience)); refusal != nil {
		t.Fatal(refusal)
	}
	_, c, refusal := s.Accept(&hello, start.Add(callPatience))
	if refusal != nil {
		t.Fatal(refusal)
	}
	if _, err := s.Greet(call, &hello, start.Add(2*time.Second)); !errors.Is(err, ErrStale) || !s.Has(c) {
		t.Errorf("a late answer: %v", err)
	}
}

// cross has both nodes accept the hello of the other, so that no answer is heard.
func cross(t *testing.T, a, b *Session, now time.Time) {
	t.Helper()
	ca, cb := a.Dial(now), b.Dial(now)
	toA, connB := accept(t, b, &ca.Hello, now)
	toB, connA := accept(t, a, &cb.Hello, now.Add(callPatience))
	if _, err := a.Greet(ca, &toA, now.Add(callPatience)); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	if _, err := b.Greet(cb, &toB, now.Add(callPatience)); !errors.Is(err, ErrStale) {
		t.Fatal(err)
	}
	a.Break(connA, ErrStale, now.Add(callPatience))
	b.Break(connB, ErrStale, now.Add(callPatience))
}

func accept(t *testing.T, s *Session, hello *wire.Hello, now time.Time) (wire.Hello, *Conn) {
	t.Helper()
	if _, refusal := s.host.Accept(hello, now); refusal != nil {
		t.Fatal(refusal)
	}
	answer, c, refusal := s.Accept(hello, now)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return answer, c
}

func TestNodesThatOpenEachOthersSessionKeepIt(t *testing.T) {
	for _, back := range []bool{false, true} {
		sinks := []*sink{{}, {}}
		a := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5}, sinks[0]).Session("b", start)
		b := NewHost(Config{Node: "b", Cluster: "c", Incarnation: 7}, sinks[1]).Session("a", start)
		a.Tell(number(10, false))
		b.Tell(&Message{To: NewName("a~5/x#1"), Type: "number"})
		now := start
		for range 3 {
			cross(t, a, b, now)
			now = now.Add(2 * callPatience)
		}
		if back {
			a, b, sinks[0], sinks[1] = b, a, sinks[1], sinks[0]
		}
		call := a.Dial(now)
		answer, connB := accept(t, b, &call.Hello, now)
		connA, err := a.Greet(call, &answer, now)
		if err != nil {
			t.Fatal(err)
		}
		deliver(t, a, b, connA, connB)
		deliver(t, b, a, connB, connA)
		if sinks[0].messages != 1 || sinks[1].messages != 1 {
			t.Errorf("%d and %d messages have come, want 1 each", sinks[0].messages, sinks[1].messages)
		}
		b.Break(connB, errors.New("cut"), now)
		old := call.Hello
		old.Session = b.former
		if _, refusal := b.host.Accept(&old, now); refusal == nil {
			t.Error("the other id is taken after something was received")
		}
	}
}

// deliver brings what a session has to write to the other one.
func deliver(t *testing.T, from, to *Session, connFrom, connTo *Conn) {
	t.Helper()
	var stream []byte
	for _, f := range sent(t, from, connFrom) {
		stream = wire.AppendFrame(stream, f.Kind, f.Body)
	}
	if err := feed(to, connTo, stream); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsGivenUpDoesNotHideWhatIsLost(t *testing.T) {
	host, _, s, _ := accepted(t)
	s.Lose(errors.New("cut"))
	host.Settle(s)
	for n := range uint32(2 * maxLost) {
		host.GiveUp("b", 100+n)
	}
	if !host.IsLost("b", 7) || !host.IsLost("b", 99+2*maxLost) {
		t.Error("a lost incarnation is forgotten")
	}
}

// A node may have a name for each of its processes.
func TestLostNodesAreRememberedInABoundedNumber(t *testing.T) {
	host, _, s, _ := accepted(t)
	s.Lose(errors.New("cut"))
	host.Settle(s)
	host.Session("b", start) // it is being dialed again
	for n := range maxLostNodes + 2 {
		host.GiveUp(fmt.Sprint("pod-", n), 1)
		host.lost.add(fmt.Sprint("pod-", n), 1)
	}
	if !host.IsLost("b", 7) || !host.IsLost(fmt.Sprint("pod-", maxLostNodes+1), 1) || host.IsLost("pod-0", 1) {
		t.Error("the wrong node is forgotten")
	}
}

// meant returns the incarnation in the addresses of these tests: "b~7/x".
func meant(address string) (inc uint32) {
	_, _ = fmt.Sscanf(address, "b~%d/", &inc)
	return inc
}

func TestWhatIsForOneIncarnationNeverGoesToAnother(t *testing.T) {
	h := &sink{}
	host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5, IncarnationOf: meant}, h)
	s := host.Session("b", start)
	s.names.most = 5 // numbers change hands
	early, later := &question{}, &question{}
	for n := range 10 {
		for _, inc := range []int{6, 7} {
			to := host.Name(fmt.Sprintf("b~%d/x#%d", inc, n))
			if v := s.Tell(&Message{To: to, Type: "t", Payload: fmt.Append(nil, inc)}); v != Sent {
				t.Fatal(v)
			}
		}
	}
	s.Ask(&Message{To: host.Name("b~6/x#1"), Type: "t", Payload: []byte("6")}, early, time.Minute)
	s.Ask(&Message{To: host.Name("b~7/x#1"), Type: "t", Payload: []byte("7")}, later, time.Minute)
	s.Signal(wire.KindWatch, Signal{To: host.Name("b~6/x#1")})
	s.Signal(wire.KindWatch, Signal{To: host.Name("b~7/x#1")})

	hello := peerHello()
	if _, refusal := host.Accept(&hello, start); refusal != nil {
		t.Fatal(refusal)
	}
	_, c, refusal := s.Accept(&hello, start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if sent := s.Stats().Sent; sent != 22 {
		t.Errorf("before it is said what was missed, %d messages count as sent", sent)
	}
	if err := feed(s, c, nil); err != nil {
		t.Fatal(err)
	}
	var lost []string
	h.missed.Each(func(u *Undelivered) { lost = append(lost, fmt.Sprintf("%v %s%s", u.Kind, u.To, u.Payload)) })
	if len(lost) != 12 || slices.ContainsFunc(lost, func(u string) bool { return !strings.Contains(u, "b~6/") }) {
		t.Errorf("missed %q", lost)
	}
	if m := h.missed; m.Sent != 11 || m.Dropped != 11 || len(m.Asks) != 1 || m.Asks[0] != early {
		t.Errorf("missed %d of %d, asks %v", m.Dropped, m.Sent, m.Asks)
	}
	if st := s.Stats(); st.Sent != 22 || st.Asks != 1 {
		t.Errorf("then %d messages are sent, and %d asks open", st.Sent, st.Asks)
	}

	// The peer gets all that is for it, with numbers that it can follow.
	there := &sink{}
	peer := NewHost(Config{Node: "b", Cluster: "c", Incarnation: 7}, there)
	to := wire.Hello{Oldest: 1, Newest: 1, Cluster: "c", Node: "a", Incarnation: 5, Session: 99, Frame: wire.DefaultFrame}
	ps, refusal := peer.Accept(&to, start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	_, pc, refusal := ps.Accept(&to, start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	deliver(t, s, ps, c, pc)
	if there.messages != 11 || there.signals != 1 {
		t.Errorf("the peer has got %d messages and %d signals", there.messages, there.signals)
	}
	if v := s.Tell(&Message{To: host.Name("b~6/x#1"), Type: "t"}); v != Gone {
		t.Errorf("a tell to another incarnation: %d", v)
	}
	if v := s.Signal(wire.KindWatch, Signal{To: host.Name("b~6/x#1")}); v != Gone {
		t.Errorf("a watch of another incarnation: %d", v)
	}

	s.Lose(errors.New("cut"))
	host.Settle(s)
	l := h.loss
	lost = nil
	l.Each(func(u *Undelivered) { lost = append(lost, u.To) })
	if l.Sent != 11 || l.Unknown != 11 || len(lost) != 12 || slices.ContainsFunc(lost, func(to string) bool { return meant(to) != 7 }) {
		t.Errorf("the loss has %d sent, %d unknown and %q", l.Sent, l.Unknown, lost)
	}
}

// A session that is lost between its opening and the first frame says what was missed, too.
func TestALostSessionHasSaidWhatItsPeerHasMissed(t *testing.T) {
	h := &sink{}
	host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5, IncarnationOf: meant}, h)
	s := host.Session("b", start)
	s.Tell(&Message{To: host.Name("b~6/x#1"), Type: "t"})
	hello := peerHello()
	if _, _, refusal := s.Accept(&hello, start); refusal != nil {
		t.Fatal(refusal)
	}
	s.Lose(errors.New("cut"))
	host.Settle(s)
	if h.missed == nil || h.missed.Dropped != 1 || h.loss.Dropped != 0 {
		t.Errorf("missed %+v, lost %+v", h.missed, h.loss)
	}
}

// An answer that cannot be true says nothing about who lives.
func TestAWrongFirstAnswerLosesAllThatWasKept(t *testing.T) {
	h := &sink{}
	host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5, IncarnationOf: meant}, h)
	s := host.Session("b", start)
	s.Tell(&Message{To: host.Name("b~6/x#1"), Type: "t"})
	s.Tell(&Message{To: host.Name("b~7/x#1"), Type: "t"})
	call, hello := s.Dial(start), peerHello()
	hello.Session, hello.Received = call.Hello.Session, 1
	var refusal *wire.Refusal
	if _, err := s.Greet(call, &hello, start); !errors.As(err, &refusal) || refusal.Code != wire.CodeProtocol {
		t.Fatalf("got %v", err)
	}
	host.Settle(s)
	if h.missed != nil || h.loss.Dropped != 2 || h.loss.Incarnation != 0 {
		t.Errorf("missed %+v, lost %+v", h.missed, h.loss)
	}
}
