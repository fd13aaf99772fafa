package actor_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Bugs that the simulator's workload has found in the engine.

type again struct{ actor.Returns[int] }

func TestARequestThatComesBackToItsAskerHasAnEndToItsValues(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	var a actor.Ref[any]
	b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, a) })
	seen := make(chan any, 1)
	a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
		if _, ok := m.(again); ok { // its own request, which it does not wait for any more
			seen <- ctx.Value("key")
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_, _ = actor.Ask(limited, b, again{})
		return nil
	})
	a.Tell(context.Background(), "go")
	if v := <-seen; v != nil {
		t.Errorf("the value is %v", v)
	}
}

func TestGatherYieldsWhatHasNotComeInTheOrderOfItsReferences(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	var refs []actor.Ref[again]
	for range 8 {
		refs = append(refs, actor.SpawnFunc(sys, "", func(ctx *actor.Context[again], m again) error {
			actor.Promise(ctx, m)
			return nil
		}))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	var got []actor.Ref[again]
	for ref, answer := range actor.Gather(ctx, refs, again{}) {
		if answer.Err == nil {
			t.Errorf("%s has answered", ref)
		}
		got = append(got, ref)
	}
	if !slices.Equal(got, refs) {
		t.Errorf("got %v, want %v", got, refs)
	}
}

func TestDetailOfAnIdleActorDoesNotRaceWithItsFirstMessage(t *testing.T) {
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	for range 2000 {
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil })
		var both sync.WaitGroup
		both.Go(func() { ref.Tell(context.Background(), 1) })
		both.Go(func() { _, _ = sys.Detail(context.Background(), ref.PID()) })
		both.Wait()
		ref.Stop()
	}
}
