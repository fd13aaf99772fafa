package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/procid"
	"github.com/greenroom-go/greenroom/remote"
)

// Default times of a lease.
const (
	defaultTTL    = 15 * time.Second
	defaultMargin = 3 * time.Second
	settleTime    = 5 * time.Second // after a join, before shards are moved for balance
	rankDelay     = 2 * time.Second // how long the coordinator may do nothing before the next one acts
	putPatience   = 2 * time.Second // for one call of the engine
	resumeWithin  = 5 * time.Minute // how long a session may be broken before it is given up
)

// Config configures how a system joins a cluster.
type Config struct {
	// Engine is the means by which the members agree. It is required.
	Engine Engine
	// Remote says how the system connects to those of the other members, so that messages can go
	// there. Its Peers are not needed: members know each other's addresses from the engine. Its
	// ResumeWithin is 5 minutes by default: the cluster decides whether a member is lost, and then
	// ends its session. The system stays connected with all members, unless OnlySilence is set. If
	// Remote is nil, the member only holds shards.
	Remote *remote.Config
	// Advertise is the address at which the others reach this member, by default the address of
	// Remote. It is required if Remote listens on all addresses of the host, as with ":7000".
	Advertise string
	// TTL is how long others wait for a silent member: 15 seconds by default, and at least one. All
	// members should have the same TTL: of two different ones, the longer applies.
	TTL time.Duration
	// Margin is how much earlier a member considers its lease over than others do, a fifth of TTL
	// by default: the clocks of two members may differ in speed by that much in TTL.
	Margin time.Duration
	// OnlySilence makes this member ignore that the address of another one refuses connections. Otherwise that
	// is evidence that the other's process has ended, and nobody waits for it, see the package's documentation.
	// Set it on all members if something else answers for their addresses, such as a proxy or a firewall that
	// rejects, which may refuse connections for a member that lives, or if their machines were resumed from one
	// snapshot of memory, by which their processes cannot be told apart.
	OnlySilence bool
	// Clock returns how much time has passed since some moment, to measure the member's own lease and those
	// of others. By default it is that of package time, which stands still while the machine is suspended.
	// It must not differ in speed from those of other members by more than Margin in TTL, jumps included. It
	// is called by several goroutines at a time, and must not block.
	Clock func() time.Duration

	rules rules // of a lease; tests plant mistakes
}

// rules are the decisions that guarantee that no shard has two owners.
type rules struct {
	clock    func() time.Duration                                 // a monotonic clock
	lease    func(began, ended, left time.Duration) time.Duration // when a lease ends after a renewal
	unsure   func(err error) bool                                 // reports whether a renewal has failed
	gone     func(c census, id identity) bool                     // reports whether an owner's lease is over
	patience func(ttl time.Duration) time.Duration                // how long others wait for a renewal
	epochs   func(before, after *shardMap)                        // the epochs of a map that is put
	links    links                                                // instead of those of Config.Remote,
	types    *codec.Types                                         // and its types
	proc     string                                               // the identity of this process
	ended    func(proc string) bool                               // reports whether a process has certainly ended
	routes   routeRules                                           // planted mistakes in the routing
}

// routeRules are mistakes that tests plant in the routing of virtual actors.
type routeRules struct {
	noGates    bool // the order of messages is not kept over moves
	lateClaims bool // a shard is claimed after it is used
}

func (cfg Config) withDefaults() (Config, error) {
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.Margin == 0 {
		cfg.Margin = cfg.TTL * (defaultMargin / time.Second) / (defaultTTL / time.Second)
	}
	switch {
	case cfg.Engine == nil:
		return cfg, fmt.Errorf("the engine is nil: it is needed")
	case cfg.TTL < time.Second:
		return cfg, fmt.Errorf("the TTL must be at least 1s, not %v", cfg.TTL)
	case cfg.Margin < 0 || cfg.Margin > cfg.TTL/2:
		return cfg, fmt.Errorf("the margin must be at most half of the TTL of %v, not %v", cfg.TTL, cfg.Margin)
	case cfg.Remote != nil && cfg.Advertise == "" && isUnspecified(cfg.Remote.Addr):
		return cfg, fmt.Errorf("the others cannot reach this one at %q, which is all addresses of its host: Advertise is needed", cfg.Remote.Addr)
	}
	r := &cfg.rules
	if r.clock == nil {
		r.clock = cfg.Clock
	}
	if r.clock == nil {
		began := time.Now()
		r.clock = func() time.Duration { return time.Since(began) }
	}
	if r.lease == nil {
		r.lease = func(began, _, left time.Duration) time.Duration { return began + left }
	}
	if r.unsure == nil {
		r.unsure = func(err error) bool { return err != nil }
	}
	if r.gone == nil {
		r.gone = census.gone
	}
	if r.patience == nil {
		r.patience = func(ttl time.Duration) time.Duration { return ttl }
	}
	if r.ended == nil {
		r.proc, r.ended = procid.Own(), procid.Ended
	}
	if r.epochs == nil {
		r.epochs = func(_, after *shardMap) { after.seal() }
	}
	return cfg, nil
}

