package actor_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// fastest returns the shortest of some runs: others may have the processors during one.
func fastest(runs int, run func() time.Duration) time.Duration {
	best := run()
	for range runs - 1 {
		best = min(best, run())
	}
	return best
}

// An actor that ends leaves the actors that it watches, however many others watch them.
func TestManyWatchersOfOneActorEndAsFastAsThoseOfMany(t *testing.T) {
	const n = 10_000
	end := func(targets int) time.Duration {
		sys := actortest.NewSystem(t)
		of := make([]actor.PID, targets)
		for i := range of {
			of[i] = actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil }).PID()
		}
		watchers := make([]actor.Ref[int], n)
		for i := range watchers {
			watchers[i] = actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				ctx.Watch(of[i%targets], func(actor.Down) int { return 0 })
				return nil
			})
			watchers[i].Tell(bg, 1)
		}
		for sys.Stats().Handled < n {
			runtime.Gosched()
		}
		began := time.Now()
		for _, w := range slices.Backward(watchers) {
			w.Stop()
		}
		for sys.Stats().Actors > targets {
			runtime.Gosched()
		}
		return time.Since(began)
	}
	var one, many time.Duration
	for range 4 {
		one, many = end(1), end(500)
		t.Logf("watchers of one %v, of 500 %v", one, many)
		if one < 4*many {
			return
		}
	}
	t.Errorf("%d watchers of one actor take %v to end, of 500 actors %v", n, one, many)
}

func TestAWatchEndsAsFastBesideManyOthers(t *testing.T) {
	sys := actortest.NewSystem(t)
	took := make(chan time.Duration)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		if n == 0 {
			return nil
		}
		wrap := func(actor.Down) int { return 0 }
		for i := range n {
			pid, err := actor.ParsePID(fmt.Sprintf("elsewhere/x#%d", i))
			if err != nil {
				return err
			}
			ctx.Watch(pid, wrap)
		}
		pid := ctx.Self().PID()
		took <- fastest(5, func() time.Duration {
			began := time.Now()
			for range 200 {
				ctx.Watch(pid, wrap)
				ctx.Unwatch(pid)
			}
			return time.Since(began)
		})
		return nil
	})
	ref.Tell(bg, 10)
	few := <-took
	ref.Tell(bg, 10_000)
	if many := <-took; many > 20*few {
		t.Errorf("200 watches end in %v beside 10, in %v beside 10000", few, many)
	}
}

// The watches of one address are several, and each ends by itself or all of them together.
func TestSeveralWatchesOfOneActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		first, second := actor.Spawn(k.System(), "first", newCounter), actor.Spawn(k.System(), "second", newCounter)
		p := actortest.NewProbe[any](k)
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			for i := range 3 {
				ctx.Watch(first.PID(), func(actor.Down) any { return fmt.Sprint("first ", i) })
				ctx.Watch(second.PID(), func(actor.Down) any { return fmt.Sprint("second ", i) })
			}
			ctx.Unwatch(second.PID())
			ctx.Watch(second.PID(), func(actor.Down) any { return "second again" })
			return nil
		})
		d, err := k.System().Detail(k.Context(), p.Ref().PID())
		if err != nil || len(d.Watches) != 4 {
			k.T().Errorf("%d watches, %v", len(d.Watches), err)
		}
		if d, err = k.System().Detail(k.Context(), second.PID()); err != nil || d.Watchers != 1 {
			k.T().Errorf("%d watchers, %v", d.Watchers, err)
		}
		first.Stop()
		k.Settle()
		second.Stop()
		k.Settle()
		p.ExpectAll("first 0", "first 1", "first 2", "second again")
	})
}
