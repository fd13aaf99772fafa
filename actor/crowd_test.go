package actor

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// crowdSize is how many goroutines a crowd has: more than 128 for each of two workers.
const crowdSize = 300

// crowded has one processor busy with goroutines that all give way to the others after a while, as handlers do
// that go from one system call to the next. It returns how often one has had its turn so far: a clock that
// stands still while the operating system runs other processes.
func crowded(t *testing.T, each time.Duration) *atomic.Int64 {
	t.Helper()
	procs := runtime.GOMAXPROCS(1)
	var turns atomic.Int64
	var ended atomic.Bool
	var all sync.WaitGroup
	t.Cleanup(func() {
		ended.Store(true)
		all.Wait()
		runtime.GOMAXPROCS(procs)
	})
	for range crowdSize {
		all.Go(func() {
			for !ended.Load() {
				turns.Add(1)
				for began := time.Now(); time.Since(began) < each; { //nolint:revive // it computes
				}
				runtime.Gosched()
			}
		})
	}
	for turns.Load() < crowdSize/10 {
		runtime.Gosched()
	}
	return &turns
}

// A worker does not give way to a crowd while others rely on it: the next message would wait for all of them.
func TestAnActorDoesNotWaitForACrowdBetweenTwoMessages(t *testing.T) {
	sys := NewSystem("test", WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	turns := crowded(t, 200*time.Microsecond)
	handled := make(chan int64, 1)
	quiet := SpawnFunc(sys, "", func(_ *Context[int64], sent int64) error {
		handled <- turns.Load() - sent
		return nil
	})
	quiet.Tell(t.Context(), turns.Load()) // it wakes the monitor, which has to see the crowd first
	<-handled
	<-time.After(5 * time.Millisecond)
	beats := make([]int64, 21)
	for i := range beats {
		quiet.Tell(t.Context(), turns.Load())
		beats[i] = <-handled
		<-time.After(time.Millisecond)
	}
	slices.Sort(beats)
	if p50 := beats[len(beats)/2]; p50 > crowdSize/10 {
		t.Errorf("before a message is handled %d of a crowd of %d have their turn, in order: %d", p50, crowdSize, beats)
	}
}

// Nor does the monitor wait for a crowd when it wants to know whether that computes: nobody else looks after
// who waits meanwhile.
func TestTheMonitorDoesNotWaitForACrowd(t *testing.T) {
	var parked atomic.Int64
	s := newScheduler(bulkhead{weight: 1}, &parked) // whose own monitor sleeps all the time
	defer s.close()
	crowded(t, 2*time.Millisecond)
	l, ok := s.lookAgain()
	for range 10 { // it may have been put aside until the crowd was through
		if !ok {
			break
		}
		l, ok = s.lookAgain()
	}
	if ok {
		t.Error("it knows at once, each time")
	}
	for !ok {
		l, ok = s.lookAgain()
	}
	if !l.busy || l.took < starvedFor {
		t.Errorf("it has found %+v", l)
	}
}

// And when that takes long, they do: who looks for work no longer gives way, which would take as long.
func TestWhoIsLongInGivingWayIsBehindHandlersThatCompute(t *testing.T) {
	var parked atomic.Int64
	s := newScheduler(bulkhead{weight: 1}, &parked) // whose own monitor sleeps all the time
	defer s.close()
	crowded(t, 200*time.Microsecond)
	w := &worker{s: s}
	w.current.Store(new(core))
	w.due.Store(true)
	s.workers.Store(&[]*worker{w})
	s.active.Add(1)
	defer s.active.Add(-1)
	s.monitor.looking = true // and nobody has come back
	now := time.Now()
	s.look(now)
	if s.computing.Load() {
		t.Error("no handler takes long yet")
	}
	s.look(now.Add(2 * longAfter))
	if !s.computing.Load() || !s.crowded.Load() {
		t.Error("who looks for work still gives way")
	}
}
