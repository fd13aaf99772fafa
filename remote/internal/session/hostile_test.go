package session

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// sink is a Handler that counts.
type sink struct {
	messages, signals, requests, answers, cancels int
	missed, loss                                  *Loss
}

func (h *sink) Messages(_ *Session, _ *Known, run []Received) {
	h.messages += len(run)
	for _, m := range run {
		for k, v := range m.Header.All() {
			_, _ = k, v
		}
	}
}
func (h *sink) Answer(*Session, Asker, []byte)             { h.answers++ }
func (h *sink) Fail(*Session, Asker, wire.Failure)         { h.answers++ }
func (h *sink) Cancel(*Session, any)                       { h.cancels++ }
func (h *sink) Signal(*Session, wire.Kind, ReceivedSignal) { h.signals++ }
func (h *sink) Request(s *Session, _ wire.Kind, r ReceivedRequest) {
	h.requests++
	s.Serve(r.Ask, r.Ask)
}
func (h *sink) Missed(_ *Session, l *Loss) { h.missed = l }
func (h *sink) Opened(*Session)            {}
func (h *sink) Lost(_ *Session, l *Loss)   { h.loss = l }

var start = time.Unix(1_000_000, 0)

func peerHello() wire.Hello {
	return wire.Hello{
		Oldest: 1, Newest: 1, Cluster: "c", Node: "b", Incarnation: 7, Session: 99, Frame: wire.DefaultFrame,
	}
}

// accepted returns a session of the node a with the node b, which has dialed.
func accepted(t testing.TB) (*Host, *sink, *Session, *Conn) {
	t.Helper()
	h := &sink{}
	host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5}, h)
	hello := peerHello()
	s, refusal := host.Accept(&hello, start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	_, c, refusal := s.Accept(&hello, start)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return host, h, s, c
}

// frames returns a stream of frames with these kinds and bodies.
func frames(parts ...any) []byte {
	var stream []byte
	for i := 0; i < len(parts); i += 2 {
		stream = wire.AppendFrame(stream, parts[i].(wire.Kind), parts[i+1].([]byte))
	}
	return stream
}

// feed lets a session receive a stream.
func feed(s *Session, c *Conn, stream []byte) error {
	var frames wire.Splitter
	frames.Limit(wire.DefaultFrame)
	_, _ = frames.Write(stream)
	return s.Receive(c, &frames, start)
}

func define(number uint32, c wire.Class, text string) []byte {
	return wire.AppendDefine(nil, number, c, text)
}

func tell(to, from, typ uint32) []byte {
	return wire.AppendMessageHead(nil, &wire.Message{To: to, From: from, Type: typ})
}

func TestAPeerThatBreaksTheProtocolLosesItsSession(t *testing.T) {
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"))
	ask := wire.AppendMessageHead(nil, &wire.Message{Ask: 1, To: 1, Type: 2})
	for name, stream := range map[string][]byte{
		"an unknown kind":          frames(wire.Kind(0x7f), []byte{}),
		"a second hello":           frames(wire.KindHello, []byte{}),
		"a message to no number":   frames(wire.KindTell, tell(1, 0, 2)),
		"a message to a type":      append(slices.Clip(names), frames(wire.KindTell, tell(2, 0, 2))...),
		"a type that is a key":     append(slices.Clip(names), frames(wire.KindTell, tell(1, 0, 1))...),
		"a sender without number":  append(slices.Clip(names), frames(wire.KindTell, tell(1, 3, 2))...),
		"a number that is skipped": frames(wire.KindDefine, define(2, wire.ClassType, "t")),
		"an ack of the future":     frames(wire.KindAck, wire.AppendAck(nil, 1)),
		"the same ask twice":       append(slices.Clip(names), frames(wire.KindAsk, ask, wire.KindAsk, ask)...),
		"a frame that is too long": {0xff, 0xff, 0xff, byte(wire.KindTell)},
		"a refusal":                frames(wire.KindRefuse, wire.AppendRefusal(nil, wire.Refuse(wire.CodeProtocol, "no"))),
	} {
		host, h, s, c := accepted(t)
		err := feed(s, c, stream)
		var violation *wire.ViolationError
		var refusal *wire.Refusal
		if !errors.As(err, &violation) && !errors.As(err, &refusal) {
			t.Errorf("%s: got %v, want a violation", name, err)
		}
		host.Settle(s)
		if h.loss == nil || !errors.Is(h.loss.Err, err) || !host.IsLost("b", 7) {
			t.Errorf("%s: the loss is %+v", name, h.loss)
		}
		if v := s.Tell(&Message{To: NewName("y"), Type: "t"}); v != Gone {
			t.Errorf("%s: a lost session takes a message: %d", name, v)
		}
	}
}

