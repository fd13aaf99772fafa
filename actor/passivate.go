package actor

import (
	"fmt"
	"math"
	"time"
)

// Passivate gives up the state of an actor that has nothing to do: when it has handled no message
// for that long, or at most twice as long, its incarnation ends. Terminate is called with nil, and
// the state is dropped. The actor still exists: its references, name, watchers and links stay. With
// the next message it gets a new state, as Spawn made the first one, and handles that message when
// its Init has returned. If that Init fails, it is a failure like any other.
//
// An actor is not passivated while it has children, timers, a receive timeout, watches, stashed
// messages, a handler set by Become, outcomes of [Pipe] and [AskThen] that have not arrived, or
// handlers that wait. The runtime does not know what an actor needs to keep a [Promise]: such an
// actor may set a timer meanwhile. An actor that its supervisor restarts with others gets its
// new state then.
//
// The activation of a [Virtual] actor ends instead of staying without a state.
//
// [ActorPassivated] and [ActorActivated] report this. A duration of less than a millisecond panics.
// Spawning fails for an actor that is a function, since it has no state, and for one that is
// [Gated], since what it has sent may not have left: package persist delivers to actors that have a
// state.
func Passivate(after time.Duration) SpawnOption {
	required(after >= time.Millisecond, fmt.Sprintf("Passivate(%v): the duration must be 1 ms or more", after))
	return spawnOption(func(c *spawnConfig) { c.passivate = after })
}

// ActorPassivated says that an actor has given up its state, see [Passivate].
type ActorPassivated struct{ PID PID }

// ActorActivated says that a passivated actor has a state again.
type ActorActivated struct{ PID PID }

func (ActorPassivated) event() {}
func (ActorActivated) event()  {}

// passivation is what an actor has that is to be passivated.
type passivation struct {
	c       *core
	after   time.Duration
	node    timerNode
	seen    uint64 // what the actor had handled when the timer was set; owned by the turn
	rests   bool   // the actor holds something, and no timer is set until it has had a turn; owned by the turn
	leaving bool   // its incarnation ends for that; owned by the turn
	passive bool   // it has no state; changed by the turn under mu
}

// passivateAfter has the actor passivated. REQUIRES: nobody else can see it.
func (c *core) passivateAfter(d time.Duration) {
	c.traits |= passivateTrait
	c.needExtLocked().passivation = &passivation{c: c, after: d}
}

// ring implements ringer.
func (p *passivation) ring() { p.c.signal(signal{kind: sigPassivate}) }

// armPassivation sets the timer of an incarnation that has begun, if it is to be passivated.
// REQUIRES: the turn owns c.
func (c *core) armPassivation() {
	if !c.traits.passivates() {
		return
	}
	c.mu.Lock()
	handled := c.handled
	c.mu.Unlock()
	c.ext.passivation.arm(handled)
}

// arm sets the timer, when the actor has handled so many messages. REQUIRES: the turn owns the actor.
func (p *passivation) arm(handled uint64) {
	clock := p.c.sys().clock
	clock.cancel(&p.node)
	p.seen, p.rests = handled, false
	if p.after == 0 { // of an activation that only its place ends
		return
	}
	clock.at(&p.node, clock.in(p.after), p)
}

// disarmPassivation ends the timer for good.
func (c *core) disarmPassivation() {
	if c.traits.passivates() {
		c.sys().clock.cancel(&c.ext.passivation.node)
	}
}

// passivate ends the incarnation if it has done nothing since the timer was set, and holds nothing.
func (c *cell[M]) passivate() {
	p := c.core.ext.passivation
	if c.core.phase != running || p.passive && !c.core.isVirtual() || c.core.sys().clock.now() < p.node.when { // the timer has been set anew, or will be
		return
	}
	c.core.mu.Lock()
	handled, busy, holds := c.core.handled, len(c.core.waitingHandlers()) > 0, c.core.ext.children > 0
	if s := c.mailbox(); s != nil {
		handled += s.handled + uint64(s.done()-s.clear)
		busy = busy || s.waiting() > 0
		holds = holds || s.inc.holds()
	}
	c.core.mu.Unlock()
	switch {
	case busy:
		p.arm(math.MaxUint64) // which it never will have handled: the silence has not begun
	case handled != p.seen:
		p.arm(handled)
	case holds:
		p.rests = true
	case c.core.isVirtual():
		c.core.beginStop(stopNow, Passivated, nil)
	default:
		p.leaving, c.core.ext.ended = true, true
		c.core.setPhase(restarting)
		c.terminate()
	}
}

// rearmPassivation sets the timer again for a turn in which the actor may let go of what it holds.
func (c *core) rearmPassivation() {
	if c.traits.passivates() && c.ext.passivation.rests {
		c.armPassivation()
	}
}

// holds reports whether the incarnation has something that its end would end.
func (m *incarnation[M]) holds() bool {
	return m != nil && (len(m.timers) > 0 || len(m.watches) > 0 || len(m.results) > 0 || len(m.behaviors) > 0 || len(m.stash) > 0 || m.idle != nil)
}

// passivated goes on when the incarnation has ended for that.
func (c *core) passivated() {
	c.impl().dismiss()
	p := c.ext.passivation
	c.mu.Lock()
	p.leaving, p.passive = false, true
	c.setPhaseLocked(running)
	c.mu.Unlock()
	if c.sys().listeners.any() {
		c.sys().publish(ActorPassivated{PID: c.pid()})
	}
	if c.halting { // Terminate has asked for it
		c.quit()
	}
}

// isPassive reports whether the actor has been passivated. REQUIRES: the turn owns c.
func (c *core) isPassive() bool { return c.traits.passivates() && c.ext.passivation.passive }

// activate gives a passivated actor a state before it handles its mail. The order to drain needs none.
func (c *cell[M]) activate() {
	if _, drain := c.mailbox().peek().with.(drainMark); drain {
		return
	}
	c.core.setPhase(restarting)
	c.core.start()
}

// activated ends the activation, and reports whether it was one.
func (c *core) activated() bool {
	if !c.isPassive() {
		return false
	}
	c.mu.Lock()
	c.ext.passivation.passive = false
	c.mu.Unlock()
	return true
}
