package remote

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// way is the way to an actor of another node.
type way struct {
	node *Node
	to   actor.PID
	at   atomic.Pointer[address]
}

// address is the actor's address in a session.
type address struct {
	s    *session.Session
	name *session.Name
}

func newWay(n *Node, s *session.Session, to actor.PID) *way {
	w := &way{node: n, to: to}
	w.at.Store(&address{s, session.NewName(to.String())})
	return w
}

// again returns the address in the session that there is after at's, if that was never open: then
// nothing was lost. It returns nil if the node is lost.
func (w *way) again(at *address) *address {
	if w.node.t.Host().IsLost(w.to.Node(), w.to.Incarnation()) {
		return nil
	}
	s := w.node.session(w.to.Node())
	if s == nil || s == at.s || s.Incarnation() != 0 && s.Incarnation() != w.to.Incarnation() {
		return nil
	}
	next := &address{s, session.NewName(w.to.String())}
	w.at.CompareAndSwap(at, next)
	return w.at.Load()
}

// Encoder implements actor.Way.
func (w *way) Encoder(reflect.Type) any { return nil }

// Send implements actor.Way.
func (w *way) Send(from actor.FarSender, m actor.FarMessage) actor.FarVerdict {
	name, payload, err := w.node.types.Append(nil, m.Message)
	if err != nil {
		return actor.FarNotAccepted
	}
	out := session.Message{From: senderOf(from), Type: name, Payload: payload, Patient: m.Patient}
	for key, value := range m.Header {
		out.Header = append(out.Header, session.HeaderField{Key: key, Value: []byte(value)})
	}
	for at := w.at.Load(); at != nil; at = w.again(at) {
		out.To = at.name
		if v := at.send(&out, m.Ask); v != session.Gone {
			return farVerdict(v)
		}
	}
	return actor.FarUnreachable
}

func (at *address) send(m *session.Message, ask actor.FarAsk) session.Verdict {
	if ask.IsZero() {
		return at.s.Tell(m)
	}
	return at.s.Ask(m, ask, max(time.Until(ask.Deadline()), time.Millisecond))
}

func farVerdict(v session.Verdict) actor.FarVerdict {
	switch v {
	case session.Sent:
		return actor.FarTaken
	case session.Wait:
		return actor.FarWait
	case session.Overflow:
		return actor.FarFull
	case session.TooLarge:
		return actor.FarNotAccepted
	default:
		return actor.FarUnreachable
	}
}

// Room implements actor.Way.
func (w *way) Room() <-chan struct{} { return w.at.Load().s.Room() }

// Signal implements actor.Way.
func (w *way) Signal(s actor.FarSignal) bool {
	kind, code := signalKind(s.Kind)
	out := session.Signal{Code: code, Failure: w.node.failure(s.Err)}
	switch s.Kind {
	case actor.FarDown, actor.FarExit:
		out.Code = uint64(s.Reason)
		fallthrough
	case actor.FarLink, actor.FarUnlink:
		out.From = session.Sender{Of: addressText(s.From.String())}
	default: // the node itself gives orders and watches
	}
	for at := w.at.Load(); at != nil; at = w.again(at) {
		out.To = at.name
		if v := at.s.Signal(kind, out); v != session.Gone {
			return v == session.Sent // an address may be too long
		}
	}
	return false
}

// addressText is an address as a sender.
type addressText string

// Address implements session.Addresser.
func (a addressText) Address() string { return string(a) }

// sender is an actor as a sender.
type sender actor.FarSender

// Address implements session.Addresser.
func (s sender) Address() string { return actor.FarSender(s).PID().String() }

func senderOf(from actor.FarSender) session.Sender {
	if from.IsZero() {
		return session.Sender{}
	}
	id, _ := from.Number()
	return session.Sender{ID: id, Of: sender(from)}
}

// The orders of a frame that has one.
const (
	orderStop uint64 = iota + 1
	orderDrain
	orderKill
)

// signalKind returns what a signal is on the wire.
func signalKind(k actor.FarSignalKind) (kind wire.Kind, code uint64) {
	switch k {
	case actor.FarStop:
		return wire.KindOrder, orderStop
	case actor.FarDrain:
		return wire.KindOrder, orderDrain
	case actor.FarKill:
		return wire.KindOrder, orderKill
	case actor.FarWatch:
		return wire.KindWatch, 0
	case actor.FarUnwatch:
		return wire.KindUnwatch, 0
	case actor.FarDown:
		return wire.KindDown, 0
	case actor.FarLink:
		return wire.KindLink, 0
	case actor.FarUnlink:
		return wire.KindUnlink, 0
	default:
		return wire.KindExit, 0
	}
}

// farSignal is the reverse of signalKind. It is 0 for an order that is not known.
func farSignal(kind wire.Kind, code uint64) actor.FarSignalKind {
	for k := actor.FarStop; k <= actor.FarExit; k++ {
		if is, order := signalKind(k); is == kind && (order == 0 || order == code) {
			return k
		}
	}
	return 0
}
