package actor_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

type (
	wait   struct{ actor.Returns[int] }
	numbed struct {
		actor.Returns[int]
		n int64
	}
)

func TestMoreHandlersThanAllowedDoNotWaitAndAreToldSo(t *testing.T) {
	sys := actor.NewSystem("x", actor.WithMaxWaiting(1))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	asked := make(chan *actor.Promised[int], 1)
	slow := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[wait], m wait) error {
		asked <- actor.Promise(ctx, m)
		return nil
	})
	waiting, got := make(chan struct{}), make(chan error, 1)
	first := actor.SpawnFunc(sys, "first", func(ctx *actor.Context[int], _ int) error {
		close(waiting)
		_, err := actor.Ask(ctx, slow, wait{})
		got <- err
		return nil
	})
	first.Tell(bg, 1)
	<-waiting
	promise := <-asked
	for sys.Stats().Waiting == 0 { // its stack is set aside after the request was sent
		runtime.Gosched()
	}
	refused := make(chan [3]error, 1)
	second := actor.SpawnFunc(sys, "second", func(ctx *actor.Context[int], _ int) error {
		_, err := actor.Ask(ctx, slow, wait{})
		var gathered error
		for _, a := range actor.Gather(ctx, []actor.Ref[wait]{slow}, wait{}) {
			gathered = a.Err
		}
		refused <- [3]error{err, gathered, ctx.Sleep(time.Hour)}
		return nil
	})
	second.Tell(bg, 1)
	for i, err := range <-refused {
		if !errors.Is(err, actor.ErrTooManyWaiting) {
			t.Errorf("%s: %v", [...]string{"Ask", "Gather", "Sleep"}[i], err)
		}
	}
	promise.Resolve(1)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestAnAskDoesNotAllocateItsRequest(t *testing.T) {
	sys := actortest.NewSystem(t)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[numbed], m numbed) error {
		actor.Reply(ctx, m, int(m.n))
		return nil
	})
	n := int64(1000)
	allocs := testing.AllocsPerRun(2000, func() {
		n++
		if got, err := actor.Ask(bg, ref, numbed{n: n}); err != nil || got != int(n) {
			t.Fatal(got, err)
		}
	})
	if allocs > 1 {
		t.Errorf("it allocates %.0f times, want 1", allocs)
	}
}
