package actor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

type failsAt struct{ release chan struct{} }

func (f *failsAt) Receive(_ *actor.Context[int], n int) error {
	switch n {
	case 0:
		<-f.release
	case 2000:
		return errors.New("the last message fails")
	}
	return nil
}

// An overload ends also when the last message fails.
func TestAnOverloadEndsWithAFailure(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"pool": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actor.NewSystem("s", actor.WithLogger(slog.New(slog.DiscardHandler)))
				var mu sync.Mutex
				var lengths []int
				actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[actor.Overload], o actor.Overload) error {
					mu.Lock()
					defer mu.Unlock()
					lengths = append(lengths, o.Length)
					return nil
				}))
				release := make(chan struct{})
				ref := actor.Spawn(sys, "a", func() *failsAt { return &failsAt{release} }, opts...)
				for range 2 {
					go ref.Tell(context.Background(), 0) // an Inline actor runs in it
					synctest.Wait()
					for n := range 2000 {
						ref.Tell(t.Context(), n+1)
					}
					release <- struct{}{}
					time.Sleep(time.Second) // more than the restart takes
					ref.Tell(t.Context(), 1)
					synctest.Wait()
				}
				mu.Lock()
				defer mu.Unlock()
				if want := []int{1024, 0, 1024, 0}; !slices.Equal(lengths, want) {
					t.Errorf("told %v, want %v", lengths, want)
				}
				if _, err := sys.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
