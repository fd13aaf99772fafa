package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	clustermemory "github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
	"github.com/greenroom-go/greenroom/sim"
)

// msg is what the actors of these tests are told: a number of a sender, or what to do. As a request it is
// answered with how many messages the activation has handled.
type msg struct {
	actor.Returns[int]
	from, n int
	do      func(ctx *actor.Context[msg], a *counter) error
}

// counter counts what it handles, and notes it in a log.
type counter struct {
	key     string
	handled int
	log     *logbook
}

// logbook is what all actors of a test have done, in the order in which it happened.
type logbook struct {
	mu    sync.Mutex
	lines []string
	sums  map[string][]int // by actor and sender: the numbers in the order in which they came
	open  map[string]int   // activations by key
	most  int              // of one key at the same time
}

func newLogbook() *logbook {
	return &logbook{sums: make(map[string][]int), open: make(map[string]int)}
}

func (l *logbook) addf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func (l *logbook) begin(key string, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[key] += by
	l.most = max(l.most, l.open[key])
}

func (l *logbook) got(key string, m msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := fmt.Sprintf("%s from %d", key, m.from)
	l.sums[of] = append(l.sums[of], m.n)
}

func (l *logbook) expect(t testing.TB, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.lines, want) {
		t.Errorf("it was\n\t%s\nand not\n\t%s", strings.Join(l.lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	l.lines = nil
}

func (l *logbook) newCounter(key string) *counter { return &counter{key: key, log: l} }

func (c *counter) Init(*actor.Context[msg]) error {
	c.log.addf("%s begins", c.key)
	c.log.begin(c.key, 1)
	return nil
}

func (c *counter) Terminate(*actor.Context[msg], error) {
	c.log.addf("%s ends with %d", c.key, c.handled)
	c.log.begin(c.key, -1)
}

func (c *counter) Receive(ctx *actor.Context[msg], m msg) error {
	c.handled++
	if m.n > 0 {
		c.log.got(c.key, m)
	}
	if m.do != nil {
		if err := m.do(ctx, c); err != nil {
			return err
		}
	}
	actor.ReplyFor(ctx, c.handled)
	return nil
}

func stop(ctx *actor.Context[msg], _ *counter) error {
	ctx.Stop()
	return nil
}

func register(t testing.TB, sys *actor.System, log *logbook, opts ...cluster.KindOption) *cluster.Kind[msg] {
	t.Helper()
	carts, err := cluster.Register(cluster.Alone(sys), "cart", log.newCounter, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return carts
}

// count asks an actor how many messages it has handled.
func count(ctx context.Context, t testing.TB, to actor.Ref[msg]) int {
	t.Helper()
	n, err := actor.Ask(ctx, to, msg{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestLocalActorIsActivatedByItsFirstMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log)
		a := carts.Ref("a")
		if a != carts.Ref("a") || a == carts.Ref("b") {
			t.Error("references are not equal by their keys")
		}
		if a.PID().String() != "*/cart/a#0" {
			t.Errorf("the address is %s", a)
		}
		k.Settle()
		log.expect(t)
		if n := carts.Active(); n != 0 {
			t.Errorf("%d are active before the first message", n)
		}
		a.Tell(k.Context(), msg{})
		if n := count(k.Context(), t, a); n != 2 {
			t.Errorf("it has handled %d", n)
		}
		log.expect(t, "a begins")
		if n := carts.Active(); n != 1 {
			t.Errorf("%d are active", n)
		}
	})
}

func TestLocalActorKnowsItselfByItsVirtualAddress(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log)
		probe := actortest.NewProbe[msg](k)
		carts.Ref("a").Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], _ *counter) error {
			if ctx.Self() != carts.Ref("a") {
				t.Errorf("it is %s to itself", ctx.Self())
			}
			probe.Ref().Tell(ctx, msg{n: 1})
			return nil
		}})
		probe.Next()
		if probe.Sender() != carts.Ref("a").PID() {
			t.Errorf("the sender is %s", probe.Sender())
		}
		text, err := carts.Ref("a").MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var ref actor.Ref[msg]
		if err := ref.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		if ref.Bind(k.System()); ref != carts.Ref("a") {
			t.Errorf("%s is read as %s", text, ref)
		}
		for _, path := range []string{"/cart/a"} {
			if ref, err := actor.LookupPath[msg](k.System(), path); err != nil || ref != carts.Ref("a") {
				t.Errorf("under %s is %s, %v", path, ref, err)
			}
		}
	})
}

