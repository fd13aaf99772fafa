package cluster_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
)

// spawning is a kind whose function that spawns does first what the test says.
func spawning(t *testing.T, k *actortest.Kit, log *logbook, first func(key string) error, opts ...cluster.KindOption) *cluster.Kind[msg] {
	t.Helper()
	kind, err := cluster.RegisterSpawned(cluster.Alone(k.System()), "cart", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
		if err := first(at.Key); err != nil {
			return actor.Ref[msg]{}, err
		}
		return actor.TrySpawn(at.Parent, at.Key, func() *counter { return log.newCounter(at.Key) }, opts...)
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// closed returns a gate that is closed, and what passes it and stops.
func closed(k *actortest.Kit) (*actortest.Gate, func(*actor.Context[msg], *counter) error) {
	gate := actortest.NewGate(k)
	gate.Close()
	return gate, func(ctx *actor.Context[msg], _ *counter) error {
		gate.Pass(ctx)
		ctx.Stop()
		return nil
	}
}

func TestLocalRestartOfTheKindLeavesItsActorsAlone(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts := register(t, k.System(), log)
		parent, err := actor.LookupPath[struct{}](k.System(), "/cart")
		if err != nil {
			t.Fatal(err)
		}
		gate := actortest.NewGate(k)
		gate.Close()
		a := carts.Ref("a")
		a.Tell(k.Context(), msg{n: 1, do: func(ctx *actor.Context[msg], _ *counter) error {
			gate.Pass(ctx)
			return nil
		}})
		a.Tell(k.Context(), msg{n: 2})
		k.Settle()
		if err := k.System().Restart(parent.PID()); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		gate.Open()
		if n := count(k.Context(), t, a); n != 3 {
			t.Errorf("it was the %d. message of its activation", n)
		}
		if n := count(k.Context(), t, carts.Ref("b")); n != 1 {
			t.Errorf("the other one has handled %d", n)
		}
		log.expect(t, "a begins", "b begins")
	})
}

func TestLocalFailureOfOneActorIsNotThatOfOthers(t *testing.T) {
	supervisions := map[string]actor.SuperviseOption{
		"exhausted": actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)),
		"escalate":  actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })),
		"panic":     actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { panic("undecided") })),
	}
	for name, s := range supervisions {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log := newLogbook()
				carts := register(t, k.System(), log, cluster.Supervised(s))
				count(k.Context(), t, carts.Ref("good"))
				for range 20 { // the root would restart the kind 10 times
					carts.Ref("bad").Tell(k.Context(), msg{do: func(*actor.Context[msg], *counter) error { return errors.New("poison") }})
					k.Settle()
				}
				k.ExpectFailures(20)
				if n := count(k.Context(), t, carts.Ref("good")); n != 2 {
					t.Errorf("another one has handled %d", n)
				}
				if n := count(k.Context(), t, carts.Ref("bad")); n != 1 {
					t.Errorf("its next activation has handled %d", n)
				}
			})
		})
	}
}

// lingering is a counter that begins and ends when gates are open.
type lingering struct {
	*counter
	begin, end *actortest.Gate
}

func (l *lingering) Init(ctx *actor.Context[msg]) error {
	l.begin.Pass(ctx)
	return l.counter.Init(ctx)
}

func (l *lingering) Terminate(ctx *actor.Context[msg], why error) {
	l.end.Pass(ctx)
	l.counter.Terminate(ctx, why)
}