func TestWhatALaterVersionAddsIsSkipped(t *testing.T) {
	_, h, s, c := accepted(t)
	stream := frames(
		wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"),
		wire.Kind(0x99), []byte("whatever"), wire.KindTell, tell(1, 0, 2), wire.KindCancel, wire.AppendCancel(nil, 5),
		wire.KindAnswer, wire.AppendAnswer(nil, 1<<20|5, nil))
	if err := feed(s, c, stream); err != nil || h.messages != 1 {
		t.Errorf("%d messages, %v", h.messages, err)
	}
	if got := s.Stats().Received; got != 6 {
		t.Errorf("%d frames count, want 6", got)
	}
}

func TestTextsOfAPeerAreBounded(t *testing.T) {
	_, _, s, c := accepted(t)
	text := string(bytes.Repeat([]byte{'x'}, wire.MaxText))
	for n := 1; ; n++ {
		err := feed(s, c, frames(wire.KindDefine, define(uint32(n), wire.ClassAddress, text)))
		if err == nil && n*len(text) <= wire.MaxTextBytes {
			continue
		}
		if err == nil || (n-1)*len(text) > wire.MaxTextBytes {
			t.Errorf("%d bytes are kept, %v", n*len(text), err)
		}
		return
	}
}

// What a peer sends makes the node allocate at most four times as much, beyond what each
// session costs.
func TestHostileBytesDoNotMakeMuchMemory(t *testing.T) {
	many := func(n int, k wire.Kind, body func(i int) []byte) []byte {
		var stream []byte
		for i := range n {
			stream = wire.AppendFrame(stream, k, body(i))
		}
		return stream
	}
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"), wire.KindDefine, define(3, wire.ClassKey, "k"))
	header := wire.AppendMessageHead(nil, &wire.Message{To: 1, Type: 2, Entries: wire.MaxHeaderEntries})
	for range wire.MaxHeaderEntries {
		header = wire.AppendEntry(header, 3, nil)
	}
	for name, stream := range map[string][]byte{
		"tells":             append(slices.Clip(names), many(20_000, wire.KindTell, func(int) []byte { return tell(1, 0, 2) })...),
		"headers":           append(slices.Clip(names), many(2000, wire.KindTell, func(int) []byte { return header })...),
		"signals":           many(20_000, wire.KindDown, func(int) []byte { return []byte{0, 0, 0, 0} }),
		"pings":             many(20_000, wire.KindPing, func(int) []byte { return nil }),
		"short texts again": many(20_000, wire.KindDefine, func(int) []byte { return define(1, wire.ClassKey, "a text of some length, as addresses are") }),
		"long frame":        many(1, wire.Kind(0x80), func(int) []byte { return make([]byte, 1<<20) }),
	} {
		_, _, s, c := accepted(t)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var splitter wire.Splitter
		splitter.Limit(wire.DefaultFrame)
		for rest := stream; len(rest) > 0; {
			n := copy(splitter.Space(), rest)
			splitter.Fill(n)
			rest = rest[n:]
			if err := s.Receive(c, &splitter, start); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		runtime.ReadMemStats(&after)
		const once = 600 << 10 // a read buffer, a run
		if got := int(after.TotalAlloc - before.TotalAlloc); got > 4*len(stream)+once {
			t.Errorf("%s: %d bytes make %d", name, len(stream), got)
		}
	}
}

func TestANodeRefusesWithACodeAndAText(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *wire.Hello)
		want   wire.Code
	}{
		"another cluster":  {func(h *wire.Hello) { h.Cluster = "d" }, wire.CodeWrongCluster},
		"its own name":     {func(h *wire.Hello) { h.Node = "a" }, wire.CodeDuplicateName},
		"a later protocol": {func(h *wire.Hello) { h.Oldest, h.Newest = 8, 9 }, wire.CodeTooOld},
		"another session":  {func(h *wire.Hello) { h.Resume = true }, wire.CodeUnknownSession},
	} {
		host := NewHost(Config{Node: "a", Cluster: "c", Incarnation: 5}, &sink{})
		hello := peerHello()
		c.change(&hello)
		_, refusal := host.Accept(&hello, start)
		if refusal == nil || refusal.Code != c.want || refusal.Text == "" {
			t.Errorf("%s: %v, want %s", name, refusal, c.want)
		}
		if len(host.Sessions()) > 0 {
			t.Errorf("%s: a session was made", name)
		}
	}
	host, _, s, _ := accepted(t)
	hello := peerHello()
	hello.Incarnation = 8
	if _, refusal := host.Accept(&hello, start); refusal == nil || refusal.Code != wire.CodeDuplicateName {
		t.Errorf("while the node is connected, another incarnation: %v", refusal)
	}
	s.Lose(fmt.Errorf("disconnected"))
	host.Settle(s)
	hello = peerHello()
	if _, refusal := host.Accept(&hello, start); refusal == nil || refusal.Code != wire.CodeLostIncarnation {
		t.Errorf("after a loss: %v", refusal)
	}
	hello.Incarnation = 9
	if _, refusal := host.Accept(&hello, start); refusal != nil {
		t.Errorf("the next incarnation: %v", refusal)
	}
}

