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

// drained are mailboxes of each kind, with room for two messages where they are bounded.
var drained = map[string][]actor.SpawnOption{
	"plain":   nil,
	"bounded": {actor.Bounded(2, actor.Reject)},
	"block":   {actor.Bounded(2, actor.Block)},
	"ranked":  {actor.Priority(func(n int) int { return n })},
	"newest":  {actor.Conflate(func(n int) int { return n })},
}

func TestAnActorThatIsDrainedTakesNothingMore(t *testing.T) {
	for name, opts := range drained {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate := actortest.NewGate(k)
				gate.Close()
				var handled []int
				ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], n int) error {
					gate.Pass(ctx)
					handled = append(handled, n)
					return nil
				}, opts...)
				for _, n := range []int{3, 2, 1} {
					ref.Tell(k.Context(), n)
					k.Settle()
				}
				ref.Drain()
				ref.Drain() // a second order changes nothing
				if err := ref.TryTell(k.Context(), 9); !errors.Is(err, actor.ErrStopped) {
					k.T().Errorf("TryTell to an actor that is drained: %v", err)
				}
				ref.Tell(k.Context(), 8)
				if n := k.System().Stats().DeadLetters; n != 1 {
					k.T().Errorf("%d dead letters while the handler is busy, not 1", n)
				}
				gate.Open()
				k.Settle()
				if len(handled) != 3 || k.System().Stats().DeadLetters != 1 {
					k.T().Errorf("handled %v, %d dead letters", handled, k.System().Stats().DeadLetters)
				}
			})
		})
	}
}

func TestWhoWaitsForRoomIsRefusedWhenTheActorIsDrained(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		handled := 0
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], _ int) error {
			gate.Pass(ctx)
			handled++
			return nil
		}, actor.Bounded(1, actor.Block))
		ref.Tell(k.Context(), 1)
		k.Settle()
		ref.Tell(k.Context(), 2)
		errs := make(chan error, 3)
		for range cap(errs) {
			go func() { errs <- ref.TryTell(k.Context(), 3) }()
		}
		k.Settle()
		ref.Drain()
		for range cap(errs) {
			if err := <-errs; !errors.Is(err, actor.ErrStopped) {
				k.T().Errorf("got %v", err)
			}
		}
		gate.Open()
		k.Settle()
		if n := k.System().Stats().DeadLetters; handled != 2 || n != 0 {
			k.T().Errorf("handled %d messages, %d dead letters", handled, n)
		}
	})
}

func TestAnIncarnationsContextLastsOverItsRequests(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var lives []context.Context
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[any], m any) error {
			if r, ok := m.(get); ok {
				lives = append(lives, ctx.Incarnation())
				actor.Reply(ctx, r, 1)
				return nil
			}
			return errBroken
		})
		for range 2 {
			ctx, cancel := context.WithTimeout(k.Context(), time.Minute)
			if _, err := actor.Ask(ctx, ref, get{}); err != nil {
				k.T().Fatal(err)
			}
			cancel()
			k.Settle()
		}
		if lives[0] != lives[1] || lives[0].Err() != nil {
			k.T().Errorf("the context has ended with its request: %v", lives[0].Err())
		}
		ref.Tell(k.Context(), "fail")
		k.Settle()
		k.ExpectFailures(1)
		if lives[0].Err() == nil {
			k.T().Error("the context outlives its incarnation")
		}
	})
}

func TestInspectSaysWhatAnActorDoes(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		hold := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], n int) error {
			switch n {
			case 1:
				return ctx.Sleep(time.Minute)
			case 2:
				<-hold
			case 3:
				ctx.After("", time.Hour, 4) // so that it keeps its mailbox
			}
			return nil
		})
		expect := func(want string) {
			k.T().Helper()
			tree, err := k.System().Inspect("/a", 0)
			if err != nil || tree.Activity != want {
				k.T().Errorf("it is %q, not %q: %v", tree.Activity, want, err)
			}
		}
		tree, _ := k.System().Inspect("/a", 0)
		if expect("idle"); tree.Attached {
			k.T().Error("an actor that has got no message has a mailbox")
		}
		ref.Tell(k.Context(), 1)
		k.Settle()
		if tree, _ = k.System().Inspect("/a", 0); !tree.Attached {
			k.T().Error("an actor that handles a message has no mailbox")
		}
		expect("waiting")
		k.Advance(time.Hour)
		expect("idle")
		other := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error { return nil })
		for range 8 { // on every worker, that of the last turn of a among them
			ref.Tell(k.Context(), 3)
			k.Settle()
			other.Tell(k.Context(), 1)
			k.Settle()
			expect("idle")
		}
		ref.Tell(k.Context(), 2)
		k.Settle()
		expect("running")
		close(hold)
	})
}

// Found by internal/attack: a child has failed and its failure was escalated when the drain of its supervisor, which
// waited for a handler, goes on. Nobody else decides about it.
func TestADrainEndsAChildWhoseFailureWasEscalated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], _ any) error {
			child := actor.SpawnFunc(ctx, "child", func(*actor.Context[any], any) error { return errBroken })
			time.AfterFunc(time.Second/2, func() { child.Tell(bg, 1) })
			return ctx.Sleep(time.Second)
		}, actor.Reentrant(), actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
		parent.Tell(bg, 1)
		synctest.Wait()
		parent.Drain()
		if _, err := parent.Wait(bg, actor.Within(time.Minute)); err != nil {
			t.Error(err)
		}
	})
}
