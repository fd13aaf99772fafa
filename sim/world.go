package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// World is one run: systems of actors whose every step is chosen, and a clock that stands still
// until nothing is left to do, see [Options.StepTime]. It is for the function that gets it and for
// the handlers of its actors; other goroutines must not use it.
type World struct {
	opts     Options
	seed     uint64
	follow   *schedule // the schedule to follow, nil to make one
	picker   Picker
	strategy string
	faults   Faults

	faultRand, linkRand, diskRand, userRand, systemRand, timeRand *rand.Rand

	began time.Time
	alarm *time.Timer
	guard guard
	ctx   context.Context //nolint:containedctx // the life of the run
	end   context.CancelFunc

	mu       sync.Mutex
	arrived  []Choice // became ready since the last look; guarded by mu
	sleeping bool     // guarded by mu
	wake     chan struct{}

	nodes   []*Node
	links   []*Link
	disks   []*Disk
	ready   []Choice
	frozen  []Choice // what nodes that have crashed would do
	events  eventHeap
	asides  []aside
	current *Choice // the step that is being run

	monitors  []monitor
	observing bool

	underway atomic.Int64           // the number of the step that is being run, counted from 1; 0 between two
	outside  atomic.Pointer[string] // the stack of a handler that was seen to wait for a socket

	actors actorList
	armed  faultKind // the fault that the handler of this step has
	chosen []*point  // the panics of the script that have not come yet

	steps     int
	limit     int
	sometimes int
	idle      int
	picks     []pick
	struck    []fault
	trace     trace
	failure   *Failure
	healed    bool
	lost      bool // runtime.Goexit has ended the run: nothing can be torn down
	over      bool // what goes wrong now is not the run's fault any more
}

// pick is a choice that was not the first.
type pick struct{ step, index int }

// aside is a handler, or the work of a Pipe, that waits for something that the runtime
// does not tell: its stack is set aside.
type aside struct {
	node *Node
	step actor.Step
	done func() bool
	also <-chan struct{}
}

// newWorld begins a run. REQUIRES: called in a bubble.
func newWorld(opts Options, seed uint64, follow *schedule, detailed bool) *World {
	w := &World{
		opts: opts, seed: seed, follow: follow, limit: opts.Steps,
		faultRand: stream(seed, streamFaults), linkRand: stream(seed, streamLinks), diskRand: stream(seed, streamDisks),
		userRand: stream(seed, streamUser), systemRand: stream(seed, streamSystem), timeRand: stream(seed, streamTime),
		began: time.Now(), alarm: time.NewTimer(time.Hour), wake: make(chan struct{}, 1),
	}
	w.alarm.Stop()
	w.ctx, w.end = context.WithCancel(context.Background())
	w.trace.detailed = detailed
	w.guard = newGuard(detailed)
	w.faults = opts.Faults.drawn(w.faultRand)
	picker := opts.Strategy.Start(stream(seed, streamSchedule), opts.Steps)
	w.strategy = opts.Strategy.String()
	if n, ok := picker.(named); ok {
		picker, w.strategy = n.Picker, n.name
	}
	if w.picker = picker; follow != nil {
		w.picker = follow.picker()
		w.struck = slices.Clone(follow.faults)
	}
	return w
}

// Rand returns random numbers that depend only on the seed: neither the schedule nor
// faults draw from them.
func (w *World) Rand() *rand.Rand { return w.userRand }

// Seed returns the run's seed.
func (w *World) Seed() uint64 { return w.seed }

// Elapsed returns how much virtual time has passed.
func (w *World) Elapsed() time.Duration { return time.Since(w.began) }

// Context returns a context that ends with the run.
func (w *World) Context() context.Context { return w.ctx }

// Logf adds a line to the trace.
func (w *World) Logf(format string, args ...any) {
	if w.trace.detailed {
		w.trace.add(Event{Step: w.steps, At: w.Elapsed(), Kind: "log", Message: fmt.Sprintf(format, args...)})
	}
}

// Fatalf ends the run as a failure. In a handler it also ends the handler.
func (w *World) Fatalf(format string, args ...any) {
	w.fail("test "+format, fmt.Sprintf(format, args...))
}

// aborted is what a run that has failed panics with, to end the test's function.
type aborted struct{}

