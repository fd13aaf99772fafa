package cluster

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
)

// The defaults of a kind.
const (
	defaultIdle   = 10 * time.Minute
	defaultHot    = 1 << 20
	defaultPark   = 100_000
	defaultShards = 256
)

// Kind is a kind of virtual actor, made by [Register]. It is safe for concurrent use, and ends with the
// system.
type Kind[M any] struct {
	table *table[M]
	where *Shards // nil for a node that is alone
}

// KindOption refines [Register].
type KindOption func(*kindConfig)

type kindConfig struct {
	idle     time.Duration
	hot      int
	park     int
	shards   int
	away     bool
	versions Versions
	claims   []func(context.Context, Shard) error
	super    []actor.SpawnOption
	spawn    []actor.SpawnOption

	numbered bool // the keys are the numbers of the shards, and always active
}

// IdleAfter passivates an actor that has handled no message for that long, or at most twice as
// long. See [actor.Passivate] for what keeps an actor active. It defaults to 10 minutes; 0 means
// never. Anything else below a millisecond panics.
func IdleAfter(d time.Duration) KindOption {
	required(d == 0 || d >= time.Millisecond, "IdleAfter(%v): the duration must be 0, or 1 ms or more", d)
	return func(c *kindConfig) { c.idle = d }
}

// Hot bounds how many actors of the kind are active at the same time: when there is one more, an
// actor that has had no message for long is passivated once it has handled what is in its mailbox.
// Its timers end with it. The choice is an approximation: an actor that has had a message recently
// is spared. Hot defaults to 1 048 576; anything below 1 panics.
func Hot(n int) KindOption {
	required(n > 0, "Hot(%d): at least one actor must be active", n)
	return func(c *kindConfig) { c.hot = n }
}

// Park bounds how many messages of the kind may wait while their activations begin or end, or move
// to another node: further messages are refused as by a full mailbox, except the first that waits
// for its actor, or for its shard. Messages that an activation leaves in its mailbox already have
// their place, and do not count. Park defaults to 100 000; anything below 1 panics.
func Park(n int) KindOption {
	required(n > 0, "Park(%d): at least one message must be able to wait", n)
	return func(c *kindConfig) { c.park = n }
}

// ShardCount sets into how many shards the keys of the kind are divided: shards move from node to
// node, one by one. All nodes must use the same number, for as long as the cluster exists. Defaults
// to 256; anything below 1 panics. A node that has joined a cluster refuses more than 16 384.
func ShardCount(n int) KindOption {
	required(n > 0, "ShardCount(%d): there must be at least one", n)
	return func(c *kindConfig) {
		if !c.numbered {
			c.shards = n
		}
	}
}

// Numbered gives the kind n actors that are always active: their keys are the decimal numbers "0"
// to n-1, and there are no others. Each has a shard of its own, so that they are spread evenly over
// the nodes. An actor becomes active, and its Init is called, as soon as a node has its shard,
// without a message; an actor that ends is activated again within about a second. They are not
// passivated when they are idle or when there are too many: IdleAfter, Hot and ShardCount have no
// effect. All nodes must use the same n, for as long as the cluster exists. Anything below 1
// panics. A node that has joined a cluster refuses more than 16 384.
func Numbered(n int) KindOption {
	required(n > 0, "Numbered(%d): there must be at least one actor", n)
	return func(c *kindConfig) { c.numbered, c.shards = true, n }
}

// Elsewhere makes a node have references to the actors of a kind, but never an activation.
func Elsewhere() KindOption { return func(c *kindConfig) { c.away = true } }

// Claiming tells a store the owner of a shard before anything of the shard is read: claim must make
// the store refuse, from then on, writes for the shard with a lower epoch, see [Activation]. If
// claim fails, the shard waits, and claim is called again. A node that is alone has no shards, and
// claims none.
func Claiming(claim func(ctx context.Context, s Shard) error) KindOption {
	required(claim != nil, "Claiming: the function is nil")
	return func(c *kindConfig) { c.claims = append(c.claims, claim) }
}

// Supervised sets how failures are handled. Without it an actor is restarted 10 times in a minute;
// then it ends with the reason [actor.Failed], the messages in its mailbox become dead letters, and
// its next message activates it again. [actor.Escalate] is [actor.Stop] here: the failure of one
// key does not affect the others.
func Supervised(s actor.SuperviseOption) KindOption {
	return func(c *kindConfig) { c.super = []actor.SpawnOption{s} }
}

