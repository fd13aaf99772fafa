package actor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestTellIsNotStoppedByACanceledContext(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k)
		ctx, cancel := context.WithCancel(k.Context())
		cancel()
		p.Ref().Tell(ctx, "told")
		if err := p.Ref().TryTell(ctx, "tried"); err != nil {
			k.T().Errorf("TryTell, which need not wait: %v", err)
		}
		p.ExpectAll("told", "tried")
	})
}

func TestAnAskThatTimedOutIsNotSentAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[get](k)
		if err := actortest.Ask(k, p.Ref(), get{}).Await().Err(); !errors.Is(err, context.DeadlineExceeded) {
			k.T().Errorf("got %v", err)
		}
		k.Advance(time.Hour)
		p.ExpectAll(get{})
	})
}

func TestEachWatchHasItsDown(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		target, watcher := actor.Spawn(k.System(), "", newCounter), actortest.NewProbe[any](k)
		actortest.Do(watcher, func(ctx *actor.Context[any]) error {
			for i := range 3 {
				ctx.Watch(target.PID(), func(d actor.Down) any { return fmt.Sprint(i, " ", d.Reason) })
			}
			return nil
		})
		target.Kill()
		target.Kill()
		watcher.ExpectAll("0 killed", "1 killed", "2 killed")
	})
}

func TestConformanceAMessageFromOutsideHasNobodysSender(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		var senders []actor.PID
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
			senders = append(senders, ctx.Sender())
			return nil
		}, gate.Around())
		sender := actortest.NewProbe[any](k)
		want := make([]actor.PID, 100)
		for i := range want {
			if i%2 == 0 {
				ref.Tell(k.Context(), i)
				continue
			}
			want[i] = sender.Ref().PID()
			actortest.Do(sender, func(ctx *actor.Context[any]) error {
				ref.Tell(ctx, i)
				return nil
			})
		}
		gate.Open()
		if fmt.Sprint(senders) != fmt.Sprint(want) {
			k.T().Errorf("got %v", senders)
		}
	})
}

func TestConformanceAnActorThatEndsTakesItsLinksAndWatchesAlong(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		target := actor.Spawn(k.System(), "target", newCounter)
		for _, end := range []func(actor.Ref[any]){actor.Ref[any].Stop, actor.Ref[any].Drain} {
			for range 100 {
				p := actortest.NewProbe[any](k)
				actortest.Do(p, func(ctx *actor.Context[any]) error {
					ctx.Link(target.PID())
					ctx.Watch(target.PID(), func(d actor.Down) any { return d })
					return nil
				})
				end(p.Ref())
			}
		}
		k.Settle()
		d, err := k.System().Detail(k.Context(), target.PID())
		if err != nil || d.Watchers != 0 || len(d.Links) != 0 {
			k.T().Errorf("%d watchers and %d links are left, %v", d.Watchers, len(d.Links), err)
		}
	})
}
