package actor

import "time"

// Driver runs the actors of a system in place of the crew of workers: one step at a time,
// on one goroutine, in the order that it likes. Package sim has one, which makes that order
// a matter of a seed; nobody else needs to write one.
//
// Ready may be called by any goroutine, the others are called by whoever uses the system
// from outside, or by NewSystem. A driver runs inside of a testing/synctest bubble, in which
// the time stands still until it sleeps.
type Driver interface {
	// Attach makes the system known, once, before anything else is called.
	Attach(*Driven)
	// Ready says that the step must be run, once. It may be called during a step.
	Ready(Step)
	// Until runs steps until done reports true, which it asks between two steps: somebody
	// outside of any actor waits for something. It may give up, with a panic, when nothing
	// is left that could bring that about.
	Until(done func() bool)
	// Uint64 is where the system takes its random numbers from.
	Uint64() uint64
}

// DrivenBy makes a system that has no goroutines of its own: d runs it. In such a system a
// turn is one message, Pinned actors run like the others, and the work of a Pipe is a step.
func DrivenBy(d Driver) SystemOption { return systemOption(func(c *systemConfig) { c.driver = d }) }

// Step is something that a driven system has to do: a turn of an actor, the rest of a
// handler that waited, or the work of a Pipe.
type Step struct {
	who *core
	run func()
}

// Actor returns the number of the actor whose step it is. Actors are numbered in the order
// in which they are spawned; numbers are used again, with a new generation in the upper
// half.
func (s Step) Actor() uint64 { return s.who.id }

// PID returns the address of that actor.
func (s Step) PID() PID { return s.who.pid() }

// System returns the system it belongs to.
func (s Step) System() *System { return s.who.sys }

// Next describes what the actor will do: what it will handle and who sent that. Both are
// empty when it is not a message.
func (s Step) Next() (messageType string, from PID) {
	if s.run != nil || s.who.onHold {
		return "", PID{}
	}
	next := s.who.impl.upcoming()
	return next.messageType, next.sender
}

// Run takes the step. A step is run once, and by one goroutine at a time in a system.
func (s Step) Run() {
	if s.run != nil {
		s.run()
		return
	}
	s.who.sys.sched.solo.step(s.who)
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

// Close gives back what the system still has after its Shutdown.
func (d *Driven) Close() { d.sys.sched.stacks.close() }

// step gives c one step on the one worker of a driven system.
func (w *worker) step(c *core) {
	w.assigned = c
	w.drive(w.s.stacks.get())
}
