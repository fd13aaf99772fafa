package session

import (
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

var update = flag.Bool("update", false, "record the present conversation")

// Conversations of two nodes, a and b, are kept as they were recorded by releases: in turns, with each
// frame as it was on the wire and what the other one made of it. A file is never changed once its
// release is out. Where what nodes say changes, a new one is recorded beside it.
const presentConversation = "testdata/conversations/1.txt"

// What each release has said is understood: a node of it on either side of a present one.
func TestConversationsOfFormerReleasesAreUnderstood(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, old := range []string{"a", "b"} {
			v := converse(t, string(data), old)
			present := map[string]string{"a": "b", "b": "a"}[old]
			if got, want := v.heard(v.said, present), v.heard(string(data), present); got != want {
				t.Errorf("%s: beside an old %s the present %s has understood\n%s\nand not\n%s", file, old, present, got, want)
			}
		}
	}
}

// What nodes say to one of the last release is what that one's nodes said.
func TestNodesSayWhatTheLastReleaseUnderstands(t *testing.T) {
	got := converse(t, "", "").said
	if *update {
		if err := os.WriteFile(presentConversation, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(presentConversation)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the conversation is\n%s\nand not that of %s: if a node of the last release understands it, "+
			"record it beside that one (change presentConversation, go test -update), and keep the old one", got, presentConversation)
	}
}

// conversation is one of two nodes, of which one may be a recording.
type conversation struct {
	t        *testing.T
	recorded string // the transcript of what old says
	old      string // "a", "b" or "": nobody
	said     string // the transcript
	turn     int
	a, b     *party
}

// party is a present node of a conversation.
type party struct {
	name string
	host *Host
	s    *Session
	c    *Conn
	v    *conversation
	asks []uint64 // of the other one, in order

	names map[string]*Name
	ask   map[string]*question
}

var conversationTime = time.Unix(1_700_000_000, 0)

func converse(t *testing.T, recorded, old string) *conversation {
	t.Helper()
	v := &conversation{t: t, recorded: recorded, old: old}
	v.a, v.b = v.party("a", 5), v.party("b", 7)
	v.connect(conversationTime)
	v.speak()
	cut, again := conversationTime.Add(3*time.Second), conversationTime.Add(4*time.Second)
	if old != "a" {
		v.a.tell("b~7/room#3", "written, and lost with the connection")
		sent(t, v.a.s, v.a.c)
	}
	for _, p := range []*party{v.a, v.b} {
		if p.name != old {
			p.s.Break(p.c, errors.New("cut"), cut)
		}
	}
	if old != "a" {
		v.a.tell("b~7/room#3", "said while there was no connection")
	}
	v.connect(again)
	v.says(v.a, v.b, again, func() {})
	v.says(v.b, v.a, again, func() { v.b.s.Bye() })
	v.says(v.a, v.b, again, func() {})
	v.refusal()
	return v
}

func (v *conversation) party(name string, inc uint32) *party {
	p := &party{name: name, v: v, names: map[string]*Name{}, ask: map[string]*question{}}
	p.host = NewHost(Config{Node: name, Cluster: "c", Incarnation: inc, Build: "1", NewID: func() uint64 { return 99 }}, scribe{p})
	p.s = p.host.Session(map[string]string{"a": "b", "b": "a"}[name], conversationTime)
	return p
}

