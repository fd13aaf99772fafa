package remote

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote/internal/recent"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/transport"
)

// Node is a system that is connected with others. [Listen] makes one. It ends with its system's
// Shutdown. It is safe for concurrent use.
type Node struct {
	sys     *actor.System
	types   *codec.Types
	t       network
	buffers sync.Pool  // of *[]byte: for messages that are being encoded
	far     *actor.Far // set before anything is sent or accepted

	mu      sync.Mutex
	peers   map[string]string    // addresses by name, guarded by mu
	offers  map[string]offer     // guarded by mu
	spawner actor.Ref[order]     // made on first need, guarded by mu
	past    *recent.Nodes[*past] // of nodes that were lost, guarded by mu

	incarnations incarnations // to which there are ways
}

// network runs the sessions of a node: a [transport.Transport], or that of a simulated world.
type network interface {
	Start()
	Addr() net.Addr
	Host() *session.Host
	Session(peer string) *session.Session
	Disconnect(peer string)
	Close(ctx context.Context) error
}

// Listen connects a system with others: it listens on the address of the Config, and connects to the nodes whose
// addresses it has when they are first needed. A system has one node for its whole life: a second call fails with
// [ErrHasNode]. The name of the system is the name of the node, and must be unique in the cluster.
//
// The system's Shutdown waits until the other nodes have what was sent to them, and does not wait for one
// whose address refuses connections. After that the address of this node refuses connections. If the
// deadline has passed and handlers still run, including those of actors that were killed long before,
// connections are accepted and closed until the handlers have returned.
func Listen(sys *actor.System, c Config) (*Node, error) {
	var auth *transport.TLS
	if c.TLS != nil {
		auth = &transport.TLS{Certificate: c.TLS.Certificate, Roots: c.TLS.Roots}
	}
	return listen(sys, &c, func(n *Node, s session.Config) (network, error) {
		return transport.Listen(transport.Config{
			Addr: c.Addr, Listener: c.Listener, Dial: c.Dial, Secret: c.Secret, TLS: auth, Insecure: c.Insecure, Log: sys.Log(),
			Resolve: n.resolve, Ended: func() { _, _ = sys.Shutdown(context.Background()) }, // it is under way
		}, s, handler{n})
	})
}

// listen is Listen with a network.
func listen(sys *actor.System, c *Config, open func(n *Node, s session.Config) (network, error)) (*Node, error) {
	n := &Node{
		sys: sys, peers: maps.Clone(c.Peers),
		offers: make(map[string]offer), incarnations: incarnations{asked: make(map[string]map[uint32]*incarnation)},
	}
	n.past = pastNodes(n)
	types := c.Types
	if types == nil {
		types = codec.NewTypes()
	}
	n.types = types.Strict().Bind(sys)
	t, err := open(n, session.Config{
		Node: sys.Name(), Cluster: c.Cluster, Incarnation: sys.Incarnation(), ResumeWithin: c.ResumeWithin, IncarnationOf: incarnationOf,
	})
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	n.t = t
	carried := false
	defer func() {
		if !carried {
			_ = t.Close(context.Background())
		}
	}()
	if carried = carryOnce(sys, carrier{n}); !carried {
		return nil, fmt.Errorf("remote: system %q: %w", sys.Name(), ErrHasNode)
	}
	t.Start()
	return n, nil
}

// carryOnce is [actor.Carry], which panics for a system that has a carrier.
func carryOnce(sys *actor.System, c actor.Carrier) (ok bool) {
	defer func() { ok = recover() == nil }()
	actor.Carry(sys, c)
	return true
}

func incarnationOf(address string) uint32 {
	pid, _ := actor.ParsePID(address)
	return pid.Incarnation()
}

// System returns the node's system.
func (n *Node) System() *actor.System { return n.sys }

// Addr returns the address that the node listens on, nil if it does not.
func (n *Node) Addr() net.Addr { return n.t.Addr() }

// Meet says at what address a node listens, in place of what Config.Peers or an earlier call says. An
// existing session continues; when its connection has to be made again, that address is dialed.
func (n *Node) Meet(node, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.peers == nil {
		n.peers = make(map[string]string)
	}
	n.peers[node] = addr
}

func (n *Node) resolve(peer string) (addr string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addr, ok = n.peers[peer]
	return addr, ok
}

// Connect makes a connection with an incarnation of a node whose address is known, see [actor.PID.Incarnation], as the
// first message to it would: the address is dialed, with growing pauses, until it answers or Config.ResumeWithin has
// passed. It does not wait, and does nothing if there is a session with that incarnation, or it is lost. A session that
// is at rest carries a few bytes every two seconds, by which each side knows that the other one is there.
func (n *Node) Connect(node string, incarnation uint32) {
	_, _, _ = n.reach(node, incarnation) // it fails if there is nothing to do
}

// IsLost reports whether a session with an incarnation of a node was lost, see [actor.PID.Incarnation]: nothing is
// sent to it again. An incarnation that was lost long ago may have been forgotten. It does not block, and is safe
// for concurrent use.
func (n *Node) IsLost(node string, incarnation uint32) bool {
	return n.t.Host().IsLost(node, incarnation)
}