func registerLingering(t *testing.T, k *actortest.Kit, log *logbook, opts ...cluster.KindOption) (carts *cluster.Kind[msg], begin, end *actortest.Gate) {
	t.Helper()
	begin, end = actortest.NewGate(k), actortest.NewGate(k)
	carts, err := cluster.Register(cluster.Alone(k.System()), "cart", func(key string) *lingering {
		return &lingering{log.newCounter(key), begin, end}
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return carts, begin, end
}

// TestLocalActorThatEndsKeepsNoOtherFromBeginning has one with more in its mailbox than may wait.
func TestLocalActorThatEndsKeepsNoOtherFromBeginning(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		carts, _, end := registerLingering(t, k, log, cluster.Park(2))
		gate, stops := closed(k)
		a, b, c, d := carts.Ref("a"), carts.Ref("b"), carts.Ref("c"), carts.Ref("d")
		count(k.Context(), t, c)
		count(k.Context(), t, d)
		end.Close()
		a.Tell(k.Context(), msg{n: 1, do: stops})
		k.Settle()
		for n := range 5 {
			a.Tell(k.Context(), msg{n: n + 2})
		}
		gate.Open()
		k.Settle()
		for n := range 2 {
			if err := a.TryTell(k.Context(), msg{n: n + 7}); err != nil {
				t.Errorf("message %d while it ends, which has left 5 in its mailbox: %v", n, err)
			}
		}
		if n, err := actor.Ask(k.Context(), b, msg{}); err != nil || n != 1 {
			t.Errorf("another one answers %d, %v", n, err)
		}
		c.Stop()
		d.Stop()
		k.Settle()
		for n := range 2 {
			c.Tell(k.Context(), msg{n: n + 1})
		}
		if err := d.TryTell(k.Context(), msg{n: 1}); err != nil {
			t.Errorf("the first message that waits for an actor: %v", err)
		}
		if err := d.TryTell(k.Context(), msg{n: 2}); !errors.Is(err, actor.ErrMailboxFull) {
			t.Errorf("the second, and there are as many as may wait: %v", err)
		}
		end.Open()
		count(k.Context(), t, a)
		if got := log.sums["a from 0"]; !slices.Equal(got, []int{1, 2, 3, 4, 5, 6, 7, 8}) {
			t.Errorf("handled were %v", got)
		}
		if n := count(k.Context(), t, d); n != 2 {
			t.Errorf("the last one has handled %d", n)
		}
	})
}

// TestLocalMessagesThatWereTakenAreNotRefusedByABound has several that wait while an activation ends,
// whose successor has room for one.
func TestLocalMessagesThatWereTakenAreNotRefusedByABound(t *testing.T) {
	for name, policy := range map[string]actor.Overflow{"block": actor.Block, "reject": actor.Reject} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log := newLogbook()
				carts, begin, end := registerLingering(t, k, log, cluster.Spawning(actor.Bounded(1, policy)))
				gate, stops := closed(k)
				end.Close()
				a := carts.Ref("a")
				a.Tell(k.Context(), msg{n: 1, do: stops})
				k.Settle()
				a.Tell(k.Context(), msg{n: 2})
				begin.Close()
				if policy == actor.Reject { // nobody waits for room
					gate.Open()
				}
				var answers []*actortest.Call[int]
				for n := range 3 {
					k.Settle()
					answers = append(answers, actortest.Ask(k, a, msg{n: n + 3}))
				}
				k.Settle()
				gate.Open()
				k.Settle()
				end.Open()
				k.Settle()
				begin.Open()
				for i, answer := range answers {
					if n := answer.Await().Answer(); n != i+2 {
						t.Errorf("request %d was the %d. message of its activation", i, n)
					}
				}
				if got := log.sums["a from 0"]; !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
					t.Errorf("handled were %v", got)
				}
			})
		})
	}
}

func TestLocalPanicWhileAnActorIsSpawnedRefusesItsMessages(t *testing.T) {
	for name, end := range map[string]func() error{
		"panic":  func() error { panic("no house") },
		"goexit": func() error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				broken := true
				carts := spawning(t, k, newLogbook(), func(string) error {
					if broken {
						return end()
					}
					return nil
				}, cluster.Park(1))
				a := carts.Ref("a")
				for range 3 { // the second and the third find nothing of those before
					done := make(chan struct{})
					go func() {
						defer close(done)
						a.Tell(k.Context(), msg{})
					}()
					<-done
					if d := actortest.ExpectDeadLetter[msg](k); d.Reason != actor.NoActor {
						t.Errorf("the dead letter is %+v", d)
					}
				}
				if n := carts.Active(); n != 0 {
					t.Errorf("%d are active", n)
				}
				if !strings.Contains(k.Log(), "virtual actor was not activated") {
					t.Error("the log does not say why")
				}
				broken = false
				gate, stops := closed(k)
				a.Tell(k.Context(), msg{do: stops})
				k.Settle()
				a.Tell(k.Context(), msg{})
				broken = true // where the activation ends
				gate.Open()
				if d := actortest.ExpectDeadLetter[msg](k); d.Reason != actor.Passivated {
					t.Errorf("the dead letter is %+v", d)
				}
				broken = false
				if n := count(k.Context(), t, a); n != 1 {
					t.Errorf("the next activation has handled %d", n)
				}
			})
		})
	}
}

