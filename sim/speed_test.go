package sim

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// TestRunsAndStepsAreCheap logs what they cost.
func TestRunsAndStepsAreCheap(t *testing.T) {
	measure := func(name string, runs int, f func(*World)) {
		e := newExplorer(t, Options{}, f)
		began, steps := time.Now(), 0
		for n := range runs {
			out := e.once(e.opts.seed(n), nil, false)
			if out.failure != nil {
				t.Fatal(out.failure)
			}
			steps += out.steps
		}
		took := time.Since(began)
		t.Logf("%s: %d runs, %d steps: %v a run, %v a step", name, runs, steps, took/time.Duration(runs), took/time.Duration(steps))
	}
	measure("empty", 300, func(w *World) { w.System() })
	measure("tell", 5, func(w *World) {
		var refs []actor.Ref[int]
		for i := range 10 {
			refs = append(refs, actor.SpawnFunc(w.System(), "", func(ctx *actor.Context[int], n int) error {
				if n > 0 {
					refs[(i+n)%10].Tell(ctx, n-1)
				}
				return nil
			}))
		}
		for i := range refs {
			refs[i].Tell(w.Context(), 500)
		}
	})
	measure("ask", 20, chatter)
}
