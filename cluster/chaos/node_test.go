//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	clusternats "github.com/greenroom-go/greenroom/cluster/nats"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/jetstream"
	"github.com/greenroom-go/greenroom/remote"
)

const (
	journalStream = "chaos_journal"
	mapStream     = "CHAOS"

	childNode = "GREENROOM_CHAOS_NODE" // has this program be a node
	ttl       = 4 * time.Second
	shards    = 16
	askLimit  = 10 * time.Second
	talkEvery = 10 * time.Millisecond
	talkKeys  = 6
	leaveTime = time.Minute
	closeTime = time.Second
)

// nodeConfig is what a process is told.
type nodeConfig struct {
	Name      string
	NATS      string // the URL of the server
	Advertise string // where the others reach it
	TTL       time.Duration
	Talks     []string // the keys that it tells numbers all the time
	Speed     float64  // of its clock, 0 for that of the host
}

// What is sent.
type (
	// Swap puts a value in place of the last one, which is the answer.
	Swap struct {
		actor.Returns[string]
		Value string
	}
	// Note is the nth that From tells a key.
	Note struct {
		From string
		N    int
	}
	// Via is a Swap by way of the node that is asked.
	Via struct {
		actor.Returns[string]
		Key, Value string
	}
	// Owners asks a node who has keys, as far as it knows.
	Owners struct {
		actor.Returns[[]string]
		Keys []string
	}
	// Hush has a node tell nothing any more.
	Hush struct{ actor.Returns[bool] }
)

// Swapped is what a register records.
type Swapped struct {
	Value string
	Epoch uint64
}

var types = codec.NewTypes(
	codec.Of[Swap]("chaos.swap"), codec.Of[Note]("chaos.note"), codec.Of[Via]("chaos.via"), codec.Of[Owners]("chaos.owners"),
	codec.Of[Hush]("chaos.hush"), codec.Of[Swapped]("chaos.swapped"),
)

// now is the clock of the host, which all processes share.
func now() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// member is a node with what it has.
type member struct {
	node  *cluster.Node
	kind  *cluster.Kind[any]
	vias  *cluster.Copies[any]
	close func()
}

// join joins the cluster. The observer only has references.
func join(ctx context.Context, c nodeConfig, observer bool) (m *member, err error) {
	m = &member{close: func() {}}
	nc, err := nats.Connect(c.NATS, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, err
	}
	journal, err := jetstream.Open(ctx, nc, jetstream.Options{Stream: journalStream})
	if err != nil {
		return nil, err
	}
	engine, err := clusternats.Open(ctx, nc, clusternats.Config{Stream: mapStream})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	sys := actor.NewSystem(c.Name, actor.WithLogger(log))
	m.close = func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime) // others may be gone without a word
		defer cancel()
		_, _ = sys.Shutdown(ctx)
		_ = journal.Close()
		nc.Close()
	}
	p, err := persist.Open(ctx, sys, journal, persist.Config{Types: types})
	if err != nil {
		return nil, err
	}
	m.node, err = cluster.Join(sys, cluster.Config{
		Engine: engine, TTL: c.TTL, Clock: c.clock(), Advertise: c.Advertise, Remote: &remote.Config{Addr: "127.0.0.1:0", Types: types},
	})
	if err != nil {
		return nil, err
	}
	if m.kind, err = register(m.node, p, observer); err != nil {
		return nil, err
	}
	m.vias, err = cluster.Everywhere[any](m.node, "via", func() *via { return &via{kind: m.kind, keys: c.Talks} })
	return m, err
}

// jump is how far a clock jumps, on a signal. Two that do, in opposite directions, and the difference of their speeds, are
// less than the margin of a lease.
const jump = 250 * time.Millisecond

// clock is one that goes at a speed of its own, and jumps.
func (c nodeConfig) clock() func() time.Duration {
	if c.Speed == 0 {
		return nil
	}
	began := time.Now()
	var jumped atomic.Int64
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, jumpAhead, jumpBack)
	go func() {
		for s := range signals {
			if s == jumpAhead {
				jumped.Add(int64(jump))
			} else {
				jumped.Add(-int64(jump))
			}
		}
	}()
	return func() time.Duration {
		return time.Duration(float64(time.Since(began))*c.Speed) + time.Duration(jumped.Load())
	}
}

const (
	jumpAhead = syscall.SIGUSR1
	jumpBack  = syscall.SIGUSR2
)

