package actor

import (
	"fmt"
	"time"
)

// Spec is how an actor was spawned: its options, those that it has by default and those of its parent and
// its system included.
type Spec struct {
	Lifetime    Lifetime
	Significant bool
	Weight      int
	RunsOn      string   // workers, thread (see [Pinned]) or sender (see [Inline])
	Bulkhead    string   // whose workers, empty for the system's own
	Order       string   // of its mailbox: plain, priority, conflate or own
	Bound       int      // of its mailbox, 0 for none
	Overflow    Overflow // of a mailbox with a bound
	Middleware  int      // how many AroundReceive stand around its handler
	Reentrant   bool
	Gated       bool
	Function    bool          // it is a function, and has no state
	Passivate   time.Duration // 0 for never
	StopWithin  time.Duration // 0 for as long as it takes
	StopLast    bool

	Supervises SupervisionSpec  // how it supervises its children
	Guardian   *SupervisionSpec // how its parent supervises it, nil for as it does its other children
}

// SupervisionSpec is what [Supervise] was given.
type SupervisionSpec struct {
	Strategy    Strategy
	MaxRestarts int
	Within      time.Duration
	Exhausted   Directive
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	AutoStop    Significance // 0 for never
}

// Spec returns how the living actor with that address was spawned. It fails with [ErrStopped] when there is
// no such actor in this system. With [System.Inspect], which lists the children of an actor, it shows what a
// supervisor will do about each.
func (s *System) Spec(pid PID) (Spec, error) {
	c := s.local(pid)
	if c == nil {
		return Spec{}, fmt.Errorf("spec: %w", nobody(pid.String()))
	}
	k := c.kind
	spec := Spec{
		Lifetime: c.traits.lifetime(), Significant: c.isSignificant(), StopLast: c.flags.Load()&stopsLast != 0, Weight: int(c.weight), RunsOn: c.traits.runsOn().String(),
		Bulkhead: k.sched.name, Middleware: len(k.around), Reentrant: c.traits.reentrant(), Gated: c.isGated(),
		Supervises: k.super.spec(),
	}
	c.impl().spec(&spec)
	c.mu.Lock()
	defer c.mu.Unlock()
	if ext := c.ext; ext != nil {
		if ext.passivation != nil {
			spec.Passivate = ext.passivation.after
		}
		if ext.patience != nil {
			spec.StopWithin = ext.patience.limit
		}
		if ext.guardian != nil {
			g := ext.guardian.spec()
			spec.Guardian = &g
		}
	}
	return spec, nil
}

func (s *supervision) spec() SupervisionSpec {
	return SupervisionSpec{s.strategy, s.maxRestarts, s.within, s.exhausted, s.backoffMin, s.backoffMax, s.autoStop}
}

// spec implements impl.
func (c *cell[M]) spec(s *Spec) {
	s.Order = "plain"
	c.core.mu.Lock()
	defer c.core.mu.Unlock()
	_, s.Function = c.actor.(funcActor[M])
	m := c.mailbox()
	if m == nil || m.special == nil {
		return
	}
	if m.observed() {
		s.Middleware-- // which tells the observer
	}
	s.Order, s.Bound, s.Overflow = m.special.queue.orderName(), m.special.bound, m.special.overflow
}

func (r runsOn) String() string { return [...]string{"workers", "thread", "sender"}[r] }

// String returns the strategy's name, "one for one" for example.
func (s Strategy) String() string {
	return nameIn(int(s), "one for one", "all for one", "rest for one")
}

// String returns the directive's name.
func (d Directive) String() string { return nameIn(int(d), "restart", "resume", "stop", "escalate") }

// String returns the lifetime's name.
func (l Lifetime) String() string { return nameIn(int(l), "transient", "permanent", "temporary") }

// String returns the policy's name, "drop oldest" for example.
func (o Overflow) String() string {
	return nameIn(int(o), "reject", "drop newest", "drop oldest", "block")
}

// String returns "any", "all" or "never".
func (s Significance) String() string { return nameIn(int(s), "never", "any", "all") }

// nameIn returns the name of a value.
func nameIn(value int, names ...string) string {
	if value < len(names) {
		return names[value]
	}
	return fmt.Sprintf("unknown (%d)", value)
}
