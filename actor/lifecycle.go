package actor

import (
	"fmt"
	"time"
)

// handleSignals carries out the pending signals. REQUIRES: the turn owns c.
func (c *core) handleSignals() {
	c.mu.Lock()
	signals := c.takeSignals()
	if len(signals) > 0 && signals[0].kind != sigStop { // which closes the mailbox first
		c.impl().needMailbox() // now, or a tell would bring one in the middle of what follows
	}
	c.mu.Unlock()
	next, through := 0, false
	defer func() { // a callback may end the goroutine: the rest is for the turn after
		if through || !c.leftUser() || c.phase == stopped {
			return
		}
		if s := &signals[next-1]; s.kind == sigFailed && !s.undecided { // it was the decider's: the child must not wait for ever
			s.undecided = true
			next--
		}
		c.putBackSignals(signals[next:])
	}()
	for next < len(signals) && c.phase != stopped {
		s := signals[next]
		next++
		if !c.defers(s) {
			c.handleSignal(s)
		}
	}
	through = true
}

// handleSignal carries out one signal. REQUIRES: the turn owns c.
func (c *core) handleSignal(s signal) {
	if s.kind != sigPassivate && s.kind != sigLook {
		c.rearmPassivation()
	}
	switch s.kind {
	case sigStop:
		c.beginStop(s.mode, s.mode.reason(), nil)
	case sigFailed:
		c.supervise(s)
	case sigLook:
		s.look()
	case sigRelease:
		c.releaseMember()
	case sigEnded:
		c.childEnded(s.child)
	case sigRestart:
		if c.phase == suspended {
			c.beginRestart(s.after)
		}
	case sigResume:
		c.resume()
	case sigHalt:
		c.halt()
	case sigHalted:
		c.halted(s.child, false)
	case sigStarted:
		c.started(s.child)
	case sigExit:
		c.linkEnded(s.err)
	case sigRegroup:
		c.regroupAfterBackoff(s.backoff)
	case sigGiveUp:
		c.givenUp(s.err)
	case sigRenew:
		c.restartNow()
	case sigYield:
		c.beginStop(stopNow, Passivated, nil)
	case sigActivate:
		c.startPassive()
	case sigPassivate:
		c.impl().passivate()
	case sigQuit:
		c.halting = true
		c.quitLast()
	case sigStart:
		c.startAfterBackoff(s.backoff)
	}
}

// linkEnded makes the actor fail because a linked one has ended.
func (c *core) linkEnded(err error) {
	switch c.phase {
	case running:
		c.fail(err)
	case suspended:
		c.ext.exit = err // for when it is resumed
	default: // it ends anyway, or begins anew
	}
}

// givenUp stops the actor as its supervisor has decided, because of err if there is one.
func (c *core) givenUp(err error) {
	reason := Failed
	if err == nil {
		reason = Stopped
	}
	c.beginStop(stopNow, reason, err)
}

// startPassive starts an actor that has been passivated.
func (c *core) startPassive() {
	if c.phase == running && c.isPassive() && !c.impl().lapsed() {
		c.setPhase(restarting)
		c.start()
	}
}

// startAfterBackoff starts an actor whose backoff has passed, or, with nil, whose turn in its group has come.
func (c *core) startAfterBackoff(backoff *timerNode) {
	switch {
	case backoff != c.ext.backoff: // it was given up as it passed
	case c.phase == restarting && c.ext.ended:
		c.ext.backoff, c.ext.halted = nil, false
		c.start()
	case c.phase == suspended && !c.impl().hasState():
		c.ext.halted = false
		c.beginRestart(0) // what the failed Init has spawned ends first
	}
}

// quit stops the actor at its own request, or at the drain mark in its mailbox.
func (c *core) quit() {
	if c.phase == suspended && c.needExt().end != stopDrain { // another handler has failed before, about which is decided first
		c.halting = false
		c.mu.Lock()
		c.ext.stopsLater = true
		c.mu.Unlock()
		return
	}
	c.quitLast()
}