// register is [cluster.RegisterDurable] for actors that know their epochs.
func register(node *cluster.Node, p *persist.Persistence, observer bool) (*cluster.Kind[any], error) {
	name := func(s cluster.Shard) string { return fmt.Sprintf("%s/%d", s.Group, s.Number) }
	opts := []cluster.KindOption{
		cluster.ShardCount(shards), cluster.IdleAfter(2 * time.Second),
		cluster.Claiming(func(ctx context.Context, s cluster.Shard) error { return p.Claim(ctx, name(s), s.Epoch) }),
	}
	if observer {
		opts = append(opts, cluster.Elsewhere())
	}
	return cluster.RegisterSpawned(node, "reg", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[any], error) {
		return persist.TrySpawn(p, at.Parent, at.Key, func() *reg { return &reg{node: node, at: at} },
			persist.Actor(opts...), persist.Shard(name(at.Shard), at.Shard.Epoch))
	}, opts...)
}

// reg is a register.
type reg struct {
	persist.Events[any]
	node  *cluster.Node
	at    cluster.Activation
	value string
}

// Apply implements what [persist.Events] needs.
func (r *reg) Apply(e any) {
	if e, ok := e.(Swapped); ok {
		r.value = e.Value
	}
}

// Receive implements actor.Actor.
func (r *reg) Receive(ctx *actor.Context[any], m any) error {
	r.isActive()
	switch m := m.(type) {
	case Swap:
		before := r.value
		r.Record(Swapped{m.Value, r.at.Shard.Epoch})
		actor.Reply(ctx, m, before)
	case Note:
		say("told %s %s %d %d", m.From, r.at.Key, r.at.Shard.Epoch, m.N)
	}
	r.isActive()
	return nil
}

// isActive says that the register was active, with a lease, at a moment. The lease is looked at after the
// clock, so that it held at that moment wherever the process was stopped.
func (r *reg) isActive() {
	if t := now(); r.node.Valid() {
		say("active %s %d %d %s-%d", r.at.Key, r.at.Shard.Epoch, t, r.node.Name(), os.Getpid())
	}
}

var saying sync.Mutex

// say prints a line at once: a process that is killed has said what it has said.
func say(format string, args ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", args...)
}

// via is on each node, and uses what that one knows.
type via struct {
	kind *cluster.Kind[any]
	keys []string
	sent int
}

type talk struct{}

// Init implements actor.Initializer.
func (v *via) Init(ctx *actor.Context[any]) error {
	if len(v.keys) > 0 {
		ctx.Every("talk", talkEvery, talk{})
	}
	return nil
}

// Receive implements actor.Actor.
func (v *via) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case talk:
		from := fmt.Sprintf("%s-%d", ctx.System().Name(), os.Getpid())
		v.sent++
		for _, key := range v.keys {
			say("tells %s %s %d", from, key, v.sent)
			v.kind.Ref(key).Tell(ctx, Note{from, v.sent})
		}
	case Hush:
		ctx.Cancel("talk")
		actor.Reply(ctx, m, true)
	case Via:
		p := actor.Promise(ctx, m)
		actor.AskThen(ctx, v.kind.Ref(m.Key), Swap{Value: m.Value}, func(before string, err error) any {
			if err != nil {
				p.Reject(err)
			} else {
				p.Resolve(before)
			}
			return nil
		}, actor.Within(askLimit))
	case Owners:
		actor.Reply(ctx, m, owners(v.kind, m.Keys))
	}
	return nil
}

func owners(kind *cluster.Kind[any], keys []string) (names []string) {
	for _, key := range keys {
		name, _ := kind.Owner(key)
		names = append(names, name)
	}
	return names
}

// runNode is a process until it is told to leave, or is declared dead.
func runNode(text string) error {
	var c nodeConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	m, err := join(ctx, c, false)
	if err != nil {
		return err
	}
	say("listens %s", m.node.Remote().Addr())
	select {
	case <-m.node.Done():
		return fmt.Errorf("%s: %w", c.Name, m.node.Err())
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if _, err := actor.AskFor[bool](late, m.vias.Here(), Hush{}); err != nil {
		return err
	}
	if err := m.node.Leave(late); err != nil {
		return err
	}
	m.close()
	return nil
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childNode); text != "" {
		if err := runNode(text); err != nil {
			say("ended %v", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	if *chaosTime > 0 { // go test sets a limit of 10 minutes, and ends the process a minute after that
		if err := flag.Set("test.timeout", (*chaosTime + afterChaos).String()); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
