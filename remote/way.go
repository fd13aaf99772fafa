package remote

import (
	"reflect"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// way is the way to an actor of another node. It leads over one session: when that is lost, so is the
// incarnation, even if the session was never open. So what is lost of what a sender says is the end.
type way struct {
	node *Node
	s    *session.Session
	name *session.Name // the actor's address
	inc  *incarnation
}

// Encoder implements actor.Way. Messages come as they are: whatever encodes a value calls its methods, or
// CBOR, by way of an interface, which boxes it. A message that is a pointer is not boxed at all.
func (w *way) Encoder(reflect.Type) any { return nil }

// Send implements actor.Way.
func (w *way) Send(from actor.FarSender, m actor.FarMessage) actor.FarVerdict {
	if w.inc.lost.Load() {
		return actor.FarUnreachable
	}
	buffer, _ := w.node.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	name, payload, err := w.node.types.Append((*buffer)[:0], m.Message)
	if err != nil {
		return actor.FarNotAccepted
	}
	defer func() { // the session has copied it
		if cap(payload) <= bufferMost {
			*buffer = payload
			w.node.buffers.Put(buffer)
		}
	}()
	out := session.Message{To: w.name, From: senderOf(from), Type: name, Payload: payload, Patient: m.Patient}
	for key, value := range m.Header {
		out.Header = append(out.Header, session.HeaderField{Key: key, Value: []byte(value)})
	}
	if m.Ask.IsZero() {
		return farVerdict(w.s.Tell(&out))
	}
	return farVerdict(w.s.Ask(&out, m.Ask, max(time.Until(m.Ask.Deadline()), time.Millisecond)))
}

// bufferMost is the largest buffer that is kept for the next message.
const bufferMost = 64 << 10

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
func (w *way) Room() <-chan struct{} {
	if w.inc.lost.Load() { // the session may be open, with another one
		return closed
	}
	return w.s.Room()
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// failed is an error as it goes to another node.
type failed wire.Failure

// Error implements error.
func (f failed) Error() string { return f.Text }

// Failure implements actor.Way.
func (w *way) Failure(err error) error {
	if err == nil {
		return nil
	}
	return failed(w.node.failure(err))
}

// Signal implements actor.Way.
func (w *way) Signal(s actor.FarSignal) bool {
	if w.inc.lost.Load() {
		return false
	}
	kind, code := signalKind(s.Kind)
	out := session.Signal{To: w.name, Code: code}
	if f, ok := s.Err.(failed); ok { //nolint:errorlint // it is what Failure has returned
		out.Failure = wire.Failure(f)
	}
	switch s.Kind {
	case actor.FarDown, actor.FarExit:
		out.Code = uint64(s.Reason)
		fallthrough
	case actor.FarLink, actor.FarUnlink, actor.FarUnlinked:
		out.From = session.Sender{Of: addressText(s.From.String())}
	default: // the node itself gives orders and watches
	}
	return w.s.Signal(kind, out) == session.Sent // an address may be too long
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

// What a frame orders, or whether it confirms that.
const (
	orderStop uint64 = iota + 1
	orderDrain
	orderKill

	unlinkTold  uint64 = 1
	unlinkTaken uint64 = 2
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
		return wire.KindUnlink, unlinkTold
	case actor.FarUnlinked:
		return wire.KindUnlink, unlinkTaken
	default:
		return wire.KindExit, 0
	}
}

// farSignal is the reverse of signalKind. It is 0 for an order that is not known.
func farSignal(kind wire.Kind, code uint64) actor.FarSignalKind {
	for k := actor.FarStop; k <= actor.FarUnlinked; k++ {
		if is, order := signalKind(k); is == kind && (order == 0 || order == code) {
			return k
		}
	}
	return 0
}
