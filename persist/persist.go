package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
)

// ErrUnreadable says that a record of an id cannot be read: its type is unknown, an upcast fails, a
// checksum is wrong, or a number is missing. The actor stops; nothing is skipped.
var ErrUnreadable = errors.New("journal cannot be read")

// Config configures [Open]. Only Types is required.
type Config struct {
	// Types are the types of all events and states.
	Types *codec.Types
	// Ahead and AheadBytes bound how many events of an actor, and how many bytes of them, may be on
	// their way to the journal before the actor's next message waits. They default to 1024 and 1
	// MiB. A held message or answer counts as 64 bytes.
	Ahead      int
	AheadBytes int
	// BatchBytes is the approximate limit of the size of a commit. It defaults to 4 MiB.
	BatchBytes int
	// RetryMin and RetryMax are how long a failed commit or read waits before it is retried, the
	// first time and at most. They default to 10 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// Wake is called when something is to be delivered to an id for which this system has no actor.
	// It may spawn the actor with p, even before Open has returned. It is called by one goroutine
	// at a time for an id, and again while there is still no actor, after 100 ms and then less and
	// less often, down to once a minute. An actor that has just ended may have its name for a moment
	// yet ([actor.ErrNameTaken]). Wake's error is logged. Without Wake, messages wait until there is
	// an actor.
	Wake func(ctx context.Context, p *Persistence, id string) error
}

func (c Config) withDefaults() Config {
	c.Ahead = cmp.Or(c.Ahead, 1024)
	c.AheadBytes = cmp.Or(c.AheadBytes, 1<<20)
	c.BatchBytes = cmp.Or(c.BatchBytes, 4<<20)
	c.RetryMin = cmp.Or(c.RetryMin, 10*time.Millisecond)
	c.RetryMax = cmp.Or(c.RetryMax, time.Second)
	return c
}

// Persistence makes actors of a system durable in one journal. [Open] makes one. It is safe for
// concurrent use.
type Persistence struct {
	sys       *actor.System
	journal   Journal
	cfg       Config
	commits   *commits
	loads     *loads
	committer actor.Ref[any]
	loader    actor.Ref[any]
	outbox    actor.Ref[any]
	reminders actor.Ref[any]
	receivers *receivers
	opened    atomic.Bool // Open has set all of the above: what is to be delivered may call Wake

	projected   atomic.Int32 // how many projections and followers there are
	mu          sync.Mutex
	projections []actor.Ref[any]         // guarded by mu
	followers   []*follower              // of Changes; guarded by mu, not changed in place
	projecting  map[string]chan struct{} // full while a handler of that projection runs; guarded by mu
}

// Open makes journal the journal of the system's durable actors, which [Spawn] spawns. It spawns
// the actor "persist", whose children write and read, and fails with [actor.ErrNameTaken] if the
// system already has one. It panics if the config has no types.
//
// Deliverables in the journal, which are messages, reminders and events for projections, are all
// read when Open is called, and after that whenever this Persistence has committed some in that
// partition. They are delivered to actors of its own system. So if several processes write to one
// journal, an actor can send only to actors of its own process. Deliverables that a process leaves
// behind when it ends are delivered when a process next opens the journal: by each process that has
// the receiver, or a Wake that spawns it, so let only one process have those. Even otherwise a
// durable actor handles a deliverable once, but a function of [Persistence.Deliver] may get a
// message from two processes.
//
// Shutdown of the system waits until everything is durable: the actor "persist" stops after all others at
// the root, see [actor.StopLast]. Close the journal after that.
func Open(_ context.Context, sys *actor.System, journal Journal, cfg Config) (*Persistence, error) {
	if cfg.Types == nil {
		panic("persist: Open: the config has no Types: codec.NewTypes makes them")
	}
	p := &Persistence{sys: sys, journal: journal, cfg: cfg.withDefaults(), projecting: make(map[string]chan struct{})}
	p.commits = newCommits(p)
	p.receivers = newReceivers()
	p.loads = &loads{p: p, open: make(map[uint64]*reading)}
	_, err := actor.TrySpawn(sys, "persist", func() *keeper { return &keeper{p: p} }, actor.StopLast(),
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(1000, time.Minute)))
	if err != nil {
		return nil, fmt.Errorf("open persistence: %w", err)
	}
	p.opened.Store(true)
	p.outbox.Tell(context.Background(), parts(0))
	p.reminders.Tell(context.Background(), parts(0))
	return p, nil
}

// keeper is the actor "persist", the parent of the actors that write and read.
type keeper struct{ p *Persistence }

// Init implements actor.Initializer.
func (k *keeper) Init(ctx *actor.Context[struct{}]) error {
	k.p.committer = actor.Spawn(ctx, "committer", func() *committer { return &committer{commits: k.p.commits} })
	k.p.loader = actor.Spawn(ctx, "loader", func() *loader { return &loader{loads: k.p.loads} })
	k.p.outbox = actor.Spawn(ctx, "outbox", func() *outbox { return &outbox{backlog: backlog{p: k.p}} })
	k.p.reminders = actor.Spawn(ctx, "reminders", func() *reminders { return &reminders{backlog: backlog{p: k.p}} })
	return nil
}

// Receive implements actor.Actor.
func (k *keeper) Receive(*actor.Context[struct{}], struct{}) error { return nil }
