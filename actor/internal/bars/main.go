// Command bars measures what the engine promises about delays beside handlers that compute, block or
// flood, about full mailboxes and about memory, each beside its bar and, where there is one, beside the
// same with goroutines and channels in the same run. It prints a table, and fails if a count is wrong. A
// figure above its bar is only said to be so: on a busy machine it may be.
//
//	go run ./actor/internal/bars            # everything, about a minute
//	go run ./actor/internal/bars -run flood # what has this in its name
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func main() {
	run := flag.String("run", "", "only what has this in its name")
	flag.Parse()
	if err := measure(os.Stdout, *run, 1); err != nil {
		fmt.Fprintln(os.Stderr, "bars:", err)
		os.Exit(1)
	}
}

// figure is one line of the table.
type figure struct {
	name    string
	got     time.Duration
	bar     time.Duration
	control time.Duration // the same with goroutines, 0 where there is nothing like it
}

// verdict says whether the bar was met. What goroutines miss as well is the machine's fault, or that of
// whoever shares it.
func (f figure) verdict() string {
	switch {
	case f.got <= f.bar:
		return "met"
	case f.control > f.bar:
		return "above, as goroutines are"
	default:
		return "above"
	}
}

// bench measures one part of the table. Its sizes are divided by part, so that a test may run it.
type bench struct {
	name string
	run  func(part int) ([]figure, error)
}

var benches = []bench{
	{"compute", compute},
	{"stuck shutdown", stuckShutdown},
	{"stuck kill", stuckKill},
	{"blocked listener", blockedListener},
	{"blocked sleep", blockedSleep},
	{"blocked system calls", blockedSyscalls},
	{"full block", fullBlock},
	{"full drop", fullDrop},
	{"flood", flood},
	{"memory burst", memoryBurst},
	{"memory watchers", memoryWatchers},
	{"memory detail", memoryDetail},
}

// errCount says that messages are missing.
var errCount = errors.New("wrong count")

func measure(out io.Writer, only string, part int) error {
	fmt.Fprintf(out, "| what | measured | bar | with goroutines | ratio | |\n|---|---|---|---|---|---|\n")
	for _, b := range benches {
		if !strings.Contains(b.name, only) {
			continue
		}
		figures, err := b.run(part)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, f := range figures {
			control, ratio := "-", "-"
			if f.control > 0 {
				control, ratio = f.control.String(), fmt.Sprintf("%.1f", float64(f.got)/float64(f.control))
			}
			fmt.Fprintf(out, "| %s: %s | %v | %v | %s | %s | %s |\n", b.name, f.name, f.got, f.bar, control, ratio, f.verdict())
		}
	}
	return nil
}

var bg = context.Background()

// with runs f on that many processors with a system of its own.
func with(procs int, f func(sys *actor.System) error) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	sys := actor.NewSystem("bars", actor.WithLogger(slog.New(slog.DiscardHandler)))
	err := f(sys)
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	if _, down := sys.Shutdown(ctx); err == nil && down != nil && !errors.Is(down, context.DeadlineExceeded) {
		err = down
	}
	return err
}

// quantile returns one of the sorted delays.
func quantile(list []time.Duration, q float64) time.Duration {
	return list[min(int(q*float64(len(list))), len(list)-1)].Round(time.Microsecond)
}

// beats measures n delays, one every other millisecond, after a while.
func beats(n int, after time.Duration, send func(sent time.Time), handled <-chan time.Duration) []time.Duration {
	<-time.After(after)
	list := make([]time.Duration, n)
	for i := range list {
		send(time.Now())
		list[i] = <-handled
		<-time.After(2 * time.Millisecond)
	}
	slices.Sort(list)
	return list
}

// quiet spawns an actor that says how long each message has taken to be handled.
func quiet(sys *actor.System) (send func(time.Time), handled <-chan time.Duration) {
	c := make(chan time.Duration, 1)
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[time.Time], sent time.Time) error {
		c <- time.Since(sent)
		return nil
	})
	return func(sent time.Time) { ref.Tell(bg, sent) }, c
}

// quietGoroutine is the same with a goroutine.
func quietGoroutine(stop <-chan struct{}) (send func(time.Time), handled <-chan time.Duration) {
	in, out := make(chan time.Time, 1), make(chan time.Duration, 1)
	go func() {
		for {
			select {
			case sent := <-in:
				out <- time.Since(sent)
			case <-stop:
				return
			}
		}
	}()
	return func(sent time.Time) { in <- sent }, out
}