func TestLocalKeysMayBeAnything(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		carts := register(t, k.System(), newLogbook())
		for i, key := range []string{"a/b", "#1", "$2", "50%", "*", "%2F", "x\x00é ", "$"} {
			ref := carts.Ref(key)
			if n := count(k.Context(), t, ref); n != 1 {
				t.Errorf("%q has handled %d: it is not the first one of its key", key, n)
			}
			pid, err := actor.ParsePID(ref.String())
			if err != nil || pid != ref.PID() {
				t.Errorf("%q: %s is read as %s, %v", key, ref, pid, err)
			}
			if found, err := actor.Lookup[msg](k.System(), pid); err != nil || found != ref {
				t.Errorf("%q: %s leads to %s, %v", key, pid, found, err)
			}
			if n := carts.Active(); n != i+1 {
				t.Errorf("%q: %d are active", key, n)
			}
		}
		for _, text := range []string{"*/cart/a%2fb#0", "*/cart/a*#0", "*/cart/%#0", "*/cart/$a#0", "*/cart/#0", "*/cart/a#1", "*/other/a#0", "*/cart#0"} {
			pid, err := actor.ParsePID(text)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := actor.Lookup[msg](k.System(), pid); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s leads to %s, %v", text, found, err)
			}
		}
		for _, key := range []string{"", strings.Repeat("x", 1025)} {
			if err := actor.CheckKey(key); !errors.Is(err, actor.ErrBadName) {
				t.Errorf("CheckKey of %d bytes: %v", len(key), err)
			}
		}
		pid := carts.Ref("a").PID()
		if found, err := actor.Lookup[int](k.System(), pid); !errors.Is(err, actor.ErrNotAccepted) {
			t.Errorf("as an actor of int it is %s, %v", found, err)
		}
	})
}

func TestLocalActorIsPassivatedWhenItIsIdle(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log, cluster.IdleAfter(time.Minute))
		ends := actortest.Events[actor.ActorStopped](k)
		a := carts.Ref("a")
		for range 5 {
			a.Tell(k.Context(), msg{})
			k.Advance(50 * time.Second)
		}
		log.expect(t, "a begins")
		k.Advance(2 * time.Minute)
		log.expect(t, "a ends with 5")
		ends.Expect(actor.ActorStopped{PID: a.PID(), Reason: actor.Passivated})
		if n := carts.Active(); n != 0 {
			t.Errorf("%d are active", n)
		}
		if n := count(k.Context(), t, a); n != 1 {
			t.Errorf("the next activation has handled %d", n)
		}
		log.expect(t, "a begins")
	})
}

func TestLocalActorWithATimerStaysActive(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log, cluster.IdleAfter(time.Minute))
		carts.Ref("a").Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], _ *counter) error {
			ctx.After("later", time.Hour, msg{})
			return nil
		}})
		k.Advance(59 * time.Minute)
		log.expect(t, "a begins")
		k.Advance(10 * time.Minute)
		log.expect(t, "a ends with 2")
	})
}

func TestLocalActorThatStopsLeavesItsMailToTheNextActivation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log)
		gate := actortest.NewGate(k)
		gate.Close()
		a := carts.Ref("a")
		a.Tell(k.Context(), msg{n: 1, do: func(ctx *actor.Context[msg], _ *counter) error {
			gate.Pass(ctx)
			ctx.Stop()
			return nil
		}})
		k.Settle()
		a.Tell(k.Context(), msg{n: 2})
		answer := actortest.Ask(k, a, msg{n: 3})
		k.Settle()
		a.Tell(k.Context(), msg{n: 4})
		gate.Open()
		if n := answer.Await().Answer(); n != 2 {
			t.Errorf("the request was the %d. message of its activation", n)
		}
		k.Settle()
		log.expect(t, "a begins", "a ends with 1", "a begins")
		if got := log.sums["a from 0"]; !slices.Equal(got, []int{1, 2, 3, 4}) {
			t.Errorf("handled were %v", got)
		}
	})
}

