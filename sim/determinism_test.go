package sim

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

type number struct{ actor.Returns[int] }

type work struct {
	depth int
}

// chatter is a world in which handlers wait in every way there is.
func chatter(w *World) {
	var servers []actor.Ref[number]
	for range 3 {
		servers = append(servers, actor.SpawnFunc(w.System(), "server-*", func(ctx *actor.Context[number], n number) error {
			if err := ctx.Sleep(time.Millisecond); err != nil {
				return err
			}
			actor.Reply(ctx, n, 1)
			return nil
		}))
	}
	total := 0
	worker := func(ctx *actor.Context[work], m work) error {
		limited, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if n, err := actor.Ask(limited, servers[m.depth%3], number{}); err == nil {
			total += n
		}
		if n, err := actor.Ask(ctx, servers[0], number{}); err == nil {
			total += n
		}
		for range actor.Gather(ctx, servers, number{}) {
			total++
		}
		if m.depth > 0 {
			ctx.Self().Tell(ctx, work{m.depth - 1})
		}
		return nil
	}
	for range 5 {
		actor.SpawnFunc(w.System(), "worker-*", worker).Tell(w.Context(), work{2})
	}
	if _, err := actor.Ask(w.Context(), servers[1], number{}); err != nil && w.faults.Lag == 0 {
		w.Fatalf("%v", err)
	}
	w.Advance(time.Second)
	if total < 15 && w.faults.Lag == 0 {
		w.Fatalf("total %d", total)
	}
}

func runsOf(t *testing.T, opts Options, seeds int, f func(*World)) (hashes []uint64, steps int) {
	t.Helper()
	e := &explorer{t: t, opts: opts.withDefaults(t.Name()), f: f}
	for n := range seeds {
		out := e.once(e.opts.seed(n), nil, n%2 == 0)
		if out.failure != nil {
			t.Fatalf("%s\n%v", out.failure, out.trace.events)
		}
		hashes = append(hashes, out.trace.hash)
		steps += out.steps
	}
	return hashes, steps
}

func TestTheSameSeedMakesTheSameRunOnAnyNumberOfProcessors(t *testing.T) {
	for _, strategy := range []Strategy{RandomWalk(), PCT(3), RoundRobin(), Portfolio()} {
		opts := Options{Strategy: strategy, Faults: Faults{Lag: 0.1}, Seed: 1}
		var want []uint64
		for _, procs := range []int{1, 2, 8} {
			before := runtime.GOMAXPROCS(procs)
			got, _ := runsOf(t, opts, 20, chatter)
			runtime.GOMAXPROCS(before)
			if want == nil {
				want = got
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s with %d processors: %x, with one %x", strategy, procs, got, want)
			}
		}
	}
}

func TestOtherSeedsMakeOtherRuns(t *testing.T) {
	hashes, _ := runsOf(t, Options{Seed: 1}, 40, chatter)
	seen := make(map[uint64]bool)
	for i := 0; i < len(hashes); i += 2 {
		seen[hashes[i]] = true
	}
	if len(seen) < 18 {
		t.Errorf("20 seeds made %d different runs", len(seen))
	}
}

func mustFind(t *testing.T, opts Options, f func(*World)) Failure {
	t.Helper()
	failure, found := Find(t, opts, f)
	if !found {
		t.Fatal("nothing was found")
	}
	return failure
}

func wantText(t *testing.T, f Failure, want string) {
	t.Helper()
	if !strings.Contains(f.Text, want) {
		t.Errorf("failure %q, want %q in it", f.Text, want)
	}
}

func TestAGoroutineOfAHandlerIsRefused(t *testing.T) {
	for name, start := range map[string]func(ref actor.Ref[int]){
		"short": func(ref actor.Ref[int]) { go ref.Tell(context.Background(), 0) },
		"long":  func(actor.Ref[int]) { go func() { <-time.After(time.Hour) }() },
	} {
		t.Run(name, func(t *testing.T) {
			f := mustFind(t, Options{}, func(w *World) {
				sink := actor.SpawnFunc(w.System(), "sink", func(*actor.Context[int], int) error { return nil })
				actor.SpawnFunc(w.System(), "starter", func(*actor.Context[int], int) error {
					start(sink)
					return nil
				}).Tell(w.Context(), 1)
			})
			wantText(t, f, "a goroutine that the simulation does not know")
		})
	}
}

func TestWhatTheSeedDoesNotDecideIsFound(t *testing.T) {
	calls := 0
	f := mustFind(t, Options{Runs: 1}, func(w *World) {
		calls++
		ref := actor.SpawnFunc(w.System(), "a", func(*actor.Context[int], int) error { return nil })
		for range calls {
			ref.Tell(w.Context(), 1)
		}
	})
	wantText(t, f, "the same seed made two different runs")
}

func TestAWaitThatNothingCanEndIsFound(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		ref := actor.SpawnFunc(w.System(), "a", func(ctx *actor.Context[number], n number) error {
			actor.Promise(ctx, n)
			return nil
		})
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if _, err := actor.Ask(ctx, ref, number{}); !errors.Is(err, context.DeadlineExceeded) {
			w.Fatalf("got %v", err)
		}
		if w.Elapsed() != time.Minute {
			w.Fatalf("%v have passed", w.Elapsed())
		}
		w.until(func() bool { return false }, nil)
	})
	wantText(t, f, "nothing is left that could happen")
}

func TestAHandlerThatWaitsForAChannelIsReported(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		never := make(chan int)
		actor.SpawnFunc(w.System(), "a", func(*actor.Context[int], int) error {
			<-never
			return nil
		}).Tell(w.Context(), 1)
	})
	wantText(t, f, "waits for something that nobody in the world will do")
}

func TestGoexitInAHandlerIsReported(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		actor.SpawnFunc(w.System(), "a", func(*actor.Context[int], int) error {
			runtime.Goexit()
			return nil
		}).Tell(w.Context(), 1)
	})
	wantText(t, f, "runtime.Goexit")
}

func TestARunThatDoesNotComeToRestIsFound(t *testing.T) {
	f := mustFind(t, Options{Steps: 1000}, func(w *World) {
		actor.SpawnFunc(w.System(), "a", func(ctx *actor.Context[int], _ int) error {
			ctx.Self().Tell(ctx, 1)
			return nil
		}).Tell(w.Context(), 1)
	})
	wantText(t, f, "not at rest after 1000 steps")
}

func TestAPanicInTheTestsFunctionIsAFailure(t *testing.T) {
	f := mustFind(t, Options{}, func(*World) { panic("oops") })
	wantText(t, f, "panic: oops")
}
