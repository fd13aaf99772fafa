package actor

import (
	"math/rand/v2"
	"time"
)

// Driver runs the actors of a system in place of the workers: one step at a time, on one
// goroutine, in an order of its choice. Package sim has one, which makes that order a
// matter of a seed; nobody else needs to write one.
//
// Ready may be called by any goroutine, the others are called by whoever uses the system
// from outside, or by NewSystem. A driver runs inside a testing/synctest bubble, in which
// time stands still until it sleeps.
type Driver interface {
	// Attach makes the system known, once, before anything else is called.
	Attach(*Driven)
	// Ready says that the step must be run, once. It may be called during a step.
	Ready(Step)
	// Until runs steps until done, which it calls between steps, reports true: somebody
	// waits for something, either outside any actor or in a step whose stack the driver
	// then sets aside with [Driven.SetAside]. also, if it is not nil, is closed when time
	// alone has ended the wait. Until may panic when nothing is left that could end it.
	Until(done func() bool, also <-chan struct{})
	// Settle returns when the goroutines that the end of a context has started have ended:
	// what they do must not depend on when they run. It is called in a step, or outside.
	Settle()
	// Uint64 returns the system's next random number.
	Uint64() uint64
}

// DrivenBy makes a system that has no goroutines of its own: d runs it. In such a system a
// turn is one message, Pinned actors run like the others, and the work of a Pipe is a step.
func DrivenBy(d Driver) SystemOption { return systemOption(func(c *systemConfig) { c.driver = d }) }

// driveBy has d run the system, on one worker for all bulkheads.
func (s *System) driveBy(d Driver, bulkheads []bulkhead) {
	s.sched = &scheduler{bulkhead: bulkhead{weight: 1}, parked: &s.parked, closed: true}
	s.sched.runner = byDriver{s.sched, d}
	solo := &worker{s: s.sched}
	solo.covered.Store(1) // no other covers for it
	s.sched.workers.Store(&[]*worker{solo})
	s.scheds, s.bulkheads = []*scheduler{s.sched}, map[string]*scheduler{"": s.sched}
	for _, b := range bulkheads {
		s.bulkheads[b.name] = s.sched
	}
	s.rand = rand.New(d)
	s.clock.running = true // the driver fires what is due
	d.Attach(&Driven{s})
}

// isDriven reports whether a driver runs the system.
func (s *System) isDriven() bool {
	_, driven := s.sched.runner.(byDriver)
	return driven
}

// solo returns the worker of a driven system.
func (s *System) solo() *worker { return (*s.sched.workers.Load())[0] }

// byDriver is the runner of a driven system. Its scheduler has one worker, which takes a step when it
// is told to, and no limits: a turn is one message, and nobody sleeps.
type byDriver struct {
	*scheduler
	driver Driver
}

func (r byDriver) ready(c *core, _ *worker) { r.driver.Ready(Step{who: c}) }
func (r byDriver) again(c *core, _ *worker) { r.driver.Ready(Step{who: c}) }

func (r byDriver) pick(w *worker) *core {
	w.publish()
	return w.step.next()
}

// over always has the stack set aside: what ends a wait early is a race.
func (byDriver) over(*parking) bool { return false }

func (r byDriver) park(w *worker, h *parking) *coroutine {
	if !w.setAside(h) {
		h.who.unpark()
		r.ready(h.who, nil)
	}
	return nil
}

func (byDriver) stepOut(*worker) bool { return false } // no other could take its place

// waitFor prefers told: the order must not be a matter of luck.
func (r byDriver) waitFor(told, done <-chan struct{}) (ok bool) {
	r.driver.Until(func() bool {
		ok = isClosed(told)
		return ok || isClosed(done)
	}, done)
	return ok
}

func (r byDriver) background(c *core, work func()) { r.driver.Ready(Step{who: c, run: work}) }

func (r byDriver) settle() { r.driver.Settle() }

// place has pinned actors run like the others.
func (byDriver) place(at runsOn) runsOn {
	if at == onThread {
		return onPool
	}
	return at
}

// Step is something that a driven system has to do: a turn of an actor, the rest of a
// handler that waited, or the work of a Pipe.
type Step struct {
	who *core
	run func()     // the work of a Pipe
	co  *coroutine // a stack that was set aside
}

