package sim

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Check runs f in many worlds, each with a different schedule, and fails the test with
// the first failure it finds: a condition that does not hold, a [World.Fatalf], a wait
// that nothing can end, actors that cannot be stopped, a run that is not the same twice.
// It shrinks the failure's schedule and prints the command that replays it. The package
// documentation describes what a run is.
//
// With the flag -sim.seed there is one run, with that seed. f must not call t.Run, must
// end a run with [World.Fatalf], and must create everything it uses.
func Check(t *testing.T, opts Options, f func(w *World)) {
	t.Helper()
	if failure, found := Find(t, opts, f); found {
		t.Fatalf("%s", failure.report())
	}
}

// Find is [Check], but returns the failure: for tests that show that a fault is found.
// The failure's trace, and the files of the flags -sim.trace and -sim.diagram, are those
// of the shrunk schedule.
func Find(t *testing.T, opts Options, f func(w *World)) (failure Failure, found bool) {
	t.Helper()
	e := newExplorer(t, opts, f)
	fail := e.explore()
	if fail == nil {
		return Failure{}, false
	}
	e.writeFiles(fail)
	return *fail, true
}

// Failure is a run that has failed.
type Failure struct {
	Seed     uint64
	Strategy string        // the one that the run has drawn
	Run      int           // which of the runs it was, counted from 1
	Step     int           // of the run as it was found
	At       time.Duration // virtual time since its beginning
	Text     string        // what was wrong
	Schedule string        // the shrunk one, for -sim.schedule; empty when it could not be shrunk
	Choices  int           // how many choices the shrunk schedule has, faults included
	Trace    []Event       // of the shrunk run
	Replay   string        // the command that makes the run again
	about    string
}

// String returns the failure in two lines.
func (f *Failure) String() string {
	return fmt.Sprintf("seed=0x%x strategy=%s run=%d step=%d at=%v\n%s", f.Seed, f.Strategy, f.Run, f.Step, f.At, f.Text)
}

// reportTail is how many events of the trace a report shows; those that repeat others are not counted.
const reportTail = 30

func (f *Failure) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "FAIL %s\nreplay: %s\n", f, f.Replay)
	if f.Schedule != "" {
		fmt.Fprintf(&b, "shrunk to %d choices: %s -sim.schedule='%s'\n", f.Choices, f.Replay, f.Schedule)
	}
	fmt.Fprintf(&b, "for the whole trace add -sim.trace=trace.txt, for a diagram -sim.diagram=trace.mmd\n")
	stretches, n := lastOf(folded(f.Trace), reportTail)
	if n < len(f.Trace) {
		fmt.Fprintf(&b, "the last %d of %d events:\n", n, len(f.Trace))
	}
	for _, s := range stretches {
		for _, text := range s.lines() {
			line, _, _ := strings.Cut(text, "\n")
			fmt.Fprintln(&b, line)
		}
	}
	return b.String()
}

// explorer makes the runs of one test.
type explorer struct {
	t        *testing.T
	opts     Options
	f        func(w *World)
	watchdog watchdog
}

func newExplorer(t *testing.T, opts Options, f func(w *World)) *explorer {
	t.Helper()
	return &explorer{t: t, opts: opts.withDefaults(t.Name()), f: f, watchdog: watchdog{out: os.Stderr, long: longStep}}
}

// outcome is what a run has come to.
type outcome struct {
	failure *Failure
	trace   trace
	steps   int
	made    *schedule
}

func (e *explorer) explore() *Failure {
	switch {
	case *flagSeed != "":
		return e.replay()
	case *flagSchedule != "":
		e.t.Fatal("-sim.schedule is part of a run: it needs the -sim.seed that was printed with it")
	case e.opts.Runs <= 0:
		e.t.Fatal("Options.Runs is below 0 and there are no Options.Seeds: not one run would be made")
	}
	for n := range e.opts.Runs {
		seed := e.opts.seed(n)
		twice := e.opts.TwiceEvery > 0 && n%e.opts.TwiceEvery == 0
		out := e.once(seed, nil, twice)
		failure := out.failure
		if twice && failure == nil {
			failure = e.again(seed, out)
		}
		if failure != nil {
			failure.Run = n + 1
			return e.examine(failure, out)
		}
	}
	return nil
}

// replay makes the one run that the flags say.
func (e *explorer) replay() *Failure {
	seed, err := parseSeed(*flagSeed)
	if err != nil {
		e.t.Fatal(err)
	}
	var follow *schedule
	if *flagSchedule != "" {
		if follow, err = parseSchedule(*flagSchedule); err != nil {
			e.t.Fatal(err)
		}
	}
	out := e.once(seed, follow, true)
	if out.failure == nil {
		e.t.Logf("seed 0x%x: no failure in %d steps", seed, out.steps)
		return nil
	}
	out.failure.Run = 1
	if follow == nil {
		return e.examine(out.failure, out)
	}
	out.failure.Trace, out.failure.Replay = out.trace.events, e.command(seed)
	return out.failure
}