// Spawning passes options to the spawning of each activation, such as a bound of its mailbox. An
// [actor.Passivate] among them replaces IdleAfter.
func Spawning(opts ...actor.SpawnOption) KindOption {
	return func(c *kindConfig) { c.spawn = append(c.spawn, opts...) }
}

// Activation describes an actor to be spawned.
type Activation struct {
	// Parent is the parent to spawn it with.
	Parent actor.Spawner
	Key    string
	// Shard is the shard that it belongs to: its writes to a store carry that epoch, see
	// [Claiming]. Its Group is the name of the kind. On a node that is alone the epoch is 1.
	Shard Shard
}

// Register makes a kind of virtual actors: newActor makes the state of the actor with that key, for
// each activation and each restart. The activations are children of an actor at the root with the
// name of the kind. On a node that has joined a cluster, the keys are divided among all its nodes
// that register the kind: all with the same name and types.
//
// It fails with [actor.ErrNameTaken], with [actor.ErrBadName] or, when the system has stopped, with
// [actor.ErrStopped].
func Register[M any, A actor.Actor[M]](node *Node, name string, newActor func(key string) A, opts ...KindOption) (*Kind[M], error) {
	required(newActor != nil, "Register: the function that makes an actor's state is nil")
	return RegisterSpawned(node, name, func(at Activation, opts ...actor.SpawnOption) (actor.Ref[M], error) {
		return actor.TrySpawn(at.Parent, at.Key, func() A { return newActor(at.Key) }, opts...)
	}, opts...)
}

// RegisterSpawned is [Register] for actors that something other than [actor.TrySpawn] spawns. Durable
// ones of package persist have [RegisterDurable].
//
// spawn must spawn one actor with at.Parent for its parent, and return its reference; the name that
// it gives is ignored. It is called by the sender of the first message, or where the previous
// activation ends, concurrently for several keys, and must not block. If it fails or panics, the
// messages to the actor become dead letters, and an activation that it has made nevertheless is
// stopped.
func RegisterSpawned[M any](node *Node, name string, spawn func(at Activation, opts ...actor.SpawnOption) (actor.Ref[M], error), opts ...KindOption) (*Kind[M], error) {
	required(node != nil, "Register: the node is nil")
	required(spawn != nil, "RegisterSpawned: the function that spawns is nil")
	cfg := kindConfig{idle: defaultIdle, hot: defaultHot, park: defaultPark, shards: defaultShards}
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.numbered {
		cfg.idle, cfg.hot = 0, max(cfg.hot, cfg.shards)
	}
	if cfg.idle > 0 {
		cfg.spawn = append([]actor.SpawnOption{actor.Passivate(cfg.idle)}, cfg.spawn...)
	}
	k, err := register(node, name, newTable(node, cfg, spawn))
	if err != nil {
		return nil, fmt.Errorf("register %q: %w", name, err)
	}
	return k, nil
}

func register[M any](node *Node, name string, t *table[M]) (*Kind[M], error) {
	if !node.alone {
		if err := node.reserve(name, t.cfg.shards); err != nil {
			return nil, err
		}
	} else if t.cfg.numbered {
		if _, err := node.startRouter(node.sys, "cluster"); err != nil {
			return nil, err
		}
	}
	if _, err := actor.NewVirtual(node.sys, name, t, t.cfg.super...); err != nil {
		node.unreserve(name)
		return nil, err
	}
	k := &Kind[M]{table: t}
	node.tell(func(ctx *actor.Context[any], r *router) { r.add(ctx, name, t) })
	if !node.alone {
		var h Holder = holder[M]{t}
		if t.cfg.away {
			h = nil
		}
		k.where = node.host(name, t.cfg.shards, h)
	}
	return k, nil
}

// Singleton registers a kind with one actor, which is always active on one of the nodes, and returns its
// reference. The options are those of [Register]; the actor has the key "0". For a durable one, use
// [RegisterDurable] with Numbered(1).
//
// It fails as Register does.
func Singleton[M any, A actor.Actor[M]](node *Node, name string, newActor func() A, opts ...KindOption) (actor.Ref[M], error) {
	required(newActor != nil, "Singleton: the function that makes the actor's state is nil")
	k, err := Spread(node, name, 1, func(int) A { return newActor() }, opts...)
	if err != nil {
		return actor.Ref[M]{}, err
	}
	return k.Ref("0"), nil
}

