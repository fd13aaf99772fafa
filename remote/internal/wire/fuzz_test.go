package wire

import (
	"bytes"
	"testing"
)

// FuzzFrames reads whatever arrives. What can be read is written again, and must be read
// as the same.
func FuzzFrames(f *testing.F) {
	hello := someHello()
	for _, frame := range []Frame{
		{KindHello, AppendHello(nil, &hello)},
		{KindTell, append(AppendEntry(AppendMessageHead(nil, &Message{To: 1, From: 300, Type: 2, Entries: 1}), 4, []byte("v")), "payload"...)},
		{KindAsk, append(AppendMessageHead(nil, &Message{Ask: 1 << 21, Remaining: 99, To: 1, Type: 2}), "payload"...)},
		{KindDefine, AppendDefine(nil, 1, ClassAddress, "b~2/counter#1")},
		{KindAnswer, AppendAnswer(nil, 1, []byte("3"))},
		{KindFail, AppendFail(nil, 1, Failure{"stopped", "it has stopped"})},
		{KindDown, AppendSignal(nil, &Signal{1, 2, 3, Failure{"", "x"}})},
		{KindSpawn, AppendRequest(nil, &Request{1, 2, 3, []byte("x")})},
		{KindAck, AppendAck(nil, 77)},
		{KindRefuse, AppendRefusal(nil, Refuse(CodeBusy, "later"))},
	} {
		f.Add(AppendFrame(nil, frame.Kind, frame.Body))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		var s Splitter
		s.Limit(DefaultFrame)
		_, _ = s.Write(stream)
		for {
			frame, ok, err := s.Next()
			if err != nil || !ok {
				return
			}
			again, ok := rewrite(t, frame)
			if !ok {
				continue
			}
			third, ok := rewrite(t, Frame{frame.Kind, again})
			if !ok || !bytes.Equal(again, third) {
				t.Fatalf("a %s of % x is written as % x and then as % x", frame.Kind, frame.Body, again, third)
			}
		}
	})
}

// rewrite reads a body and writes what it was read as.
func rewrite(t *testing.T, f Frame) (body []byte, ok bool) {
	t.Helper()
	switch {
	case f.Kind == KindHello:
		h, err := ReadHello(f.Body)
		return AppendHello(nil, &h), err == nil
	case f.Kind == KindTell || f.Kind == KindAsk:
		var m Message
		if ReadMessage(&m, f.Kind, f.Body) != nil {
			return nil, false
		}
		body := AppendMessageHead(nil, &m)
		for rest := m.Header; len(rest) > 0; {
			var key uint32
			var value []byte
			key, value, rest = CutEntry(rest)
			body = AppendEntry(body, key, value)
		}
		return append(body, m.Payload...), true
	case f.Kind == KindDefine:
		d, err := ReadDefine(f.Body)
		return AppendDefine(nil, d.Number, d.Class, string(d.Text)), err == nil
	case f.Kind == KindAnswer:
		o, err := ReadOutcome(f.Kind, f.Body)
		return AppendAnswer(nil, o.Ask, o.Payload), err == nil
	case f.Kind == KindFail:
		o, err := ReadOutcome(f.Kind, f.Body)
		return AppendFail(nil, o.Ask, o.Failure), err == nil
	case f.Kind == KindCancel:
		o, err := ReadOutcome(f.Kind, f.Body)
		return AppendCancel(nil, o.Ask), err == nil
	case f.Kind.IsSignal():
		s, err := ReadSignal(f.Kind, f.Body)
		return AppendSignal(nil, &s), err == nil
	case f.Kind.IsRequest():
		q, err := ReadRequest(f.Kind, f.Body)
		return AppendRequest(nil, &q), err == nil
	case f.Kind == KindAck:
		n, err := ReadAck(f.Body)
		return AppendAck(nil, n), err == nil
	case f.Kind == KindRefuse:
		r, err := ReadRefusal(f.Body)
		if err != nil {
			return nil, false
		}
		return AppendRefusal(nil, r), true
	}
	return nil, false
}