// again makes a run for the second time and compares.
func (e *explorer) again(seed uint64, first outcome) *Failure {
	second := e.once(seed, nil, true)
	if second.failure != nil {
		return second.failure
	}
	if first.trace.hash == second.trace.hash && slices.Equal(first.trace.events, second.trace.events) {
		return nil
	}
	text := "the same seed made two different runs: something in a handler is no matter of the seed " +
		"(a global random number, the order of a map, a goroutine, the world outside)"
	i, difference := 0, ""
	for ; i < min(len(first.trace.events), len(second.trace.events)); i++ {
		if a, b := first.trace.events[i], second.trace.events[i]; a != b {
			difference = fmt.Sprintf("\nfirst difference:\n  %s\n  %s", a, b)
			break
		}
	}
	f := &Failure{Seed: seed, Strategy: e.opts.Strategy.String(), Step: i, Text: text + difference, about: "twice"}
	f.Trace = first.trace.events[:min(i+1, len(first.trace.events))]
	return f
}

// examine shrinks a failure and says how to replay it.
func (e *explorer) examine(f *Failure, out outcome) *Failure {
	f.Replay = e.command(f.Seed)
	if slices.Contains([]string{"twice", "goroutine", "outside", "stuck outside"}, f.about) { // another schedule says nothing
		return f
	}
	short := &shrinker{e: e, failure: f}
	best, last := short.shrink(out.made)
	if best != nil {
		f.Schedule, f.Choices, f.Trace = best.String(), len(best.picks)+len(best.faults), last.trace.events
		return f
	}
	f.Trace = e.once(f.Seed, nil, true).trace.events
	return f
}

// command returns the command that replays a seed.
func (e *explorer) command(seed uint64) string {
	pkg := "."
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasSuffix(info.Path, ".test") {
		pkg = strings.TrimSuffix(info.Path, ".test")
	}
	parts := strings.Split(e.t.Name(), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return fmt.Sprintf("go test %s -run %s -sim.seed=0x%x", pkg, quoted(strings.Join(parts, "/")), seed)
}

// quoted makes a text one word of a shell's command.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// writeFiles writes what the flags ask for.
func (e *explorer) writeFiles(f *Failure) {
	for name, write := range map[string]func(*os.File) error{
		*flagTrace:   func(out *os.File) error { return writeText(out, f) },
		*flagDiagram: func(out *os.File) error { return writeDiagram(out, f) },
	} {
		if name == "" {
			continue
		}
		out, err := os.Create(name)
		if err == nil {
			err = write(out)
			if closed := out.Close(); err == nil {
				err = closed
			}
		}
		if err != nil {
			e.t.Errorf("write %s: %v", name, err)
		}
	}
}

// once makes one run in a bubble of its own. A run whose handler waits for what the world cannot
// give is left where it is: nothing can end it, and the test must not wait for it as well.
func (e *explorer) once(seed uint64, follow *schedule, detailed bool) outcome {
	stuck := e.watchdog.watch(detailed)
	defer e.watchdog.leave()
	type end struct {
		out   outcome
		panic any
	}
	ended := make(chan end, 1)
	go func() {
		var it end
		defer func() { ended <- it }()
		it.out, it.panic = e.bubble(seed, follow, detailed)
	}()
	select {
	case it := <-ended:
		if it.panic != nil {
			panic(it.panic)
		}
		return it.out
	case out := <-stuck:
		return out
	}
}

// bubble is the run itself. It returns what the run has panicked with, if that is no failure.
func (e *explorer) bubble(seed uint64, follow *schedule, detailed bool) (out outcome, wrong any) {
	var w *World
	defer func() {
		v := recover()
		if w != nil {
			out = w.outcome()
		}
		if v == nil {
			return
		}
		if err, ok := v.(error); !ok || w == nil || !strings.HasPrefix(err.Error(), "deadlock:") {
			wrong = v
			return
		}
		if out.failure == nil {
			out.failure = &Failure{
				Seed: seed, Strategy: w.strategy, Step: w.steps, about: "deadlock",
				Text: w.whoRuns() + " waits for something that nobody in the world will do (a channel, a lock): " + fmt.Sprint(v),
			}
		}
	}()
	synctest.Test(e.t, func(*testing.T) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			w = newWorld(e.opts, seed, follow, detailed)
			e.watchdog.world.Store(w)
			inBubble(w, e.f)
		}()
		<-over
		if w.clean() {
			w.teardown()
		}
	})
	return out, nil
}

// inBubble runs the test's function and ends the run. It is a goroutine of its own because
// runtime.Goexit in a handler ends it.
func inBubble(w *World, f func(*World)) {
	through := false
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(aborted); !ok && w.failure == nil {
				w.failure = w.failed("panic", fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
			}
		} else if !through {
			w.failure = w.failed("goexit", "runtime.Goexit (t.FailNow, t.Fatal, t.Skip) in a handler or in the test's function: "+
				"end a handler with an error, and a run with World.Fatalf")
			w.lost = true
		}
	}()
	f(w)
	w.finish()
	through = true
}

func (w *World) failed(about, text string) *Failure {
	return &Failure{Seed: w.seed, Strategy: w.strategy, Step: w.steps, At: w.Elapsed(), Text: text, about: about}
}

func (w *World) clean() bool { return w != nil && !w.lost }

func (w *World) outcome() outcome {
	s := newSchedule()
	for _, p := range w.picks {
		s.picks[p.step] = p.index
	}
	if w.follow == nil {
		s.faults = slices.Clone(w.struck)
	}
	if i := slices.IndexFunc(w.trace.events, func(e Event) bool { return e.Kind == "FAIL" }); i >= 0 {
		w.trace.events = w.trace.events[:i+1] // the rest is the end of the world
	}
	return outcome{failure: w.failure, trace: w.trace, steps: w.steps, made: s}
}
