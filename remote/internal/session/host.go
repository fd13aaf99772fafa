package session

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/recent"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// Config says which node a [Host] is.
type Config struct {
	Node        string // its name
	Cluster     string // only nodes of the same one connect
	Incarnation uint32 // not 0
	Build       string // for the peers' diagnostics

	// Frame is the length of the longest frame that is accepted, [wire.DefaultFrame] if 0.
	Frame int
	// ResumeWithin is how long a session waits for its first connection and for each
	// further one before it is lost, [ResumeWithin] if 0.
	ResumeWithin time.Duration
	// IncarnationOf returns which incarnation of its node an address is of, 0 for any. With it,
	// what is sent to one incarnation never goes to another; nil: addresses do not tell.
	IncarnationOf func(address string) uint32
	// Hooks returns how a new session calls whoever runs it. It is called with a lock of the
	// host held and must call neither the host nor the session.
	Hooks func(s *Session) Hooks
	// NewID returns 64 random bits, those of package math/rand/v2 if nil.
	NewID func() uint64
}

// Host knows the sessions of a node, one for each peer, and the incarnations with which
// sessions were lost: those are never spoken to again, since what was lost between two
// actors would not be the end of what one said to the other. It is safe for concurrent use.
type Host struct {
	config  Config
	handler Handler

	mu       sync.Mutex
	sessions map[string]*Session
	lost     incarnations // with which there was a session
	given    incarnations // with which there was none
}

// incarnations are those of nodes, by name, the newest last.
type incarnations struct{ *recent.Nodes[[]uint32] }

func (is incarnations) add(peer string, inc uint32) {
	all := append(is.Get(peer), inc)
	is.Put(peer, all[max(0, len(all)-maxLost):])
}

// How much is remembered of incarnations that are lost, and as much of those that are given up.
const (
	maxLost      = 1024    // of one node
	maxLostNodes = 1 << 14 // the node is forgotten first that was lost first and has no session
)

// NewHost returns the host of a node.
func NewHost(c Config, handler Handler) *Host {
	if c.Frame == 0 {
		c.Frame = wire.DefaultFrame
	}
	if c.ResumeWithin == 0 {
		c.ResumeWithin = ResumeWithin
	}
	if c.NewID == nil {
		c.NewID = rand.Uint64
	}
	if c.Hooks == nil {
		c.Hooks = func(*Session) Hooks { return Hooks{} }
	}
	h := &Host{config: c, handler: handler, sessions: map[string]*Session{}}
	isOpen := func(peer string) bool { return h.sessions[peer] != nil }
	h.lost = incarnations{recent.New[[]uint32](maxLostNodes, isOpen)}
	h.given = incarnations{recent.New[[]uint32](maxLostNodes, isOpen)}
	return h
}

// Name returns the name of an address.
func (h *Host) Name(address string) *Name {
	n := NewName(address)
	if of := h.config.IncarnationOf; of != nil {
		n.inc = of(address)
	}
	return n
}

// Node returns the name of the host's node.
func (h *Host) Node() string { return h.config.Node }

// Session returns the session with a peer, which is made if there is none. One that is lost
// stays until [Host.Settle].
func (h *Host) Session(peer string, now time.Time) *Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.session(peer, now)
}

func (h *Host) session(peer string, now time.Time) *Session {
	if s := h.sessions[peer]; s != nil {
		return s
	}
	s := &Session{
		host: h, peer: peer, id: max(h.config.NewID(), 1), since: now,
		frame: wire.DefaultFrame, names: newInterner(), served: map[uint64]any{},
	}
	h.sessions[peer] = s
	s.hooks = h.config.Hooks(s)
	if s.hooks.Write == nil {
		s.hooks.Write = func() {}
	}
	if s.hooks.Tick == nil {
		s.hooks.Tick = func() {}
	}
	if s.hooks.Start != nil {
		s.hooks.Start()
	}
	return s
}

// Has reports whether there is a session with a peer.
func (h *Host) Has(peer string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sessions[peer] != nil
}

// Sessions returns all sessions, ordered by the peers' names.
func (h *Host) Sessions() []*Session {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*Session, 0, len(h.sessions))
	for _, s := range h.sessions {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *Session) int {
		if a.peer < b.peer {
			return -1
		}
		return 1
	})
	return all
}

// IsLost reports whether the session with an incarnation of a peer was lost, or it was given up.
func (h *Host) IsLost(peer string, incarnation uint32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isLost(peer, incarnation)
}

func (h *Host) isLost(peer string, incarnation uint32) bool {
	return slices.Contains(h.lost.Get(peer), incarnation) || slices.Contains(h.given.Get(peer), incarnation)
}

// GiveUp says that an incarnation of a peer is lost, though there may never have been a
// session with it: it is not spoken to from now on.
func (h *Host) GiveUp(peer string, incarnation uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.isLost(peer, incarnation) {
		h.given.add(peer, incarnation)
	}
}