// quitLast is quit once no other handler waits.
func (c *core) quitLast() {
	if len(c.waitingHandlers()) > 0 {
		c.halting = false
		c.postpone(signal{kind: sigQuit})
		return
	}
	if c.traits.lifetime() == Permanent && c.needExt().end != stopDrain {
		c.halting = false
		if c.phase > running {
			return // it is restarted or stopped anyway
		}
		c.setPhase(suspended)
		c.parent.signal(signal{kind: sigFailed, child: c})
		return
	}
	c.beginStop(stopNow, Stopped, nil)
}

// resume goes on after a failure as if nothing had happened.
func (c *core) resume() {
	if c.phase != suspended {
		return
	}
	// Its Init failed, or its state may be ahead of what its gate lets go, or it is Permanent and has stopped of its own
	// accord: there is nothing to go on with.
	if !c.impl().hasState() || c.isGated() || c.needExt().failure == nil {
		if c.traits.lifetime() == Temporary {
			c.givenUp(c.needExt().failure)
		} else {
			c.beginRestart(0)
		}
		return
	}
	ext := c.needExt()
	exit := ext.exit
	ext.failure, ext.exit = nil, nil
	c.setPhase(running)
	c.armPassivation()
	if exit != nil { // what had failed below waits for the directive about that as well
		c.fail(exit)
		return
	}
	escalated := ext.escalated
	ext.escalated = nil
	for _, s := range escalated { // what had failed below goes on as well
		s.child.signal(signal{kind: sigResume})
	}
	if c.takeStop() {
		c.halting = true
		c.quit()
		return
	}
	if ext.group != nil && ext.backoff == nil { // else it goes on when that has passed
		c.regroupStep()
	}
}

// restartNow restarts the actor at somebody's wish.
func (c *core) restartNow() {
	ext := c.needExt()
	switch {
	case c.phase == suspended, c.phase == running && !c.isPassive():
		c.beginRestart(0)
	case c.phase == restarting && ext.ended && ext.backoff != nil:
		c.dropBackoff()
		c.start()
	default: // it is about to begin anew, or to end
	}
}

// releaseMember lets an actor go on by itself that a group restart has halted, or was about to halt: the
// group is given up. One that has failed waits for the directive about that.
func (c *core) releaseMember() {
	ext := c.needExt()
	ext.halted, ext.member = false, false
	if c.phase == restarting && ext.ended && ext.backoff == nil {
		c.start()
	}
}

// halt ends the incarnation for a restart together with others.
func (c *core) halt() {
	ext := c.needExt()
	ext.halted, ext.member = true, true
	switch {
	case c.phase == running || c.phase == suspended:
		c.beginRestart(0)
	case c.phase == restarting && ext.ended:
		c.dropBackoff()
		c.parent.signal(signal{kind: sigHalted, child: c})
	}
}

// beginBackoff has the actor get that signal when the time has passed. The signal names its timer:
// one that is canceled as it fires may come after what has canceled it, and must not be taken for a
// later one. REQUIRES: the turn owns c.
func (c *core) beginBackoff(d time.Duration, kind signalKind) {
	n, clock := new(timerNode), c.sys().clock
	c.ext.backoff = n
	clock.at(n, clock.in(d), ringFunc(func() { c.signal(signal{kind: kind, backoff: n}) }))
}

// dropBackoff forgets a start that waits for its time.
func (c *core) dropBackoff() {
	if ext := c.ext; ext.backoff != nil {
		c.sys().clock.cancel(ext.backoff)
		ext.backoff = nil
	}
}

// start makes a new incarnation and initializes it. REQUIRES: the turn owns c.
func (c *core) start() {
	c.ext.ended = false // from here on there may be children
	err := errGoexit    // what remains if Init ends the goroutine
	defer func() {
		if !c.isFenced() {
			c.startEnded(err)
		}
	}()
	err = c.impl().tryStart()
}