func TestLocalWatchersHearOfPassivation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log, cluster.IdleAfter(time.Minute))
		probe := actortest.NewProbe[any](k)
		a := carts.Ref("a")
		watch := func() {
			actortest.Do(probe, func(ctx *actor.Context[any]) error {
				ctx.Watch(a.PID(), func(d actor.Down) any { return d })
				return nil
			})
		}
		down := actor.Down{PID: a.PID(), Reason: actor.Passivated}
		watch()
		probe.Expect(down) // at once, and without an activation
		log.expect(t)
		a.Tell(k.Context(), msg{})
		k.Settle()
		watch()
		probe.ExpectNone()
		k.Advance(2 * time.Minute) // who watches does not keep it active
		probe.Expect(down)
		a.Tell(k.Context(), msg{})
		k.Settle()
		watch()
		a.Kill()
		probe.Expect(actor.Down{PID: a.PID(), Reason: actor.Killed})
		stranger, err := actor.ParsePID("*/nothing/a#0")
		if err != nil {
			t.Fatal(err)
		}
		actortest.Do(probe, func(ctx *actor.Context[any]) error {
			ctx.Watch(stranger, func(d actor.Down) any { return d })
			return nil
		})
		probe.Expect(actor.Down{PID: stranger, Reason: actor.NoActor})
	})
}

func TestLocalLinksDoNotExitWithAPassivation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		carts := register(t, k.System(), newLogbook())
		a, b := carts.Ref("a"), carts.Ref("b")
		link := func(ctx *actor.Context[msg], _ *counter) error {
			ctx.Link(b.PID())
			return nil
		}
		b.Tell(k.Context(), msg{})
		a.Tell(k.Context(), msg{do: link})
		k.Settle()
		b.Stop()
		k.Settle()
		if n := count(k.Context(), t, a); n != 2 {
			t.Errorf("it has handled %d: it has failed with the other's passivation", n)
		}
		b.Tell(k.Context(), msg{})
		a.Tell(k.Context(), msg{do: link})
		k.Settle()
		b.Kill()
		k.Settle()
		if n := count(k.Context(), t, a); n != 1 {
			t.Errorf("it has handled %d: it has not failed with the other", n)
		}
		k.ExpectFailures(1)
	})
}

func TestLocalActorsAreNotMoreThanHotSays(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log, cluster.Hot(10))
		for i := range 10 {
			carts.Ref(fmt.Sprint(i)).Tell(k.Context(), msg{})
		}
		k.Settle()
		carts.Ref("10").Tell(k.Context(), msg{}) // now the hand has gone round once
		for i := range 200 {
			k.Settle()
			carts.Ref("often").Tell(k.Context(), msg{n: i + 1})
			carts.Ref(fmt.Sprint(100+i)).Tell(k.Context(), msg{})
			k.Settle()
			if n := carts.Active(); n > 10 {
				t.Fatalf("%d are active", n)
			}
		}
		ends := 0
		for _, line := range log.lines {
			if strings.HasPrefix(line, "often ends") {
				ends++
			}
		}
		if ends > 2 {
			t.Errorf("the one that is used all the time was passivated %d times", ends)
		}
		if got := len(log.sums["often from 0"]); got != 200 {
			t.Errorf("it has handled %d", got)
		}
	})
}

func TestLocalActorThatCannotBeginRefusesItsMessages(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		k.AllowFailures()
		broken := true
		node := cluster.Alone(k.System())
		log := newLogbook()
		carts, err := cluster.Register(node, "cart", func(key string) *counter {
			if broken {
				panic("no state")
			}
			return log.newCounter(key)
		}, cluster.Supervised(actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute), actor.Exhausted(actor.Stop))))
		if err != nil {
			t.Fatal(err)
		}
		a := carts.Ref("a")
		_, err = actor.Ask(k.Context(), a, msg{})
		if !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the request has ended with %v", err)
		}
		if d := actortest.ExpectDeadLetter[msg](k); d.Reason != actor.Failed || d.To != a.PID() {
			t.Errorf("the dead letter is %+v", d)
		}
		if n := carts.Active(); n != 0 {
			t.Errorf("%d are active", n)
		}
		broken = false
		if n := count(k.Context(), t, a); n != 1 {
			t.Errorf("it has handled %d", n)
		}
	})
}