// Settle gives the loss of a lost session to the Handler and makes room for another session
// with the peer. Nobody may be in [Session.Receive]. It does nothing if the session is not
// lost or was settled before.
func (h *Host) Settle(s *Session) {
	l := s.Loss()
	if l == nil {
		return
	}
	if l.Incarnation != 0 {
		h.mu.Lock()
		if !slices.Contains(h.lost.Get(s.peer), l.Incarnation) {
			h.lost.add(s.peer, l.Incarnation)
		}
		h.mu.Unlock()
	}
	defer func() { // also after a panic of the handler
		h.mu.Lock()
		delete(h.sessions, s.peer)
		h.mu.Unlock()
	}()
	s.miss()
	h.handler.Lost(s, l)
}

// hello returns the hello of this node for a session. The session's mutex is held.
func (h *Host) hello(s *Session) wire.Hello {
	return wire.Hello{
		Oldest: wire.OldestVersion, Newest: wire.NewestVersion,
		Cluster: h.config.Cluster, Node: h.config.Node, Incarnation: h.config.Incarnation,
		Session: s.id, Resume: s.opened, Received: s.received,
		Frame: uint32(h.config.Frame), Build: h.config.Build,
	}
}

// check looks at what does not depend on a session.
func (h *Host) check(hello *wire.Hello) *wire.Refusal {
	own := &wire.Hello{Oldest: wire.OldestVersion, Newest: wire.NewestVersion}
	switch _, ok := wire.Version(own, hello); {
	case !ok:
		return wire.Refuse(wire.CodeTooOld, "%s speaks versions %d to %d, %s %d to %d",
			h.config.Node, own.Oldest, own.Newest, hello.Node, hello.Oldest, hello.Newest)
	case hello.Cluster != h.config.Cluster:
		return wire.Refuse(wire.CodeWrongCluster, "%s is of the cluster %q, not %q", h.config.Node, h.config.Cluster, hello.Cluster)
	case hello.Node == h.config.Node:
		return wire.Refuse(wire.CodeDuplicateName, "%s has the name of the node that it connects to", hello.Node)
	case h.IsLost(hello.Node, hello.Incarnation):
		return wire.Refuse(wire.CodeLostIncarnation, "%s has lost the incarnation %d of %s: it must be started anew",
			h.config.Node, hello.Incarnation, hello.Node)
	}
	return nil
}

// Accept finds the session of a node that dials and looks whether its hello will be
// accepted. Whoever runs the session then ends what reads and writes its present
// connection, and calls [Session.Accept].
func (h *Host) Accept(hello *wire.Hello, now time.Time) (*Session, *wire.Refusal) {
	if refusal := h.check(hello); refusal != nil {
		return nil, refusal
	}
	if hello.Resume { // a session that is not there is not made
		h.mu.Lock()
		s := h.sessions[hello.Node]
		h.mu.Unlock()
		if s == nil {
			return nil, unknownSession(h, hello)
		}
	}
	s := h.Session(hello.Node, now)
	s.mu.Lock()
	refusal := s.acceptable(hello, now)
	wake, lost := s.pingNow && s.wake(), s.state == Lost
	s.unlock(wake, lost)
	return s, refusal
}

func unknownSession(h *Host, hello *wire.Hello) *wire.Refusal {
	return wire.Refuse(wire.CodeUnknownSession, "%s has no session %x with %s", h.config.Node, hello.Session, hello.Node)
}

// acceptable looks at a hello of a node that dials. It may lose the session.
func (s *Session) acceptable(hello *wire.Hello, now time.Time) *wire.Refusal {
	switch {
	case s.state == Lost:
		return wire.Refuse(wire.CodeBusy, "%s is ending its session with %s", s.host.config.Node, s.peer)
	case s.opened && s.inc != hello.Incarnation && s.state == Open:
		s.pingNow = true // whether it still lives is known soon
		return wire.Refuse(wire.CodeDuplicateName, "%s is connected to another incarnation of %s", s.host.config.Node, s.peer)
	case s.opened && s.inc != hello.Incarnation:
		s.lose(fmt.Errorf("%w: %d, not %d", ErrIncarnation, hello.Incarnation, s.inc))
		return wire.Refuse(wire.CodeBusy, "%s is ending its session with another incarnation of %s", s.host.config.Node, s.peer)
	case s.call != nil && s.host.config.Node < s.peer && now.Sub(s.call.began) < callPatience:
		return wire.Refuse(wire.CodeBusy, "%s dials %s", s.host.config.Node, s.peer)
	case hello.Resume && s.id != hello.Session && !s.crossed(hello):
		return unknownSession(s.host, hello)
	case !hello.Resume && s.opened && (s.id != hello.Session || s.received != 0), hello.Received < s.log.confirmed:
		// It was overtaken by another connection, or the peer has lost the session without
		// knowing that it was open. In the latter case this node loses it, too, in time.
		return wire.Refuse(wire.CodeBusy, "%s has a session with %s", s.host.config.Node, s.peer)
	case hello.Received > s.log.handed:
		refusal := wire.Refuse(wire.CodeProtocol, "%d frames cannot have been received", hello.Received)
		s.lose(refusal)
		return refusal
	}
	return nil
}

