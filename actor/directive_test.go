package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// troubled begins as it is told to, and counts that. It fails with an error that it is told, stops at true, and passes on
// other messages.
type troubled struct {
	begun  *int
	begin  func(n int) error
	passed chan any
}

func newTroubled(begin func(n int) error) troubled {
	return troubled{begun: new(int), begin: begin, passed: make(chan any, 9)}
}

func (x troubled) Init(*actor.Context[any]) error {
	*x.begun++
	if x.begin == nil {
		return nil
	}
	return x.begin(*x.begun)
}

func (x troubled) Receive(_ *actor.Context[any], m any) error {
	switch m := m.(type) {
	case error:
		return m
	case bool:
		return actor.ErrStop
	case held:
		m.enter()
	default:
		x.passed <- m
	}
	return nil
}

func (x troubled) spawn(ctx *actor.Context[any], name string, opts ...actor.SpawnOption) actor.Ref[any] {
	return actor.Spawn[any](ctx, name, func() troubled { return x }, opts...)
}

// always returns rules by which each failure leads to the directive.
func always(d actor.Directive) actor.SuperviseOption {
	return actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return d }))
}

// Also when it fails once more at once, since a linked actor has ended meanwhile.
func TestAResumedActorResumesWhoEscalatedToIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		linked := actor.SpawnFunc(sys, "linked", inert)
		x, h := newTroubled(nil), newHeld()
		var child actor.Ref[any]
		above := actor.SpawnFunc(sys, "above", func(ctx *actor.Context[any], m any) error {
			if m == "wait" {
				h.enter()
				return nil
			}
			actor.Spawn(ctx, "parent", func() *beginner {
				return &beginner{begin: func(ctx *actor.Context[any]) error {
					ctx.Link(linked.PID())
					child = x.spawn(ctx, "child")
					return nil
				}}
			}, always(actor.Escalate))
			return nil
		}, always(actor.Resume))
		above.Tell(bg, "spawn")
		above.Tell(bg, "wait")
		<-h.entered
		child.Tell(bg, errBroken)
		child.Tell(bg, "behind")
		synctest.Wait()
		linked.Kill()
		synctest.Wait()
		close(h.release)
		synctest.Wait()
		if len(x.passed) != 1 {
			t.Error("the child is still suspended")
		}
	})
}

// An actor without a state to go on with, or whose state may be ahead of what its gate lets go, cannot be resumed.
func TestATemporaryActorIsNotRestartedByResume(t *testing.T) {
	failsFirst := func(n int) error {
		if n == 1 {
			return errBroken
		}
		return nil
	}
	for name, test := range map[string]struct {
		decide actor.Directive
		begin  func(int) error
		opts   []actor.SpawnOption
	}{
		"after its Init":                   {actor.Resume, failsFirst, nil},
		"after its Init, by an escalation": {actor.Escalate, failsFirst, nil},
		"with a gate":                      {actor.Resume, nil, []actor.SpawnOption{actor.Gated(openGate{})}},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				k.AllowFailures()
				x := newTroubled(test.begin)
				above := actor.SpawnFunc(k.System(), "above", func(ctx *actor.Context[any], _ any) error {
					parent := actor.SpawnFunc(ctx, "parent", func(ctx *actor.Context[any], _ any) error {
						x.spawn(ctx, "child", append(test.opts, actor.Temporary)...).Tell(context.Background(), errBroken)
						return nil
					}, always(test.decide))
					parent.Tell(ctx, 1)
					return nil
				}, always(actor.Resume))
				above.Tell(k.Context(), 1)
				k.Settle()
				if _, err := actor.LookupPath[any](k.System(), "/above/parent/child"); err == nil || *x.begun != 1 {
					k.T().Errorf("it begins %d times, %v", *x.begun, err)
				}
			})
		})
	}
}

// A drain ends the restart of its siblings; what it did about a failure that was not decided yet, it leaves to the decider.
func TestAFailureBesideARestartOfOthersIsDecidedAlsoInADrain(t *testing.T) {
	for name, test := range map[string]struct {
		opts   []actor.SpawnOption
		begins int
	}{
		"temporary": {[]actor.SpawnOption{actor.Temporary}, 1},
		"stop":      {[]actor.SpawnOption{actor.Guardian(always(actor.Stop))}, 1},
		"restart":   {nil, 2},
		"resume":    {[]actor.SpawnOption{actor.Guardian(always(actor.Resume))}, 1},
	} {
		for _, strategy := range []actor.Strategy{actor.RestForOne, actor.AllForOne} { // in the latter it is a member, still to be halted
			t.Run(name+", "+strategy.String(), func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					k.AllowFailures()
					x, y, z, h := newTroubled(nil), newTroubled(nil), newTroubled(nil), newHeld()
					var other, waits, fails actor.Ref[any]
					parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
						other = x.spawn(ctx, "other", test.opts...)
						fails = y.spawn(ctx, "fails")
						waits = z.spawn(ctx, "waits")
						return nil
					}, actor.Supervise(strategy))
					parent.Tell(k.Context(), 1)
					k.Settle()
					waits.Tell(k.Context(), h)
					<-h.entered
					fails.Tell(k.Context(), errBroken)
					fails.Tell(k.Context(), "behind")
					k.Settle() // the restart waits for the youngest
					other.Tell(k.Context(), errBroken)
					other.Tell(k.Context(), "behind")
					k.Settle()
					parent.Drain()
					k.Settle()
					close(h.release)
					k.Settle()
					goesOn := name == "restart" || name == "resume"
					if *x.begun != test.begins || (len(x.passed) == 1) != goesOn {
						k.T().Errorf("it begins %d times, want %d, and handles %d messages after that", *x.begun, test.begins, len(x.passed))
					}
					if *y.begun != 2 || len(y.passed) != 1 { // about this one it was decided
						k.T().Errorf("who has failed before begins %d times, and handles %d messages after that", *y.begun, len(y.passed))
					}
				})
			})
		}
	}
}

