package actor_test

import (
	"context"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// slowToEnd takes a minute for its Terminate.
type slowToEnd struct{}

func (slowToEnd) Receive(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Hour) }

func (slowToEnd) Terminate(*actor.Context[int], error) {
	<-time.After(time.Minute)
}

func TestAnActorThatTakesTooLongToStopIsKilled(t *testing.T) {
	for name, stop := range map[string]func(parent, child actor.Ref[int]){
		"stop":             func(_, child actor.Ref[int]) { child.Stop() },
		"drain":            func(_, child actor.Ref[int]) { child.Drain() },
		"stop of parent":   func(parent, _ actor.Ref[int]) { parent.Stop() },
		"drain of parent":  func(parent, _ actor.Ref[int]) { parent.Drain() },
		"stop, then again": func(_, child actor.Ref[int]) { child.Stop(); child.Drain(); child.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[int], _ int) error {
					actor.Spawn(ctx, "child", func() slowToEnd { return slowToEnd{} }, actor.StopWithin(time.Second))
					return nil
				})
				parent.Tell(k.Context(), 1)
				k.Settle()
				child, err := actor.LookupPath[int](k.System(), "/parent/child")
				if err != nil {
					k.T().Fatal(err)
				}
				began := k.Elapsed()
				stop(parent, child)
				down, err := child.Wait(k.Context())
				if took := k.Elapsed() - began; err != nil || down.Reason != actor.Killed || took < time.Second || took > 2*time.Second {
					k.T().Errorf("%v after %v, %v", down.Reason, took, err)
				}
				k.Advance(time.Minute) // until its Terminate, which was left behind, has returned
			})
		})
	}
}

func TestAnActorThatStopsInTimeIsNotKilled(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "x", func() slowToEnd { return slowToEnd{} }, actor.StopWithin(2*time.Minute))
		ref.Tell(k.Context(), 1)
		k.Settle()
		ref.Stop()
		if down, err := ref.Wait(context.WithoutCancel(k.Context()), actor.Within(time.Hour)); err != nil || down.Reason != actor.Stopped {
			k.T().Errorf("%v, %v", down.Reason, err)
		}
		if n := k.System().Stats().Timers; n > 1 { // the limit of the wait may be one
			k.T().Errorf("%d timers are left", n)
		}
	})
}

func TestAnActorThatStopsLastEndsAfterItsSiblings(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		spawn := func(parent actor.Spawner, name string, opts ...actor.SpawnOption) {
			actor.Spawn(parent, name, func() *family { return &family{log, 0} }, opts...)
		}
		beginAndStop := func(name string, begin func(ctx *actor.Context[int])) {
			parent := actor.SpawnFunc(k.System(), name, func(ctx *actor.Context[int], _ int) error {
				begin(ctx)
				return nil
			})
			parent.Tell(k.Context(), 1)
			k.Settle()
			parent.Stop()
			k.Settle()
		}
		beginAndStop("p", func(ctx *actor.Context[int]) {
			spawn(ctx, "a")
			spawn(ctx, "last", actor.StopLast())
			spawn(ctx, "b")
			spawn(ctx, "very-last", actor.StopLast())
			spawn(ctx, "c")
		})
		log.Expect("init /p/a", "init /p/last", "init /p/b", "init /p/very-last", "init /p/c",
			"end /p/c", "end /p/b", "end /p/a", "end /p/last", "end /p/very-last")

		beginAndStop("alone", func(ctx *actor.Context[int]) {
			spawn(ctx, "first", actor.StopLast())
			spawn(ctx, "a")
		})
		log.Expect("init /alone/first", "init /alone/a", "end /alone/a", "end /alone/first")
	})
}