// crossed reports whether a peer resumes this session by its former id. Where both nodes dial and
// neither hears the other's answer in time, each opens the session by the id that the other has
// offered. Both ids are of the same session while nothing was received on either side.
func (s *Session) crossed(hello *wire.Hello) bool {
	return s.former != 0 && s.former == hello.Session && hello.Received == 0 && s.received == 0 && s.log.confirmed == 0
}

// Accept opens the session with a connection that the peer has dialed, and returns the hello
// to answer with. Nobody may be in [Session.Receive], and what was taken to be written is
// not read any more. A refusal ends the connection.
func (s *Session) Accept(hello *wire.Hello, now time.Time) (wire.Hello, *Conn, *wire.Refusal) {
	defer s.hooks.Tick()
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.acceptable(hello, now); refusal != nil {
		return wire.Hello{}, nil, refusal
	}
	if s.id != hello.Session {
		s.former, s.id = s.id, hello.Session
	}
	answer := s.host.hello(s)
	c, _ := s.attach(hello, now)
	return answer, c, nil
}

// Call is the attempt of a node to get a connection, from its hello until that of the peer.
type Call struct {
	// Hello is what to say first.
	Hello wire.Hello

	began time.Time
}

// callPatience is how long the call of the lesser name keeps the peer's connection out: where both
// dial, one of the two must be kept. A call that has no answer by then is overtaken by a connection
// that works.
const callPatience = time.Second

// Dial begins a call on a connection that this node has dialed. It returns nil if the session
// is open or lost, or another call has not ended. [Session.Greet] or [Session.Fault] must
// follow. Nobody may be in [Session.Receive].
func (s *Session) Dial(now time.Time) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == Open || s.state == Lost || s.call != nil {
		return nil
	}
	s.call = &Call{s.host.hello(s), now}
	return s.call
}

// Greet opens the session with a connection on which the peer has answered a call. The
// error is a [*wire.Refusal], with which the connection is to be ended, or [ErrStale] if the
// session has got another connection since the call began. Nobody may be in
// [Session.Receive].
func (s *Session) Greet(call *Call, hello *wire.Hello, now time.Time) (*Conn, error) {
	refusal := s.host.check(hello)
	if hello.Node != s.peer { // whatever else is wrong with that one does not concern this session
		refusal = wire.Refuse(wire.CodeNotAllowed, "the node must be %s, not %s", s.peer, hello.Node)
	}
	defer s.hooks.Tick()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call != call || call == nil { // what both have said may be long past
		return nil, ErrStale
	}
	s.call = nil
	switch {
	case refusal != nil:
	case hello.Session != s.id:
		refusal = wire.Refuse(wire.CodeProtocol, "the session must be %x, not %x", s.id, hello.Session)
	case s.opened && hello.Incarnation != s.inc:
		s.lose(fmt.Errorf("%w: %d, not %d", ErrIncarnation, hello.Incarnation, s.inc))
		return nil, wire.Refuse(wire.CodeUnknownSession, "%s had a session with another incarnation", s.host.config.Node)
	}
	if refusal == nil {
		if c, ok := s.attach(hello, now); ok {
			return c, nil
		}
		refusal = wire.Refuse(wire.CodeProtocol, "%d frames cannot have been received", hello.Received)
	}
	s.refused(refusal)
	return nil, refusal
}

// Fault says that this node has dialed in vain: that a call has failed, or with nil that
// none could be made. The error is that the peer has refused it, with a [*wire.Refusal], or
// whatever else went wrong.
func (s *Session) Fault(call *Call, err error) {
	s.mu.Lock()
	switch {
	case call != nil && s.call == call:
		s.call = nil
		s.refused(err)
	case call == nil && (s.state == Dialing || s.state == Broken):
		s.err = err
	}
	s.mu.Unlock()
	s.hooks.Tick()
}

// refused takes the reason for which there is no connection. After some the session is lost,
// others may pass.
func (s *Session) refused(err error) {
	s.err = err
	var refusal *wire.Refusal
	if !errors.As(err, &refusal) {
		return
	}
	switch refusal.Code {
	case wire.CodeUnknownSession, wire.CodeLostIncarnation, wire.CodeProtocol, wire.CodeClosed:
		s.lose(err)
	default:
	}
}
