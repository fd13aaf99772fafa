package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// add is a request to a tally, which answers with its sum and where it is.
type add struct {
	actor.Returns[sum]
	N int
}

type sum struct {
	Total int
	Node  string
}

// tally adds up what it is told, and goes on from what the vault has.
type tally struct {
	key, node string
	vault     *vault
}

func (a *tally) Receive(ctx *actor.Context[add], m add) error {
	actor.Reply(ctx, m, sum{a.vault.add(a.key, m.N), a.node})
	return nil
}

// vault is the store of all tallies.
type vault struct {
	mu   sync.Mutex
	sums map[string]int
	held func() // holds up who adds next, if it is not nil
}

func (v *vault) add(key string, n int) int {
	v.mu.Lock()
	held := v.held
	v.held = nil
	v.mu.Unlock()
	if held != nil {
		held()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sums[key] += n
	return v.sums[key]
}

// connected is a node with a system of its own, connected by TCP.
type connected struct {
	*cluster.Node
	tallies *cluster.Kind[add]
}

func connect(t testing.TB, engine cluster.Engine, name string, v *vault, opts ...cluster.KindOption) *connected {
	t.Helper()
	return connectWith(t, engine, name, v, cluster.Config{}, opts...)
}

// connectWith connects a node with a Config that says more than how.
func connectWith(t testing.TB, engine cluster.Engine, name string, v *vault, cfg cluster.Config, opts ...cluster.KindOption) *connected {
	t.Helper()
	sys := actor.NewSystem(name, actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	addr := "127.0.0.1:0"
	if cfg.Remote != nil {
		addr = cfg.Remote.Addr
	}
	cfg.Engine, cfg.Remote = engine, &remote.Config{
		Addr: addr, Secret: "only for these tests", Types: codec.NewTypes(codec.Of[add]("add")),
	}
	node, err := cluster.Join(sys, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n := &connected{Node: node}
	n.tallies, err = cluster.Register(node, "tally", func(key string) *tally { return &tally{key, name, v} }, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAsksGoToTheNodeThatHasTheKey(t *testing.T) {
	t.Parallel()
	ctx, engine, v := t.Context(), new(memory.Engine), &vault{sums: make(map[string]int)}
	a := connect(t, engine, "a", v)
	ask := func(from *connected, key, want string, total int) {
		t.Helper()
		got, err := actor.Ask(ctx, from.tallies.Ref(key), add{N: 1})
		if err != nil || got != (sum{total, want}) {
			t.Fatalf("%s asked %s: %v %v, want %d of %s", from.Name(), key, got, err, total, want)
		}
	}
	ask(a, "k", "a", 1)
	b, c := connect(t, engine, "b", v), connect(t, engine, "c", v, cluster.Elsewhere())
	for i := range 100 {
		key := fmt.Sprint("key ", i)
		ask(b, key, "a", 1)
		ask(c, key, "a", 2)
	}
	if owner, ok := b.tallies.Owner("k"); !ok || owner != "a" || b.tallies.Active() != 0 {
		t.Errorf("b knows %s %v for the owner, and has %d", owner, ok, b.tallies.Active())
	}
	// What is on its way while a leaves goes to b, in order.
	var futures []*actor.Future[sum]
	for range 100 {
		futures = append(futures, actor.AskFuture(ctx, c.tallies.Ref("k"), add{N: 1}))
	}
	if err := a.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	for i, f := range futures {
		if got, err := f.Wait(ctx); err != nil || got.Total != i+2 {
			t.Fatalf("the %dth of those that were on their way: %v %v", i, got, err)
		}
	}
	for i := range 100 {
		ask(c, fmt.Sprint("key ", i), "b", 3)
	}
	if a.tallies.Active() != 0 || a.Err() != nil {
		t.Errorf("a has left, and has %d actors: %v", a.tallies.Active(), a.Err())
	}
	if _, err := actor.Ask(ctx, a.tallies.Ref("k"), add{N: 1}); err == nil {
		t.Error("a node that has left sends")
	}
}

// curious is an inline actor that asks somebody before it answers.
type curious struct{ whom actor.Ref[add] }

func (a *curious) Receive(ctx *actor.Context[add], m add) error {
	got, err := actor.Ask(ctx, a.whom, m)
	if err != nil {
		return err
	}
	actor.ReplyFor(ctx, got)
	return nil
}

// TestAnInlineActorOfAnotherNodeMayAskBack has inline actors ask the node that asks them, while they become
// active: the goroutine that reads for the node must not wait for that.
func TestAnInlineActorOfAnotherNodeMayAskBack(t *testing.T) {
	t.Parallel()
	ctx, engine, v := t.Context(), new(memory.Engine), &vault{sums: make(map[string]int)}
	a, b := connect(t, engine, "a", v), connect(t, engine, "b", v, cluster.Elsewhere())
	oracle := actor.Spawn(b.System(), "oracle", func() *tally { return &tally{"oracle", "b", v} })
	register := func(n *connected, opts ...cluster.KindOption) *cluster.Kind[add] {
		kind, err := cluster.Register(n.Node, "curious", func(string) *curious {
			whom, err := actor.Lookup[add](n.System(), oracle.PID())
			if err != nil {
				t.Error(err)
			}
			return &curious{whom}
		}, append(opts, cluster.Spawning(actor.Inline()))...)
		if err != nil {
			t.Fatal(err)
		}
		return kind
	}
	if _, err := actor.Ask(ctx, b.tallies.Ref("k"), add{N: 1}); err != nil { // they know each other
		t.Fatal(err)
	}
	register(a)
	there := register(b, cluster.Elsewhere())
	for i := range 20 {
		for range 3 { // the last ones find it active
			if got, err := actor.Ask(ctx, there.Ref(fmt.Sprint("key ", i)), add{N: 1}, actor.Within(time.Minute)); err != nil || got.Node != "b" {
				t.Fatalf("key %d: %v %v", i, got, err)
			}
		}
	}
}

// threeOfOneHour are nodes that know each other, and whose leases last for an hour. b has all keys, until
// some are moved. Nobody else takes the port of b when it has ended: others listen on 127.0.0.1.
func threeOfOneHour(t *testing.T, v *vault) (b *connected, others map[string]*connected) {
	t.Helper()
	ctx, engine, others := t.Context(), new(memory.Engine), make(map[string]*connected)
	for _, name := range []string{"b", "a", "c"} {
		cfg := cluster.Config{TTL: time.Hour}
		if name == "b" {
			cfg.Remote = &remote.Config{Addr: "127.83.1.7:0"}
		}
		n := connectWith(t, engine, name, v, cfg)
		others[name] = n
	}
	for i := range 50 {
		for _, n := range others {
			if _, err := n.ask(ctx, fmt.Sprint("key ", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b = others["b"]
	delete(others, "b")
	return b, others
}

// ask asks for a key until it is answered, for a minute: a message is given up after 20 seconds, which a slow
// machine may need to find out that a process has ended.
func (n *connected) ask(ctx context.Context, key string) (got sum, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		got, err = actor.Ask(ctx, n.tallies.Ref(key), add{N: 1}, actor.Within(time.Minute))
		if !errors.Is(err, actor.ErrUnreachable) || ctx.Err() != nil {
			return got, err
		}
	}
}

// expectWithout checks that all keys are answered, and not by b.
func expectWithout(t *testing.T, nodes map[string]*connected) {
	t.Helper()
	for i := range 50 {
		for _, n := range nodes {
			if got, err := n.ask(t.Context(), fmt.Sprint("key ", i)); err != nil || got.Node == "b" {
				t.Fatalf("key %d after b has ended: %v %v", i, got, err)
			}
		}
	}
}

// TestAProcessThatHasEndedIsNotWaitedFor ends a node without a word, whose lease would last for an hour.
func TestAProcessThatHasEndedIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b, others := threeOfOneHour(t, &vault{sums: make(map[string]int)})
	if _, err := b.System().Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectWithout(t, others)
}

// TestANodeWhoseHandlersRunIsNotTakenForEnded shuts a node down whose time is up at once, and whose handler
// goes on: until that returns, its address says that the process lives.
func TestANodeWhoseHandlersRunIsNotTakenForEnded(t *testing.T) {
	t.Parallel()
	v := &vault{sums: make(map[string]int)}
	b, others := threeOfOneHour(t, v)
	begun, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release) // before the systems are shut down
	v.mu.Lock()
	v.held = func() { close(begun); <-goOn }
	v.mu.Unlock()
	for i := 0; ; i++ { // some key of b
		key := fmt.Sprint("key ", i)
		if owner, ok := b.tallies.Owner(key); ok && owner == "b" {
			b.tallies.Ref(key).Tell(t.Context(), add{N: 1})
			break
		}
	}
	<-begun
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if report, err := b.System().Shutdown(now); err == nil || len(report.Unfinished) == 0 {
		t.Fatalf("the report is %+v, %v: want an actor that has not ended", report, err)
	}
	for range 3 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.Remote().Addr().String())
		if err != nil {
			t.Fatalf("a handler of b still runs, and: %v", err)
		}
		if _, err := io.ReadAll(conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		_ = conn.Close()
	}
	release()
	expectWithout(t, others)
}
