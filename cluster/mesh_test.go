package cluster_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/sim"
)

// mesh connects the nodes of a simulated world as package remote does: between two incarnations there is a
// session, on which frames take effect once and in order, late, until it is lost; then what is on its way
// is lost with it. That remote is so, its own simulation shows.
type mesh struct {
	w    *sim.World
	ends []*end // all that there ever were
	cut  map[[2]string]bool
	lies bool // the address of a node that is cut off refuses connections
}

func newMesh(w *sim.World) *mesh { return &mesh{w: w, cut: make(map[[2]string]bool)} }

// end is a node from its start to its end.
type end struct {
	*mesh
	node     *simNode
	name     string
	inc      uint32
	far      *actor.Far
	crashed  bool
	sessions []*session
	narrow   map[string]int // how many frames to a peer may wait; no bound for the others
}

// session is one side of a session.
type session struct {
	from     *end
	peer     string
	inc      uint32
	lost     bool
	queue    []meshFrame // to the peer
	carrying bool
	asks     []actor.FarAsk // of the peer, that have no answer yet
}

// meshFrame is something on its way.
type meshFrame struct {
	to, from actor.PID
	msg      actor.FarMessage // a message, if do is nil
	do       func(at *end)
}

// toggle has the sessions between two names stand still, or go on.
func (m *mesh) toggle(a, b string) {
	both := [2]string{min(a, b), max(a, b)}
	m.cut[both] = !m.cut[both]
}

// limit bounds what may be on its way from one node to another.
func (m *mesh) limit(from *simNode, to string, most int) {
	for _, e := range m.ends {
		if e.node == from {
			if e.narrow == nil {
				e.narrow = make(map[string]int)
			}
			e.narrow[to] = most
		}
	}
}

// heal has all go on.
func (m *mesh) heal() { clear(m.cut) }

// join makes the carrier of a node.
func (m *mesh) join(n *simNode) *end {
	e := &end{mesh: m, node: n, name: n.name, inc: n.sys.Incarnation()}
	m.ends = append(m.ends, e)
	actor.Carry(n.sys, e)
	return e
}

// crash is the end of a node without a word.
func (m *mesh) crash(n *simNode) {
	for _, e := range m.ends {
		if e.inc == n.sys.Incarnation() {
			e.crashed = true
		}
	}
}

// at returns a node, nil if it is not there.
func (m *mesh) at(name string, inc uint32) *end {
	for _, e := range m.ends {
		if e.name == name && e.inc == inc && !e.crashed {
			return e
		}
	}
	return nil
}

// Attach implements actor.Carrier.
func (e *end) Attach(far *actor.Far) { e.far = far }

// Peers implements actor.Carrier.
func (e *end) Peers() (all []actor.Peer) {
	for _, s := range e.sessions {
		if !s.lost {
			all = append(all, actor.Peer{Node: s.peer, State: "open", Asks: len(s.asks)})
		}
	}
	return all
}

// Close implements actor.Carrier.
func (e *end) Close(context.Context) error { return nil }

// Meet implements what a cluster needs.
func (e *end) Meet(string, string) {}

// Lose implements what a cluster needs.
func (e *end) Lose(node string, inc uint32) {
	e.w.At(0, func() {
		for _, s := range e.sessions {
			if s.peer == node && s.inc == inc {
				s.lose()
			}
		}
		if other := e.at(node, inc); other != nil {
			for _, s := range other.sessions {
				if s.peer == e.name && s.inc == e.inc {
					s.lose()
				}
			}
		}
	})
}

// Connect implements what a cluster needs.
func (e *end) Connect(node string, inc uint32) { e.session(node, inc) }

// Ended implements what a cluster needs.
func (e *end) Ended() func(node string, inc uint32) bool {
	return func(node string, inc uint32) bool {
		other := e.at(node, inc)
		return (other == nil || e.lies && other.node.cut) && slices.ContainsFunc(e.sessions, func(s *session) bool {
			return s.peer == node && s.inc == inc
		})
	}
}

// Refuses implements what a cluster needs: no process of that name is there.
func (e *end) Refuses(_ context.Context, _ cluster.Record, name string) bool {
	return !slices.ContainsFunc(e.ends, func(other *end) bool {
		return other.name == name && !other.crashed && (!e.lies || !other.node.cut)
	})
}

// Way implements actor.Carrier.
func (e *end) Way(to actor.PID) (actor.Way, error) {
	s := e.session(to.Node(), to.Incarnation())
	if s == nil {
		return nil, fmt.Errorf("%w: there is no node %q", actor.ErrUnreachable, to.Node())
	}
	if s.lost {
		return nil, fmt.Errorf("%w: %s is lost", actor.ErrUnreachable, s.peer)
	}
	return &meshWay{s, to}, nil
}