// beside measures a quiet actor beside n actors that do something for ever, and a quiet goroutine beside
// as many goroutines. busy returns when stop is closed, or soon after.
func beside(procs, n, delays int, after time.Duration, busy func(stop <-chan struct{})) (ours, control []time.Duration, err error) {
	err = with(procs, func(sys *actor.System) error {
		stop := make(chan struct{})
		for range n {
			actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				busy(stop)
				return nil
			}).Tell(bg, 1)
		}
		send, handled := quiet(sys)
		ours = beats(delays, after, send, handled)
		close(stop)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range n {
		all.Go(func() { busy(stop) })
	}
	send, handled := quietGoroutine(stop)
	control = beats(delays, after, send, handled)
	close(stop)
	all.Wait()
	return ours, control, nil
}

// isClosed reports whether a channel that nobody sends on is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func compute(part int) (figures []figure, err error) {
	processors, handlers := []int{1, 2}, []int{1, 2, 8, 64}
	if part > 1 {
		processors, handlers = processors[:1], handlers[:2]
	}
	for _, procs := range processors {
		for _, n := range handlers {
			ours, control, err := beside(procs, n, max(3, 200/part), 500*time.Millisecond/time.Duration(part), func(stop <-chan struct{}) {
				for !isClosed(stop) { //nolint:revive // it computes
				}
			})
			if err != nil {
				return nil, err
			}
			name := fmt.Sprintf("%d on %d processors", n, procs)
			figures = append(figures,
				figure{name + ", p50", quantile(ours, 0.5), 15 * time.Millisecond, quantile(control, 0.5)},
				figure{name + ", p99", quantile(ours, 0.99), 30 * time.Millisecond, quantile(control, 0.99)})
		}
	}
	return figures, nil
}

func stuckShutdown(part int) (figures []figure, err error) {
	release := make(chan struct{})
	defer close(release)
	sys := actor.NewSystem("bars", actor.WithLogger(slog.New(slog.DiscardHandler)))
	var stuck sync.WaitGroup
	n := 2000 / part
	stuck.Add(n)
	for range n {
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			stuck.Done()
			<-release
			return nil
		}).Tell(bg, 1)
	}
	stuck.Wait()
	ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	report, err := sys.Shutdown(ctx)
	took := time.Since(began).Round(time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || len(report.Unfinished) != n {
		return nil, fmt.Errorf("%w: %d of %d are unfinished, %w", errCount, len(report.Unfinished), n, err)
	}
	return []figure{{fmt.Sprintf("Shutdown in 100 ms beside %d handlers that never return", n), took, 500 * time.Millisecond, 0}}, nil
}

func stuckKill(part int) (figures []figure, err error) {
	n := 50_000 / part
	err = with(2, func(sys *actor.System) error {
		for range n {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error { return ctx.Sleep(time.Hour) }).Tell(bg, 1)
		}
		for sys.Stats().Waiting < n {
			<-time.After(time.Millisecond)
		}
		release, entered := make(chan struct{}), make(chan struct{})
		defer close(release)
		victim := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			close(entered)
			<-release
			return nil
		})
		victim.Tell(bg, 1)
		<-entered
		began := time.Now()
		victim.Kill()
		if _, err := victim.Wait(bg); err != nil {
			return err
		}
		figures = append(figures, figure{fmt.Sprintf("Kill beside %d handlers that wait", n), time.Since(began).Round(time.Millisecond), 150 * time.Millisecond, 0})
		return nil
	})
	return figures, err
}

type ping struct{ actor.Returns[int] }

func blockedListener(part int) (figures []figure, err error) {
	n := 500 / part
	for _, procs := range []int{1, 2} {
		err = with(procs, func(sys *actor.System) error {
			release := make(chan struct{})
			defer close(release)
			actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(*actor.Context[actor.Stuck], actor.Stuck) error { return nil }))
			for range n {
				actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
					<-release
					return nil
				}).Tell(bg, 1)
			}
			idle := actor.SpawnFunc(sys, "", func(ctx *actor.Context[ping], m ping) error {
				actor.Reply(ctx, m, 1)
				return nil
			})
			list := make([]time.Duration, max(3, 1000/part))
			for i := range list {
				sent := time.Now()
				if _, err := actor.Ask(bg, idle, ping{}, actor.Within(time.Minute)); err != nil {
					return err
				}
				list[i] = time.Since(sent)
				<-time.After(time.Millisecond)
			}
			slices.Sort(list)
			figures = append(figures, figure{fmt.Sprintf("an ask beside %d blocked handlers and a listener on %d processors, p99", n, procs), quantile(list, 0.99), 20 * time.Millisecond, 0})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return figures, nil
}