func TestLocalWhatIsSpawnedElsewhereIsRefused(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		boom := errors.New("no room in the house")
		spawns := []func(cluster.Activation, ...actor.SpawnOption) (actor.Ref[msg], error){
			func(cluster.Activation, ...actor.SpawnOption) (actor.Ref[msg], error) {
				return actor.Spawn(k.System(), "other", func() *counter { return log.newCounter("other") }), nil
			},
			func(cluster.Activation, ...actor.SpawnOption) (r actor.Ref[msg], err error) { return r, boom },
			func(at cluster.Activation, _ ...actor.SpawnOption) (actor.Ref[msg], error) {
				return actor.TrySpawnFunc(at.Parent, at.Key, func(*actor.Context[msg], msg) error { return nil })
			},
			func(at cluster.Activation, _ ...actor.SpawnOption) (r actor.Ref[msg], err error) {
				_, err = actor.TrySpawn(at.Parent, at.Key, func() actor.Actor[int] { return nil })
				return r, err
			},
		}
		for i, spawn := range spawns {
			kind, err := cluster.RegisterSpawned(cluster.Alone(k.System()), fmt.Sprint("kind", i), spawn)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := actor.Ask(k.Context(), kind.Ref("a"), msg{}); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%d: %v", i, err)
			}
			actortest.ExpectDeadLetter[msg](k)
			if !strings.Contains(k.Log(), fmt.Sprintf("kind=kind%d key=a error=", i)) {
				t.Errorf("%d: the log does not say why", i)
			}
			if n := kind.Active(); n != 0 {
				t.Errorf("%d: %d are active", i, n)
			}
		}
	})
}

func TestLocalCycleOfAsksIsFound(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		carts := register(t, k.System(), newLogbook())
		a, b := carts.Ref("a"), carts.Ref("b")
		ask := func(to actor.Ref[msg], next func(*actor.Context[msg], *counter) error) func(*actor.Context[msg], *counter) error {
			return func(ctx *actor.Context[msg], _ *counter) error {
				_, err := actor.Ask(ctx, to, msg{do: next})
				return actor.Refuse(ctx, err)
			}
		}
		_, err := actor.Ask(k.Context(), a, msg{do: ask(b, ask(a, nil))}) // b is not active when it is asked
		if !errors.Is(err, actor.ErrDeadlock) {
			t.Errorf("two that ask each other: %v", err)
		}
	})
}

func TestLocalMessagesThatWaitAreBounded(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		kind, err := cluster.RegisterSpawned(cluster.Alone(k.System()), "slow", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
			return actor.TrySpawn(at.Parent, at.Key, func() *slowEnd { return &slowEnd{gate} }, opts...)
		}, cluster.Park(2))
		if err != nil {
			t.Fatal(err)
		}
		a := kind.Ref("a")
		if err := a.TryTell(k.Context(), msg{}); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		gate.Close()
		a.Stop()
		k.Settle()
		for i := range 2 {
			if err := a.TryTell(k.Context(), msg{}); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := a.TryTell(k.Context(), msg{}); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("one too many: %v", err)
		}
		a.Tell(k.Context(), msg{})
		if d := actortest.ExpectDeadLetter[msg](k); d.Reason != actor.Overflowed {
			t.Errorf("the dead letter is %+v", d)
		}
		gate.Open()
		if n := count(k.Context(), t, a); n != 3 {
			t.Errorf("it has handled %d", n)
		}
	})
}

// slowEnd is an actor that ends when a gate is open.
type slowEnd struct{ gate *actortest.Gate }

func (s *slowEnd) Receive(ctx *actor.Context[msg], _ msg) error {
	actor.ReplyFor(ctx, 3)
	return nil
}

func (s *slowEnd) Terminate(ctx *actor.Context[msg], _ error) { s.gate.Pass(ctx) }

func TestLocalSenderThatWaitsForRoomReachesTheNextActivation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log, cluster.Spawning(actor.Bounded(1, actor.Block)))
		gate := actortest.NewGate(k)
		gate.Close()
		a := carts.Ref("a")
		a.Tell(k.Context(), msg{n: 1, do: func(ctx *actor.Context[msg], _ *counter) error {
			gate.Pass(ctx)
			ctx.Stop()
			return nil
		}})
		k.Settle()
		a.Tell(k.Context(), msg{n: 2})
		third := actortest.Ask(k, a, msg{n: 3}) // waits for room
		k.Settle()
		gate.Open()
		if n := third.Await().Answer(); n != 2 {
			t.Errorf("the request was the %d. message of its activation", n)
		}
		if got := log.sums["a from 0"]; !slices.Equal(got, []int{1, 2, 3}) {
			t.Errorf("handled were %v", got)
		}
	})
}

