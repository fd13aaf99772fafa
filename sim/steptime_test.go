package sim

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

type (
	left    struct{ actor.Returns[int] }
	takeOne struct{ actor.Returns[int] }
)

// thinkers look whether something is left, and take it, each after some thought.
func thinkers(w *World) {
	n := 1
	stock := actor.SpawnFunc(w.System(), "stock", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case left:
			actor.Reply(ctx, m, n)
		case takeOne:
			n--
			actor.Reply(ctx, m, n)
		}
		return nil
	})
	for _, name := range []string{"a", "b"} {
		w.Go(name, func(ctx *actor.Context[Begin]) {
			if ctx.Sleep(w.Sometime(time.Second)) != nil {
				return
			}
			if found, err := actor.Ask(ctx, stock, left{}); err == nil && found > 0 {
				_, _ = actor.Ask(ctx, stock, takeOne{})
			}
		})
	}
	w.Never("what is not there is taken", func() bool { return n < 0 })
}

func TestStepsThatTakeTimeLetHandlersMeetThatSleep(t *testing.T) {
	if f, found := Find(t, Options{Runs: 200}, thinkers); found {
		t.Errorf("found without StepTime, in a run that nobody expects: %v", f.Text)
	}
	f := mustFind(t, Options{Runs: 1000, StepTime: 100 * time.Millisecond}, thinkers)
	wantText(t, f, "what is not there is taken")
	t.Logf("found in run %d, shrunk to %q", f.Run, f.Schedule)
	again, err := Replay(f.Schedule)
	if err != nil {
		t.Fatal(err)
	}
	if _, found := Find(t, Options{Seeds: []uint64{f.Seed}, Runs: -1, Strategy: again, StepTime: 100 * time.Millisecond}, thinkers); !found {
		t.Error("the schedule that was found does not fail again")
	}
}

// A run with StepTime is the same each time.
func TestStepTimeIsAMatterOfTheSeed(t *testing.T) {
	var elapsed [2]time.Duration
	for i := range elapsed {
		Check(t, Options{Seeds: []uint64{7}, Runs: -1, StepTime: time.Second}, func(w *World) {
			sendSome(w)
			w.Settle()
			elapsed[i] = w.Elapsed()
		})
	}
	if elapsed[0] != elapsed[1] || elapsed[0] == 0 {
		t.Errorf("elapsed %v", elapsed)
	}
}

// sendSome gives an actor ten messages.
func sendSome(w *World) {
	ref := actor.SpawnFunc(w.System(), "x", func(*actor.Context[int], int) error { return nil })
	for n := range 10 {
		ref.Tell(w.Context(), n)
	}
}
