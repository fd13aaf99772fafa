package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
)

// keeper is a holder that notes what it has.
type keeper struct {
	mu    sync.Mutex
	epoch map[int]uint64 // of what it holds
	log   []string
}

func newKeeper() *keeper { return &keeper{epoch: make(map[int]uint64)} }

func (k *keeper) note(what string, s cluster.Shard, has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.log = append(k.log, fmt.Sprintf("%s %d", what, s.Number))
	if delete(k.epoch, s.Number); has {
		k.epoch[s.Number] = s.Epoch
	}
}

func (k *keeper) Take(_ context.Context, s cluster.Shard) error { k.note("take", s, true); return nil }

func (k *keeper) Give(_ context.Context, s cluster.Shard) error { k.note("give", s, false); return nil }
func (k *keeper) Drop(s cluster.Shard)                          { k.note("drop", s, false) }

func (k *keeper) holds() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.epoch)
}

// wire is an engine that can be cut.
type wire struct {
	cluster.Engine
	cut atomic.Bool
}

func (w *wire) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	if w.cut.Load() {
		return 0, cluster.ErrUnsure
	}
	return w.Engine.Put(ctx, key, value, was)
}

func (w *wire) Get(ctx context.Context, key string) (cluster.Entry, error) {
	if w.cut.Load() {
		return cluster.Entry{}, cluster.ErrUnsure
	}
	return w.Engine.Get(ctx, key)
}

// process is a member with its holder.
type process struct {
	*cluster.Node
	wire   *wire
	holder *keeper
	shards *cluster.Shards
}

func join(k *actortest.Kit, engine cluster.Engine, name string, n int) *process {
	k.T().Helper()
	return joinWith(k, engine, name, n, cluster.Config{})
}

func joinWith(k *actortest.Kit, engine cluster.Engine, name string, n int, cfg cluster.Config) *process {
	t := k.T()
	t.Helper()
	sys := actor.NewSystem(name)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	p := &process{wire: &wire{Engine: engine}, holder: newKeeper()}
	cfg.Engine = p.wire
	var err error
	if p.Node, err = cluster.Join(sys, cfg); err != nil {
		t.Fatal(err)
	}
	if p.shards, err = cluster.Host(p.Node, "things", n, p.holder); err != nil {
		t.Fatal(err)
	}
	return p
}

// expectHeld checks what a member holds, and that it and its holder agree on it.
func (p *process) expectHeld(t testing.TB, want int) {
	t.Helper()
	held := 0
	for i := range p.shards.Len() {
		epoch, ok := p.shards.Held(i)
		if !ok {
			continue
		}
		held++
		if e := p.holder.epoch[i]; e != epoch {
			t.Errorf("%s holds shard %d with %d, and its holder with %d", p.Name(), i, epoch, e)
		}
		if owner, ok := p.shards.Owner(i); !ok || owner != p.Name() {
			t.Errorf("%s holds shard %d, and takes %q for its owner", p.Name(), i, owner)
		}
	}
	if held != want || p.holder.holds() != want {
		t.Errorf("%s holds %d shards, and its holder %d: want %d", p.Name(), held, p.holder.holds(), want)
	}
}

func TestMembersShareTheShardsAndGiveThemAway(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 10)
		k.Advance(10 * time.Second)
		a.expectHeld(t, 10)
		before := a.holder.epoch[0]
		b := join(k, engine, "b", 10)
		k.Advance(time.Second)
		b.expectHeld(t, 0) // nobody moves so soon after a join
		k.Advance(30 * time.Second)
		a.expectHeld(t, 5)
		b.expectHeld(t, 5)
		if err := a.Leave(k.Context()); err != nil {
			t.Errorf("leave: %v", err)
		}
		if a.Valid() || a.Err() != nil {
			t.Errorf("a member that has left has a lease (%v) or an error: %v", a.Valid(), a.Err())
		}
		if slices.ContainsFunc(a.holder.log, func(line string) bool { return strings.HasPrefix(line, "drop") }) {
			t.Errorf("a member that leaves drops shards in place of giving them: %v", a.holder.log)
		}
		k.Advance(time.Second)
		a.expectHeld(t, 0)
		b.expectHeld(t, 10)
		if b.holder.epoch[0] <= before {
			t.Errorf("the epoch is %d, and was %d", b.holder.epoch[0], before)
		}
		if err := b.Leave(k.Context()); err != nil { // nobody is left to give them to
			t.Errorf("leave: %v", err)
		}
		b.expectHeld(t, 0)
		if slices.ContainsFunc(b.holder.log, func(line string) bool { return strings.HasPrefix(line, "drop") }) {
			t.Errorf("what nobody could have was dropped, and did not end in order: %v", b.holder.log)
		}
		again := join(k, engine, "a", 10) // at once: the last one has said that it left
		k.Advance(5 * time.Second)
		again.expectHeld(t, 10)
	})
}

