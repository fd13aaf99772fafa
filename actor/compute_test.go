package actor_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// To tell a listener where hundreds of handlers are stuck holds nobody up.
func TestReportsOfManyStuckHandlersHoldUpNobody(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	blocked := soaktest.Rounds(t, 200, 500)
	sys := actortest.NewSystem(t)
	var reported atomic.Int32
	actor.Subscribe(sys, actor.SpawnFunc(sys, "listener", func(_ *actor.Context[actor.Stuck], m actor.Stuck) error {
		if m.Stack == "" {
			t.Errorf("the stack of %v is missing", m.PID)
		}
		reported.Add(1)
		return nil
	}))
	quiet := actor.Spawn(sys, "quiet", newCounter)
	askUntil := func(enough func(asked int) bool) (p99 time.Duration) {
		var asks []time.Duration
		for began := time.Now(); !enough(len(asks)); {
			if time.Since(began) > time.Minute {
				t.Fatalf("%d of %d reported", reported.Load(), blocked)
			}
			sent := time.Now()
			if _, err := actor.Ask(bg, quiet, get{}); err != nil {
				t.Fatal(err)
			}
			asks = append(asks, time.Since(sent))
			<-time.After(time.Millisecond)
		}
		slices.Sort(asks)
		p99 = asks[len(asks)*99/100]
		t.Logf("%d asks, p50 %v, p99 %v, last %v", len(asks), asks[len(asks)/2], p99, asks[len(asks)-1])
		return p99
	}
	alone := askUntil(func(asked int) bool { return asked == 100 }) // what other processes take
	release := make(chan struct{})
	defer close(release)
	for range blocked {
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			<-release
			return nil
		}).Tell(bg, 1)
	}
	p99 := askUntil(func(int) bool { return int(reported.Load()) >= blocked })
	if limit := max(500*time.Millisecond, 20*alone); p99 > limit {
		t.Errorf("p99 %v, want at most %v, and %v without them", p99, limit, alone)
	}
}

// Each handler that is left behind is named in the report, for which nobody looks at all stacks.
// To look at them once is the measure.
func TestShutdownBesideManyStuckHandlersLooksAtNoStacks(t *testing.T) {
	const stuck = 500
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	release := make(chan struct{})
	var entered sync.WaitGroup
	for range stuck {
		entered.Add(1)
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			entered.Done()
			<-release
			return nil
		}).Tell(bg, 1)
	}
	entered.Wait()
	began := time.Now()
	const looks = 5
	for range looks {
		if err := pprof.Lookup("goroutine").WriteTo(io.Discard, 1); err != nil {
			t.Fatal(err)
		}
	}
	look := time.Since(began) / looks
	over, cancel := context.WithCancel(bg)
	cancel()
	report, err := sys.Shutdown(over)
	if err == nil || len(report.Unfinished) != stuck {
		t.Errorf("%d unfinished, %v", len(report.Unfinished), err)
	}
	t.Logf("a look takes %v, the shutdown took %v", look, report.Took)
	if most := time.Second + stuck*look/5; report.Took > most {
		t.Errorf("the shutdown took %v; to look at the stacks takes %v", report.Took, look)
	}
	close(release)
}

// Beside handlers that compute without an end a quiet actor is served about as soon as a
// goroutine beside them: Go takes turns among them after 10 ms. The two take turns, so that whatever else the
// machine does concerns both.
func TestAQuietActorIsServedBesideHandlersThatCompute(t *testing.T) {
	beats := soaktest.Rounds(t, 25, 40)
	computing := []int{8, 1, 2, 64}
	for _, procs := range []int{1, 2} {
		for _, spinners := range computing[:soaktest.Rounds(t, 1, len(computing))] {
			t.Run(fmt.Sprintf("procs=%d,computing=%d", procs, spinners), func(t *testing.T) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
				var ended atomic.Bool
				handled := make(chan time.Duration, 1)

				sys := actortest.NewSystem(t)
				for range spinners {
					actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
						for !ended.Load() { //nolint:revive // it computes
						}
						return nil
					}).Tell(bg, 1)
				}
				quiet := actor.SpawnFunc(sys, "", func(_ *actor.Context[time.Time], sent time.Time) error {
					handled <- time.Since(sent)
					return nil
				})
				beat := make(chan time.Time)
				defer close(beat)
				go func() {
					for sent := range beat {
						handled <- time.Since(sent)
					}
				}()
				<-time.After(500 * time.Millisecond)
				var ours, control []time.Duration
				for range beats {
					quiet.Tell(bg, time.Now())
					ours = append(ours, <-handled)
					<-time.After(2 * time.Millisecond)
					beat <- time.Now()
					control = append(control, <-handled)
					<-time.After(2 * time.Millisecond)
				}
				ended.Store(true)
				slices.Sort(ours)
				slices.Sort(control)

				p50 := ours[beats/2]
				t.Logf("actor p50 %v, last %v; goroutine p50 %v, last %v", p50, ours[beats-1], control[beats/2], control[beats-1])
				if limit := 50*time.Millisecond + 4*control[beats/2]; p50 > limit {
					t.Errorf("p50 %v, want at most %v", p50, limit)
				}
			})
		}
	}
}
