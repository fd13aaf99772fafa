package actor_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// recording begins to write down what an actor handles, and returns what gives the result.
func recording(k *actortest.Kit, pid actor.PID, most int) func() []actor.Handled {
	ctx, cancel := context.WithTimeout(k.Context(), time.Hour)
	got := make(chan []actor.Handled, 1)
	go func() {
		defer cancel()
		list, err := k.System().Record(ctx, pid, most)
		if err != nil {
			k.T().Error(err)
		}
		got <- list
	}()
	k.Settle()
	return func() []actor.Handled {
		k.Settle()
		cancel()
		return <-got
	}
}

func TestRecordWritesDownWhatAnActorHandles(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		broken := errors.New("broken")
		ref := actor.SpawnFunc(k.System(), "x", func(ctx *actor.Context[int], n int) error {
			switch n {
			case 2:
				return ctx.Sleep(time.Minute)
			case 3:
				ctx.After("soon", time.Minute, 6)
			case 4:
				return broken
			case 5:
				panic("five")
			}
			return nil
		})
		sender := actor.SpawnFunc(k.System(), "sender", func(ctx *actor.Context[int], n int) error {
			ref.Tell(ctx, n)
			return nil
		})
		ref.Tell(k.Context(), 0)
		k.Settle()
		end := recording(k, ref.PID(), 100)
		sender.Tell(k.Context(), 1)
		k.Settle()
		ref.Tell(k.Context(), 4)
		ref.Tell(k.Context(), 5)
		ref.Tell(k.Context(), 2)
		ref.Tell(k.Context(), 3)
		k.Advance(time.Hour / 2)
		list := end()
		ref.Tell(k.Context(), 9) // which is not written down any more
		k.Settle()
		k.ExpectFailures(2)

		want := []int{1, 4, 5, 2, 3, 6} // over two restarts
		if len(list) != len(want) {
			k.T().Fatalf("%d messages, not %d: %+v", len(list), len(want), list)
		}
		for i, h := range list {
			if h.Message != want[i] || h.Type != "int" || h.Request {
				k.T().Errorf("message %d is %+v", i, h)
			}
		}
		if list[0].From != sender.PID() || list[1].From != (actor.PID{}) || list[3].Took != time.Minute || list[5].Origin != "timer soon" {
			k.T().Errorf("%+v", list)
		}
		if list[0].Err != nil || list[1].Err != broken || list[2].Err == nil { //nolint:errorlint // it is not wrapped
			k.T().Errorf("the errors are %v, %v, %v", list[0].Err, list[1].Err, list[2].Err)
		}
	})
}

func TestRecordEndsWithItsNumberOfMessages(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "x", func(*actor.Context[int], int) error { return nil })
		first, second := recording(k, ref.PID(), 2), recording(k, ref.PID(), 3)
		for n := range 4 {
			ref.Tell(k.Context(), n)
		}
		if a, b := first(), second(); len(a) != 2 || len(b) != 3 || b[2].Message != 2 {
			k.T().Errorf("%+v and %+v", a, b)
		}
	})
}

func TestRecordEndsWithItsActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "x", func(_ *actor.Context[int], n int) error {
			if n == 1 {
				return actor.ErrStop
			}
			return nil
		})
		end := recording(k, ref.PID(), 100)
		ref.Tell(k.Context(), 0)
		ref.Tell(k.Context(), 1)
		if list := end(); len(list) != 2 || list[1].Err != actor.ErrStop { //nolint:errorlint // it is not wrapped
			k.T().Errorf("%+v", list)
		}
		if _, err := k.System().Record(k.Context(), ref.PID(), 1); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("Record of an actor that has ended: %v", err)
		}
	})
}

func TestATimerThatSetsItselfAgainHasNoHeader(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var got []string
		sys := actortest.NewSystem(k.T(), actor.AroundReceive(func(ctx context.Context, r actor.Reception, next func() error) error {
			if r.Message == "go" {
				actor.SetHeader(ctx, actor.Header{"span": " of it"})
			}
			return next()
		}))
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[string], m string) error {
			got = append(got, m+actor.HeaderOf(ctx)["span"])
			switch m {
			case "go":
				ctx.After("again", time.Second, "again")
			case "again":
				if len(got) < 4 {
					ctx.After("again", time.Second, "again")
				}
				ctx.After("other", time.Second/2, "other")
			}
			return nil
		})
		ref.Tell(k.Context(), "go")
		k.Advance(time.Minute)
		want := []string{"go of it", "again of it", "other of it", "again", "other"}
		if !slices.Equal(got, want) {
			k.T().Errorf("got %q, want %q", got, want)
		}
	})
}
