package remote

import (
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/transport"
)

// Node is a system that is connected with others. [Listen] makes one. It ends with its system's
// Shutdown. It is safe for concurrent use.
type Node struct {
	sys   *actor.System
	types *codec.Types
	peers map[string]string // by name; never changes
	t     carriage
	far   *actor.Far // set before anything is sent or accepted

	mu      sync.Mutex
	offers  map[string]offer // guarded by mu
	nursery actor.Ref[order] // made on first need, guarded by mu

	incarnations incarnations // to which there are ways
}

// carriage runs the sessions of a node: a [transport.Transport], or that of a simulated world.
type carriage interface {
	Start()
	Addr() net.Addr
	Host() *session.Host
	Session(peer string) *session.Session
	Disconnect(peer string)
	Close(ctx context.Context) error
}

// Listen connects a system with others: it listens at the address of the Config, and connects to the
// nodes that it has addresses of when they are first needed. A system has one node: a second call
// panics. The name of the system is that of the node, and must be the only one of its cluster.
func Listen(sys *actor.System, c Config) (*Node, error) {
	var auth *transport.TLS
	if c.TLS != nil {
		auth = &transport.TLS{Certificate: c.TLS.Certificate, Roots: c.TLS.Roots}
	}
	return listen(sys, &c, func(n *Node, s session.Config) (carriage, error) {
		return transport.Listen(transport.Config{
			Addr: c.Addr, Secret: c.Secret, TLS: auth, Insecure: c.Insecure, Log: sys.Log(),
			Resolve: func(peer string) (addr string, ok bool) { addr, ok = n.peers[peer]; return addr, ok },
		}, s, handler{n})
	})
}

// listen is Listen with a carriage.
func listen(sys *actor.System, c *Config, carry func(n *Node, s session.Config) (carriage, error)) (*Node, error) {
	n := &Node{
		sys: sys, peers: maps.Clone(c.Peers),
		offers: make(map[string]offer), incarnations: incarnations{asked: make(map[string]map[uint32]*incarnation)},
	}
	types := c.Types
	if types == nil {
		types = codec.NewTypes()
	}
	n.types = types.Strict().Bind(sys)
	t, err := carry(n, session.Config{
		Node: sys.Name(), Cluster: c.Cluster, Incarnation: sys.Incarnation(), ResumeWithin: c.ResumeWithin, IncarnationOf: incarnationOf,
	})
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	n.t = t
	carried := false
	defer func() { // a second node of a system panics
		if !carried {
			_ = t.Close(context.Background())
		}
	}()
	actor.Carry(sys, carrier{n})
	carried = true
	t.Start()
	return n, nil
}

func incarnationOf(address string) uint32 {
	pid, _ := actor.ParsePID(address)
	return pid.Incarnation()
}

// System returns the node's system.
func (n *Node) System() *actor.System { return n.sys }

// Addr returns the address that the node listens on, nil if it does not.
func (n *Node) Addr() net.Addr { return n.t.Addr() }

// Disconnect gives a node up: it is lost at once, for this node and for itself, and its present
// incarnation is never spoken to again. It does nothing for a node with which there is no session.
func (n *Node) Disconnect(node string) { n.t.Disconnect(node) }

// Peer is another node, as this one sees it.
type Peer struct {
	Node        string
	State       string // dialing, open or broken
	Err         error  // why it is not open
	Incarnation uint32 // 0 while it was never open
	Unconfirmed int    // bytes that it has not confirmed yet
	Unwritten   int    // bytes of those that have not been written
	Sent        uint64 // messages to it
	Asks        int    // asks that it has not answered
	Reconnects  uint64
	Resent      uint64 // frames that were written again after a reconnect
}

// Peers returns the nodes with which there is a session, by name.
func (n *Node) Peers() []Peer {
	var all []Peer
	for _, s := range n.t.Host().Sessions() {
		st := s.Stats()
		state, err := s.State()
		if state == session.Open {
			err = nil
		}
		all = append(all, Peer{
			Node: s.Peer(), State: state.String(), Err: err, Incarnation: st.Incarnation,
			Unconfirmed: st.Kept, Unwritten: st.Unwritten, Sent: st.Sent, Asks: st.Asks, Reconnects: st.Reconnects, Resent: st.Resent,
		})
	}
	return all
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
	peer, inc := to.Node(), to.Incarnation()
	if n.t.Host().IsLost(peer, inc) {
		return nil, fmt.Errorf("%w: %s is lost", actor.ErrUnreachable, peer)
	}
	s := n.session(peer)
	if s == nil {
		return nil, fmt.Errorf("%w: there is neither an address nor a connection of the node %q", actor.ErrUnreachable, peer)
	}
	i, err := n.incarnations.ask(n.t.Host(), s, inc)
	if err != nil {
		return nil, err
	}
	return &way{node: n.Node, s: s, name: n.t.Host().Name(to.String()), inc: i}, nil
}

// session returns the session with a node, nil if there is none and the node's address is not known.
func (n *Node) session(peer string) *session.Session {
	if _, known := n.peers[peer]; known && peer != n.sys.Name() {
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
