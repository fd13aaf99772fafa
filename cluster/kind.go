package cluster

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The defaults of a kind.
const (
	defaultIdle = 10 * time.Minute
	defaultHot  = 1 << 20
	defaultPark = 100_000
)

// Kind is a kind of virtual actors, which [Register] makes. It is safe for concurrent use, and ends
// with the system.
type Kind[M any] struct{ table *table[M] }

// KindOption refines [Register].
type KindOption func(*kindConfig)

type kindConfig struct {
	idle  time.Duration
	hot   int
	park  int
	super []actor.SpawnOption
	spawn []actor.SpawnOption
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
// Its timers end with it. The choice is an approximation: an actor that has had a message lately is
// spared. Hot defaults to 1 048 576; anything below 1 panics.
func Hot(n int) KindOption {
	required(n > 0, "Hot(%d): at least one actor must be active", n)
	return func(c *kindConfig) { c.hot = n }
}

// Park bounds how many messages of the kind may wait while their activations end or begin: a
// further one is refused as by a full mailbox, unless it is the first to wait for its actor. What
// an activation leaves in its mailbox has its place already, and does not count. Park defaults to
// 100 000; anything below 1 panics.
func Park(n int) KindOption {
	required(n > 0, "Park(%d): at least one message must be able to wait", n)
	return func(c *kindConfig) { c.park = n }
}

// Supervised says how failures are handled. By default an actor is restarted up to 10 times in a
// minute; then it ends with the reason [actor.Failed], what is in its mailbox becomes dead letters,
// and its next message activates it anew. [actor.Escalate] means [actor.Stop] here: the failure of
// one key does not affect the others.
func Supervised(s actor.SuperviseOption) KindOption {
	return func(c *kindConfig) { c.super = []actor.SpawnOption{s} }
}

// Spawning passes options to the spawning of each activation, such as a bound of its mailbox. An
// [actor.Passivate] among them replaces IdleAfter.
func Spawning(opts ...actor.SpawnOption) KindOption {
	return func(c *kindConfig) { c.spawn = append(c.spawn, opts...) }
}

// Register makes a kind of virtual actors: newActor makes the state of the one with that key, for each
// activation and each restart. The activations are children of an actor at the root with the name of
// the kind.
//
// It fails with [actor.ErrNameTaken], with [actor.ErrBadName] or, when the system has stopped, with
// [actor.ErrStopped].
func Register[M any, A actor.Actor[M]](node *Node, name string, newActor func(key string) A, opts ...KindOption) (*Kind[M], error) {
	required(newActor != nil, "Register: the function that makes an actor's state is nil")
	return RegisterSpawned(node, name, func(at actor.Spawner, key string, opts ...actor.SpawnOption) (actor.Ref[M], error) {
		return actor.TrySpawn(at, key, func() A { return newActor(key) }, opts...)
	}, opts...)
}

// RegisterSpawned is [Register] for actors that are not spawned by [actor.TrySpawn], such as the
// durable ones of package persist:
//
//	cluster.RegisterSpawned(node, "cart", func(at actor.Spawner, key string, opts ...actor.SpawnOption) (actor.Ref[Msg], error) {
//		return persist.TrySpawn(journal, at, key, newCart, persist.Actor(opts...))
//	})
//
// spawn must spawn one actor with at as its parent, and return its reference; the name that it
// passes is ignored. It is called by the sender of the first message, or where the previous
// activation ends, concurrently for several keys, and must not block. If it fails or panics, what
// the actor was told becomes dead letters, and an activation that it has made nevertheless is
// stopped.
func RegisterSpawned[M any](node *Node, name string, spawn func(at actor.Spawner, key string, opts ...actor.SpawnOption) (actor.Ref[M], error), opts ...KindOption) (*Kind[M], error) {
	required(node != nil, "Register: the node is nil")
	required(spawn != nil, "RegisterSpawned: the function that spawns is nil")
	cfg := kindConfig{idle: defaultIdle, hot: defaultHot, park: defaultPark}
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.idle > 0 {
		cfg.spawn = append([]actor.SpawnOption{actor.Passivate(cfg.idle)}, cfg.spawn...)
	}
	t := newTable(cfg, spawn)
	if _, err := actor.NewVirtual(node.sys, name, t, cfg.super...); err != nil {
		return nil, fmt.Errorf("register %q: %w", name, err)
	}
	return &Kind[M]{t}, nil
}

// Ref returns the reference of the actor with that key, which must have 1 to 1024 bytes: otherwise
// Ref panics, see [actor.CheckKey]. It sends nothing and activates nothing.
func (k *Kind[M]) Ref(key string) actor.Ref[M] { return k.table.virtual.Ref(key) }

// Name returns the name of the kind.
func (k *Kind[M]) Name() string { return k.table.virtual.Name() }

// Active returns how many actors of the kind are active here, or are about to be.
func (k *Kind[M]) Active() int { return k.table.len() }

// required panics when a programmer's error has been made.
func required(ok bool, format string, args ...any) {
	if !ok {
		panic("cluster: " + fmt.Sprintf(format, args...))
	}
}