func blockedSleep(part int) ([]figure, error) {
	n := 5000 / part
	ours, control, err := beside(2, n, max(3, 300/part), 100*time.Millisecond, func(stop <-chan struct{}) {
		for !isClosed(stop) {
			time.Sleep(50 * time.Millisecond) //nolint:forbidigo // this is what is measured
		}
	})
	if err != nil {
		return nil, err
	}
	return []figure{{fmt.Sprintf("%d handlers in time.Sleep, p99", n), quantile(ours, 0.99), 10 * time.Millisecond, quantile(control, 0.99)}}, nil
}

func blockedSyscalls(part int) ([]figure, error) {
	n := 1000 / part
	ours, control, err := beside(2, n, max(3, 300/part), 100*time.Millisecond, func(stop <-chan struct{}) {
		for !isClosed(stop) {
			_ = syscall.Nanosleep(&syscall.Timespec{Nsec: 50_000_000}, nil)
		}
	})
	if err != nil {
		return nil, err
	}
	return []figure{{fmt.Sprintf("%d handlers in system calls, p99", n), quantile(ours, 0.99), 10 * time.Millisecond, quantile(control, 0.99)}}, nil
}

// manySend has n goroutines send each of them so many, and returns what processor time a message takes:
// that does not depend on what else the machine does.
func manySend(n, each int, send func() error) (time.Duration, error) {
	began := processorTime()
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	for range n {
		all.Go(func() {
			for range each {
				if err := send(); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return (processorTime() - began) / time.Duration(n*each), nil
}

// processorTime returns what the process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it fails only for arguments that it does not know
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func fullBlock(part int) (figures []figure, err error) {
	n, each := 8000/part, 10
	err = with(2, func(sys *actor.System) error {
		var got atomic.Int64
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			got.Add(1)
			return nil
		}, actor.Bounded(1, actor.Block))
		ours, err := manySend(n, each, func() error { return ref.TryTell(bg, 1) })
		if err != nil {
			return err
		}
		c := make(chan int, 1)
		go func() {
			for range c {
			}
		}()
		channel, err := manySend(n, each, func() error { c <- 1; return nil })
		close(c)
		figures = append(figures, figure{fmt.Sprintf("%d senders into a mailbox of 1, processor time of a message", n), ours, 5 * channel, channel})
		ref.Drain()
		if _, err := ref.Wait(bg); err != nil {
			return err
		}
		if got.Load() != int64(n*each) {
			return fmt.Errorf("%w: %d of %d", errCount, got.Load(), n*each)
		}
		return err
	})
	return figures, err
}

func fullDrop(part int) (figures []figure, err error) {
	tell := func(bound int) (took time.Duration, err error) {
		err = with(2, func(sys *actor.System) error {
			release := make(chan struct{})
			defer close(release)
			ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				<-release
				return nil
			}, actor.Bounded(bound, actor.DropOldest), actor.Priority(func(n int) int { return n % 7 }))
			for n := range bound + 1 {
				ref.Tell(bg, n)
			}
			const more = 20_000
			began := time.Now()
			for n := range more {
				ref.Tell(bg, n)
			}
			took = time.Since(began) / more
			return nil
		})
		return took, err
	}
	small, err := tell(100)
	if err != nil {
		return nil, err
	}
	large, err := tell(100_000 / part)
	if err != nil {
		return nil, err
	}
	return []figure{{fmt.Sprintf("a Tell into a full mailbox of %d by rank that drops the oldest, the bar is 10 times that of 100", 100_000/part), large, 10 * small, 0}}, nil
}

// floodMost is how many messages of a flood may wait.
const floodMost = 4_000_000

// flooding has two goroutines tell something all the time, until end is called.
func flooding(tell func(), got *atomic.Int64) (end func()) {
	var stop atomic.Bool
	var sent atomic.Int64
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for !stop.Load() {
				for range 1000 {
					tell()
				}
				for sent.Add(1000)-got.Load() > floodMost && !stop.Load() {
					<-time.After(time.Millisecond)
				}
			}
		})
	}
	return func() {
		stop.Store(true)
		all.Wait()
	}
}