// Lose is Disconnect for one incarnation of a node, see [actor.PID.Incarnation]: a session with another
// one continues.
func (n *Node) Lose(node string, incarnation uint32) {
	for _, s := range n.t.Host().Sessions() {
		if s.Peer() != node {
			continue
		}
		if now := s.Incarnation(); now == incarnation || now == 0 && n.incarnations.onlyAsked(node, incarnation) {
			n.t.Disconnect(node)
		}
	}
}

// Disconnect makes a node lost at once: nothing is sent to its present incarnation again. The other
// side learns of it at once as well, or, if there is no connection, when it dials. It does nothing for
// a node without a session.
func (n *Node) Disconnect(node string) { n.t.Disconnect(node) }

// Peers returns the nodes with which there is or was a session, by name; of lost nodes the last 1024.
func (n *Node) Peers() []actor.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	peers := make(map[string]actor.Peer)
	for name, past := range n.past.All() {
		peers[name] = past.peer
	}
	for _, s := range n.t.Host().Sessions() {
		past := n.past.Get(s.Peer())
		if past == nil {
			peers[s.Peer()] = peerOf(s, actor.Peer{})
		} else if past.last != weak.Make(s) {
			peers[s.Peer()] = peerOf(s, past.peer)
		}
	}
	return slices.SortedFunc(maps.Values(peers), func(p, q actor.Peer) int { return strings.Compare(p.Node, q.Node) })
}

// past is what is known of a node that was lost.
type past struct {
	peer actor.Peer
	last weak.Pointer[session.Session] // the last one that is in the counts: all that it has sent and heard of is not kept for that
}

// maxPast is how many nodes are remembered that are lost. The one is forgotten first that was lost first
// and has no session.
const maxPast = 1024

func pastNodes(n *Node) *recent.Nodes[*past] {
	return recent.New[*past](maxPast, func(peer string) bool { return n.t.Host().Has(peer) })
}

// peerOf returns a peer as its session is, with what the sessions before it have counted.
func peerOf(s *session.Session, before actor.Peer) actor.Peer {
	st := s.Stats()
	state, err := s.State()
	if state == session.Open {
		err = nil
	}
	return actor.Peer{
		Node: s.Peer(), State: state.String(), Err: err, Incarnation: st.Incarnation,
		Unconfirmed: st.Kept, Unwritten: st.Unwritten, Asks: st.Asks,
		Sent: before.Sent + st.Sent, Reconnects: before.Reconnects + st.Reconnects, Resent: before.Resent + st.Resent,
		Lost: before.Lost, Dropped: before.Dropped, Unknown: before.Unknown,
	}
}

// remember keeps what a session that is lost, or what its peer has missed, has counted.
func (n *Node) remember(s *session.Session, l *session.Loss, lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.lostNow(s.Peer())
	if lost {
		p.peer, p.last = peerOf(s, p.peer), weak.Make(s)
		p.peer.Unconfirmed, p.peer.Unwritten, p.peer.Asks = 0, 0, 0
	}
	p.peer.Dropped += l.Dropped
	p.peer.Unknown += l.Unknown
}

// lostNow returns what is known of a node, which is the last one to be forgotten from now on. REQUIRES: n.mu held.
func (n *Node) lostNow(peer string) *past {
	p := n.past.Get(peer)
	if p == nil {
		p = &past{peer: actor.Peer{Node: peer, State: session.Lost.String()}}
	}
	n.past.Put(peer, p)
	return p
}

// lose counts an incarnation as lost, and tells the system.
func (n *Node) lose(inc uint32, down actor.NodeDown) {
	n.countLoss(down.Node)
	n.far.Lost(inc, down)
}

func (n *Node) countLoss(peer string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lostNow(peer).peer.Lost++
}

// carrier is a node as its system knows it.
type carrier struct{ *Node }

// Attach implements actor.Carrier.
func (n carrier) Attach(far *actor.Far) {
	n.far = far
}

// Close implements actor.Carrier.
func (n carrier) Close(ctx context.Context) error { return n.t.Close(ctx) }

// Way implements actor.Carrier.
func (n carrier) Way(to actor.PID) (actor.Way, error) {
	s, inc, err := n.reach(to.Node(), to.Incarnation())
	if err != nil {
		return nil, err
	}
	return &way{node: n.Node, s: s, name: n.t.Host().Name(to.String()), inc: inc}, nil
}

// reach returns the session with an incarnation of a node. If there is none it is made, and dials.
func (n *Node) reach(peer string, inc uint32) (*session.Session, *incarnation, error) {
	if n.t.Host().IsLost(peer, inc) {
		return nil, nil, fmt.Errorf("%w: %s is lost", actor.ErrUnreachable, peer)
	}
	s := n.session(peer)
	if s == nil {
		return nil, nil, fmt.Errorf("%w: there is neither an address nor a connection of the node %q", actor.ErrUnreachable, peer)
	}
	i, err := n.incarnations.ask(n.t.Host(), s, inc)
	return s, i, err
}

// session returns the session with a node, nil if there is none and the node's address is not known.
func (n *Node) session(peer string) *session.Session {
	if _, known := n.resolve(peer); known && peer != n.sys.Name() {
		return n.t.Session(peer)
	}
	for _, s := range n.t.Host().Sessions() {
		if s.Peer() == peer {
			return s
		}
	}
	return nil
}

// askLimit is how long an ask from elsewhere may take that comes without a limit. Those of this package
// have one.
const askLimit = 24 * time.Hour
