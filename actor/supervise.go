package actor

import (
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Strategy says which children a failure affects, as in OTP.
type Strategy uint8

const (
	// OneForOne affects only the child that failed.
	OneForOne Strategy = iota
	// AllForOne affects all children: when one is restarted, all are, stopped in the reverse order
	// of their start and started again in that order. In such a restart an Init must not ask a sibling
	// that was spawned after its own actor: that one starts later, and the ask waits until its time is up.
	AllForOne
	// RestForOne is AllForOne for the child that failed and those started after it. A child with
	// [StopLast] counts as started before the others: they restart with it, and it does not with them.
	RestForOne
)

// Directive is what a supervisor does about a failure.
type Directive uint8

const (
	// Restart gives the actor a fresh state; its reference and its mailbox stay. It is
	// what happens without a decider.
	Restart Directive = iota
	// Resume continues with the next message and the present state. An actor whose Init failed has
	// no state, and that of a [Gated] one may be ahead of what has left: they are restarted. A Temporary
	// actor is stopped where another one would be restarted, and otherwise resumed by Resume.
	Resume
	// Stop ends the actor; whoever watches it gets a Down with the reason Failed.
	Stop
	// Escalate makes the failure the supervisor's own: its supervisor decides. At the
	// root nobody is left to decide, and the actor that failed is stopped.
	Escalate
)

// Lifetime says when an actor is restarted, as in OTP. It is an option of spawning;
// without it an actor is Transient.
type Lifetime uint8

const (
	// Transient actors are restarted when they fail, not when they stop of their own
	// accord.
	Transient Lifetime = iota
	// Permanent actors are also restarted when they stop of their own accord, by ErrStop or
	// Context.Stop. Stop, Drain and Kill from outside end them.
	Permanent
	// Temporary actors are never restarted.
	Temporary
)

func (l Lifetime) applySpawn(c *spawnConfig) {
	required(l <= Temporary, fmt.Sprintf("Spawn: there is no lifetime %d: it is Transient, Permanent or Temporary", l))
	c.lifetime = l
}

// The supervision that an actor exercises unless told otherwise.
const (
	defaultMaxRestarts = 10
	defaultWithin      = time.Minute
)

// supervision is what an actor does about failures of its children.
type supervision struct {
	strategy    Strategy
	decide      func(error) Directive
	maxRestarts int
	within      time.Duration
	exhausted   Directive
	backoffMin  time.Duration
	backoffMax  time.Duration
	autoStop    Significance // 0 for never
}

// SupervisionOption refines [Supervise].
type SupervisionOption func(*supervision)

// Supervise says how the actor, or for [NewSystem] the system with the actors at its
// root, supervises its children. When one fails, it waits, suspended, for the
// supervisor's decision; its mailbox still accepts messages.
//
// Without Supervise the strategy is OneForOne, and every failure leads to a restart, up to 10 in a
// minute, without backoff.
func Supervise(strategy Strategy, opts ...SupervisionOption) SuperviseOption {
	required(strategy <= RestForOne, fmt.Sprintf("Supervise: there is no strategy %d: it is OneForOne, AllForOne or RestForOne", strategy))
	s := supervision{
		strategy: strategy, decide: func(error) Directive { return Restart },
		maxRestarts: defaultMaxRestarts, within: defaultWithin, exhausted: Escalate,
	}
	for _, opt := range opts {
		required(opt != nil, "Supervise: an option is nil: leave it out")
		opt(&s)
	}
	return SuperviseOption{s}
}

// SuperviseOption is the result of [Supervise]: an option of spawning and of
// [NewSystem].
type SuperviseOption struct{ s supervision }

func (o SuperviseOption) applySpawn(c *spawnConfig) { c.super = &o.s }
func (o SuperviseOption) applySystem(c *systemConfig) {
	required(o.s.autoStop == 0, "NewSystem: AutoStop is not for the actors at the root: end the system with Shutdown")
	c.super = o.s
}

// MaxRestarts bounds the restarts: with more than n failures within the given time the budget is
// exhausted, and the supervisor escalates, or does what [Exhausted] says. With n = 0 the first
// failure exhausts it. OneForOne counts each child separately, the other strategies count all
// children together. MaxRestarts panics if n is negative or within is not positive.
func MaxRestarts(n int, within time.Duration) SupervisionOption {
	required(n >= 0 && within > 0, fmt.Sprintf("MaxRestarts(%d, %v): a budget is 0 or more, within a time", n, within))
	return func(s *supervision) { s.maxRestarts, s.within = n, within }
}

// Exhausted says what to do when the restart budget is exhausted: Escalate, which is the default,
// or Stop, which ends the child and leaves its siblings and the supervisor running. Other
// directives panic.
func Exhausted(d Directive) SupervisionOption {
	required(d == Escalate || d == Stop, fmt.Sprintf("Exhausted(%d): it takes Escalate or Stop", d))
	return func(s *supervision) { s.exhausted = d }
}

// Decide chooses the directive for a failure: an error that Receive or Init returned, or a
// [*PanicError]. It runs in the supervisor's turn and must not block; if it panics or ends its
// goroutine, the directive is Escalate.
func Decide(decide func(err error) Directive) SupervisionOption {
	required(decide != nil, "Decide: the function is nil")
	return func(s *supervision) { s.decide = decide }
}

// Backoff delays restarts: the first by about shortest, each further one within the time of
// [MaxRestarts] by twice as much, up to longest, with a jitter of an eighth in both directions so
// that actors that failed together do not come back together. Nobody is blocked meanwhile; messages
// wait in the mailbox. Backoff panics if shortest is negative or longest is less than shortest.
func Backoff(shortest, longest time.Duration) SupervisionOption {
	required(0 <= shortest && shortest <= longest, fmt.Sprintf("Backoff(%v, %v): the first is the shortest delay, the second the longest", shortest, longest))
	const most = math.MaxInt64 / 2 // with the jitter it can still be counted
	return func(s *supervision) {
		s.backoffMin, s.backoffMax = min(shortest, most), min(longest, most)
	}
}

// delay returns the backoff before restart number n, counted from 1.
func (s *supervision) delay(n int, random uint64) time.Duration {
	if s.backoffMin <= 0 {
		return 0
	}
	d := s.backoffMin
	for ; n > 1 && d < s.backoffMax; n-- {
		d += min(d, s.backoffMax-d)
	}
	return d - d/8 + time.Duration(random%uint64(d/4+1))
}

// decision asks the decider. One that panics has decided nothing: that is for the
// supervisor's own supervisor.
func (s *supervision) decision(err error) (d Directive) {
	defer func() {
		if recover() != nil {
			d = Escalate
		}
	}()
	return s.decide(err)
}

// count notes a failure and returns how many there were in the window.
func (s *supervision) count(failures *[]time.Time) int {
	now := time.Now()
	recent := *failures // oldest first
	for len(recent) > 0 && now.Sub(recent[0]) >= s.within {
		recent = recent[1:]
	}
	recent = append(recent, now)
	*failures = recent
	return len(recent)
}

// supervise decides about a child that failed, or, with a nil err, a permanent one
// that stopped of its own accord. REQUIRES: the turn owns c.
func (c *core) supervise(s signal) {
	child, err := s.child, s.err
	if c.phase == stopping && c.ext.end == stopDrain {
		c.superviseDraining(s)
		return
	}
	if c.phase == stopping || c.phase == restarting {
		child.signal(signal{kind: sigGiveUp, err: err})
		return
	}
	if g := c.needExt().group; g != nil && !g.noteFailure(s) {
		return
	}
	switch c.directive(s) {
	case Resume:
		child.signal(signal{kind: sigResume})
	case Stop:
		child.signal(signal{kind: sigGiveUp, err: err})
	case Escalate:
		c.escalate(child, err)
	default:
		c.restartChild(child, err)
	}
}

// directive returns what is to be done about a child. REQUIRES: the turn owns c.
func (c *core) directive(s signal) Directive {
	if s.err == nil { // it is permanent, and has stopped of its own accord
		return Restart
	}
	return s.possible(c.decide(s))
}

// decide asks the actor's decider. REQUIRES: the turn owns c.
func (c *core) decide(s signal) Directive {
	if s.undecided {
		return Escalate
	}
	c.enterUser()
	d := c.superOf(s.child).decision(s.err)
	c.leaveUser()
	return d
}

// possible returns what becomes of a directive for the child that failed.
func (s signal) possible(d Directive) Directive {
	if d == Resume && s.bare {
		d = Restart // there is no state to go on with
	}
	if s.child.traits.lifetime() == Temporary && d == Restart {
		d = Stop
	}
	return d
}

// superviseDraining decides while the children handle the rest of their mail: one that fails, or is permanent and
// stops of its own accord, goes on with it if it may, by itself, since its siblings are gone or about to be.
func (c *core) superviseDraining(s signal) {
	d := c.directive(s)
	after, ok := time.Duration(0), d == Resume
	if d == Restart {
		if _, after, ok = c.mayRestart(s.child); s.err == nil {
			after = 0 // nothing has failed, and there may be no mail left
		}
	}
	switch {
	case !ok:
		s.child.signal(signal{kind: sigGiveUp, err: s.err})
	case d == Resume:
		s.child.signal(signal{kind: sigResume})
	default:
		s.child.signal(signal{kind: sigRestart, after: after})
	}
}

// mayRestart books one more failure of a child. It returns how many there were, and whether
// the budget allows a restart, and after which delay.
func (c *core) mayRestart(child *core) (n int, after time.Duration, ok bool) {
	super, failures := c.superOf(child), &c.needExt().failures
	if super.strategy == OneForOne {
		failures = &child.needExt().budget
	}
	n = super.count(failures)
	return n, super.delay(n, c.sys().rand.Uint64()), n <= super.maxRestarts
}

// restartChild restarts what the strategy says, if the budget allows it.
func (c *core) restartChild(child *core, err error) {
	super := c.superOf(child)
	n, after, ok := c.mayRestart(child)
	if !ok {
		err = fmt.Errorf("%w: %d failures within %v, the last: %w", ErrRestartBudget, n, super.within, orStopped(err))
		if super.exhausted == Stop {
			c.giveUp(child, err)
			return
		}
		c.escalate(child, err)
		return
	}
	if super.strategy == OneForOne {
		child.signal(signal{kind: sigRestart, after: after})
		return
	}
	c.regroup(child, after)
}

// orStopped stands in for the error of a permanent actor that stopped by itself.
func orStopped(err error) error {
	if err == nil {
		return ErrStop
	}
	return err
}

// escalate makes a child's failure the supervisor's own.
func (c *core) escalate(child *core, err error) {
	if c.parent == nil || c.traits.keeps() {
		c.giveUp(child, err)
		return
	}
	ext := c.needExt()
	ext.escalated = append(ext.escalated, signal{kind: sigGiveUp, child: child, err: err})
	if c.phase == suspended { // its supervisor decides already
		return
	}
	c.fail(fmt.Errorf("child %s: %w", child.fullPath(), orStopped(err)))
}

// giveUp stops a child for good.
func (c *core) giveUp(child *core, err error) {
	c.sys().say(slog.LevelError, "actor stopped by its supervisor",
		slog.String("actor", child.pid().String()), slog.String("error", fmt.Sprint(orStopped(err))))
	child.signal(signal{kind: sigGiveUp, err: err})
}
