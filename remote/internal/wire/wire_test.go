package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestBodiesAreReadAsTheyWereWritten(t *testing.T) {
	header := AppendEntry(AppendEntry(nil, 7, []byte("value")), 300, nil)
	m := Message{Ask: 1 << 40, Remaining: 1500, To: 1, From: 65536, Type: 3, Entries: 2, Header: header, Payload: []byte("payload")}
	for _, k := range []Kind{KindTell, KindAsk} {
		want := m
		if k == KindTell {
			want.Ask, want.Remaining = 0, 0
		}
		body := append(append(AppendMessageHead(nil, &want), header...), "payload"...)
		var got Message
		if err := ReadMessage(&got, k, body); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", k, got, err, want)
		}
	}
	key, value, rest := CutEntry(header)
	if key != 7 || string(value) != "value" {
		t.Errorf("the first entry is %d %q", key, value)
	}
	if key, value, rest = CutEntry(rest); key != 300 || len(value) != 0 || len(rest) != 0 {
		t.Errorf("the second entry is %d %q, rest %q", key, value, rest)
	}
	if d, err := ReadDefine(AppendDefine(nil, 65536, ClassKey, "trace")); err != nil || d.Number != 65536 || d.Class != ClassKey || string(d.Text) != "trace" {
		t.Errorf("define: %+v, %v", d, err)
	}
	if o, err := ReadOutcome(KindAnswer, AppendAnswer(nil, 9, []byte("yes"))); err != nil || o.Ask != 9 || string(o.Payload) != "yes" {
		t.Errorf("answer: %+v, %v", o, err)
	}
	failure := Failure{"sold_out", "no more"}
	if o, err := ReadOutcome(KindFail, AppendFail(nil, 9, failure)); err != nil || o.Ask != 9 || o.Failure != failure {
		t.Errorf("fail: %+v, %v", o, err)
	}
	if o, err := ReadOutcome(KindCancel, AppendCancel(nil, 9)); err != nil || o.Ask != 9 {
		t.Errorf("cancel: %+v, %v", o, err)
	}
	signal := Signal{1, 2, 3, failure}
	if got, err := ReadSignal(KindDown, AppendSignal(nil, &signal)); err != nil || got != signal {
		t.Errorf("down: %+v, %v", got, err)
	}
	request := Request{5, 0, 6, []byte("/counter")}
	if got, err := ReadRequest(KindFind, AppendRequest(nil, &request)); err != nil || !reflect.DeepEqual(got, request) {
		t.Errorf("find: %+v, %v", got, err)
	}
	if n, err := ReadAck(AppendAck(nil, 1<<63)); err != nil || n != 1<<63 {
		t.Errorf("ack: %d, %v", n, err)
	}
	if r, err := ReadRefusal(AppendRefusal(nil, Refuse(CodeTooOld, "speak %d", 2))); err != nil || r.Code != CodeTooOld || r.Text != "speak 2" {
		t.Errorf("refuse: %v, %v", r, err)
	}
	hello := someHello()
	if got, err := ReadHello(AppendHello(nil, &hello)); err != nil || got != hello {
		t.Errorf("hello: %+v, %v", got, err)
	}
}

func someHello() Hello {
	return Hello{
		Oldest: 1, Newest: 3, Cluster: "shop", Node: "orders", Incarnation: 77, Session: 1 << 63, Resume: true,
		Received: 12, Features: 5, Frame: DefaultFrame, Build: "v1",
	}
}

func TestWhatIsMalformedIsAViolation(t *testing.T) {
	long := strings.Repeat("x", MaxText+1)
	tooMany := AppendMessageHead(nil, &Message{To: 1, Type: 1, Entries: MaxHeaderEntries + 1})
	large := AppendMessageHead(nil, &Message{To: 1, Type: 1, Entries: 2})
	for range 2 {
		large = AppendEntry(large, 1, make([]byte, MaxHeaderBytes-10))
	}
	for name, read := range map[string]func() error{
		"an empty tell":                func() error { return ReadMessage(&Message{}, KindTell, nil) },
		"a number that is cut off":     func() error { return ReadMessage(&Message{}, KindTell, []byte{1, 0x80}) },
		"a number of eleven bytes":     func() error { return ReadMessage(&Message{}, KindTell, bytes.Repeat([]byte{0xff}, 11)) },
		"a number of no text":          func() error { return ReadMessage(&Message{}, KindTell, AppendAck(nil, MaxNumber+1)) },
		"an ask without a number":      func() error { return ReadMessage(&Message{}, KindAsk, []byte{0, 0, 1, 0, 1, 0}) },
		"a header that is cut off":     func() error { return ReadMessage(&Message{}, KindTell, []byte{1, 0, 1, 1, 1, 9}) },
		"too many entries of a header": func() error { return ReadMessage(&Message{}, KindTell, tooMany) },
		"too large a header":           func() error { return ReadMessage(&Message{}, KindTell, large) },
		"a define of nothing":          func() error { _, err := ReadDefine(AppendDefine(nil, 0, ClassKey, "a")); return err },
		"a define of another class":    func() error { _, err := ReadDefine(AppendDefine(nil, 1, 9, "a")); return err },
		"a define of a long text":      func() error { _, err := ReadDefine(AppendDefine(nil, 1, ClassAddress, long)); return err },
		"an answer to nothing":         func() error { _, err := ReadOutcome(KindAnswer, []byte{0}); return err },
		"a cancel with more":           func() error { _, err := ReadOutcome(KindCancel, []byte{1, 2}); return err },
		"a failure that is cut off":    func() error { _, err := ReadOutcome(KindFail, []byte{1, 9, 'a'}); return err },
		"a signal that is cut off":     func() error { _, err := ReadSignal(KindDown, []byte{1, 2}); return err },
		"a find without a number":      func() error { _, err := ReadRequest(KindFind, []byte{0, 0, 0}); return err },
		"an ack with more":             func() error { _, err := ReadAck([]byte{1, 2}); return err },
		"a refusal without a code":     func() error { _, err := ReadRefusal(nil); return err },
		"a hello that is no map":       func() error { _, err := ReadHello([]byte{0x80}); return err },
		"a hello that is an array":     func() error { _, err := ReadHello(bytes.Repeat([]byte{0x81}, 4000)); return err },
	} {
		var violation *ViolationError
		if err := read(); !errors.As(err, &violation) || violation.Cause == "" {
			t.Errorf("%s: got %v, want a violation", name, err)
		}
	}
	for name, change := range map[string]func(h *Hello){
		"no version":        func(h *Hello) { h.Oldest = 0 },
		"an empty range":    func(h *Hello) { h.Oldest = 4 },
		"no node":           func(h *Hello) { h.Node = "" },
		"a node with slash": func(h *Hello) { h.Node = "a/b" },
		"a node with tilde": func(h *Hello) { h.Node = "a~b" },
		"a long cluster":    func(h *Hello) { h.Cluster = long },
		"a long build":      func(h *Hello) { h.Build = long },
		"no incarnation":    func(h *Hello) { h.Incarnation = 0 },
		"no session":        func(h *Hello) { h.Session = 0 },
		"short frames":      func(h *Hello) { h.Frame = 5 },
		"long frames":       func(h *Hello) { h.Frame = MaxFrame + 1 },
	} {
		h := someHello()
		change(&h)
		if _, err := ReadHello(AppendHello(nil, &h)); err == nil {
			t.Errorf("a hello with %s is accepted", name)
		}
	}
}