func TestAMemberThatIsCutOffStopsBeforeOthersBegin(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 4)
		k.Advance(8 * time.Second)
		b := join(k, engine, "b", 4)
		k.Advance(30 * time.Second)
		a.expectHeld(t, 2)
		b.expectHeld(t, 2)
		a.wire.cut.Store(true)
		for a.Valid() {
			k.Advance(100 * time.Millisecond)
			b.expectHeld(t, 2)
		}
		k.Advance(2 * time.Second) // the holder hears of it with the next tick
		a.expectHeld(t, 0)
		b.expectHeld(t, 2)
		k.Advance(10 * time.Second)
		b.expectHeld(t, 4)
		a.wire.cut.Store(false)
		k.Advance(5 * time.Second)
		select {
		case <-a.Done():
		default:
			t.Fatal("it does not know yet that it was declared dead")
		}
		if err := a.Leave(k.Context()); !errors.Is(err, cluster.ErrDeclaredDead) || !errors.Is(a.Err(), cluster.ErrDeclaredDead) {
			t.Errorf("leave: %v, and it has ended with %v", err, a.Err())
		}
	})
}

func TestAMemberThatIsCutOffForAShortWhileTakesItsShardsAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 3)
		k.Advance(10 * time.Second)
		epoch := a.holder.epoch[0]
		a.wire.cut.Store(true)
		k.Advance(30 * time.Second) // alone: nobody declares it dead
		a.expectHeld(t, 0)
		a.wire.cut.Store(false)
		k.Advance(10 * time.Second)
		a.expectHeld(t, 3)
		if a.holder.epoch[0] != epoch {
			t.Errorf("the owner is the same, and its epoch is %d and was %d", a.holder.epoch[0], epoch)
		}
	})
}

func TestAMemberWhoseProcessHasEndedIsReplaced(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		if _, err := a.System().Shutdown(k.Context()); err != nil {
			t.Fatal(err)
		}
		if a.Valid() || !errors.Is(a.Err(), actor.ErrStopped) {
			t.Errorf("valid: %v, and it has ended with %v", a.Valid(), a.Err())
		}
		a.expectHeld(t, 0)
		again := join(k, engine, "a", 4) // the same name, and no word of the last one
		k.Advance(10 * time.Second)
		again.expectHeld(t, 0)
		k.Advance(20 * time.Second)
		again.expectHeld(t, 4)
		if _, err := cluster.Host(a.Node, "more", 1, newKeeper()); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("host: %v", err)
		}
	})
}

// TestAMemberThatBeginsAnewOnItsMachineDoesNotWait has a process end without a word, and another one of its name begin,
// which may see that the former one is not there any more, or cannot.
func TestAMemberThatBeginsAnewOnItsMachineDoesNotWait(t *testing.T) {
	for _, c := range []struct {
		name string
		ends string
		held int
	}{{"same machine", "former", 4}, {"another machine", "", 0}} {
		t.Run(c.name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				engine := new(memory.Engine)
				begin := func(proc, ended string) *process {
					var cfg cluster.Config
					cfg.SetProcess(proc, func(other string) bool { return other == ended && ended != "" })
					return joinWith(k, engine, "a", 4, cfg)
				}
				a := begin("former", "")
				k.Advance(10 * time.Second)
				a.expectHeld(t, 4)
				if _, err := a.System().Shutdown(k.Context()); err != nil {
					t.Fatal(err)
				}
				again := begin("later", c.ends)
				k.Advance(time.Second)
				again.expectHeld(t, c.held)
			})
		})
	}
}