// fail ends the run. about is what must stay the same while the schedule is shrunk.
func (w *World) fail(about, text string) {
	if w.failure == nil && !w.over {
		w.failure = &Failure{
			Seed: w.seed, Strategy: w.strategy, Step: w.steps, At: w.Elapsed(), Text: text, about: about,
		}
		w.trace.add(Event{Step: w.steps, At: w.Elapsed(), Kind: "FAIL", Message: text})
	}
	panic(aborted{})
}

// abortIfFailed ends the test's function when a handler has failed the run.
func (w *World) abortIfFailed() {
	if w.failure != nil && !w.over {
		panic(aborted{})
	}
}

// until runs steps until done: see actor.Driver.
func (w *World) until(done func() bool, also <-chan struct{}) {
	if c := w.current; c != nil {
		c.node.driven.SetAside(c.step, func(later actor.Step) {
			w.asides = append(w.asides, aside{c.node, later, done, also})
		})
		return
	}
	if w.observing {
		w.fail("test", "a condition of Always, Never or Eventually must look and not wait: it ran an Ask, or something else that takes steps")
	}
	w.settle() // what the test itself has just done
	for !done() {
		w.abortIfFailed()
		if !w.move(also) {
			w.fail("stuck", "the test waits, and nothing is left that could happen: no message, no timer"+w.whoWaits())
		}
	}
}

// move makes one step, or lets time pass until there is one to make. It reports false when
// nothing is left that could happen.
func (w *World) move(also <-chan struct{}) bool {
	if w.steps >= w.limit {
		w.fail("steps", fmt.Sprintf("not at rest after %d steps: actors that keep each other busy, or a higher Options.Steps is needed", w.limit))
	}
	if w.strike() {
		return true
	}
	if len(w.ready) == 0 {
		return w.pass(also)
	}
	w.idle = 0
	i := w.picker.Pick(w.ready)
	if i < 0 || i >= len(w.ready) {
		w.fail("strategy", fmt.Sprintf("strategy %s chose %d of %d", w.strategy, i, len(w.ready)))
	}
	if i > 0 {
		w.picks = append(w.picks, pick{w.steps, i})
	}
	c := w.ready[i]
	w.ready = slices.Delete(w.ready, i, i+1)
	w.trace.step(w, &c)
	w.steps++
	w.run(&c)
	w.armed = 0
	w.settle()
	w.observe()
	w.abortIfFailed()
	w.takeTime(also)
	return true
}

// takeTime lets the time pass that a step takes: by the cube of a random number, so that many
// steps take little and some much.
func (w *World) takeTime(also <-chan struct{}) {
	if w.opts.StepTime <= 0 || w.over {
		return
	}
	part := w.timeRand.Float64()
	w.sleepUntil(time.Now().Add(time.Duration(part*part*part*float64(w.opts.StepTime))), also)
	w.fire()
}

// run does what was chosen.
func (w *World) run(c *Choice) {
	switch c.kind {
	case chooseFrame:
		c.frame.arrive()
	case chooseEvent:
		c.event.do()
	default:
		w.current = c
		w.underway.Store(int64(w.steps))
		w.trace.run(w, c)
		w.underway.Store(0)
		w.current = nil
	}
}

// settle waits until what contexts have set off has ended, and notes what has become ready.
func (w *World) settle() {
	w.guard.look(w)
	synctest.Wait()
	w.gather()
	for i := 0; i < len(w.asides); i++ {
		if a := w.asides[i]; a.done() {
			w.asides = slices.Delete(w.asides, i, i+1)
			w.admit(choiceOf(a.node, a.step))
			i--
		}
	}
}

// gather takes what has become ready in, in the order of the actors' numbers: goroutines
// that contexts start may have told us in any order.
func (w *World) gather() {
	w.mu.Lock()
	if len(w.arrived) == 0 {
		w.mu.Unlock()
		return
	}
	if len(w.arrived) > 1 {
		slices.SortStableFunc(w.arrived, func(a, b Choice) int { return cmp.Compare(a.key, b.key) })
	}
	first := len(w.ready)
	w.ready = append(w.ready, w.arrived...)
	clear(w.arrived)
	w.arrived = w.arrived[:0]
	w.mu.Unlock()
	if w.faults.Stop > 0 || w.faults.Kill > 0 || w.follow != nil {
		w.actors.note(w.ready[first:])
	}
	w.freeze(first)
}