// startEnded goes on after the start of another incarnation.
func (c *core) startEnded(err error) {
	activated := c.activated()
	if err != nil {
		c.fail(err)
		return
	}
	c.setPhase(running)
	c.armPassivation()
	restarts := uint64(0)
	if !activated {
		restarts = c.countRestart()
	}
	if c.sys().listeners.any() {
		switch {
		case activated && c.isVirtual():
			c.sys().publish(ActorStarted{PID: c.pid()})
		case activated:
			c.sys().publish(ActorActivated{PID: c.pid()})
		default:
			c.sys().publish(ActorRestarted{PID: c.pid(), Restarts: restarts})
		}
	}
	if ext := c.ext; ext != nil && ext.member {
		ext.member = false
		c.parent.signal(signal{kind: sigStarted, child: c})
	}
	if c.halting {
		c.quit()
	}
}

func (c *cell[M]) tryStart() (err error) {
	returned := false
	defer func() {
		failure := recover()
		if !returned {
			c.core.leaveUser()
			err = recovered(failure)
		}
		if c.core.phase != starting { // before, others may make the extension
			c.core.mu.Lock()
			c.core.ext.inInit = false
			c.core.mu.Unlock()
		}
		if err != nil { // an incarnation that never was has nothing to terminate
			err = fmt.Errorf("init: %w", err)
			c.dismiss()
			c.endIncarnation()
		}
	}()
	if c.core.phase != starting { // which the first incarnation is
		c.endKept()
	}
	a := c.actor
	if c.newActor != nil {
		maker := c.newActor
		c.core.enterUser()
		a = maker.make()
		c.core.leaveUser()
		c.core.mu.Lock()
		c.actor = a
		c.core.mu.Unlock()
	}
	if in, ok := any(a).(Initializer[M]); ok {
		c.core.mu.Lock()
		c.acquireMailbox()
		if c.core.phase != starting {
			c.core.ext.inInit = true
		}
		c.core.mu.Unlock()
		c.core.enterUser()
		err = in.Init(c.context())
		c.core.leaveUser()
	}
	returned = true
	return err
}

// dismiss forgets the incarnation's state. A function has none.
func (c *cell[M]) dismiss() {
	if c.newActor == nil {
		return
	}
	c.core.mu.Lock()
	c.actor = nil
	c.core.mu.Unlock()
}

// beginRestart stops the children, ends the incarnation and starts a new one.
func (c *core) beginRestart(after time.Duration) {
	ext := c.needExt()
	c.dropBackoff()
	c.disband(c.traits.keeps())
	ext.escalated, ext.exit = nil, nil
	ext.backoffFor, ext.ended = after, false
	c.setPhase(restarting)
	if c.traits.keeps() {
		c.lastChildEnded(ext)
		return
	}
	c.stopChildren(stopNow)
}

// beginStop closes the mailbox, stops the children and then the actor itself.
func (c *core) beginStop(mode stopMode, reason Reason, why error) {
	passing := c.isVirtual() && !c.parent.isStopping() // with the parent there is no next activation
	c.mu.Lock()
	ext := c.ext
	if ext == nil && (mode != stopNow || reason != Stopped || why != nil) {
		ext = c.needExtLocked()
	}
	if !c.isFenced() && c.halting { // the handler left behind may set it yet
		c.halting = false
		drained, _, _ := ext.ends()
		mode = max(mode, drained)
	}
	if c.phase >= stopping {
		c.mu.Unlock()
		if c.phase == stopping && mode == stopKill && ext.end != stopKill { // impatience: the slow way becomes the short one
			ext.end, ext.endReason, ext.stopChild = stopKill, Killed, nil
			c.stopChildren(stopKill)
		}
		return
	}
	if reason == Stopped && passing {
		reason = Passivated
	}
	if ext != nil {
		if ext.killed && mode != stopKill { // the signal waits already
			mode, reason = stopKill, Killed
		}
		ext.end, ext.endReason = mode, reason
		if why != nil {
			ext.failure = why
		}
	}
	c.setPhaseLocked(stopping)
	left := c.impl().takeRest()
	c.mu.Unlock()
	if ext != nil {
		c.dropBackoff()
		c.disband(mode == stopDrain)
		if mode == stopDrain { // nobody else decides about them any more
			for _, s := range ext.escalated {
				s.child.signal(s)
			}
		}
		if mode == stopKill {
			ext.stopChild = nil // a restart may have told one to stop, which has its time
		}
	}
	if left != nil {
		left(reason)
	}
	c.stopChildren(mode)
}