// session returns the one with an incarnation, nil if there has never been such.
func (e *end) session(name string, inc uint32) *session {
	for _, s := range e.sessions {
		if s.peer == name && s.inc == inc {
			return s
		}
	}
	for _, other := range e.ends {
		if other.name == name && other.inc == inc {
			s := &session{from: e, peer: name, inc: inc}
			e.sessions = append(e.sessions, s)
			return s
		}
	}
	return nil
}

// back returns the peer's side of a session, nil if it is gone.
func (s *session) back() *session {
	other := s.from.at(s.peer, s.inc)
	if other == nil {
		return nil
	}
	if back := other.session(s.from.name, s.from.inc); !back.lost {
		return back
	}
	return nil
}

// lose ends a session: what is on its way is lost, and who waits for an answer has none.
func (s *session) lose() {
	if s.lost || s.from.crashed {
		return
	}
	s.lost = true
	why := fmt.Errorf("%w: %s is lost", actor.ErrUnreachable, s.peer)
	down := actor.NodeDown{Node: s.peer, Err: why}
	for _, f := range s.queue {
		if f.do == nil {
			s.from.far.DeadLetter(actor.DeadLetter{To: f.to, From: f.from, Message: f.msg.Message, Reason: actor.NoConnection})
			down.Dropped++
		}
	}
	s.queue = nil
	for _, ask := range s.asks {
		ask.Reject(why)
	}
	s.from.far.Lost(s.inc, down)
}

// put queues a frame.
func (s *session) put(f meshFrame) {
	s.queue = append(s.queue, f)
	s.carry()
}

// carry brings one frame after the other.
func (s *session) carry() {
	if s.carrying {
		return
	}
	s.carrying = true
	s.from.w.At(s.from.w.Sometime(5*time.Millisecond), func() {
		s.carrying = false
		if s.lost || s.from.crashed || len(s.queue) == 0 {
			return
		}
		to := s.from.at(s.peer, s.inc)
		if to != nil && !s.from.isCut(s.peer) && s.back() != nil {
			f := s.queue[0]
			s.queue = s.queue[1:]
			if f.do != nil {
				f.do(to)
			} else {
				s.deliver(to, f)
			}
		}
		if len(s.queue) > 0 {
			s.carry()
		}
	})
}

func (e *end) isCut(peer string) bool {
	return e.mesh.cut[[2]string{e.name, peer}] || e.mesh.cut[[2]string{peer, e.name}]
}

// deliver gives a message to the peer.
func (s *session) deliver(to *end, f meshFrame) {
	d := actor.FarDelivery{From: to.far.Sender(f.from), Message: f.msg.Message, Header: f.msg.Header}
	if ask := f.msg.Ask; !ask.IsZero() {
		d.Request = actor.NewFarRequest(time.Until(ask.Deadline()), func(answer any, err error) {
			if back := s.back(); back != nil {
				back.put(meshFrame{do: func(*end) { s.settle(ask, answer, err) }})
			}
		})
	}
	to.far.Deliver(f.to, d)
}

// settle ends an ask with an answer.
func (s *session) settle(ask actor.FarAsk, answer any, err error) {
	i := slices.Index(s.asks, ask)
	if i < 0 {
		return
	}
	s.asks = slices.Delete(s.asks, i, i+1)
	if err != nil {
		ask.Reject(err)
		return
	}
	ask.Settle(func(into any) error {
		if relay, ok := answer.(actor.FarRelay); ok {
			answer = relay.Answer
		}
		if relay, ok := into.(*actor.FarRelay); ok {
			relay.Answer = answer
			return nil
		}
		to := reflect.ValueOf(into).Elem()
		if answer == nil || !reflect.TypeOf(answer).AssignableTo(to.Type()) {
			return fmt.Errorf("it is a %T and not a %s", answer, to.Type())
		}
		to.Set(reflect.ValueOf(answer))
		return nil
	})
}

// meshWay is the way to one actor.
type meshWay struct {
	*session
	to actor.PID
}

// Encoder implements actor.Way.
func (*meshWay) Encoder(reflect.Type) any { return nil }

// Send implements actor.Way.
func (w *meshWay) Send(from actor.FarSender, m actor.FarMessage) actor.FarVerdict {
	if w.lost {
		return actor.FarUnreachable
	}
	if most, ok := w.from.narrow[w.peer]; ok && len(w.queue) >= most {
		return actor.FarFull
	}
	if !m.Ask.IsZero() {
		w.asks = append(w.asks, m.Ask)
	}
	w.put(meshFrame{to: w.to, from: from.PID(), msg: m})
	return actor.FarTaken
}

// Room implements actor.Way.
func (*meshWay) Room() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Failure implements actor.Way.
func (*meshWay) Failure(err error) error { return err }

// Signal implements actor.Way.
func (w *meshWay) Signal(s actor.FarSignal) bool {
	if !w.lost {
		w.put(meshFrame{do: func(at *end) { at.far.Signal(s) }})
	}
	return !w.lost
}