// Spread registers a kind with n actors, which are always active and evenly spread over the nodes,
// see [Numbered]: newActor makes the state of the actor with that number, from 0 to n-1. The
// options are those of [Register]. [Kind.Routed] returns a router over them.
//
// It fails as Register does.
func Spread[M any, A actor.Actor[M]](node *Node, name string, n int, newActor func(number int) A, opts ...KindOption) (*Kind[M], error) {
	required(newActor != nil, "Spread: the function that makes an actor's state is nil")
	return Register(node, name, func(key string) A {
		number, _ := strconv.Atoi(key) // it has no others
		return newActor(number)
	}, append(slices.Clip(opts), Numbered(n))...)
}

// RegisterDurable is [Register] for durable actors of package persist, which embed [persist.Events]
// or [persist.Durable]. All nodes write to the same journal, in a store that several processes can
// write to. An actor writes in the name of its shard, "kind/number", with the shard's epoch: when
// another node has taken the shard over, anything that an older activation still records is
// refused, and askers that wait for it get [persist.ErrFenced]. The ids of the actors are their
// paths, "/kind/key".
func RegisterDurable[M any, A actor.Actor[M]](node *Node, name string, p *persist.Persistence, newActor func(key string) A, opts ...KindOption) (*Kind[M], error) {
	required(p != nil, "RegisterDurable: the persistence is nil")
	required(newActor != nil, "RegisterDurable: the function that makes an actor's state is nil")
	nameOf := func(s Shard) string { return fmt.Sprintf("%s/%d", s.Group, s.Number) }
	opts = append([]KindOption{Claiming(func(ctx context.Context, s Shard) error { return p.Claim(ctx, nameOf(s), s.Epoch) })}, opts...)
	return RegisterSpawned(node, name, func(at Activation, opts ...actor.SpawnOption) (actor.Ref[M], error) {
		return persist.TrySpawn(p, at.Parent, at.Key, func() A { return newActor(at.Key) },
			persist.Actor(opts...), persist.Shard(nameOf(at.Shard), at.Shard.Epoch))
	}, opts...)
}

// Ref returns the reference of the actor with that key. It sends nothing and activates nothing. It
// panics if the key does not have 1 to 1024 bytes, see [actor.CheckKey], or is not one of the
// numbers of a kind that is [Numbered].
func (k *Kind[M]) Ref(key string) actor.Ref[M] {
	if !k.table.has(key) {
		panic(fmt.Sprintf("cluster: Ref(%q): the keys of the kind %q are 0 to %d", key, k.Name(), k.table.shards()-1))
	}
	return k.table.virtual.Ref(key)
}

// Routed returns a reference that passes each message on to some of the actors of a kind that is
// [Numbered], chosen by a strategy of package router, for example router.RoundRobin. Keep the
// reference: each call starts over. Stop, Drain and Kill of it end the kind on this node. It panics
// if the kind is not Numbered, and fails with [actor.ErrStopped].
//
// A strategy that examines the mailboxes of actors, such as router.LeastLoaded, sees only those on
// this node.
func (k *Kind[M]) Routed(strategy func(*actor.System, []actor.Ref[M]) actor.Route[M]) (actor.Ref[M], error) {
	required(k.table.cfg.numbered, "Routed: the kind %q is not Numbered", k.Name())
	required(strategy != nil, "Routed: the strategy is nil")
	sys := k.table.node.sys
	all := make([]actor.Ref[M], k.table.shards())
	for i := range all {
		all[i] = k.Ref(strconv.Itoa(i))
	}
	parent, err := actor.LookupPath[struct{}](sys, "/"+k.Name())
	if err != nil {
		return actor.Ref[M]{}, fmt.Errorf("route to the actors of %q: %w", k.Name(), err)
	}
	return actor.Routed(sys, parent.PID(), strategy(sys, all))
}

// Name returns the name of the kind.
func (k *Kind[M]) Name() string { return k.table.virtual.Name() }

// Owner returns the name of the node that has the key, as far as this one knows. It reports false if none
// has.
func (k *Kind[M]) Owner(key string) (node string, ok bool) {
	if k.where == nil {
		return k.table.node.Name(), true
	}
	return k.where.Owner(k.table.shardOf(key))
}

// Active returns how many actors of the kind are active here, or are about to be.
func (k *Kind[M]) Active() int { return k.table.len() }

// required panics if ok is false, which is a programming error.
func required(ok bool, format string, args ...any) {
	if !ok {
		panic("cluster: " + fmt.Sprintf(format, args...))
	}
}