// TestAMemberWhoseRouterFailsEnds has the router panic: with it goes what waited, and where messages go. The
// member must not keep a lease with which it would only drop them.
func TestAMemberWhoseRouterFailsEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		a := join(k, engine, "a", 4)
		k.Advance(10 * time.Second)
		b := join(k, engine, "b", 4)
		k.Advance(30 * time.Second)
		a.expectHeld(t, 2)
		a.BreakRouter()
		k.Settle()
		var why *actor.PanicError
		if a.Valid() || !errors.As(a.Err(), &why) {
			t.Fatalf("valid: %v, and it has ended with %v", a.Valid(), a.Err())
		}
		a.expectHeld(t, 0)
		if err := a.Leave(k.Context()); !errors.As(err, &why) {
			t.Errorf("leave: %v", err)
		}
		k.Advance(30 * time.Second)
		b.expectHeld(t, 4)
	})
}

func TestConfigsThatCannotBe(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		engine := new(memory.Engine)
		for want, cfg := range map[string]cluster.Config{
			"the engine is nil":             {},
			"the TTL must be at least 1s":   {Engine: engine, TTL: time.Millisecond},
			"at most half of the TTL of 1s": {Engine: engine, TTL: time.Second, Margin: 600 * time.Millisecond},
		} {
			if _, err := cluster.Join(k.System(), cfg); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, want %q", cfg, err, want)
			}
		}
		m, err := cluster.Join(k.System(), cluster.Config{Engine: engine})
		if err != nil || m.Name() != k.System().Name() || m.System() != k.System() {
			t.Fatal(m, err)
		}
		if _, err := cluster.Join(k.System(), cluster.Config{Engine: engine}); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
		for group, want := range map[string]string{"": "must not be empty", "a/b": "must not be empty or have a '/'"} {
			if _, err := cluster.Host(m, group, 1, newKeeper()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", group, err)
			}
		}
		s, err := cluster.Host(m, "g", 1, newKeeper())
		if err != nil || s.Name() != "g" {
			t.Fatal(err)
		}
		if _, err := cluster.Host(m, "g", 1, newKeeper()); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
	})
}

// brittle is a holder whose first Takes fail, and that panics.
type brittle struct {
	keeper
	fails  int
	breaks bool
}

func (b *brittle) Take(ctx context.Context, s cluster.Shard) error {
	b.mu.Lock()
	b.fails--
	left := b.fails
	b.mu.Unlock()
	if left >= 0 {
		return errors.New("the store is closed")
	}
	return b.keeper.Take(ctx, s)
}

func (b *brittle) Give(ctx context.Context, s cluster.Shard) error {
	if b.breaks {
		return errors.New("the store is closed") // so that it is dropped
	}
	return b.keeper.Give(ctx, s)
}

func (b *brittle) Drop(s cluster.Shard) {
	b.keeper.Drop(s)
	if b.breaks {
		panic("broken")
	}
}

func TestAHolderThatFailsIsAskedAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		k.AllowFailures()
		m, err := cluster.Join(k.System(), cluster.Config{Engine: new(memory.Engine)})
		if err != nil {
			t.Fatal(err)
		}
		holder := &brittle{keeper: *newKeeper(), fails: 3}
		s, err := cluster.Host(m, "things", 1, holder)
		if err != nil {
			t.Fatal(err)
		}
		k.Advance(10 * time.Second)
		if _, ok := s.Held(0); !ok {
			t.Error("it does not hold the shard")
		}
		if got, want := fmt.Sprint(holder.log), "[drop 0 drop 0 drop 0 take 0]"; got != want {
			t.Errorf("it was %s, want %s", got, want)
		}
		if !strings.Contains(k.Log(), "the store is closed") {
			t.Error("the log does not say why")
		}
		holder.breaks = true
		if err := m.Leave(k.Context()); err == nil || !strings.Contains(err.Error(), "broken") || m.Valid() {
			t.Errorf("a member whose holder panics has ended with %v, and valid is %v", err, m.Valid())
		}
	})
}
