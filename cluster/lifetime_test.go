package cluster_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
)

// refusing is an engine that fails at once, and after too many calls only when their time is up.
type refusing struct {
	cluster.Engine
	calls atomic.Int64
}

const refusedMost = 1000

func (r *refusing) Put(ctx context.Context, _ string, _ []byte, _ cluster.Revision) (cluster.Revision, error) {
	return 0, r.fail(ctx)
}

func (r *refusing) Get(ctx context.Context, _ string) (cluster.Entry, error) {
	return cluster.Entry{}, r.fail(ctx)
}

func (r *refusing) fail(ctx context.Context) error {
	if r.calls.Add(1) > refusedMost {
		<-ctx.Done()
	}
	return cluster.ErrUnsure
}

func TestAnEngineThatFailsAtOnceIsNotCalledWithoutPause(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := &refusing{Engine: new(memory.Engine)}
		join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		if n := engine.calls.Load(); n > 100 {
			t.Errorf("it was called %d times in 10 s", n)
		}
	})
}

// denying is an engine that refuses one key, and after too many calls only when their time is up.
type denying struct {
	refusing
}

func (d *denying) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	if strings.HasPrefix(key, "map/") {
		return 0, d.fail(ctx)
	}
	return d.Engine.Put(ctx, key, value, was)
}

func (d *denying) Get(ctx context.Context, key string) (cluster.Entry, error) {
	return d.Engine.Get(ctx, key)
}

func TestAMapThatIsRefusedIsNotPutWithoutPause(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := &denying{refusing{Engine: new(memory.Engine)}}
		join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		if n := engine.calls.Load(); n == 0 || n > 100 {
			t.Errorf("it was put %d times in 10 s", n)
		}
	})
}

func TestTooManyShardsAreRefused(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		m, err := cluster.Join(k.System(), cluster.Config{Engine: new(memory.Engine)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Host(m, "things", 16385, newKeeper()); err == nil || !strings.Contains(err.Error(), "at most 16384") {
			t.Error(err)
		}
		if _, err := cluster.Host(m, "things", 16384, newKeeper()); err != nil {
			t.Error(err)
		}
	})
}

// TestAMemberWhoseHolderPanicsEnds has each Drop panic, also those at the end.
func TestAMemberWhoseHolderPanicsEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		k.AllowFailures()
		w := &wire{Engine: new(memory.Engine)}
		m, err := cluster.Join(k.System(), cluster.Config{Engine: w})
		if err != nil {
			t.Fatal(err)
		}
		holder := &brittle{keeper: *newKeeper(), breaks: true}
		if _, err := cluster.Host(m, "things", 4, holder); err != nil {
			t.Fatal(err)
		}
		k.Advance(10 * time.Second)
		if n := holder.holds(); n != 4 {
			t.Fatalf("it holds %d shards", n)
		}
		w.cut.Store(true)
		k.Advance(30 * time.Second)
		select {
		case <-m.Done():
		default:
			t.Fatal("it has not ended")
		}
		var why *actor.PanicError
		if !errors.As(m.Err(), &why) || holder.holds() != 0 {
			t.Errorf("it has ended with %v, and its holder has %d shards", m.Err(), holder.holds())
		}
	})
}

// TestASystemMayJoinAgain has one join that has left, and then one that was declared dead.
func TestASystemMayJoinAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		if err := a.Leave(k.Context()); err != nil {
			t.Fatal(err)
		}
		again := func() (*cluster.Node, *wire, *keeper) {
			t.Helper()
			w, holder := &wire{Engine: engine}, newKeeper()
			n, err := cluster.Join(a.System(), cluster.Config{Engine: w})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := cluster.Host(n, "things", 4, holder); err != nil {
				t.Fatal(err)
			}
			k.Advance(time.Minute)
			if !n.Valid() {
				t.Fatalf("it has no lease, and has ended with %v", n.Err())
			}
			return n, w, holder
		}
		n, w, holder := again()
		if got := holder.holds(); got != 4 {
			t.Errorf("it holds %d shards", got)
		}
		b := join(k, engine, "b", 4)
		k.Advance(10 * time.Second)
		w.cut.Store(true)
		k.Advance(30 * time.Second)
		w.cut.Store(false)
		k.Advance(10 * time.Second)
		if err := n.Err(); !errors.Is(err, cluster.ErrDeclaredDead) {
			t.Fatal(err)
		}
		b.expectHeld(t, 4)
		_, _, holder = again()
		if got := holder.holds(); got != 2 {
			t.Errorf("it holds %d shards beside b", got)
		}
	})
}