// takeRest takes what is in the mailbox and the stash of an actor that stops, and returns what gives
// it away, for the caller to call without the lock; nil when there is nothing.
// REQUIRES: the turn owns c, c.mu held.
func (c *cell[M]) takeRest() (giveAway func(Reason)) {
	s := c.mailbox()
	if s == nil {
		return nil
	}
	if m := s.inc; m != nil && len(m.stash) > 0 {
		s.putFirst(m.stash)
		m.stash = nil
	}
	if s.special != nil {
		s.special.closed.Store(true)
	}
	rest := s.rest()
	if rest == nil && s.special == nil {
		return nil
	}
	return func(why Reason) {
		rest := c.ownRest(rest)
		if why == Passivated {
			c.leave(rest)
		} else {
			c.discardAll(rest, why)
		}
	}
}

// stopChildren tells the youngest child to stop and, when there is none any more,
// goes on with what the actor was about to do. REQUIRES: the turn owns c.
func (c *core) stopChildren(mode stopMode) {
	child, ext := c.lastChild()
	if child == nil {
		if ext != nil {
			ext.stopChild = nil
		}
		c.lastChildEnded(ext)
		return
	}
	if child == ext.stopChild {
		return
	}
	ext.stopChild = child
	child.stop(mode)
}

// childEnded goes on with the next child. REQUIRES: the turn owns c.
func (c *core) childEnded(child *core) {
	if !c.ext.group.ends(child) {
		c.stopWithout(child)
	}
	c.halted(child, true)
	switch c.phase {
	case stopping:
		c.stopChildren(c.ext.end)
	case restarting:
		if !c.traits.keeps() {
			c.stopChildren(stopNow)
		}
	default: // a child that ended for reasons of its own
	}
}

// lastChildEnded is reached when the last child has ended. ext is c's, if it has one.
func (c *core) lastChildEnded(ext *extension) {
	if c.phase == stopping {
		if mode, _, _ := ext.ends(); mode == stopKill {
			c.impl().endIncarnation() // it has not terminated
			c.close()
		} else {
			c.impl().terminate()
		}
		return
	}
	if ext.ended {
		return // the old incarnation has ended already
	}
	ext.ended = true
	c.impl().terminate()
}

// renew goes on after the end of an incarnation that is to be replaced.
func (c *core) renew() {
	ext := c.ext
	c.takeStop()
	ext.failure, ext.failures = nil, nil // the children to come have failed in nothing
	c.impl().dismiss()
	c.mu.Lock()
	ext.renewals++
	c.mu.Unlock()
	if ext.halted {
		c.parent.signal(signal{kind: sigHalted, child: c})
		return
	}
	if ext.backoffFor <= 0 {
		c.start()
		return
	}
	c.beginBackoff(ext.backoffFor, sigStart)
}

// terminate ends the incarnation: the user's Terminate if it has one, its timers, its watches, its
// context; and then ends the actor, renews it or leaves it without a state. A panic in Terminate is
// logged and changes nothing, and neither does the end of the goroutine.
func (c *cell[M]) terminate() {
	t, ok := any(c.actor).(Terminator[M])
	if !ok {
		c.core.terminated()
		return
	}
	c.core.mu.Lock()
	if ext := c.core.ext; ext != nil { // what cut the handlers short is not for Terminate
		ext.cut = false
		if c.core.phase == stopping && !ext.killed {
			ext.told = false
		}
		if ext.life != nil && ext.life.Err() != nil && !ext.told {
			ext.life = nil
		}
	}
	_, _, why := c.core.ext.ends()
	c.core.mu.Unlock()
	returned := false
	defer func() {
		failure := recover()
		c.core.leaveUser()
		if !returned {
			err := fmt.Errorf("terminate: %w", recovered(failure))
			c.core.countFailure(err)
			c.core.logFailure(err)
		}
		c.core.terminated()
	}()
	c.core.enterUser()
	t.Terminate(c.context(), why)
	returned = true
}