// isUnspecified reports whether an address to listen on has no host, or means all addresses.
func isUnspecified(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil { // also the empty one: the system does not listen, or cannot
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Node is a system as a member of a cluster. [Join] makes one: it keeps a lease, and holds shards for as
// long as that lasts, see [Host] and [Register]. [Alone] makes one without others. It is safe for
// concurrent use.
type Node struct {
	sys    *actor.System
	cfg    Config
	alone  bool            // [Alone] has made it
	keeper actor.Ref[step] // the zero Ref if it is alone
	links  links           // nil if it is not connected
	remote *remote.Node    // nil as well
	types  *codec.Types    // of what it sends for users, nil if it is not connected

	until atomic.Int64  // when the lease ends, by the clock of cfg.rules; negative for none
	over  chan struct{} // closed when the keeper has ended
	err   error         // why; set before over is closed

	mu     sync.Mutex
	hosts  map[string]bool // the groups, guarded by mu
	router actor.Ref[any]  // guarded by mu; the zero Ref if it is alone and needs none
	closed atomic.Bool     // the router has ended
}

// links are the connections of a node.
type links interface {
	Meet(node, addr string)
	Lose(node string, incarnation uint32)
	// Connect connects to that incarnation unless there is or was a connection. It does not wait.
	Connect(node string, incarnation uint32)
	// Ended returns a function that reports whether there was a connection with an incarnation, and
	// there is none now.
	Ended() func(node string, incarnation uint32) bool
	// Refuses reports whether the address of a member refuses connections. It may block.
	Refuses(ctx context.Context, r record, name string) bool
}

// Alone returns a node that is not in a cluster: all virtual actors are active on it. It ends with
// its system.
func Alone(sys *actor.System) *Node {
	n := &Node{sys: sys, alone: true, over: make(chan struct{}), hosts: make(map[string]bool)}
	return n
}

// Join makes a system a member of the cluster that has the engine. Join does not wait: until the
// engine has accepted the member's record, and a former member of that name is known to be gone,
// the member holds no shards. The member is an actor "/cluster" of the system and ends with it;
// call [Node.Leave] first to give the shards away, which otherwise wait until the lease expires.
//
// With [Config.Remote] the system listens, as [remote.Listen] says, and knows the addresses of the other
// members from the engine. A system that has ended its membership may join again without Remote; with Remote
// it may not, since a system connects only once: make a new one, usually in a new process.
//
// It fails if the Config is not valid, if the system has an actor of that name, or has stopped, and if it
// cannot listen.
func Join(sys *actor.System, cfg Config) (*Node, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("join a cluster: %w", err)
	}
	n := &Node{sys: sys, cfg: cfg, links: cfg.rules.links, types: cfg.rules.types, over: make(chan struct{}), hosts: make(map[string]bool)}
	if cfg.Remote != nil {
		if n.remote, err = listen(sys, &cfg); err != nil {
			return nil, fmt.Errorf("join a cluster: %w", err)
		}
		n.links, n.types = tcpLinks{n.remote}, cfg.Remote.Types
		if n.types == nil {
			n.types = codec.NewTypes()
		}
		if addr := n.remote.Addr(); n.cfg.Advertise == "" && addr != nil {
			n.cfg.Advertise = addr.String()
		}
	}
	n.until.Store(-1)
	// The keeper is not restarted: it must drop what it held, and its lease has a number of its
	// own. It fails with its router, because it is unknown what that has lost.
	escalate := actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate }))
	n.keeper, err = actor.TrySpawn(sys, "cluster", func() *keeper { return newKeeper(n) }, actor.Temporary, escalate)
	if err != nil {
		return nil, fmt.Errorf("join a cluster: %w", err)
	}
	return n, nil
}

// listen connects the system.
func listen(sys *actor.System, cfg *Config) (*remote.Node, error) {
	c := *cfg.Remote
	types := c.Types
	if types == nil {
		types = codec.NewTypes()
	}
	c.Types = types.With(routerTypes...).With(bridgeTypes...)
	c.ResumeWithin = cmp.Or(c.ResumeWithin, resumeWithin)
	return remote.Listen(sys, c)
}

// System returns the system.
func (n *Node) System() *actor.System { return n.sys }

// Remote returns the system's connections, nil if [Config.Remote] was.
func (n *Node) Remote() *remote.Node { return n.remote }

// Name returns the name of the member, which is that of the system.
func (n *Node) Name() string { return n.sys.Name() }

// Valid reports whether the member has a lease at this moment. Without a lease it must not use what
// it holds. A node that is alone needs none.
func (n *Node) Valid() bool { return n.alone || int64(n.cfg.rules.clock()) < n.until.Load() }

// Done is closed when the member has left, was declared dead, has failed or has ended with its system.
func (n *Node) Done() <-chan struct{} { return n.over }

// Err returns nil until Done is closed, and then why: nil for a member that has left,
// [ErrDeclaredDead], [actor.ErrStopped], that the engine has lost its record, or the failure of one of its own
// actors or of a [Holder]. After a failure the others wait for the end of the lease, or of the process.
func (n *Node) Err() error {
	if !n.hasEnded() {
		return nil
	}
	return n.err
}

// hasEnded reports whether the node is no longer a member.
func (n *Node) hasEnded() bool {
	select {
	case <-n.over:
		return true
	default:
		return false
	}
}

// Leave gives all shards to the other members, and then ends the lease and the member. If no other member takes
// the shards of a group, the holder gives them to nobody: what is active in them ends in order. Leave waits for
// that until ctx ends, after which the member continues to leave. If the engine does not answer, Leave returns an
// error when the lease expires. Shut the system down then. A node that is alone has nothing to leave.
func (n *Node) Leave(ctx context.Context) error {
	if n.alone {
		return nil
	}
	n.keeper.Tell(ctx, func(ctx *actor.Context[step], k *keeper) { k.leave(ctx) })
	select {
	case <-n.over:
	case <-ctx.Done():
		return fmt.Errorf("leave the cluster: %w", context.Cause(ctx))
	}
	if _, err := n.keeper.Wait(ctx); err != nil { // its name is free from then on: the system may join again
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return n.err
}