// speak is what is said on the first connection.
func (v *conversation) speak() {
	now, a, b := conversationTime, v.a, v.b
	v.says(a, b, now, func() {
		a.tell("b~7/room#3", "hello")
		a.tell("b~7/room#3", "again", HeaderField{"trace", []byte("1")})
		for _, ask := range []string{"answered", "failed", "canceled"} {
			a.inquire(ask)
		}
		room := a.to("b~7/room#3")
		a.s.Signal(wire.KindWatch, Signal{To: room})
		a.s.Signal(wire.KindLink, Signal{To: room, From: Sender{Of: actorOf("a~5/ann#9")}})
		a.s.Signal(wire.KindOrder, Signal{To: room, Code: 2})
		a.request(wire.KindFind, "find")
		a.request(wire.KindSpawn, "spawn")
	})
	v.says(b, a, now, func() {
		b.s.Answer(b.asks[0], []byte("yes"))
		b.s.Fail(b.asks[1], wire.Failure{Name: "actor.stopped", Text: "it has stopped"})
		b.s.Answer(b.asks[3], []byte("found"))
		b.s.Fail(b.asks[4], wire.Failure{Text: "no"})
		ann, room := b.to("a~5/ann#9"), Sender{Of: actorOf("b~7/room#3")}
		b.s.Signal(wire.KindDown, Signal{To: b.to("a~5/#0"), From: room, Code: 2, Failure: wire.Failure{Name: "n", Text: "failed"}})
		b.s.Signal(wire.KindUnlink, Signal{To: ann, From: room, Code: 1})
		b.s.Signal(wire.KindExit, Signal{To: ann, From: room, Code: 2, Failure: wire.Failure{Text: "ended"}})
		b.tell("a~5/ann#9", "hello ann")
		b.inquire("asked back")
	})
	v.says(a, b, now.Add(200*time.Millisecond), func() {
		a.s.Answer(a.asks[0], []byte("back"))
		a.ask["canceled"].over = true
		a.s.Tick(now) // from now on the asks are looked through
		a.s.Tick(now.Add(150 * time.Millisecond))
		a.s.Signal(wire.KindUnwatch, Signal{To: a.to("b~7/room#3")})
		a.s.Signal(wire.KindUnlink, Signal{To: a.to("b~7/room#3"), From: Sender{Of: actorOf("a~5/ann#9")}, Code: 2})
	})
	v.says(b, a, now.Add(2500*time.Millisecond), func() { b.s.Tick(now.Add(2500 * time.Millisecond)) }) // a ping
	v.says(a, b, now.Add(2500*time.Millisecond), func() {})
}

func (p *party) other() string { return p.s.Peer() }

// to returns the name of an address, always the same one.
func (p *party) to(address string) *Name {
	if p.names[address] == nil {
		p.names[address] = NewName(address)
	}
	return p.names[address]
}

func (p *party) tell(to, text string, header ...HeaderField) {
	from := Sender{1, actorOf(map[string]string{"a": "a~5/ann#9", "b": "b~7/room#3"}[p.name])}
	p.s.Tell(&Message{To: p.to(to), From: from, Type: "chat.say", Header: header, Payload: []byte(text)})
}

func (p *party) inquire(text string) {
	q := &question{to: text}
	p.ask[text] = q
	to := map[string]string{"a": "a~5/ann#9", "b": "b~7/room#3"}[p.other()]
	p.s.Ask(&Message{To: p.to(to), Type: "chat.ask", Payload: []byte(text)}, q, 5*time.Second)
}

func (p *party) request(k wire.Kind, payload string) {
	q := &question{to: payload}
	p.ask[payload] = q
	p.s.Request(k, Sender{}, []byte(payload), q, 5*time.Second)
}

// says is a turn: from acts, and to gets what that makes of frames.
func (v *conversation) says(from, to *party, now time.Time, act func()) {
	v.turn++
	var frames []wire.Frame
	if v.old == from.name {
		frames = v.recording(from.name)
	} else {
		act()
		frames = sent(v.t, from.s, from.c)
	}
	v.note(from.name, frames)
	if v.old == to.name {
		return
	}
	var stream []byte
	for _, f := range frames {
		stream = wire.AppendFrame(stream, f.Kind, f.Body)
	}
	if err := feedAt(to.s, to.c, stream, now); err != nil {
		v.t.Fatalf("turn %d: %s: %v", v.turn, to.name, err)
	}
}

// connect has a dial b.
func (v *conversation) connect(now time.Time) {
	var call *Call
	hello := v.hello(v.a, func() wire.Hello {
		call = v.a.s.Dial(now)
		return call.Hello
	})
	answer := v.hello(v.b, func() wire.Hello {
		if _, refusal := v.b.host.Accept(&hello, now); refusal != nil {
			v.t.Fatal(refusal)
		}
		answer, c, refusal := v.b.s.Accept(&hello, now)
		if refusal != nil {
			v.t.Fatal(refusal)
		}
		v.b.c = c
		return answer
	})
	if v.old != "a" {
		c, err := v.a.s.Greet(call, &answer, now)
		if err != nil {
			v.t.Fatal(err)
		}
		v.a.c = c
	}
}