func TestLocalEventsComeToTheActivationOnly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		heard := 0
		kind, err := cluster.Register(cluster.Alone(k.System()), "listener", func(string) *listener { return &listener{&heard} })
		if err != nil {
			t.Fatal(err)
		}
		dead := actor.Spawn(k.System(), "gone", func() *slowEnd { return &slowEnd{actortest.NewGate(k)} })
		dead.Stop()
		k.Settle()
		a := kind.Ref("a")
		actor.Subscribe(k.System(), a) // of nobody: an event activates no actor
		dead.Tell(k.Context(), msg{})
		actortest.ExpectDeadLetter[msg](k)
		a.Tell(k.Context(), actor.DeadLetter{Type: "subscribe"})
		k.Settle()
		dead.Tell(k.Context(), msg{})
		actortest.ExpectDeadLetter[msg](k)
		if heard != 1 {
			t.Errorf("it has heard %d events", heard)
		}
		a.Stop()
		k.Settle()
		dead.Tell(k.Context(), msg{})
		actortest.ExpectDeadLetter[msg](k)
		if n := kind.Active(); n != 0 || heard != 1 {
			t.Errorf("%d are active, and have heard %d", n, heard)
		}
	})
}

// listener subscribes itself to dead letters when it is told one that says so.
type listener struct{ heard *int }

func (l *listener) Receive(ctx *actor.Context[actor.DeadLetter], d actor.DeadLetter) error {
	if d.Type == "subscribe" {
		actor.Subscribe(ctx.System(), ctx.Self())
		return nil
	}
	*l.heard++
	return nil
}

func TestLocalDurableActorRemembersOverPassivation(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		journal, err := persist.Open(k.Context(), k.System(), memory.New(), persist.Config{Types: codec.NewTypes(codec.Of[int]("test.sum"))})
		if err != nil {
			t.Fatal(err)
		}
		kind, err := cluster.RegisterSpawned(cluster.Alone(k.System()), "sum", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
			return persist.TrySpawn(journal, at.Parent, at.Key, func() *durableSum { return new(durableSum) }, persist.Actor(opts...))
		}, cluster.IdleAfter(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		a := kind.Ref("a")
		for i := range 5 {
			if n, err := actor.Ask(k.Context(), a, msg{n: 10}); err != nil || n != 10*(i+1) {
				t.Fatalf("the sum is %d, %v", n, err)
			}
			k.Advance(2 * time.Minute)
			if n := kind.Active(); n != 0 {
				t.Fatalf("%d are active", n)
			}
		}
	})
}

// TestAloneDoesNotWriteWhereAClusterHasWritten has a process on the journal of a cluster as if there were no other.
// One that joins goes on with it, also with an engine that has nothing.
func TestAloneDoesNotWriteWhereAClusterHasWritten(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		store, n := memory.New(), 0
		add := func(join func(sys *actor.System) *cluster.Node) (int, error) {
			n++
			sys := actor.NewSystem(fmt.Sprint("node-", n))
			journal, err := persist.Open(k.Context(), sys, store, persist.Config{Types: codec.NewTypes(codec.Of[int]("test.sum"))})
			if err != nil {
				t.Fatal(err)
			}
			kind, err := cluster.RegisterDurable(join(sys), "sum", journal, func(string) *durableSum { return new(durableSum) })
			if err != nil {
				t.Fatal(err)
			}
			sum, failed := actor.Ask(k.Context(), kind.Ref("a"), msg{n: 1})
			if _, err := sys.Shutdown(k.Context()); err != nil {
				t.Fatal(err)
			}
			return sum, failed
		}
		alone := cluster.Alone
		joined := func(sys *actor.System) *cluster.Node {
			node, err := cluster.Join(sys, cluster.Config{Engine: new(clustermemory.Engine)})
			if err != nil {
				t.Fatal(err)
			}
			return node
		}
		for i, c := range []struct {
			join func(sys *actor.System) *cluster.Node
			sum  int
			err  error
		}{{alone, 1, nil}, {alone, 2, nil}, {joined, 3, nil}, {alone, 0, persist.ErrFenced}, {joined, 4, nil}} {
			if sum, err := add(c.join); sum != c.sum || !errors.Is(err, c.err) {
				t.Errorf("%d: the sum is %d, %v: want %d, %v", i, sum, err, c.sum, c.err)
			}
		}
	})
}

