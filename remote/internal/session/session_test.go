package session

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// sent takes what a session has to write, and returns its frames.
func sent(t testing.TB, s *Session, c *Conn) []wire.Frame {
	t.Helper()
	taken, err := s.Take(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	var splitter wire.Splitter
	splitter.Limit(wire.MaxFrame)
	_, _ = splitter.Write(slices.Concat(taken...))
	s.Wrote(c)
	var frames []wire.Frame
	for {
		f, ok, err := splitter.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return frames
		}
		frames = append(frames, wire.Frame{Kind: f.Kind, Body: slices.Clone(f.Body)})
	}
}

// kinds returns the kinds of frames.
func kinds(frames []wire.Frame) string {
	text := ""
	for _, f := range frames {
		text += f.Kind.String() + " "
	}
	return text
}

func number(n int, patient bool) *Message {
	return &Message{To: NewName("b~7/x#1"), Type: "number", Payload: make([]byte, n), Patient: patient}
}

func TestATextIsSentOnce(t *testing.T) {
	_, _, s, c := accepted(t)
	to := NewName("b~7/x#1")
	one := &Message{To: to, From: Sender{3, actorOf("a~5/one")}, Type: "add", Header: []HeaderField{{"trace", []byte("1")}}}
	for range 2 {
		if s.Tell(one) != Sent {
			t.Fatal("not sent")
		}
	}
	if got, want := kinds(sent(t, s, c)), "define define define define tell tell "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	s.Tell(&Message{To: to, From: Sender{4, actorOf("a~5/two")}, Type: "add"})
	s.Tell(&Message{To: NewName("b~7/x#1"), Type: "add"}) // another Name of the same actor
	if got, want := kinds(sent(t, s, c)), "define tell define tell "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// actorOf is an actor with an address.
type actorOf string

func (a actorOf) Address() string { return string(a) }

func TestANumberIsTakenFromWhatWasNotUsed(t *testing.T) {
	_, _, s, c := accepted(t)
	s.names.most = 5
	names := make([]*Name, 10)
	for i := range names {
		names[i] = NewName(fmt.Sprintf("b~7/x#%d", i))
	}
	tell := func(i int) string {
		s.Tell(&Message{To: names[i], Type: "add"})
		return kinds(sent(t, s, c))
	}
	for i := range 4 { // the type has the fifth
		tell(i)
	}
	tell(4) // in place of one of the four
	for range 10 {
		if got := tell(4); got != "tell " {
			t.Errorf("what is used all the time loses its number: %s", got)
		}
		for i := 5; i < 9; i++ {
			if got := tell(i); got != "define tell " {
				t.Errorf("got %s", got)
			}
			tell(4)
		}
	}
	if len(s.names.entries) != 6 {
		t.Errorf("%d numbers, want 5", len(s.names.entries)-1)
	}
}

func TestTextsOfANodeAreBounded(t *testing.T) {
	_, _, s, c := accepted(t)
	s.names.length = 10_000
	for i := range 1000 {
		text := fmt.Sprintf("b~7/%d%s", i, bytes.Repeat([]byte{'x'}, 500))
		if v := s.Tell(&Message{To: NewName(text), Type: "add"}); v != Sent {
			t.Fatalf("verdict %d", v)
		}
		sent(t, s, c)
	}
	total := 0
	for _, e := range s.names.entries {
		total += len(e.text)
	}
	if total > 10_000 || total != s.names.bytes || len(s.names.entries) > 100 {
		t.Errorf("%d bytes in %d numbers, counted as %d", total, len(s.names.entries), s.names.bytes)
	}
}

// Messages with and without a sender in one batch keep what they have.
func TestAMessageWithoutSenderGetsNobodysElse(t *testing.T) {
	_, _, s, c := accepted(t)
	for i := range 20 {
		m := &Message{To: NewName("b~7/x#1"), Type: "add"}
		if i%3 == 1 {
			m.From = Sender{uint64(i), actorOf(fmt.Sprint("a~5/", i))}
		}
		s.Tell(m)
	}
	tells := 0
	for _, f := range sent(t, s, c) {
		if f.Kind != wire.KindTell {
			continue
		}
		var m wire.Message
		if err := wire.ReadMessage(&m, f.Kind, f.Body); err != nil {
			t.Fatal(err)
		}
		if has := m.From != 0; has != (tells%3 == 1) {
			t.Errorf("message %d has the sender %d", tells, m.From)
		}
		tells++
	}
}

func TestWhatIsTooLargeIsRefusedAndNothingElse(t *testing.T) {
	_, _, s, c := accepted(t)
	long := string(bytes.Repeat([]byte{'x'}, wire.MaxText+1))
	header := make([]HeaderField, wire.MaxHeaderEntries+1)
	for i := range header {
		header[i] = HeaderField{"k", nil}
	}
	for name, m := range map[string]*Message{
		"payload":      number(wire.DefaultFrame, false),
		"address":      {To: NewName(long), Type: "t"},
		"no address":   {To: NewName(""), Type: "t"},
		"type":         {To: NewName("x"), Type: long},
		"no type":      {To: NewName("x")},
		"sender":       {To: NewName("x"), Type: "t", From: Sender{1, actorOf(long)}},
		"header":       {To: NewName("x"), Type: "t", Header: []HeaderField{{"k", make([]byte, wire.MaxHeaderBytes)}}},
		"header count": {To: NewName("x"), Type: "t", Header: header},
		"header key":   {To: NewName("x"), Type: "t", Header: []HeaderField{{long, nil}}},
	} {
		if v := s.Tell(m); v != TooLarge {
			t.Errorf("%s: verdict %d", name, v)
		}
	}
	if got := sent(t, s, c); len(got) > 0 {
		t.Errorf("what was refused has left %s", kinds(got))
	}
	if v := s.Tell(number(wire.DefaultFrame-1000, false)); v != Sent {
		t.Errorf("the largest: verdict %d", v)
	}
}

func TestPatientSendersWaitForRoom(t *testing.T) {
	_, _, s, c := accepted(t)
	is := func(ch <-chan struct{}) bool {
		select {
		case <-ch:
			return true
		default:
			return false
		}
	}
	if !is(s.Room()) {
		t.Error("there is room and the channel is open")
	}
	n := 0
	for s.Tell(number(10_000, true)) == Sent {
		n++
	}
	if got := s.Unwritten(); got < softBytes || got > softBytes+20_000 || n < 100 {
		t.Errorf("after %d messages, of which %d bytes are unwritten, there is no room", n, got)
	}
	if v := s.Tell(number(10_000, false)); v != Sent {
		t.Errorf("one that does not wait: verdict %d", v)
	}
	room := s.Room()
	if is(room) {
		t.Error("there is no room and the channel is closed")
	}
	taken, _ := s.Take(c, nil)
	if is(room) {
		t.Error("what is being written is not written yet")
	}
	s.Wrote(c)
	if len(taken) == 0 || !is(room) || !is(s.Room()) || s.Tell(number(1, true)) != Sent {
		t.Error("there is room and nobody knows")
	}
	for s.Tell(number(10_000, true)) == Sent {
		n++
	}
	room = s.Room()
	s.Lose(ErrClosed)
	if !is(room) || s.Tell(number(1, true)) != Gone {
		t.Error("who waits for room of a lost session waits for ever")
	}
}

// Acks may be late by megabytes, where a peer has more to do. A patient sender waits for
// them, and its messages do not overflow.
func TestPatientSendersWaitForAcks(t *testing.T) {
	_, _, s, c := accepted(t)
	for s.Tell(number(10_000, true)) == Sent {
		sent(t, s, c)
	}
	if got := s.Stats(); got.Kept < firmBytes || got.Kept > firmBytes+20_000 || got.Unwritten > 0 {
		t.Errorf("there is no room with %d bytes kept, of which %d are unwritten", got.Kept, got.Unwritten)
	}
	if v := s.Tell(number(10_000, true)); v != Wait {
		t.Errorf("verdict %d, want Wait", v)
	}
	room := s.Room()
	select {
	case <-room:
		t.Error("there is no room and the channel is closed")
	default:
	}
	if err := feed(s, c, frames(wire.KindAck, wire.AppendAck(nil, 100))); err != nil {
		t.Fatal(err)
	}
	select {
	case <-room:
	default:
		t.Error("an ack makes room and nobody knows")
	}
	if v := s.Tell(number(10_000, true)); v != Sent {
		t.Errorf("after an ack: verdict %d", v)
	}
}

// The hello of a reconnect may confirm all there is: nothing is written then.
func TestAReconnectMakesRoom(t *testing.T) {
	host, _, s, c := accepted(t)
	for s.Tell(number(10_000, true)) == Sent { //nolint:revive // until there is no room
	}
	if _, err := s.Take(c, nil); err != nil {
		t.Fatal(err)
	}
	for s.Unwritten() > 0 && s.log.waiting() {
		if _, err := s.Take(c, nil); err != nil {
			t.Fatal(err)
		}
	}
	room := s.Room()
	s.Break(c, errors.New("cut"), start)
	hello := peerHello()
	hello.Resume, hello.Received = true, s.log.total
	if _, refusal := host.Accept(&hello, start); refusal != nil {
		t.Fatal(refusal)
	}
	if _, _, refusal := s.Accept(&hello, start); refusal != nil {
		t.Fatal(refusal)
	}
	select {
	case <-room:
	default:
		t.Error("who waits for room waits for ever")
	}
}

func TestMessagesOverflowAndSignalsHaveAReserve(t *testing.T) {
	host, h, s, c := accepted(t)
	messages := uint64(0)
	for s.Tell(number(100_000, false)) == Sent {
		messages++
		sent(t, s, c)
	}
	if got := s.Stats().Kept; got > hardBytes || got < hardBytes-200_000 {
		t.Errorf("%d bytes are kept", got)
	}
	if v := s.Tell(number(100_000, false)); v != Overflow {
		t.Errorf("verdict %d", v)
	}
	if v := s.Ask(number(100_000, false), &question{}, 0); v != Overflow {
		t.Errorf("an ask: verdict %d", v)
	}
	signals := 0
	down := Signal{To: NewName("b~7/#0"), From: Sender{3, actorOf("a~5/one")}, Failure: wire.Failure{Text: string(make([]byte, 4000))}}
	for s.Signal(wire.KindDown, down) == Sent {
		signals++
	}
	if signals < 200 || signals > 300 {
		t.Errorf("the reserve has room for %d signals of 4 KB", signals)
	}
	if state, err := s.State(); state != Lost || !errors.Is(err, ErrOverflow) {
		t.Errorf("where no signal has room, the session is %v: %v", state, err)
	}
	host.Settle(s)
	if h.loss.Sent != messages || h.loss.Unknown+h.loss.Dropped != messages || h.loss.Unknown < messages-20 {
		t.Errorf("%d sent, %d unknown, %d dropped, want %d", h.loss.Sent, h.loss.Unknown, h.loss.Dropped, messages)
	}
}

func TestWhatIsConfirmedIsLetGo(t *testing.T) {
	_, _, s, c := accepted(t)
	for range 1000 {
		s.Tell(number(1000, false))
	}
	all := sent(t, s, c)
	if err := feed(s, c, frames(wire.KindAck, wire.AppendAck(nil, uint64(len(all)/2)))); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Frames != uint64(len(all)-len(all)/2) || got.Kept > 600_000 {
		t.Errorf("after half: %+v", got)
	}
	if err := feed(s, c, frames(wire.KindAck, wire.AppendAck(nil, uint64(len(all))))); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats(); got.Frames != 0 || got.Kept != 0 || got.Unwritten != 0 {
		t.Errorf("after all: %+v", got)
	}
	s.Tick(start.Add(time.Second))
	if s.log.chunks != nil || s.log.free != nil {
		t.Error("a session in which nothing is kept keeps memory")
	}
	s.Tell(number(1, false))
	if got := kinds(sent(t, s, c)); got != "define tell " && got != "tell " {
		t.Errorf("then: %s", got)
	}
}

// A peer may confirm what is still being written. Its bytes stay until that is over.
func TestWhatIsBeingWrittenIsNotLetGo(t *testing.T) {
	_, _, s, c := accepted(t)
	for range 100 {
		s.Tell(number(10_000, false))
	}
	taken, err := s.Take(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(slices.Concat(taken...))
	if err := feed(s, c, frames(wire.KindAck, wire.AppendAck(nil, s.log.total))); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		m := number(10_000, false)
		m.Payload = bytes.Repeat([]byte{0xee}, 10_000)
		s.Tell(m)
	}
	if !bytes.Equal(before, slices.Concat(taken...)) {
		t.Error("what is being written has changed")
	}
	s.Wrote(c)
}

func TestAnAnswerReachesItsAskOnly(t *testing.T) {
	_, h, s, c := accepted(t)
	first, second := &question{}, &question{}
	s.Ask(number(1, false), first, 1500*time.Microsecond)
	var m wire.Message
	for _, f := range sent(t, s, c) {
		if f.Kind == wire.KindAsk {
			if err := wire.ReadMessage(&m, f.Kind, f.Body); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m.Remaining != 2 {
		t.Errorf("1.5 ms are left, and %d ms on the wire", m.Remaining)
	}
	first.over = true
	s.Tick(start)
	if next := s.Tick(start.Add(sweepEvery)); next.IsZero() {
		t.Error("there is no timer")
	}
	if got := kinds(sent(t, s, c)); got != "cancel " {
		t.Errorf("after a sweep: %s", got)
	}
	s.Ask(number(1, false), second, 0) // in the slot of the first one
	if err := feed(s, c, frames(wire.KindAnswer, wire.AppendAnswer(nil, m.Ask, nil))); err != nil {
		t.Fatal(err)
	}
	if h.answers != 0 || s.Stats().Asks != 1 {
		t.Errorf("the second ask got the answer for the first one: %d answers, %d open", h.answers, s.Stats().Asks)
	}
}

func TestAnAskIsAnsweredOnceAndCanceledWhileItIsOpen(t *testing.T) {
	_, h, s, c := accepted(t)
	ask := func(n uint64) []byte {
		return wire.AppendMessageHead(nil, &wire.Message{Ask: n, To: 1, Type: 2})
	}
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"))
	if err := feed(s, c, append(names, frames(wire.KindAsk, ask(1), wire.KindAsk, ask(2), wire.KindAsk, ask(3))...)); err != nil {
		t.Fatal(err)
	}
	s.Serve(2, "the second")
	if v := s.Answer(1, make([]byte, wire.DefaultFrame)); v != TooLarge {
		t.Errorf("too large an answer: verdict %d", v)
	}
	if s.Fail(1, wire.Failure{Name: "too_large"}) != Sent || s.Answer(1, nil) != NotOpen || s.Answer(9, nil) != NotOpen {
		t.Error("an ask is answered twice, or one that is not open")
	}
	cancel := frames(wire.KindCancel, wire.AppendCancel(nil, 1), wire.KindCancel, wire.AppendCancel(nil, 2), wire.KindCancel, wire.AppendCancel(nil, 3))
	if err := feed(s, c, cancel); err != nil {
		t.Fatal(err)
	}
	if h.cancels != 1 || s.Answer(2, nil) != NotOpen || s.Stats().Served != 0 {
		t.Errorf("%d cancels, %d open", h.cancels, s.Stats().Served)
	}
	if got := kinds(sent(t, s, c)); got != "fail " {
		t.Errorf("got %s", got)
	}
}

func TestFramesAreConfirmedByBytesOrTime(t *testing.T) {
	_, _, s, c := accepted(t)
	small := frames(wire.Kind(0x99), []byte("x"))
	if err := feed(s, c, small); err != nil {
		t.Fatal(err)
	}
	if got := sent(t, s, c); len(got) > 0 {
		t.Errorf("at once: %s", kinds(got))
	}
	if next := s.Tick(start); !next.Equal(start.Add(ackDelay)) {
		t.Errorf("the timer is for %v later", next.Sub(start))
	}
	s.Tick(start.Add(ackDelay))
	got := sent(t, s, c)
	if n, err := wire.ReadAck(got[0].Body); kinds(got) != "ack " || n != 1 || err != nil {
		t.Errorf("after 20 ms: %s %d", kinds(got), n)
	}
	if err := feed(s, c, frames(wire.Kind(0x99), make([]byte, ackBytes))); err != nil {
		t.Fatal(err)
	}
	if got := kinds(sent(t, s, c)); got != "ack " {
		t.Errorf("after 64 KiB: %s", got)
	}
}

func TestSendingAndReceivingAllocateNothing(t *testing.T) {
	_, _, s, c := accepted(t)
	m := &Message{To: NewName("b~7/x#1"), From: Sender{3, actorOf("a~5/one")}, Type: "number", Payload: make([]byte, 99)}
	var dst [][]byte
	total := uint64(0)
	out := func() {
		for range 1000 {
			s.Tell(m)
		}
		dst, _ = s.Take(c, dst[:0])
		s.Wrote(c)
		total = s.log.total
		s.mu.Lock()
		s.log.confirm(total)
		s.mu.Unlock()
	}
	out()
	if n := testing.AllocsPerRun(100, out); n > 1 {
		t.Errorf("1000 tells allocate %v times", n)
	}
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"))
	if err := feed(s, c, names); err != nil {
		t.Fatal(err)
	}
	var splitter wire.Splitter
	splitter.Limit(wire.DefaultFrame)
	var stream []byte
	for range 1000 {
		stream = append(stream, frames(wire.KindTell, append(tell(1, 0, 2), make([]byte, 99)...))...)
	}
	in := func() {
		_, _ = splitter.Write(stream)
		if err := s.Receive(c, &splitter, start); err != nil {
			t.Fatal(err)
		}
	}
	in()
	if n := testing.AllocsPerRun(100, in); n > 1 {
		t.Errorf("1000 messages that arrive allocate %v times", n)
	}
}

func TestBothLeaveAtOnce(t *testing.T) {
	w := newWorld(t, 1)
	a, b := w.start("a", 1), w.start("b", 2)
	newClient(a, "b").act(1)
	b.session("a")
	w.run(time.Second)
	a.session("b").Bye()
	b.session("a").Bye()
	w.run(20 * time.Second)
	for _, n := range []*node{a, b} {
		if len(n.handler.losses) != 1 {
			t.Fatalf("%s has %d losses, want 1", n.name, len(n.handler.losses))
		}
		l := n.handler.losses[0]
		if !errors.Is(l.err, ErrClosed) && !errors.Is(l.err, ErrLeft) || l.dropped != 0 {
			t.Errorf("%s: %v, %d dropped", n.name, l.err, l.dropped)
		}
	}
}

// A hello that was overtaken by another connection, as happens where two nodes dial each
// other, changes nothing.
func TestAnOvertakenHelloChangesNothing(t *testing.T) {
	host, h, s, c := accepted(t)
	names := frames(wire.KindDefine, define(1, wire.ClassAddress, "x"), wire.KindDefine, define(2, wire.ClassType, "t"))
	for range 3 {
		s.Tell(number(1, false))
	}
	sent(t, s, c)
	if err := feed(s, c, append(names, frames(wire.KindTell, tell(1, 0, 2), wire.KindAck, wire.AppendAck(nil, 3))...)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(h *wire.Hello){
		"the first one again":         func(*wire.Hello) {},
		"one with a session unknown":  func(h *wire.Hello) { h.Session = 77 },
		"an earlier resume":           func(h *wire.Hello) { h.Resume, h.Received = true, 1 },
		"one of another, not resumed": func(h *wire.Hello) { h.Session = 77; h.Received = 9 },
	} {
		hello := peerHello()
		change(&hello)
		if _, refusal := host.Accept(&hello, start); refusal == nil || refusal.Code != wire.CodeBusy {
			t.Errorf("%s: %v, want busy", name, refusal)
		}
		if state, _ := s.State(); state != Open || !s.Has(c) {
			t.Fatalf("%s: the session is %v", name, state)
		}
	}
	if h.loss != nil {
		t.Errorf("lost: %v", h.loss.Err)
	}
	hello := peerHello()
	hello.Resume, hello.Received = true, 1000
	if _, refusal := host.Accept(&hello, start); refusal == nil || refusal.Code != wire.CodeProtocol {
		t.Errorf("a peer that says it has what was never sent: %v", refusal)
	}
	if state, _ := s.State(); state != Lost {
		t.Errorf("then the session is %v", state)
	}
}

// A node that leaves does not wait for a peer that lives and confirms nothing.
func TestALeaverWaitsForConfirmationsOnly(t *testing.T) {
	_, _, s, c := accepted(t)
	s.Tell(number(1, false))
	s.Bye()
	sent(t, s, c)
	for now, end := start, start.Add(ResumeWithin); ; now = now.Add(time.Second) {
		if now.Equal(start.Add(3 * time.Second)) {
			if err := feedAt(s, c, frames(wire.KindAck, wire.AppendAck(nil, 1)), now); err != nil {
				t.Fatal(err)
			}
			end = now.Add(ResumeWithin)
		} else if err := feedAt(s, c, frames(wire.KindPing, []byte{}), now); err != nil {
			t.Fatal(err)
		}
		s.Tick(now)
		state, err := s.State()
		if now.Equal(end) {
			if state != Lost || !errors.Is(err, ErrExpired) {
				t.Errorf("the session is %v: %v", state, err)
			}
			return
		}
		if state != Open {
			t.Fatalf("after %v the session is %v: %v", now.Sub(start), state, err)
		}
	}
}

func feedAt(s *Session, c *Conn, stream []byte, now time.Time) error {
	var frames wire.Splitter
	frames.Limit(wire.DefaultFrame)
	_, _ = frames.Write(stream)
	return s.Receive(c, &frames, now)
}