// TestLocalActorThatIsChosenToEndBeforeItBegins has another one be spawned while it is.
func TestLocalActorThatIsChosenToEndBeforeItBegins(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		var carts *cluster.Kind[msg]
		carts = spawning(t, k, log, func(key string) error {
			if key == "x" {
				carts.Ref("y").Tell(k.Context(), msg{})
			}
			return nil
		}, cluster.Hot(1), cluster.IdleAfter(0))
		carts.Ref("x").Tell(k.Context(), msg{n: 1})
		k.Settle()
		if n := carts.Active(); n != 1 {
			t.Errorf("%d are active", n)
		}
		if got := log.sums["x from 0"]; !slices.Equal(got, []int{1}) {
			t.Errorf("it has handled %v", got)
		}
	})
}

// TestLocalActivationThatWasMadeByAFailingSpawnIsStopped has nobody know the activation.
func TestLocalActivationThatWasMadeByAFailingSpawnIsStopped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, broken := newLogbook(), true
		var kind *cluster.Kind[msg]
		kind, err := cluster.RegisterSpawned(cluster.Alone(k.System()), "cart", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
			ref, err := actor.TrySpawn(at.Parent, at.Key, func() *counter { return log.newCounter(at.Key) }, opts...)
			if broken && err == nil {
				switch at.Key {
				case "error":
					return actor.Ref[msg]{}, errors.New("not in the register")
				case "panic":
					panic("not in the register")
				case "other":
					return kind.Ref(at.Key), nil
				}
			}
			return ref, err
		}, cluster.IdleAfter(0))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"error", "panic", "other"} {
			broken = true
			kind.Ref(key).Tell(k.Context(), msg{})
			k.Settle()
			actortest.ExpectDeadLetter[msg](k)
			if n := kind.Active(); n != 0 {
				t.Errorf("%s: %d are active", key, n)
			}
			broken = false
			if n := count(k.Context(), t, kind.Ref(key)); n != 1 {
				t.Errorf("%s: the next activation has handled %d", key, n)
			}
			kind.Ref(key).Stop()
			k.Settle()
		}
	})
}

// TestLocalActorsEndNormallyWithTheirKind has mail be left when there is no next activation.
func TestLocalActorsEndNormallyWithTheirKind(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		carts := register(t, k.System(), newLogbook())
		parent, err := actor.LookupPath[struct{}](k.System(), "/cart")
		if err != nil {
			t.Fatal(err)
		}
		a := carts.Ref("a")
		gate, stops := closed(k)
		a.Tell(k.Context(), msg{do: stops})
		k.Settle()
		for range 3 {
			a.Tell(k.Context(), msg{})
		}
		ends := actortest.Events[actor.ActorStopped](k)
		parent.Stop()
		k.Settle()
		gate.Open()
		k.Settle()
		ends.Expect(actor.ActorStopped{PID: a.PID(), Reason: actor.Stopped})
		for range 3 {
			if d := actortest.ExpectDeadLetter[msg](k); d.Reason != actor.Stopped {
				t.Errorf("the dead letter is %+v", d)
			}
		}
	})
}

func TestLocalLinkWithAnActorThatIsNotActiveIsNothing(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		carts := register(t, k.System(), newLogbook())
		a := carts.Ref("a")
		a.Tell(k.Context(), msg{do: func(ctx *actor.Context[msg], _ *counter) error {
			ctx.Link(carts.Ref("b").PID())
			return nil
		}})
		k.Settle()
		if n := count(k.Context(), t, a); n != 2 {
			t.Errorf("it has handled %d: it has failed", n)
		}
	})
}

func TestLocalWaitForAnActorThatIsNotActive(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		a := register(t, k.System(), newLogbook()).Ref("a")
		want := actor.Down{PID: a.PID(), Reason: actor.Passivated}
		if down, err := a.Wait(k.Context()); err != nil || down != want {
			t.Errorf("Ref.Wait says %+v, %v", down, err)
		}
		if down, err := k.System().Wait(k.Context(), a.PID()); err != nil || down != want {
			t.Errorf("System.Wait says %+v, %v", down, err)
		}
	})
}
