package actor_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// sentinels has a way to each error that package actor exports: a call as a user makes
// it. internal/check sees to it that none is missing.
var sentinels = []struct {
	is      error
	produce func(k *actortest.Kit) error
	bare    bool // it has nothing to add
}{
	{is: actor.ErrStopped, produce: func(k *actortest.Kit) error {
		ref := actor.Spawn(k.System(), "counter", newCounter)
		ref.Stop()
		k.Settle()
		return ref.TryTell(k.Context(), add{1})
	}},
	{is: actor.ErrNameTaken, produce: func(k *actortest.Kit) error {
		actor.Spawn(k.System(), "counter", newCounter)
		_, err := actor.TrySpawn(k.System(), "counter", newCounter)
		return err
	}},
	{is: actor.ErrBadName, produce: func(k *actortest.Kit) error {
		_, err := actor.TrySpawn(k.System(), "a/b", newCounter)
		return err
	}},
	{is: actor.ErrUnhandled, produce: func(k *actortest.Kit) error {
		return actortest.Ask(k, actor.Spawn(k.System(), "counter", newCounter), mute{}).Err()
	}},
	{is: actor.ErrNotAccepted, produce: func(k *actortest.Kit) error {
		_, err := actor.LookupPath[string](k.System(), actor.Spawn(k.System(), "counter", newCounter).PID().Path())
		return err
	}},
	{is: actor.ErrDeadlock, produce: func(k *actortest.Kit) error {
		ref := actor.SpawnFunc(k.System(), "narcissus", func(ctx *actor.Context[get], m get) error {
			_, err := actor.Ask(ctx, ctx.Self(), m)
			return err
		})
		return actortest.Ask(k, ref, get{}).Err()
	}},
	{is: actor.ErrStop, bare: true, produce: func(k *actortest.Kit) error {
		// It is for handlers to return; whoever stands around a handler sees it.
		var seen error
		ref := actor.Spawn(k.System(), "counter", newCounter, actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
			seen = next()
			return seen
		}))
		ref.Tell(k.Context(), quit{})
		actortest.ExpectDown(k, ref)
		return seen
	}},
	{is: actor.ErrRestartBudget, produce: func(k *actortest.Kit) error {
		var child actor.Ref[counterMsg]
		actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[int], _ int) error {
			child = actor.Spawn(ctx, "child", newCounter)
			return nil
		}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute), actor.Exhausted(actor.Stop))).Tell(k.Context(), 1)
		k.Settle()
		k.Watch(child)
		child.Tell(k.Context(), fail{errBroken})
		return actortest.ExpectDown(k, child).Err
	}},
	{is: actor.ErrUnreachable, produce: func(k *actortest.Kit) error {
		a, b := connect(k.T())
		far := remoteRef[counterMsg](k.T(), a, actor.Spawn(b.sys(), "counter", newCounter).PID())
		a.lose()
		return far.TryTell(k.Context(), add{1})
	}},
	{is: actor.ErrBadPID, produce: func(*actortest.Kit) error {
		_, err := actor.ParsePID("nobody")
		return err
	}},
	{is: actor.ErrMailboxFull, produce: func(k *actortest.Kit) error {
		gate := actortest.NewGate(k)
		gate.Close()
		p := actortest.NewProbe[int](k, gate.Around(), actor.Bounded(1, actor.Reject))
		p.Ref().Tell(k.Context(), 1)
		k.Settle()
		p.Ref().Tell(k.Context(), 2)
		return p.Ref().TryTell(k.Context(), 3)
	}},
	{is: actor.ErrStashFull, produce: func(k *actortest.Kit) error {
		const most = 100_000 // docs/limits.md
		var full error
		ref := actor.SpawnFunc(k.System(), "hoarder", func(ctx *actor.Context[int], _ int) error {
			full = ctx.Stash()
			return nil
		})
		for n := range most + 1 {
			ref.Tell(k.Context(), n)
		}
		k.Settle()
		return full
	}},
	{is: actor.ErrTooManyWaiting, produce: func(k *actortest.Kit) error {
		sys := actortest.NewSystem(k.T(), actor.WithMaxWaiting(1))
		refused := make(chan error, 1)
		for range 2 {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				if err := ctx.Sleep(time.Second); err != nil {
					refused <- err
				}
				return nil
			}).Tell(k.Context(), 1)
			k.Settle() // two that begin to wait at the same moment may both
		}
		return <-refused
	}},
	{is: actor.ErrWrongGoroutine, produce: func(k *actortest.Kit) error {
		refused := make(chan error)
		actor.SpawnFunc(k.System(), "strayed", func(ctx *actor.Context[int], _ int) error {
			var wg sync.WaitGroup
			wg.Go(func() { refused <- ctx.Sleep(time.Second) })
			wg.Wait()
			return nil
		}).Tell(k.Context(), 1)
		return <-refused
	}},
	{is: actor.ErrLinked, produce: func(k *actortest.Kit) error {
		other := actor.Spawn(k.System(), "other", newCounter)
		p := actortest.NewProbe[actor.ActorFailed](k)
		actor.Subscribe(k.System(), p.Ref())
		actortest.Do(actortest.NewProbe[any](k), func(ctx *actor.Context[any]) error {
			ctx.Link(other.PID())
			return nil
		})
		other.Kill()
		return p.Next().Err
	}},
}

func TestSentinelsAreToldApartByErrorsIs(t *testing.T) {
	for i, s := range sentinels {
		t.Run(s.is.Error(), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				k.AllowFailures()
				err := s.produce(k)
				for j, other := range sentinels {
					if got, want := errors.Is(err, other.is), i == j; got != want {
						k.T().Errorf("errors.Is(%q, %q) is %v", err, other.is, got)
					}
				}
				if !s.bare && err != nil && err.Error() == s.is.Error() {
					k.T().Errorf("%q does not say what it is about", err)
				}
			})
		})
	}
}