// Actor returns the number of the actor whose step it is. Actors are numbered in the order
// in which they are spawned; numbers are used again, with a new generation in the upper
// half.
func (s Step) Actor() uint64 { return s.who.id }

// PID returns the address of that actor.
func (s Step) PID() PID { return s.who.pid() }

// System returns the system it belongs to.
func (s Step) System() *System { return s.who.sys() }

// Next describes what the actor will do: what it will handle and who sent that. Both are
// empty when it is not a message.
func (s Step) Next() (messageType string, from PID) {
	if s.run != nil || s.resumes() {
		return "", PID{}
	}
	next := s.who.impl().nextMessage()
	return next.messageType, next.sender
}

// Message returns the message that the actor will handle, if somebody has sent it: for whoever
// describes the step, now. It must not be changed nor kept.
func (s Step) Message() (msg any, ok bool) {
	if s.run != nil || s.resumes() {
		return nil, false
	}
	return s.who.impl().nextSent()
}

// Stashed returns how many messages the actor has set aside. It may be called before and after the
// step, not during it; after an actor's end it returns 0.
func (s Step) Stashed() int { return s.who.impl().stashSize() }

// Kind says what it is that the actor has to do.
func (s Step) Kind() StepKind {
	switch {
	case s.run != nil:
		return StepPipe
	case s.resumes():
		return StepResume
	default:
		return StepTurn
	}
}

// resumes reports whether the step is the rest of a handler.
func (s Step) resumes() bool { return s.co != nil || s.who.parked || s.who.resumesNext() }

// StepKind says what a [Step] is.
type StepKind uint8

// The kinds of steps.
const (
	StepTurn   StepKind = iota // signals, and at most one message
	StepResume                 // a handler that has waited continues
	StepPipe                   // the work of a Pipe begins
)

// Run takes the step. A step is run once. Steps are run by one goroutine, also those of
// several systems whose actors know each other, and none during another.
func (s Step) Run() {
	w := s.who.sys().solo()
	if s.co != nil {
		w.drive(s.co)
		return
	}
	w.step = s
	w.drive(w.s.stacks.get())
}

// next returns the actor whose turn the step is, and nil when there is nothing more to
// do. The work of a Pipe it does itself. It is called on the step's stack.
func (s *Step) next() (c *core) {
	run := s.run
	if run == nil {
		c, s.who = s.who, nil
		return c
	}
	s.run, s.who = nil, nil
	run()
	return nil
}

// Driven is a system as its driver sees it.
type Driven struct{ sys *System }

// System returns the system.
func (d *Driven) System() *System { return d.sys }

// NextTimer returns when the system's next timer is due. It reports false when there is
// none.
func (d *Driven) NextTimer() (time.Time, bool) {
	k := d.sys.clock
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.nodes) == 0 {
		return time.Time{}, false
	}
	return k.base.Add(k.nodes[0].when), true
}

// FireTimers fires the timers that are due.
func (d *Driven) FireTimers() { d.sys.clock.fireDue() }

// Stacks returns how many stacks of handlers the system has: each is a goroutine to those
// who count goroutines.
func (d *Driven) Stacks() int { return d.sys.sched.stacks.count() }

// Waiting returns how many handlers wait for something, with their stacks set aside.
func (d *Driven) Waiting() int { return int(d.sys.parked.Load()) }

// Stop stops or kills the actor with that address, as [Ref.Stop] and [Ref.Kill] do. It
// reports false when there is none.
func (d *Driven) Stop(pid PID, kill bool) bool {
	c := d.sys.local(pid)
	if c == nil || c.parent == nil {
		return false
	}
	mode := stopNow
	if kill {
		mode = stopKill
	}
	c.stop(mode)
	return true
}

// Close gives back what the system still has after its Shutdown.
func (d *Driven) Close() { d.sys.sched.closeStacks() }

// SetAside puts the stack of the step that is being run aside, passes later the step that
// will continue it, and returns when that step is run. It must be called on that stack:
// by Until, in a step of this system.
func (d *Driven) SetAside(step Step, later func(Step)) {
	w := d.sys.solo()
	co, c, inTurn := w.co.Load(), w.current.Swap(nil), w.inTurn
	w.inTurn, w.leaving = false, leaving{kind: leaveAside}
	later(Step{who: step.who, co: co})
	co.yield(struct{}{})
	w.current.Store(c)
	w.inTurn = inTurn
}