// FuzzHostilePeer has an open session receive whatever comes.
func FuzzHostilePeer(f *testing.F) {
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"))
	ask := wire.AppendMessageHead(nil, &wire.Message{Ask: 1, To: 1, From: 1, Type: 2})
	f.Add(append(names, frames(wire.KindTell, tell(1, 0, 2), wire.KindAsk, ask, wire.KindCancel, wire.AppendCancel(nil, 1))...))
	f.Add(frames(wire.KindAck, wire.AppendAck(nil, 0), wire.KindPing, []byte{}, wire.KindBye, []byte{}))
	f.Add(frames(wire.KindAnswer, wire.AppendAnswer(nil, 1<<20, []byte("x")), wire.KindFail, wire.AppendFail(nil, 1<<20, wire.Failure{Text: "x"})))
	f.Add(frames(wire.KindDown, []byte{0, 0, 0, 0}, wire.KindFind, []byte{1, 0, 0, 1}, wire.Kind(0x99), []byte{1}))
	f.Fuzz(func(t *testing.T, stream []byte) {
		host, h, s, c := accepted(t)
		if v := s.Ask(&Message{To: NewName("y"), Type: "t", Payload: stream}, &question{}, time.Second); v != Sent && v != TooLarge {
			t.Fatalf("verdict %d", v)
		}
		if _, err := s.Take(c, nil); err != nil {
			t.Fatal(err)
		}
		err := feed(s, c, stream)
		s.Wrote(c)
		s.Tick(start.Add(time.Hour))
		s.Lose(ErrClosed)
		host.Settle(s)
		if h.loss == nil {
			t.Fatal("there is no loss")
		}
		if got := h.answers + len(h.loss.Asks); got > 1 || got == 0 && h.loss.Sent > 0 && err == nil {
			t.Fatalf("an ask has ended %d times", got)
		}
		h.loss.Each(func(*Undelivered) {})
	})
}
