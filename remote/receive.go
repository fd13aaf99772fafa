package remote

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// handler takes what arrives at a node.
type handler struct{ *Node }

// place is what is known of an address that the peer uses.
type place struct {
	pid    actor.PID
	sender actor.FarSender // once it has sent something
}

// placeOf returns what is known of an address. One that is none is nobody's.
func placeOf(k *session.Known) *place {
	if k == nil {
		return &place{}
	}
	if p, ok := k.Value.(*place); ok {
		return p
	}
	p := new(place)
	p.pid, _ = actor.ParsePID(k.Text)
	k.Value = p
	return p
}

func (n handler) senderOf(k *session.Known) actor.FarSender {
	if k == nil {
		return actor.FarSender{}
	}
	p := placeOf(k)
	if p.sender.IsZero() {
		p.sender = n.far.Sender(p.pid)
	}
	return p.sender
}

// Missed implements session.Handler.
func (n handler) Missed(s *session.Session, l *session.Loss) {
	dropped := make(map[uint32]uint64)
	l.Each(func(u *session.Undelivered) {
		if n.bury(u) {
			dropped[incarnationOf(u.To)]++
		}
	})
	for _, ask := range l.Asks {
		ask.(settler).Reject(lostWith(s, l.Err))
	}
	n.remember(s, l, false)
	n.others(s, dropped)
}

// others gives up all incarnations of a peer but the one with which there is a session. dropped has
// how many messages were kept for each.
func (n handler) others(s *session.Session, dropped map[uint32]uint64) {
	for _, inc := range n.incarnations.giveUp(n.t.Host(), s.Peer(), s.Incarnation()) {
		n.lose(inc, actor.NodeDown{Node: s.Peer(), Err: lostWith(s, session.ErrIncarnation), Dropped: dropped[inc]})
	}
}

// lostWith is the error of all that is lost with a session.
func lostWith(s *session.Session, why error) error {
	return fmt.Errorf("%w: %s: %w", actor.ErrUnreachable, s.Peer(), why)
}

// Opened implements session.Handler.
func (n handler) Opened(s *session.Session) {
	n.others(s, nil)
	n.far.Up(actor.NodeUp{Node: s.Peer(), Incarnation: s.Incarnation()})
}

// Messages implements session.Handler.
func (n handler) Messages(s *session.Session, to *session.Known, run []session.Received) {
	pid := placeOf(to).pid
	n.far.DeliverRun(pid, func(any) (d actor.FarDelivery, ok bool) {
		for len(run) > 0 {
			r := &run[0]
			run = run[1:]
			if d, ok = n.delivery(s, pid, r); ok {
				return d, true
			}
		}
		return d, false
	})
}

// delivery returns a message as it is delivered. It reports false, and has seen to it, if there is
// no such message here.
func (n handler) delivery(s *session.Session, to actor.PID, r *session.Received) (d actor.FarDelivery, ok bool) {
	d.From = n.senderOf(r.From)
	msg, err := n.types.Decode(r.Type.Text, r.Payload)
	if err != nil {
		n.far.DeadLetter(actor.DeadLetter{To: to, From: d.From.PID(), Type: r.Type.Text, Message: err, Reason: actor.NotAccepted})
		if r.Ask != 0 {
			s.Fail(r.Ask, n.failure(fmt.Errorf("%w: %w", actor.ErrNotAccepted, err)))
		}
		return d, false
	}
	d.Message = msg
	if r.Header.Len() > 0 {
		d.Header = make(actor.Header, r.Header.Len())
		for key, value := range r.Header.All() {
			d.Header[key] = string(value)
		}
	}
	if r.Ask != 0 {
		d.Request = n.request(s, r)
	}
	return d, true
}

// request returns an ask of the peer.
func (n handler) request(s *session.Session, r *session.Received) *actor.FarRequest {
	number, left := r.Ask, r.Remaining
	if left <= 0 || left > askLimit {
		left = askLimit
	}
	request := actor.NewFarRequest(left, func(answer any, err error) { n.answer(s, number, answer, err) })
	s.Serve(number, request)
	return request
}

// relayed is an answer that goes on to another node as it has come.
type relayed []byte