// TestALeaveEndsWithTheLeaseWhenTheEngineIsSilent has another member that could take the shards, if the map could
// be changed.
func TestALeaveEndsWithTheLeaseWhenTheEngineIsSilent(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a, b := join(k, engine, "a", 4), join(k, engine, "b", 4)
		k.Advance(30 * time.Second)
		a.expectHeld(t, 2)
		a.wire.cut.Store(true)
		ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
		defer cancel()
		if err := a.Leave(ctx); err == nil || !strings.Contains(err.Error(), "without giving all shards away") {
			t.Errorf("leave: %v", err)
		}
		a.expectHeld(t, 0)
		k.Advance(30 * time.Second)
		b.expectHeld(t, 4)
	})
}

// TestALeaveWithNobodyToGiveToEndsActorsInOrder has an observer, which takes no shards. What is in the mailbox is
// handled by nobody, and that is not waited for.
func TestALeaveWithNobodyToGiveToEndsActorsInOrder(t *testing.T) {
	t.Parallel()
	ctx, engine := t.Context(), new(memory.Engine)
	v := &vault{sums: make(map[string]int)}
	a, b := connect(t, engine, "a", v), connect(t, engine, "b", v, cluster.Elsewhere())
	begun, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	t.Cleanup(release)
	if _, err := actor.Ask(ctx, b.tallies.Ref("k"), add{N: 1}); err != nil {
		t.Fatal(err)
	}
	v.mu.Lock()
	v.held = func() { close(begun); <-goOn }
	v.mu.Unlock()
	busy := actor.AskFuture(ctx, a.tallies.Ref("k"), add{N: 1})
	<-begun
	waits := actor.AskFuture(ctx, a.tallies.Ref("k"), add{N: 1})
	left := make(chan error, 1)
	go func() { left <- a.Leave(ctx) }()
	for { // it has begun to leave
		e, err := engine.Get(ctx, "node/a")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Value), "leaving") {
			break
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	release()
	if got, err := busy.Wait(ctx); err != nil || got.Total != 2 {
		t.Errorf("the handler that ran has answered %v, %v", got, err)
	}
	if err := <-left; err != nil {
		t.Errorf("leave: %v", err)
	}
	if _, err := waits.Wait(ctx); err == nil && v.add("k", 0) != 3 {
		t.Errorf("what was in the mailbox was answered, and is not there")
	}
	if n := a.tallies.Active(); n != 0 {
		t.Errorf("%d are active", n)
	}
}

// TestASystemThatIsConnectedJoinsOnce has a second membership with connections.
func TestASystemThatIsConnectedJoinsOnce(t *testing.T) {
	t.Parallel()
	engine := new(memory.Engine)
	a := connect(t, engine, "a", &vault{sums: make(map[string]int)})
	cfg := cluster.Config{Engine: engine, Remote: &remote.Config{Addr: "127.0.0.1:0", Secret: "only for these tests"}}
	if _, err := cluster.Join(a.System(), cfg); !errors.Is(err, remote.ErrHasNode) {
		t.Errorf("beside the first one: %v", err)
	}
	if err := a.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Join(a.System(), cfg); !errors.Is(err, remote.ErrHasNode) {
		t.Errorf("after the first one: %v", err)
	}
}