// freeze sets aside what nodes that have crashed would do, from the first on.
func (w *World) freeze(first int) {
	for i := first; i < len(w.ready); i++ {
		if n := w.ready[i].node; n != nil && n.crashed {
			w.frozen = append(w.frozen, w.ready[i])
			w.ready = slices.Delete(w.ready, i, i+1)
			i--
		}
	}
}

func (w *World) admit(c Choice) {
	w.ready = append(w.ready, c)
	w.freeze(len(w.ready) - 1)
}

// arrive notes that something is ready. It may be called from any goroutine.
func (w *World) arrive(c Choice) {
	w.mu.Lock()
	w.arrived = append(w.arrived, c)
	wake := w.sleeping
	w.sleeping = false
	w.mu.Unlock()
	if wake {
		w.wake <- struct{}{}
	}
}

const (
	horizon = time.Hour // how long to sleep for contexts whose timers nobody can see
	idleMax = 24 * 7    // and how often
)

// pass lets time pass until the next timer. It reports false when there is none.
func (w *World) pass(also <-chan struct{}) bool {
	next, ok := w.nextTimer()
	if !ok {
		if also == nil && len(w.asides) == 0 && !w.anybodyWaits() || w.idle == idleMax {
			return false
		}
		w.idle++
		next = time.Now().Add(horizon)
	}
	w.sleepUntil(next, also)
	w.fire()
	return true
}

// fire makes what is due happen.
func (w *World) fire() {
	w.settle()
	for _, n := range w.nodes {
		if !n.crashed {
			n.driven.FireTimers()
		}
	}
	w.settle()
	now := time.Now()
	for len(w.events) > 0 && !w.events[0].at.After(now) {
		w.ready = append(w.ready, w.events.pop().choice())
	}
}

// nextTimer returns when something is due that the world knows of.
func (w *World) nextTimer() (next time.Time, ok bool) {
	if len(w.events) > 0 {
		next, ok = w.events[0].at, true
	}
	for _, n := range w.nodes {
		if n.crashed {
			continue
		}
		if at, has := n.driven.NextTimer(); has && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

func (w *World) anybodyWaits() bool {
	return slices.ContainsFunc(w.nodes, func(n *Node) bool { return n.driven.Waiting() > 0 })
}

// sleepUntil lets time pass until at, or until something becomes ready or one of the
// contexts ends that somebody waits for.
func (w *World) sleepUntil(at time.Time, also <-chan struct{}) {
	d := time.Until(at)
	if d <= 0 {
		return
	}
	w.mu.Lock()
	w.sleeping = len(w.arrived) == 0
	asleep := w.sleeping
	w.mu.Unlock()
	if !asleep {
		return
	}
	w.alarm.Reset(d)
	w.wait(also)
	w.alarm.Stop()
	w.mu.Lock()
	w.sleeping = false
	w.mu.Unlock()
	synctest.Wait() // somebody may be about to wake who sleeps no more: the next sleep is not to end by it
	select {
	case <-w.wake:
	default:
	}
}

func (w *World) wait(also <-chan struct{}) {
	if !slices.ContainsFunc(w.asides, func(a aside) bool { return a.also != nil }) {
		select {
		case <-w.alarm.C:
		case <-w.wake:
		case <-also:
		}
		return
	}
	cases := []reflect.SelectCase{
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.alarm.C)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(w.wake)},
		{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(also)},
	}
	for _, a := range w.asides {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(a.also)})
	}
	reflect.Select(cases)
}

// whoRuns says whose step it is.
func (w *World) whoRuns() string {
	if c := w.current; c != nil {
		return map[actor.StepKind]string{actor.StepPipe: "the work of a Pipe of "}[c.step.Kind()] + c.step.PID().String()
	}
	return "the test's function"
}

// whoWaits names the handlers that wait, as lines to append.
func (w *World) whoWaits() string {
	var text strings.Builder
	for _, a := range w.asides {
		fmt.Fprintf(&text, "\n  a handler of %s waits", a.step.PID())
	}
	for _, n := range w.nodes {
		if k := n.driven.Waiting(); k > 0 {
			fmt.Fprintf(&text, "\n  %d handlers in %s wait for an answer", k, n.name)
		}
	}
	return text.String()
}
