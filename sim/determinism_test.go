package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	e := newExplorer(t, opts, f)
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
	game := func(w *World) { simulated(w) }
	for _, c := range []struct {
		name string
		opts Options
		runs int
		f    func(*World)
	}{
		{"random", Options{}, 20, chatter},
		{"pct", Options{Strategy: PCT(3)}, 20, chatter},
		{"round robin", Options{Strategy: RoundRobin()}, 20, chatter},
		{"every move", Options{Strategy: Portfolio(), Faults: Faults{Stop: 0.01, Panic: 0.01}}, 40, game},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Seed, c.opts.Faults.Lag = 1, 0.1
			var want []uint64
			for _, procs := range []int{1, 2, 8} {
				before := runtime.GOMAXPROCS(procs)
				got, _ := runsOf(t, c.opts, c.runs, c.f)
				runtime.GOMAXPROCS(before)
				if want == nil {
					want = got
				}
				if !slices.Equal(got, want) {
					t.Fatalf("with %d processors: %x, with one %x", procs, got, want)
				}
			}
		})
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

// watchedClosely is for what is seen when somebody looks in time: as a rule in the first run,
// and in some later one when the machine is busy with something else.
var watchedClosely = Options{Runs: 500, TwiceEvery: 1}

// echo is a server, outside of any simulation, that says what it hears.
func echo(t *testing.T) (addr string) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		served.Wait()
	})
	return l.Addr().String()
}

func TestASocketInAHandlerIsRefused(t *testing.T) {
	addr := echo(t)
	call := func(string) error {
		var d net.Dialer
		c, err := d.DialContext(context.Background(), "tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		word := make([]byte, 1)
		for range 200 { // it takes a while: what is over at once is not seen
			if _, err = c.Write(word); err == nil {
				_, err = io.ReadFull(c, word)
			}
		}
		return err
	}
	f := mustFind(t, watchedClosely, func(w *World) {
		actor.SpawnFunc(w.System(), "caller", func(_ *actor.Context[string], m string) error { return call(m) }).Tell(w.Context(), "call")
	})
	wantText(t, f, "a handler waits for the world outside")
	wantText(t, f, "net.(*") // in Read, or in connect before it
}

func TestAConnectionOfAnHTTPClientInAHandlerIsRefused(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	defer http.DefaultClient.CloseIdleConnections()
	f := mustFind(t, watchedClosely, func(w *World) {
		actor.SpawnFunc(w.System(), "caller", func(ctx *actor.Context[string], m string) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, m, http.NoBody)
			if err != nil {
				return err
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			return answer.Body.Close()
		}).Tell(w.Context(), s.URL)
	})
	if !strings.Contains(f.Text, "a goroutine that the simulation") && !strings.Contains(f.Text, "a handler waits for the world outside") {
		t.Errorf("failure %q", f.Text)
	}
	wantText(t, f, "net/http.")
}

// notices is a writer that says when something has been written.
type notices struct {
	text strings.Builder
	come chan struct{}
}

// Write implements io.Writer.
func (n *notices) Write(p []byte) (int, error) {
	if n.text.Len() == 0 {
		defer close(n.come)
	}
	return n.text.Write(p)
}

func TestAHandlerThatComputesForLongIsToldOf(t *testing.T) {
	told := &notices{come: make(chan struct{})}
	e := newExplorer(t, Options{}, func(w *World) {
		actor.SpawnFunc(w.System(), "thinker", func(*actor.Context[int], int) error {
			for over := false; !over; {
				select {
				case <-told.come:
					over = true
				default:
				}
			}
			return nil
		}).Tell(w.Context(), 1)
	})
	e.watchdog.out, e.watchdog.long = told, time.Millisecond
	if out := e.once(1, nil, false); out.failure != nil {
		t.Errorf("failed with %v", out.failure)
	}
	if text := told.text.String(); !strings.Contains(text, "seed 0x1: step 0 is not over") || !strings.Contains(text, "TestAHandlerThatComputes") {
		t.Errorf("it was told %q", text)
	}
}

func TestAHandlerThatWaitsForALockIsRefused(t *testing.T) {
	var lock sync.Mutex
	lock.Lock()
	defer lock.Unlock() // so that the run that was given up ends
	e := newExplorer(t, Options{}, func(w *World) {
		actor.SpawnFunc(w.System(), "waiter", func(*actor.Context[int], int) error {
			lock.Lock()
			defer lock.Unlock()
			return nil
		}).Tell(w.Context(), 1)
	})
	e.watchdog.long = time.Millisecond
	f := e.explore()
	if f == nil {
		t.Fatal("nothing was found")
	}
	wantText(t, *f, "waits for something that no step can give it")
	wantText(t, *f, "sync.Mutex.Lock")
	if f.Seed != e.opts.seed(0) || f.Run != 1 || f.Step != 1 || len(f.Trace) != 1 || !strings.Contains(f.Replay, "-sim.seed=") {
		t.Errorf("failure %+v", f)
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
	wantText(t, f, "/a#")
	f = mustFind(t, Options{}, func(w *World) {
		actor.SpawnFunc(w.System(), "b", func(ctx *actor.Context[int], n int) error {
			actor.Pipe(ctx, func(life context.Context) (int, error) {
				<-life.Done()
				return 0, nil
			}, func(int, error) int { return n })
			return nil
		}).Tell(w.Context(), 1)
	})
	wantText(t, f, "the work of a Pipe of sim~")
	wantText(t, f, "/b#")
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
