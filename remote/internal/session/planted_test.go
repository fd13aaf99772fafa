package session

import (
	"testing"

	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// planted are faults that a session could have, made of what arrives.
var planted = map[string]func(w *world) func(to *node, f wire.Frame) []wire.Frame{
	"a resume sends one frame too many": func(*world) func(*node, wire.Frame) []wire.Frame {
		return helloTamper(func(h *wire.Hello) { h.Received-- })
	},
	"a resume sends one frame too few": func(*world) func(*node, wire.Frame) []wire.Frame {
		return helloTamper(func(h *wire.Hello) { h.Received++ })
	},
	"a resume starts at the beginning": func(*world) func(*node, wire.Frame) []wire.Frame {
		return helloTamper(func(h *wire.Hello) { h.Received = 0 })
	},
	"an ack before delivery": func(w *world) func(*node, wire.Frame) []wire.Frame {
		return func(to *node, f wire.Frame) []wire.Frame {
			if f.Kind != wire.KindAck {
				return []wire.Frame{f}
			}
			for s := range to.runs {
				if s.state == Open { // the peer says that it has all that was written
					f.Body = wire.AppendAck(nil, s.log.handed)
				}
			}
			return []wire.Frame{f}
		}
	},
	"a message is left out": once(wire.KindTell, func(wire.Frame) []wire.Frame { return nil }),
	"a message is doubled":  once(wire.KindTell, func(f wire.Frame) []wire.Frame { return []wire.Frame{f, f} }),
	"a signal is left out":  once(wire.KindDown, func(wire.Frame) []wire.Frame { return nil }),
	"an answer is left out": once(wire.KindAnswer, func(wire.Frame) []wire.Frame { return nil }),
	"an answer is another's": func(w *world) func(*node, wire.Frame) []wire.Frame {
		var last []byte
		return func(_ *node, f wire.Frame) []wire.Frame {
			if f.Kind != wire.KindAnswer {
				return []wire.Frame{f}
			}
			o, _ := wire.ReadOutcome(f.Kind, f.Body)
			body := wire.AppendAnswer(nil, o.Ask, append([]byte(nil), last...))
			last = append([]byte(nil), o.Payload...)
			if len(body) > 3 {
				f.Body = body
			}
			return []wire.Frame{f}
		}
	},
	"two messages change places": func(*world) func(*node, wire.Frame) []wire.Frame {
		var held map[*node]wire.Frame
		return func(to *node, f wire.Frame) []wire.Frame {
			if held == nil {
				held = map[*node]wire.Frame{}
			}
			first, ok := held[to]
			switch {
			case f.Kind == wire.KindTell && !ok && len(held) == 0:
				held[to] = wire.Frame{Kind: f.Kind, Body: append([]byte(nil), f.Body...)}
				return nil
			case f.Kind == wire.KindTell && ok && first.Kind != 0:
				held[to] = wire.Frame{}
				return []wire.Frame{f, first}
			}
			return []wire.Frame{f}
		}
	},
	"a number keeps its old text": func(*world) func(*node, wire.Frame) []wire.Frame {
		texts := map[*node]map[uint32]string{}
		return func(to *node, f wire.Frame) []wire.Frame {
			if f.Kind != wire.KindDefine {
				return []wire.Frame{f}
			}
			if texts[to] == nil {
				texts[to] = map[uint32]string{}
			}
			d, _ := wire.ReadDefine(f.Body)
			old := texts[to][d.Number]
			texts[to][d.Number] = string(d.Text)
			if old != "" && d.Class == wire.ClassAddress {
				f.Body = wire.AppendDefine(nil, d.Number, d.Class, old)
			}
			return []wire.Frame{f}
		}
	},
}

// helloTamper changes the hello of a resume.
func helloTamper(change func(h *wire.Hello)) func(*node, wire.Frame) []wire.Frame {
	return func(_ *node, f wire.Frame) []wire.Frame {
		if f.Kind == wire.KindHello {
			h, err := wire.ReadHello(f.Body)
			if err == nil && h.Resume && h.Received > 1 {
				change(&h)
				f.Body = wire.AppendHello(nil, &h)
			}
		}
		return []wire.Frame{f}
	}
}

// once changes one frame of a kind of a run, the thirtieth.
func once(k wire.Kind, change func(f wire.Frame) []wire.Frame) func(*world) func(*node, wire.Frame) []wire.Frame {
	return func(*world) func(*node, wire.Frame) []wire.Frame {
		n := 0
		return func(_ *node, f wire.Frame) []wire.Frame {
			if f.Kind == k {
				if n++; n == 30 {
					return change(f)
				}
			}
			return []wire.Frame{f}
		}
	}
}

// A model that finds nothing proves nothing.
func TestTheModelFindsPlantedFaults(t *testing.T) {
	const most = 300
	for name, fault := range planted {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(most) {
				wrong, _ := scenario(t, seed, func(w *world) { w.tamper = fault(w) })
				if len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Errorf("not found in %d runs", most)
		})
	}
}