func flood(part int) (figures []figure, err error) {
	delays := max(3, 500/part)
	for run := range max(1, 5/part) {
		var ours []time.Duration
		err = with(2, func(sys *actor.System) error {
			var got atomic.Int64
			target := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				got.Add(1)
				return nil
			})
			end := flooding(func() { target.Tell(bg, 1) }, &got)
			defer end()
			send, handled := quiet(sys)
			ours = beats(delays, 100*time.Millisecond, send, handled)
			return nil
		})
		if err != nil {
			return nil, err
		}
		control := floodedGoroutine(delays)
		figures = append(figures,
			figure{fmt.Sprintf("run %d, p99", run+1), quantile(ours, 0.99), time.Millisecond, quantile(control, 0.99)},
			figure{fmt.Sprintf("run %d, the longest", run+1), quantile(ours, 1), 5 * time.Millisecond, quantile(control, 1)})
	}
	return figures, nil
}

// floodedGoroutine measures a quiet goroutine beside one that is flooded through a channel.
func floodedGoroutine(delays int) []time.Duration {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	var got atomic.Int64
	flooded, stop := make(chan int, floodMost+2000), make(chan struct{})
	var receiver sync.WaitGroup
	receiver.Go(func() {
		for range flooded {
			got.Add(1)
		}
	})
	end := flooding(func() { flooded <- 1 }, &got)
	send, handled := quietGoroutine(stop)
	list := beats(delays, 100*time.Millisecond, send, handled)
	end()
	close(flooded)
	receiver.Wait()
	close(stop)
	return list
}

// heap returns how much memory is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func memoryBurst(part int) (figures []figure, err error) {
	type large struct{ _ [64 << 10]byte }
	n := 2000 / part
	err = with(2, func(sys *actor.System) error {
		before := heap()
		var got atomic.Int64
		hold := make(chan struct{})
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[large], large) error {
			<-hold
			got.Add(1)
			return nil
		})
		var longest time.Duration
		for range n {
			sent := time.Now()
			ref.Tell(bg, large{})
			longest = max(longest, time.Since(sent))
		}
		close(hold)
		for got.Load() < int64(n) {
			<-time.After(time.Millisecond)
		}
		<-time.After(20 * time.Millisecond)
		kept := int64(heap()) - int64(before)
		fmt.Fprintf(os.Stderr, "memory burst: %d KiB are kept after %d MiB\n", max(0, kept)>>10, n>>4)
		if kept > 8<<20 {
			return fmt.Errorf("%w: an actor keeps %d MiB of a burst of %d messages of 64 KiB", errCount, kept>>20, n)
		}
		figures = append(figures, figure{fmt.Sprintf("the longest Tell of %d messages of 64 KiB", n), longest.Round(time.Microsecond), 20 * time.Millisecond, 0})
		runtime.KeepAlive(ref)
		return nil
	})
	return figures, err
}

func memoryWatchers(part int) (figures []figure, err error) {
	n := 50_000 / part
	err = with(2, func(sys *actor.System) error {
		target := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil })
		var watching, told sync.WaitGroup
		watching.Add(n)
		told.Add(n)
		for range n {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], m int) error {
				if m == 0 {
					ctx.Watch(target.PID(), func(actor.Down) int { return 1 })
					watching.Done()
				} else {
					told.Done()
				}
				return nil
			}).Tell(bg, 0)
		}
		watching.Wait()
		began := time.Now()
		target.Stop()
		told.Wait()
		figures = append(figures, figure{fmt.Sprintf("the end of an actor that %d watch", n), time.Since(began).Round(time.Millisecond), 300 * time.Millisecond, 0})
		return nil
	})
	return figures, err
}

func memoryDetail(part int) (figures []figure, err error) {
	n := 1_000_000 / part
	err = with(2, func(sys *actor.System) error {
		release := make(chan struct{})
		ref := actor.SpawnFunc(sys, "a", func(*actor.Context[int], int) error {
			<-release
			return nil
		})
		for range n {
			ref.Tell(bg, 1)
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		all.Go(func() {
			for !stop.Load() {
				_, _ = sys.Detail(bg, ref.PID())
				_, _ = sys.Inspect("/", 100)
			}
		})
		tells := func() []time.Duration {
			list := make([]time.Duration, 20_000)
			for i := range list {
				sent := time.Now()
				ref.Tell(bg, 1)
				list[i] = time.Since(sent)
			}
			slices.Sort(list)
			return list
		}
		beside := tells()
		stop.Store(true)
		all.Wait()
		alone := tells()
		close(release)
		figures = append(figures, figure{
			fmt.Sprintf("a Tell beside Detail and Inspect, with %d messages waiting, p99.9, the control is without them", n),
			quantile(beside, 0.999), 100 * time.Microsecond, cmp.Or(quantile(alone, 0.999), time.Microsecond),
		})
		return nil
	})
	return figures, err
}
