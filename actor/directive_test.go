package actor_test

import (
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