// TestAConnectedMemberThatJoinedUnawaresAndIsDeadEnds has the first put of its record arrive, and its answer not. When it
// can ask it was declared dead: the others do not speak to its system any more, so it must not join again.
func TestAConnectedMemberThatJoinedUnawaresAndIsDeadEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n := newWitnessed(k, nil)
		w := &wire{Engine: n.engine}
		w.cut.Store(true)
		sys := actor.NewSystem("late")
		k.T().Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
		cfg := cluster.Config{Engine: w}
		cfg.SetLinks(brokenLinks{})
		late, err := cluster.Join(sys, cfg)
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		n.put("late", cluster.Record{Join: 1, System: sys.Incarnation(), State: cluster.StateDead})
		w.cut.Store(false)
		k.Advance(10 * time.Second)
		if err := late.Err(); !errors.Is(err, cluster.ErrDeclaredDead) || late.Valid() {
			t.Errorf("it has ended with %v, and its lease is valid: %v", err, late.Valid())
		}
	})
}

// forgetful is an engine that can lose what it has.
type forgetful struct{ atomic.Pointer[memory.Engine] }

func (f *forgetful) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	return f.Load().Put(ctx, key, value, was)
}

func (f *forgetful) Get(ctx context.Context, key string) (cluster.Entry, error) {
	return f.Load().Get(ctx, key)
}

func (f *forgetful) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	return f.Load().Watch(prefix, see)
}

func TestAMemberWhoseRecordIsLostEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(forgetful)
		engine.Store(new(memory.Engine))
		a := join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		before, ok := a.shards.Held(0)
		if !ok {
			t.Fatal("it does not hold the shard")
		}
		engine.Store(new(memory.Engine))
		k.Advance(10 * time.Second)
		if err := a.Err(); err == nil || !strings.Contains(err.Error(), "has lost the member's record") {
			t.Errorf("it has ended with %v", err)
		}
		b := join(k, engine, "b", 4)
		k.Advance(10 * time.Second)
		if after, _ := b.shards.Held(0); after <= before {
			t.Errorf("the epoch is %d after %d", after, before)
		}
	})
}

// TestTheLongerTTLIsWaitedFor has a member that waits less than the other's lease lasts.
func TestTheLongerTTLIsWaitedFor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 2)
		k.Advance(10 * time.Second)
		sys := actor.NewSystem("b")
		k.T().Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
		if _, err := cluster.Join(sys, cluster.Config{Engine: engine, TTL: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Minute)
		if !a.Valid() {
			t.Errorf("a has ended with %v, and was never cut off", a.Err())
		}
	})
}

func TestAnAddressThatIsNoneIsNotAdvertised(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		sys := actor.NewSystem("a")
		_, err := cluster.Join(sys, cluster.Config{
			Engine: new(memory.Engine), Remote: &remote.Config{Addr: addr, Secret: "only for these tests"},
		})
		if err == nil || !strings.Contains(err.Error(), "Advertise is needed") {
			t.Errorf("%s: %v", addr, err)
		}
		if _, err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestAnOpenSessionIsNoEvidence has something else refuse connections for a node that lives.
func TestAnOpenSessionIsNoEvidence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	engine, v := new(memory.Engine), &vault{sums: make(map[string]int)}
	a := connect(t, engine, "a", v, cluster.ShardCount(1))
	b := connect(t, engine, "b", v, cluster.ShardCount(1))
	for _, n := range []*connected{a, b} { // one of the two is not there: the session is open after that
		if _, err := actor.Ask(t.Context(), n.tallies.Ref("x"), add{N: 1}); err != nil {
			t.Fatal(err)
		}
	}
	r := cluster.Record{Addr: closed, System: b.System().Incarnation()}
	if a.Refuses(t.Context(), r, "b") {
		t.Error("b has an open session, and is taken for one that refuses")
	}
	r.System++
	if !a.Refuses(t.Context(), r, "b") {
		t.Error("one that has no session is not taken for one that refuses")
	}
}

// TestAMemberThatLeavesHasNoDeadLetters has members leave in order: nobody is to read a warning for that.
func TestAMemberThatLeavesHasNoDeadLetters(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a, b := joinLapsing(k, engine, "a"), joinLapsing(k, engine, "b")
		k.Advance(20 * time.Second)
		for _, n := range []*lapsing{a, b} {
			n.BeginToLeave()
			k.Advance(20 * time.Second)
			if err := n.Err(); err != nil || n.System().Stats().DeadLetters > 0 {
				k.T().Errorf("%s has left with %v and the dead letters %+v", n.Name(), err, n.System().DeadLetters())
			}
		}
	})
}