// terminated goes on when the incarnation has ended.
func (c *core) terminated() {
	c.impl().endIncarnation()
	switch {
	case c.phase == stopping:
		c.close()
	case c.traits.passivates() && c.ext.passivation.leaving:
		c.passivated()
	default:
		c.renew()
	}
}

// endIncarnation gives back what the incarnation held.
func (c *cell[M]) endIncarnation() {
	c.core.mu.Lock()
	if s := c.mailbox(); s != nil && s.inc != nil {
		m := s.inc
		c.core.mu.Unlock()
		var keep *core
		if c.core.phase == restarting && c.core.ext.member { // its siblings end, too
			keep = c.core.parent
		}
		c.mailbox().inc = nil
		m.release(c, keep)
		if len(m.watches) > 0 {
			c.needIncarnation().watches = m.watches
		}
		if len(m.recordings) > 0 && c.core.phase != stopping { // they are of the actor
			c.needIncarnation().recordings = m.recordings
		}
		c.core.mu.Lock()
	}
	var life *lifetime
	if ext := c.core.ext; ext != nil {
		ext.cut = false
		life, ext.life = ext.life, nil
	}
	c.core.mu.Unlock()
	if life != nil {
		life.end()
		c.core.sched().settle()
	}
}

// close is the end: the name is free, the watchers and the parent are told.
func (c *core) close() {
	c.disarmPassivation()
	sys := c.sys()
	if c.path != nil {
		sys.names.remove(*c.path)
	}
	c.mu.Lock()
	c.setPhaseLocked(stopped)
	c.impl().dropState()
	c.flags.And(^signaled)
	c.flags.Or(ended)
	ext := c.ext
	var told watchers
	var links map[*core]struct{}
	if ext != nil {
		told, links = ext.watchers, ext.links
		ext.signals, ext.watchers, ext.links = nil, watchers{}, nil
	}
	c.mu.Unlock()
	if told.n > 0 || len(links) > 0 || sys.listeners.any() {
		c.announce(ext, told, links)
	}
	c.endLimit(ext)
	if ext != nil {
		ext.thread.leave()
	}
	sys.living.Add(-1)
	if c.parent == nil {
		sys.actors.remove(c)
		close(sys.gone)
		return
	}
	awaited := c.parent.removeChild(c)
	sys.actors.remove(c)
	if awaited {
		defer c.parent.signal(signal{kind: sigEnded, child: c})
	}
	if c.isVirtual() { // before the parent can end, so that a Report counts what is refused here
		c.impl().yieldPlace()
	}
}

// hasState reports whether there is an incarnation. REQUIRES: the turn owns c.
func (c *cell[M]) hasState() bool { return c.actor != nil }

// dropState drops what is left of a stopped actor. REQUIRES: c.mu held.
func (c *cell[M]) dropState() { c.actor, c.newActor = nil, nil }

// yieldPlace tells the place of an activation that it has ended.
func (c *cell[M]) yieldPlace() {
	a := c.activation()
	a.of.place.Ended(a.key)
}

// isStopping reports whether c is about to end, or has.
func (c *core) isStopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.phase >= stopping
}

// announce tells those who want to know that the actor has ended.
func (c *core) announce(ext *extension, told watchers, links map[*core]struct{}) {
	_, reason, why := ext.ends()
	down := Down{PID: c.pid(), Reason: reason}
	if reason == Failed {
		down.Err = why
	}
	if sys := c.sys(); sys.listeners.any() {
		sys.listeners.drop(c)
		sys.publish(ActorStopped(down))
	}
	told.tell(down)
	c.cutLinks(links, down)
}

// countRestart counts a restart, and returns how many there have been.
func (c *core) countRestart() uint64 {
	c.sys().restarts.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ext.restarts++
	return c.ext.restarts
}

// renewals returns how many incarnations have ended that were to be replaced.
func (c *core) renewals() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return 0
	}
	return c.ext.renewals
}