// durableSum adds numbers, and keeps the sum.
type durableSum struct{ persist.Durable[int] }

func (s *durableSum) Receive(ctx *actor.Context[msg], m msg) error {
	s.State += m.n
	s.Save()
	actor.ReplyFor(ctx, s.State)
	return nil
}

func TestLocalNameMustBeFree(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		node := cluster.Alone(k.System())
		log := newLogbook()
		for name, want := range map[string]error{"": actor.ErrBadName, "a*": actor.ErrBadName, "a/b": actor.ErrBadName, "$a": actor.ErrBadName} {
			if _, err := cluster.Register(node, name, log.newCounter); !errors.Is(err, want) {
				t.Errorf("%q: %v", name, err)
			}
		}
		register(t, k.System(), log)
		if _, err := cluster.Register(node, "cart", log.newCounter); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
	})
}

// TestLocalSimNothingIsLostAtPassivation has actors that passivate at any time told by several others, in
// every order that a seed may bring. Each message is handled once, in the order in which its sender has
// sent it, and of each key there is one activation at a time.
func TestLocalSimNothingIsLostAtPassivation(t *testing.T) {
	const senders, keys, each = 3, 2, 12
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 60, 5000), StepTime: time.Millisecond}, func(w *sim.World) {
		sys, log := w.System(), newLogbook()
		carts := register(t, sys, log, cluster.IdleAfter(5*time.Millisecond), cluster.Hot(1))
		for s := range senders {
			from := actor.Spawn(sys, fmt.Sprint("sender", s), func() *counter { return log.newCounter(fmt.Sprint("sender", s)) })
			from.Tell(t.Context(), msg{do: func(ctx *actor.Context[msg], _ *counter) error {
				for n := range each {
					to := carts.Ref(fmt.Sprint((n + s) % keys))
					m := msg{from: s, n: n + 1}
					switch sys.Rand().IntN(5) {
					case 0:
						m.do = stop
					case 1:
						to.Drain()
					case 2:
						to.Stop()
					case 3:
						if _, err := actor.Ask(ctx, to, m); err != nil {
							w.Fatalf("ask: %v", err)
						}
						continue
					}
					to.Tell(ctx, m)
					if sys.Rand().IntN(3) == 0 {
						if err := ctx.Sleep(time.Duration(sys.Rand().IntN(12)) * time.Millisecond); err != nil {
							return err
						}
					}
				}
				return nil
			}})
		}
		w.Advance(time.Second)
		for s := range senders {
			for key := range keys {
				var want []int
				for n := range each {
					if (n+s)%keys == key {
						want = append(want, n+1)
					}
				}
				if got := log.sums[fmt.Sprintf("%d from %d", key, s)]; !slices.Equal(got, want) {
					w.Fatalf("actor %d has handled %v of sender %d, which has sent %v", key, got, s, want)
				}
			}
		}
		if log.most != 1 {
			w.Fatalf("%d activations of a key at once", log.most)
		}
		if n := sys.Stats().DeadLetters; n > 0 {
			w.Fatalf("%d dead letters", n)
		}
	})
}

// TestLocalNothingIsLostByManyAtOnce is the same with all processors.
func TestLocalNothingIsLostByManyAtOnce(t *testing.T) {
	const senders, keys, each = 4, 8, 2000
	sys, log := actortest.NewSystem(t), newLogbook()
	carts := register(t, sys, log, cluster.Hot(4), cluster.IdleAfter(time.Millisecond))
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for n := range each {
				to := carts.Ref(fmt.Sprint(n % keys))
				m := msg{from: s, n: n + 1}
				if n%7 == 0 {
					m.do = stop
				}
				to.Tell(t.Context(), m)
				if n%64 == 0 { // a handler is seldom killed in time
					if _, err := actor.Ask(t.Context(), to, msg{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	for key := range keys {
		count(t.Context(), t, carts.Ref(fmt.Sprint(key)))
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	for s := range senders {
		for key := range keys {
			got := log.sums[fmt.Sprintf("%d from %d", key, s)]
			if len(got) != each/keys || !slices.IsSorted(got) {
				t.Errorf("actor %d has handled %d of sender %d, in order: %v", key, len(got), s, slices.IsSorted(got))
			}
		}
	}
	if log.most != 1 {
		t.Errorf("%d activations of a key at once", log.most)
	}
}