// answer answers an ask of the peer.
func (n *Node) answer(s *session.Session, number uint64, answer any, err error) {
	var payload []byte
	if relay, ok := answer.(actor.FarRelay); ok {
		payload, _ = relay.Answer.(relayed)
	} else if err == nil {
		payload, err = n.types.AppendValue(nil, answer)
		if err != nil {
			err = fmt.Errorf("%w: the answer: %w", actor.ErrNotAccepted, err)
		}
	}
	if err == nil && s.Answer(number, payload) == session.TooLarge {
		err = fmt.Errorf("%w: the answer has %d bytes, which is too much for a frame", actor.ErrNotAccepted, len(payload))
	}
	if err != nil {
		s.Fail(number, n.failure(err))
	}
}

// Answer implements session.Handler.
func (n handler) Answer(_ *session.Session, ask session.Asker, payload []byte) {
	ask.(settler).Settle(func(into any) error {
		if relay, ok := into.(*actor.FarRelay); ok {
			relay.Answer = relayed(bytes.Clone(payload))
			return nil
		}
		return n.types.DecodeValue(payload, into)
	})
}

// settler is what waits for an answer: an ask, or a query of the node itself.
type settler interface {
	Settle(decode func(into any) error) bool
	Reject(err error) bool
}

var _ settler = actor.FarAsk{}

// Fail implements session.Handler.
func (n handler) Fail(s *session.Session, ask session.Asker, f wire.Failure) {
	ask.(settler).Reject(n.errorOf(s.Peer(), f))
}

// Cancel implements session.Handler.
func (handler) Cancel(_ *session.Session, what any) {
	if request, ok := what.(interface{ Cancel() }); ok {
		request.Cancel()
	}
}

// Signal implements session.Handler.
func (n handler) Signal(s *session.Session, k wire.Kind, sig session.ReceivedSignal) {
	out := actor.FarSignal{Kind: farSignal(k, sig.Code), To: placeOf(sig.To).pid, From: placeOf(sig.From).pid, Err: n.errorOf(s.Peer(), sig.Failure)}
	switch out.Kind {
	case actor.FarWatch, actor.FarUnwatch:
		out.From = nodePID(s.Peer(), s.Incarnation())
	case actor.FarDown, actor.FarExit, actor.FarLink, actor.FarUnlink, actor.FarUnlinked:
		if out.From.Node() != s.Peer() || out.From.Incarnation() != s.Incarnation() {
			return // it is of this node that the peer says so, or of a third one
		}
		if out.Reason = actor.Reason(sig.Code); sig.Code == 0 || sig.Code > uint64(actor.NotAccepted) {
			out.Reason = actor.Failed
		}
	default:
	}
	n.far.Signal(out)
}

// nodePID returns the address of a node itself.
func nodePID(node string, inc uint32) actor.PID {
	pid, _ := actor.ParsePID(node + "~" + strconv.FormatUint(uint64(inc), 36) + "/#0")
	return pid
}

// Lost implements session.Handler.
func (n handler) Lost(s *session.Session, l *session.Loss) {
	why := lostWith(s, l.Err)
	l.Each(func(u *session.Undelivered) { n.bury(u) })
	for _, ask := range l.Asks {
		ask.(settler).Reject(why)
	}
	for _, request := range l.Served {
		n.Cancel(s, request)
	}
	n.remember(s, l, true)
	down := actor.NodeDown{Node: s.Peer(), Err: why, Dropped: l.Dropped, Unknown: l.Unknown}
	lost := n.incarnations.giveUp(n.t.Host(), s.Peer(), 0)
	if l.Incarnation != 0 {
		n.lose(l.Incarnation, down)
		down.Dropped, down.Unknown = 0, 0 // each is counted once
	}
	for _, inc := range lost { // if it was never open, who waits for any of them waits in vain
		if inc != l.Incarnation {
			n.lose(inc, down)
			down.Dropped, down.Unknown = 0, 0
		}
	}
}

// bury makes a dead letter of a message that was not confirmed. It reports false for what is none.
func (n handler) bury(u *session.Undelivered) bool {
	if u.Kind != wire.KindTell && u.Kind != wire.KindAsk {
		return false
	}
	d := actor.DeadLetter{Type: u.Type, Reason: actor.NoConnection}
	d.To, _ = actor.ParsePID(u.To)
	d.From, _ = actor.ParsePID(u.From)
	if msg, err := n.types.Decode(u.Type, u.Payload); err == nil {
		d.Type, d.Message = "", msg
	}
	n.far.DeadLetter(d)
	return true
}
