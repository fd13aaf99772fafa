package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The default times of a lease.
const (
	defaultTTL    = 15 * time.Second
	defaultMargin = 3 * time.Second
	settleTime    = 5 * time.Second // no shard is moved for balance so soon after a join
	rankDelay     = 2 * time.Second // so long the coordinator may do nothing until the next one does it
	putPatience   = 2 * time.Second // for one call of the engine
)

// Config says how a system joins a cluster.
type Config struct {
	// Engine is the means by which the members agree. It is required.
	Engine Engine
	// Name is the member's name, unique in the cluster; it defaults to the system's name. It must
	// not contain '/' or '~'.
	Name string
	// TTL is how long a member may be silent before others may take its shards. It defaults to 15
	// seconds, and must be at least one. It must be the same for all members.
	TTL time.Duration
	// Margin is how much earlier a member ends its lease than others do. It defaults to a fifth of
	// TTL: the speeds of two members' clocks may differ by that part of TTL.
	Margin time.Duration

	rules rules // of a lease; tests plant mistakes
}

// rules are the decisions on which it rests that no shard has two owners.
type rules struct {
	clock    func() time.Duration                                 // a monotonic clock
	lease    func(began, ended, left time.Duration) time.Duration // until when a lease holds after a renewal
	unsure   func(err error) bool                                 // reports whether a renewal has failed
	gone     func(c census, id identity) bool                     // reports whether an owner's lease is over
	patience func(ttl time.Duration) time.Duration                // how long others wait for a beat
	epochs   func(before, after *shardMap)                        // the epochs of a map that is put
}

func (cfg Config) withDefaults(sys *actor.System) (Config, error) {
	if cfg.Name == "" {
		cfg.Name = sys.Name()
	}
	if cfg.TTL == 0 {
		cfg.TTL = defaultTTL
	}
	if cfg.Margin == 0 {
		cfg.Margin = cfg.TTL * (defaultMargin / time.Second) / (defaultTTL / time.Second)
	}
	switch {
	case cfg.Engine == nil:
		return cfg, fmt.Errorf("the engine is nil: it is needed")
	case strings.ContainsAny(cfg.Name, "/~"):
		return cfg, fmt.Errorf("the name %q must not have a '/' or a '~'", cfg.Name)
	case cfg.TTL < time.Second:
		return cfg, fmt.Errorf("the TTL must be at least 1s, not %v", cfg.TTL)
	case cfg.Margin < 0 || cfg.Margin > cfg.TTL/2:
		return cfg, fmt.Errorf("the margin must be at most half of the TTL of %v, not %v", cfg.TTL, cfg.Margin)
	}
	r := &cfg.rules
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
	if r.epochs == nil {
		r.epochs = func(_, after *shardMap) { after.seal() }
	}
	return cfg, nil
}

// Member is a system in a cluster: it keeps a lease, and holds shards for as long as that lasts, see
// [Host]. It is safe for concurrent use.
type Member struct {
	sys    *actor.System
	cfg    Config
	keeper actor.Ref[step]

	until atomic.Int64  // when the lease ends, by the clock of cfg.rules; negative for none
	over  chan struct{} // closed when the keeper has ended
	err   error         // why; set before over is closed

	mu    sync.Mutex
	hosts map[string]bool // the groups, guarded by mu
}

// Join makes a system a member of the cluster that uses the engine. It does not wait: the member
// holds no shards until the engine has its record, and an earlier member of the same name is known
// to be gone. The member is an actor "/cluster" of the system and ends with it. Call [Member.Leave]
// before that, to give the shards away; otherwise they wait for the end of the lease.
//
// It fails if the Config is not valid, if the system has an actor of that name, or if the system
// has stopped.
func Join(sys *actor.System, cfg Config) (*Member, error) {
	cfg, err := cfg.withDefaults(sys)
	if err != nil {
		return nil, fmt.Errorf("join a cluster: %w", err)
	}
	m := &Member{sys: sys, cfg: cfg, over: make(chan struct{}), hosts: make(map[string]bool)}
	m.until.Store(-1)
	// It is not restarted: what it held it must drop, and its lease has a number of its own.
	m.keeper, err = actor.TrySpawn(sys, "cluster", func() *keeper { return newKeeper(m) }, actor.Temporary)
	if err != nil {
		return nil, fmt.Errorf("join a cluster: %w", err)
	}
	return m, nil
}

// System returns the system.
func (m *Member) System() *actor.System { return m.sys }

// Name returns the name of the member.
func (m *Member) Name() string { return m.cfg.Name }

// Valid reports whether the member has a lease at this moment. Without one it must not use what it
// holds.
func (m *Member) Valid() bool { return int64(m.cfg.rules.clock()) < m.until.Load() }

// Done is closed once the member has left, was declared dead or has ended with its system.
func (m *Member) Done() <-chan struct{} { return m.over }

// Err returns nil until Done is closed, and then why: nil for a member that has left,
// [ErrDeclaredDead], or [actor.ErrStopped].
func (m *Member) Err() error {
	select {
	case <-m.over:
		return m.err
	default:
		return nil
	}
}

// Leave gives all shards to the other members, or drops them if there is no other, and then ends
// the lease and the member. It waits for that as long as ctx lasts; the member continues to leave
// after that.
func (m *Member) Leave(ctx context.Context) error {
	m.keeper.Tell(ctx, func(ctx *actor.Context[step], k *keeper) { k.leave(ctx) })
	select {
	case <-m.over:
		return m.err
	case <-ctx.Done():
		return fmt.Errorf("leave the cluster: %w", context.Cause(ctx))
	}
}
