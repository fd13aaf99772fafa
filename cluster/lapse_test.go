package cluster_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// lateWire is a wire whose calls take some time to fail when it is cut, and whose watches then see what
// they have missed when it is mended.
type lateWire struct {
	wire
	mu     sync.Mutex
	missed []func()
}

func (w *lateWire) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	w.wait(ctx)
	return w.wire.Put(ctx, key, value, was)
}

func (w *lateWire) Get(ctx context.Context, key string) (cluster.Entry, error) {
	w.wait(ctx)
	return w.wire.Get(ctx, key)
}

func (w *lateWire) wait(ctx context.Context) {
	if w.cut.Load() {
		_ = pause.For(ctx, 200*time.Millisecond)
	}
}

func (w *lateWire) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	return w.wire.Watch(prefix, func(e cluster.Entry) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut.Load() {
			w.missed = append(w.missed, func() { see(e) })
			return
		}
		see(e)
	})
}

func (w *lateWire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut.Store(false)
	for _, see := range w.missed {
		see()
	}
	w.missed = nil
}

// where asks an actor for the name of its node, after it has worked for a time.
type where struct {
	actor.Returns[string]
	Work time.Duration
}

// lapsing is a member whose actors answer where.
type lapsing struct {
	*cluster.Node
	kind *cluster.Kind[where]
	wire *lateWire

	mu      sync.Mutex
	working map[string]bool // the keys whose actors work, guarded by mu
}

// lapser is an actor of a lapsing member.
type lapser struct {
	n   *lapsing
	key string
}

func (a *lapser) Receive(ctx *actor.Context[where], m where) error {
	if m.Work > 0 {
		a.n.setWorking(a.key, true)
		defer a.n.setWorking(a.key, false)
		if err := ctx.Sleep(m.Work); err != nil {
			return err
		}
	}
	actor.Reply(ctx, m, a.n.Name())
	return nil
}

func (n *lapsing) setWorking(key string, is bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.working[key] = is
}

func (n *lapsing) works(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.working[key]
}

func joinLapsing(k *actortest.Kit, engine cluster.Engine, name string) *lapsing {
	t := k.T()
	t.Helper()
	sys := actor.NewSystem(name)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	n := &lapsing{wire: &lateWire{wire: wire{Engine: engine}}, working: make(map[string]bool)}
	var err error
	if n.Node, err = cluster.Join(sys, cluster.Config{Engine: n.wire}); err != nil {
		t.Fatal(err)
	}
	if n.kind, err = cluster.Register(n.Node, "where", func(key string) *lapser { return &lapser{n, key} }, cluster.ShardCount(2)); err != nil {
		t.Fatal(err)
	}
	return n
}

// ask returns which node the actor of a key is on, as this member finds it, "" if it is not found.
func (n *lapsing) ask(k *actortest.Kit, key string) string {
	ctx, cancel := context.WithTimeout(k.Context(), 100*time.Millisecond)
	defer cancel()
	name, err := actor.Ask(ctx, n.kind.Ref(key), where{})
	if err != nil {
		return ""
	}
	return name
}

// lapse has the lease of a member end, and begin again when it has dropped all.
func (n *lapsing) lapse(k *actortest.Kit) {
	n.wire.cut.Store(true)
	for n.Valid() {
		k.Advance(50 * time.Millisecond)
	}
	k.Advance(1500 * time.Millisecond)
	n.wire.mend()
	for !n.Valid() && n.Err() == nil {
		k.Advance(10 * time.Millisecond)
	}
	if err := n.Err(); err != nil {
		k.T().Fatal(err)
	}
}

var lapsingKeys = []string{"x", "y", "z", "u", "v", "w"}

// TestAShardThatALapsedLeaseHasDroppedIsNotGivenAwayUnseen has a move be planned while the owner has no
// lease, whose router is slow to stop what the shard has. The owner must not hand it over before that.
func TestAShardThatALapsedLeaseHasDroppedIsNotGivenAwayUnseen(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := joinLapsing(k, engine, "a")
		k.Advance(10 * time.Second)
		for _, key := range lapsingKeys {
			if got := a.ask(k, key); got != "a" {
				t.Fatalf("%s is on %q", key, got)
			}
		}
		b := joinLapsing(k, engine, "b")
		k.Advance(4 * time.Second)
		a.wire.cut.Store(true)
		k.Advance(5 * time.Second) // b plans the move
		a.KeepRouterBusy(20 * time.Second)
		a.lapse(k)
		moved := false
		for range 60 {
			for _, key := range lapsingKeys {
				if b.ask(k, key) != "b" {
					continue
				}
				moved = true
				if a.ask(k, key) == "a" {
					t.Errorf("at %s %s is on a, which has a lease (%v), and on b", time.Now().Format(time.TimeOnly), key, a.Valid())
					return
				}
			}
			k.Advance(500 * time.Millisecond)
		}
		if !moved {
			t.Error("nothing has moved to b")
		}
	})
}

// TestAGiveThatTheLeaseCutsShortStopsWhatIsUnderWay has the lease end while a shard that is given away waits
// for its handlers.
func TestAGiveThatTheLeaseCutsShortStopsWhatIsUnderWay(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := joinLapsing(k, engine, "a")
		k.Advance(10 * time.Second)
		for _, key := range lapsingKeys {
			a.kind.Ref(key).Tell(k.Context(), where{Work: time.Minute})
		}
		b := joinLapsing(k, engine, "b")
		k.Advance(6 * time.Second) // a gives one of the shards away, and waits for its handlers
		a.lapse(k)
		for range 60 {
			k.Advance(500 * time.Millisecond)
			for _, key := range lapsingKeys {
				if b.ask(k, key) != "b" {
					continue
				}
				if a.works(key) {
					t.Errorf("at %s %s is on b, and works on a, which has a lease (%v)", time.Now().Format(time.TimeOnly), key, a.Valid())
				}
				return
			}
		}
		t.Error("nothing has moved to b")
	})
}