// The restart of its group, which another failure brings, has done that.
func TestAFailureIsDoneWithWhenItsActorWasRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		h := newHeld()
		x, y := newTroubled(nil), newTroubled(func(n int) error {
			if n == 2 {
				h.enter()
				return errBroken
			}
			return nil
		})
		var older, younger actor.Ref[any]
		parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
			older, younger = x.spawn(ctx, "older"), y.spawn(ctx, "younger")
			return nil
		}, actor.Supervise(actor.AllForOne))
		parent.Tell(bg, 1)
		synctest.Wait()
		younger.Tell(bg, errBroken)
		<-h.entered
		older.Tell(bg, errBroken) // it runs again, and the younger one is in its Init
		synctest.Wait()
		close(h.release)
		synctest.Wait()
		if *x.begun != 3 || *y.begun != 3 {
			t.Errorf("they begin %d and %d times, want 3 for two restarts", *x.begun, *y.begun)
		}
	})
}

// Only a restart that ends the child is an exception.
func TestAnActorMissesAChildThatEndsByItselfInARestartOfOthers(t *testing.T) {
	for name, strategy := range map[string]actor.Strategy{"of the child as well": actor.AllForOne, "of others": actor.RestForOne} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				x := newTroubled(nil)
				var needed, fails actor.Ref[any]
				parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
					needed, fails = x.spawn(ctx, "needed", actor.Significant()), x.spawn(ctx, "fails")
					return nil
				}, actor.Supervise(strategy, actor.AutoStop(actor.AnySignificant), actor.Backoff(time.Hour, time.Hour)))
				k.Watch(parent)
				parent.Tell(k.Context(), 1)
				k.Settle()
				fails.Tell(k.Context(), errBroken)
				k.Settle()
				k.ExpectFailures(1)
				needed.Stop()
				if d := actortest.ExpectDown(k, parent); d.Reason != actor.Stopped || k.Elapsed() > 0 {
					k.T().Errorf("ended as %v, after %v", d.Reason, k.Elapsed())
				}
			})
		})
	}
}

// It was never one of the children that its parent does not outlive.
func TestNobodyMissesASignificantChildThatTrySpawnCouldNotStart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		x := newTroubled(func(int) error { return errBroken })
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.TrySpawn[any](ctx, "child", func() troubled { return x }, actor.Significant())
			if !errors.Is(err, errBroken) {
				k.T().Errorf("got %v", err)
			}
			return nil
		}, actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AnySignificant)))
		parent.Tell(k.Context(), 1)
		k.Settle()
		if _, err := k.System().Inspect("/parent", 0); err != nil {
			k.T().Errorf("the parent has ended: %v", err)
		}
	})
}

// Its end is that of the last one then.
func TestAnActorStopsWhenTheLastSignificantChildEndsBesideATrySpawn(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
			needed := actor.SpawnFunc(ctx, "needed", inert, actor.Significant())
			x := newTroubled(func(int) error {
				needed.Stop()
				_, _ = needed.Wait(context.Background())
				return errBroken
			})
			_, err := actor.TrySpawn[any](ctx, "child", func() troubled { return x }, actor.Significant())
			if !errors.Is(err, errBroken) {
				k.T().Errorf("got %v", err)
			}
			return nil
		}, actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AllSignificant)))
		k.Watch(parent)
		parent.Tell(k.Context(), 1)
		actortest.ExpectDown(k, parent)
	})
}

// It is restarted, as it would be at any other time, and at once.
func TestShutdownHandlesWhatIsQueuedBehindTheStopOfAPermanentActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Backoff(time.Hour, time.Hour)))
		x, h := newTroubled(nil), newHeld()
		ref := actor.Spawn[any](sys, "", func() troubled { return x }, actor.Permanent)
		for _, m := range []any{h, true, 1, true, 2} {
			ref.Tell(bg, m)
		}
		<-h.entered
		go func() {
			synctest.Wait() // for the shutdown, which waits for the handler
			close(h.release)
		}()
		if report, err := sys.Shutdown(bg); err != nil || len(x.passed) != 2 || *x.begun != 3 || report.DeadLetters != 0 || report.Took > time.Minute {
			t.Errorf("handled %d of 2, in %d incarnations: %+v, %v", len(x.passed), *x.begun, report, err)
		}
	})
}