func TestAVersionIsTheLowerOfTheNewest(t *testing.T) {
	for _, c := range []struct {
		a, b [2]uint32
		want uint32
		ok   bool
	}{
		{[2]uint32{1, 1}, [2]uint32{1, 1}, 1, true},
		{[2]uint32{1, 2}, [2]uint32{2, 3}, 2, true},
		{[2]uint32{1, 1}, [2]uint32{2, 3}, 1, false},
		{[2]uint32{3, 4}, [2]uint32{1, 2}, 2, false},
	} {
		got, ok := Version(&Hello{Oldest: c.a[0], Newest: c.a[1]}, &Hello{Oldest: c.b[0], Newest: c.b[1]})
		if got != c.want || ok != c.ok {
			t.Errorf("%v and %v: %d, %v, want %d, %v", c.a, c.b, got, ok, c.want, c.ok)
		}
	}
}

func TestASplitterCutsWhateverThePieces(t *testing.T) {
	var stream []byte
	sizes := []int{0, 1, 5, 4000, 70_000, 300_000, 2, 1 << 20, 3}
	for i, n := range sizes {
		stream = AppendFrame(stream, Kind(i+1), bytes.Repeat([]byte{byte(i)}, n))
	}
	for name, piece := range map[string]int{"bytes": 1, "little": 100, "much": 1 << 16, "all": len(stream)} {
		var s Splitter
		s.Limit(DefaultFrame)
		seen, rest := 0, stream
		for len(rest) > 0 {
			n := min(piece, len(rest), len(s.Space()))
			s.Fill(copy(s.Space(), rest[:n]))
			rest = rest[n:]
			for {
				f, ok, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				if f.Kind != Kind(seen+1) || len(f.Body) != sizes[seen] || f.Size() != sizes[seen]+FrameHead ||
					bytes.Count(f.Body, []byte{byte(seen)}) != len(f.Body) {
					t.Fatalf("%s: frame %d is a %s of %d bytes", name, seen, f.Kind, len(f.Body))
				}
				seen++
			}
		}
		if seen != len(sizes) {
			t.Errorf("%s: %d frames, want %d", name, seen, len(sizes))
		}
		if len(s.Space()) > splitterMax {
			t.Errorf("%s: %d bytes are kept for what has passed", name, len(s.buf))
		}
	}
}

func TestASplitterDoesNotAllocateWhatIsOnlyAnnounced(t *testing.T) {
	var s Splitter
	s.Limit(MaxFrame)
	_, _ = s.Write([]byte{0xff, 0xff, 0xff, byte(KindTell), 1, 2, 3})
	if _, ok, err := s.Next(); ok || err != nil {
		t.Fatalf("got %v, %v", ok, err)
	}
	if len(s.Space()) > splitterMin {
		t.Errorf("%d bytes are allocated for 7", len(s.buf))
	}
	for _, head := range [][]byte{{0, 0, 0, 1}, {0, 0x10, 1, 1}} {
		var s Splitter
		_, _ = s.Write(head)
		if _, _, err := s.Next(); err == nil {
			t.Errorf("the head % x is accepted", head)
		}
	}
}

func TestAKindHasAName(t *testing.T) {
	if KindDown.String() != "down" || Kind(0x99).String() != "frame 0x99" || ClassKey.String() != "header key" ||
		Class(9).String() != "class 9" || CodeBusy.String() != "busy" || Code(99).String() != "code 99" {
		t.Error("a name is missing")
	}
}