// hello is the turn of a hello.
func (v *conversation) hello(p *party, say func() wire.Hello) wire.Hello {
	v.turn++
	var frames []wire.Frame
	if v.old == p.name {
		frames = v.recording(p.name)
	} else {
		hello := say()
		frames = []wire.Frame{{Kind: wire.KindHello, Body: wire.AppendHello(nil, &hello)}}
	}
	v.note(p.name, frames)
	hello, err := wire.ReadHello(frames[0].Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return hello
}

// refusal is the turn in which b refuses somebody.
func (v *conversation) refusal() {
	v.turn++
	var frames []wire.Frame
	if v.old == "b" {
		frames = v.recording("b")
	} else {
		stranger := peerHello()
		stranger.Node, stranger.Cluster = "z", "other"
		_, refusal := v.b.host.Accept(&stranger, conversationTime)
		frames = []wire.Frame{{Kind: wire.KindRefuse, Body: wire.AppendRefusal(nil, refusal)}}
	}
	v.note("b", frames)
	if refusal, err := wire.ReadRefusal(frames[0].Body); v.old != "a" {
		v.a.heard("%v %v", refusal, err)
	}
}

func (v *conversation) note(who string, frames []wire.Frame) {
	for _, f := range frames {
		v.said += strings.TrimRight(fmt.Sprintf("%d %s %v %s", v.turn, who, f.Kind, hex.EncodeToString(f.Body)), " ") + "\n"
	}
}

// recording returns the frames that somebody says in the present turn.
func (v *conversation) recording(who string) (frames []wire.Frame) {
	kinds := map[string]wire.Kind{}
	for k := range wire.KindOptional {
		kinds[k.String()] = k
	}
	prefix := fmt.Sprintf("%d %s ", v.turn, who)
	for line := range strings.Lines(v.recorded) {
		rest, is := strings.CutPrefix(line, prefix)
		if kind, body, _ := strings.Cut(strings.TrimSpace(rest), " "); is && kind != "heard" {
			data, err := hex.DecodeString(body)
			if err != nil || kinds[kind] == 0 {
				v.t.Fatalf("%q: %v", line, err)
			}
			frames = append(frames, wire.Frame{Kind: kinds[kind], Body: data})
		}
	}
	if len(frames) == 0 {
		v.t.Fatalf("%s says nothing in turn %d", who, v.turn)
	}
	return frames
}

// heard returns the lines of a transcript that say what somebody has understood.
func (v *conversation) heard(transcript, who string) (lines string) {
	for line := range strings.Lines(transcript) {
		if strings.Contains(line, " "+who+" heard ") {
			lines += line
		}
	}
	return lines
}

func (p *party) heard(format string, args ...any) {
	p.v.said += fmt.Sprintf("%d %s heard ", p.v.turn, p.name) + fmt.Sprintf(format, args...) + "\n"
}

// scribe is a Handler that writes down what its node has understood.
type scribe struct{ *party }

func textOf(k *Known) string {
	if k == nil {
		return "nobody"
	}
	return k.Text
}

func (p scribe) Messages(s *Session, to *Known, run []Received) {
	for _, m := range run {
		header := ""
		for key, value := range m.Header.All() {
			header += fmt.Sprintf(", %s=%s", key, value)
		}
		how := "tell"
		if m.Ask != 0 {
			p.asks = append(p.asks, m.Ask)
			s.Serve(m.Ask, string(m.Payload))
			how = fmt.Sprint("ask with ", m.Remaining)
		}
		p.heard("%s to %s from %s: %s %q%s", how, textOf(to), textOf(m.From), textOf(m.Type), m.Payload, header)
	}
}

func (p scribe) Answer(_ *Session, ask Asker, payload []byte) {
	p.heard("answer to %q: %q", ask.(*question).to, payload)
}

func (p scribe) Fail(_ *Session, ask Asker, f wire.Failure) {
	p.heard("failure of %q: %+v", ask.(*question).to, f)
}

func (p scribe) Cancel(_ *Session, what any) { p.heard("%v is canceled", what) }

func (p scribe) Signal(_ *Session, k wire.Kind, sig ReceivedSignal) {
	p.heard("%v to %s from %s: code %d, %+v", k, textOf(sig.To), textOf(sig.From), sig.Code, sig.Failure)
}

func (p scribe) Request(_ *Session, k wire.Kind, r ReceivedRequest) {
	p.asks = append(p.asks, r.Ask)
	p.heard("%v with %v from %s: %q", k, r.Remaining, textOf(r.From), r.Payload)
}

func (p scribe) Missed(*Session, *Loss) { p.heard("missed") }
func (p scribe) Opened(s *Session) {
	p.heard("opened with %s, incarnation %d", s.Peer(), s.Incarnation())
}
func (p scribe) Lost(*Session, *Loss) { p.heard("lost") }
