package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"time"
)

// cell is an actor: the core, the mailbox while it has one, and the user's code and state.
//
// A turn is what a worker gives it: signals first, then at most what lay in the
// mailbox when the turn began, at most turnMessages of it and about turnTime.
// The deferred recover that turns a panic into a failure is set up once for a run
// of messages, not for each: that is 5 ns a message less. After a panic the turn
// goes on outside of the unwound frame.
//
// An idle actor is this and nothing else: 128 bytes.
type cell[M any] struct {
	core                 // first: see cellOf
	mailbox  *mailbox[M] // nil in the green room; changes under mu, and not during a turn
	actor    Actor[M]    // nil between incarnations; written under mu, owned by the turn
	newActor maker[M]    // nil for an actor that is a function
}

// maker makes the state of an incarnation.
type maker[M any] interface{ make() Actor[M] }

// tell implements target.
func (c *cell[M]) tell(e envelope[M], w *worker) verdict { return c.post(&e, w) }

// post puts an envelope into the mailbox, and the actor into the run queue if it was
// idle. When the verdict is not verdictTaken the envelope is still the caller's.
func (c *cell[M]) post(e *envelope[M], w *worker) verdict {
	c.lock(w)
	if c.phase >= stopping {
		c.mu.Unlock()
		return verdictGone
	}
	s := c.mailbox
	if s == nil {
		s = c.acquireMailbox()
	}
	if s.special != nil {
		return c.tellSpecial(e, w)
	}
	if !c.scheduled && c.phase == running { // nobody is at the batch: the turn need not fetch
		c.scheduled = true
		s.open(e, c.sys().sched.monitor.coarse.Load())
		c.mu.Unlock()
		c.dispatch(w, e)
		return verdictTaken
	}
	n := s.put(e, c.sys().sched.monitor.coarse.Load())
	full := n >= s.limit
	c.mu.Unlock()
	if full {
		c.overloaded()
	}
	if n%yieldEvery == 0 && w == nil {
		// A sender that runs ahead of the workers on one processor would go on for the 10 ms
		// that Go gives a goroutine, and leave megabytes of mail that is in no cache.
		runtime.Gosched()
	}
	return verdictTaken
}

// tellSpecial is tell for a mailbox with an order or a bound. It unlocks c.mu.
func (c *cell[M]) tellSpecial(e *envelope[M], w *worker) verdict {
	out, v, wake := func() (out envelope[M], v verdict, wake bool) {
		defer c.mu.Unlock() // the user's key or rank may panic
		out, v = c.mailbox.special.put(*e)
		if v == verdictTaken || v >= verdictReplaced {
			if c.mailbox.inSince == 0 || c.mailbox.special.queue.len() == 1 {
				c.mailbox.inSince = c.sys().sched.monitor.coarse.Load()
			}
			if wake = !c.scheduled && c.phase == running; wake {
				c.scheduled = true
				c.mailbox.take()
			}
		}
		return out, v, wake
	}()
	if v >= verdictReplaced {
		reason := Conflated
		if v == verdictEvicted {
			reason = Overflowed
		}
		c.discard(&out, reason, ErrMailboxFull)
		v = verdictTaken
	}
	if wake {
		c.dispatch(w, e)
	}
	return v
}

// room returns a channel that is closed when a full mailbox has room again, nil when
// there is no point in waiting.
func (c *cell[M]) room() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mailbox == nil || c.mailbox.special == nil {
		return nil
	}
	mail := c.mailbox.special
	if c.phase >= stopping || mail.queue.len()-mail.notes < mail.bound {
		now := make(chan struct{})
		close(now)
		return now
	}
	return mail.waitRoom()
}

// turn runs the actor for a while. It reports whether there is more to do, and
// then the actor still belongs to the caller, who queues it again. The turn may end on
// another worker than w: its handlers may wait. It may also end by a panic, or by the end
// of the goroutine: the caller has to see to it that crashed and endTurn follow.
func (c *cell[M]) turn(w *worker) (again bool) {
	c.beginTurn()
	if c.worker.Load() != w {
		c.worker.Store(w)
	}
	t := turnBudget{messages: turnMessages * int(c.weight)}
	if c.sys().sched.driver != nil {
		t.messages = 1
	}
	mail := true                                // that is what has woken the actor: there is a mailbox, with the mail in the batch
	if c.hasSignals() || c.traits.reentrant() { // which a stack may have woken, too
		c.handleSignals()
		mail = c.phase == running && c.fetch()
	}
	for mail && c.phase == running && t.messages > 0 && (!c.traits.reentrant() || !c.held()) {
		if !c.serve(&t) {
			break
		}
		if c.hasSignals() {
			c.handleSignals()
		} else if !c.mailbox.left() && !c.refill() {
			break
		}
	}
	c.endFirstTurn()
	return c.endTurn(c.worker.Load())
}

// refill sees to it that the batch holds mail again. What has come since the batch was taken
// waits for the next turn, unless the mailbox decides at each message or nobody else waits.
func (c *cell[M]) refill() bool {
	if c.mailbox.special != nil || c.mailbox.behind {
		return c.fetch()
	}
	return c.linger()
}

// turnBudget is what is left of a turn.
type turnBudget struct {
	messages int
	used     int
	ticks    int
	began    time.Time // read with the turnLook-th message: the clock costs more than a short turn
}

// look ends the turn when its time is up: when it began before the monitor's last tick, or
// by the clock, which is not read for each message.
func (t *turnBudget) look(w *worker, weight uint8) {
	if w != nil && w.due.Load() {
		w.due.Store(false)
		w.publish()
		if t.ticks++; time.Duration(t.ticks)*tickBusy >= turnTime*time.Duration(weight) {
			w.hasty = true
			t.messages = 0
		}
		return
	}
	if t.used%turnLook != 0 {
		return
	}
	if t.began.IsZero() {
		t.began = time.Now()
	} else if time.Since(t.began) > turnTime*time.Duration(weight) {
		t.messages = 0
		if w != nil {
			w.hasty = true
		}
	}
}

// fetch moves mail to where the turn finds it.
func (c *cell[M]) fetch() bool {
	c.lock(c.worker.Load())
	s := c.mailbox
	got := s != nil && (s.left() || s.take())
	c.mu.Unlock()
	return got
}

// linger stays on stage for a moment after the last message when nobody else waits for the
// worker: a sender that is at it finds the actor awake, and its messages gather to a batch
// instead of waking the actor one by one. After a batch it waits longer: the more comes
// together, the less often the turn takes the lock away from the senders.
func (c *cell[M]) linger() bool {
	w := c.worker.Load()
	if w == nil || !w.alone() {
		return false
	}
	w.publish()
	yields := 1
	if len(c.mailbox.batch) >= lingerBatch && c.sys().sched.n > 1 {
		yields = lingerBatch
	}
	for i := range lingerTimes {
		for range yields * (i + 1) {
			runtime.Gosched()
		}
		if c.hasSignals() || c.fetch() {
			return true
		}
		if !w.alone() {
			return false
		}
	}
	return false
}

const (
	lingerTimes = 3
	lingerBatch = 4   // messages at once that are worth a longer wait, and how much longer
	yieldEvery  = 512 // messages that wait, told from outside, after which the sender yields
)

// endTurn gives the actor back: to the green room, or to the caller if there is
// more to do.
func (c *cell[M]) endTurn(w *worker) (again bool) {
	c.endedTurn() // before anybody else can have the actor
	c.lock(w)
	s := c.mailbox
	if s != nil {
		s.sweep()
		c.account(s, w)
	}
	if c.hasSignals() && c.phase != stopped {
		c.mu.Unlock()
		return true
	}
	if c.traits.reentrant() {
		r := c.ext.reentry
		again, r.held = len(r.resumable) > 0, c.held()
		if again || r.held {
			r.held = !again
			c.mu.Unlock()
			return again
		}
	}
	if c.phase == running && s != nil {
		if s.left() || s.take() {
			c.mu.Unlock()
			return true
		}
		s.shrink(bufferMost)
	}
	recovered := s != nil && s.special == nil && s.alarm > overloadStart && c.phase == running
	if recovered {
		s.alarm, s.limit = overloadStart, firstLook
	}
	c.scheduled = false
	remember := false
	switch {
	case s == nil || c.remembered:
	case w == nil, c.phase == stopped:
		c.releaseMailbox()
	default:
		c.remembered, remember = true, true
	}
	c.mu.Unlock()
	if remember {
		w.remember(&c.core)
	}
	if recovered {
		c.sys().publish(Overload{PID: c.pid()})
	}
	return false
}

// account books the messages of the turn. REQUIRES: c.mu held by the turn.
func (c *cell[M]) account(s *mailbox[M], w *worker) {
	if s.handled == 0 {
		return
	}
	c.handled += s.handled
	if w != nil {
		w.done += s.handled
	} else {
		c.sys().handled.Add(s.handled)
	}
	s.handled = 0
}

// reclaim takes the mailbox of an actor back that does not need it.
func (c *cell[M]) reclaim() {
	c.mu.Lock()
	c.remembered = false
	if !c.scheduled {
		c.releaseMailbox()
	}
	c.mu.Unlock()
}

// releaseMailbox gives the mailbox back if another actor could use it.
// REQUIRES: c.mu held, the actor idle or gone.
func (c *cell[M]) releaseMailbox() {
	if s := c.mailbox; s != nil && s.portable() && s.waiting() == 0 && len(c.waitingHandlers()) == 0 {
		c.mailbox = nil
		if c.ghost() { // the handler that it was taken away from may look at it yet
			return
		}
		s.sweep()
		s.alarm, s.limit = overloadStart, firstLook
		c.mailboxes().put(s)
	}
}

// serve handles messages of the batch until it is through, the budget or the time
// is used up, a signal has come, or the actor has failed or wants to stop. For the last two
// it reports false.
func (c *cell[M]) serve(t *turnBudget) bool {
	s, w := c.mailbox, c.worker.Load()
	for t.messages > 0 && s.left() && !c.hasSignals() {
		e := s.next()
		plain := e.plain() // now: when the handler of a reentrant actor returns, e may be another
		var err error
		if plain && s.inc == nil && c.kind.around == nil {
			// What handle comes to for most messages.
			err = c.actor.Receive(c.context(), e.msg)
			if s.inc != nil {
				s.inc.noticed(s.cur)
			}
		} else {
			err = c.handle(s, e)
		}
		c.back()
		resumed := s.resumed != nil
		if resumed {
			c.resumedEnds(s)
		}
		if w != nil && w.due.Load() || t.used >= turnLook {
			w = c.worker.Load()
			t.look(w, c.weight)
		}
		t.messages--
		t.used++
		if !plain || err != nil {
			if err = c.after(err); err != nil {
				c.fail(err)
				s.cur = nil
				return false
			}
		}
		if c.halting {
			s.cur = nil
			c.quit()
			return false
		}
		if resumed {
			break // whether another message may begin is for the turn to say
		}
	}
	s.cur = nil
	return true
}

// crashed deals with a handler that has panicked, or ended its goroutine. Init and
// Terminate look after themselves.
func (c *cell[M]) crashed(failure error) {
	if c.mailbox == nil || c.mailbox.cur == nil {
		return
	}
	if c.mailbox.resumed != nil {
		c.resumedEnds(c.mailbox)
	}
	c.settle(failure)
	c.fail(failure)
	c.mailbox.cur = nil
	if c.halting {
		c.quit()
	}
}

// quit stops the actor at its own wish, or at the order that lay in its mailbox.
func (c *cell[M]) quit() {
	if len(c.waitingHandlers()) > 0 {
		c.halting = false
		c.postpone(signal{kind: sigQuit})
		return
	}
	if c.traits.lifetime() == Permanent && c.needExt().end != stopDrain {
		c.halting = false
		if c.phase > running {
			return // it is restarted or stopped anyway: that was another handler of the reentrant actor
		}
		c.setPhase(suspended)
		c.parent.signal(signal{kind: sigFailed, child: &c.core})
		return
	}
	c.beginStop(stopNow, Stopped, nil)
}

// handle passes the current envelope to the handler. What is not a plain message
// is turned into one first, or dealt with here.
func (c *cell[M]) handle(s *mailbox[M], e *envelope[M]) error {
	if !e.plain() && !c.unwrap(s) {
		return nil
	}
	if len(c.kind.around) > 0 {
		r := Reception{To: c.pid(), From: s.cur.from().pid(), Message: s.cur.msg, Header: s.header}
		return c.receiveAround(r, 0)
	}
	return c.receive(s)
}

// unwrap makes of an envelope that is not plain what the handler gets. It reports false when
// the handler gets nothing.
func (c *cell[M]) unwrap(s *mailbox[M]) bool {
	s.own = *s.cur // the batch is not changed: others may look at it
	s.cur, s.copied = &s.own, true
	if h, ok := s.own.with.(*headed); ok {
		c.setHeader(h.header)
		s.own.with = h.inner
	}
	if _, order := s.own.with.(drainMark); order {
		c.halting = true
		c.needExt().end = stopDrain
		c.mu.Lock()
		s.handled-- // it is no message, and will be counted as one
		c.mu.Unlock()
		return false
	}
	switch x := s.own.with.(type) {
	case pendingAsk:
		c.context().beginAsk(x)
	case note[M]:
		msg, ok := x.message(c)
		c.back()
		if !ok {
			return false
		}
		s.cur.msg = msg // not in own: the function that made it may have waited
	}
	return true
}

// receive passes the current message to whatever handles messages now.
func (c *cell[M]) receive(s *mailbox[M]) (err error) {
	c.back() // middleware has called this
	if m := s.inc; m != nil && len(m.behaviors) > 0 {
		err = m.behaviors[len(m.behaviors)-1](c.context(), s.cur.msg)
	} else {
		err = c.actor.Receive(c.context(), s.cur.msg)
	}
	if s.inc != nil {
		s.inc.noticed(s.cur)
	}
	return err
}

// context returns the actor as its handlers see it.
func (c *cell[M]) context() *Context[M] { return (*Context[M])(c) }

// after settles an ask and sorts the handler's error: ErrStop is none.
func (c *cell[M]) after(err error) error {
	if err == nil {
		c.settle(nil)
		return nil
	}
	if err == ErrStop { //nolint:errorlint // wrapped, it is an error that mentions ErrStop, not the request to stop
		c.halting = true
		c.settle(ErrStopped)
		return nil
	}
	if errors.Is(err, context.Canceled) && c.ending() { // it passes on how its wait has ended
		c.settle(ErrStopped)
		return nil
	}
	if ctx := c.context(); ctx.request() != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the asker gave up: the same
		c.settle(err)
		return nil
	}
	c.settle(err)
	return err
}

// settle ends the current message's ask if the handler has neither answered it nor
// taken it along: with err, or with ErrUnhandled.
func (c *cell[M]) settle(err error) {
	c.setHeader(nil)
	ask, ok := c.message().with.(pendingAsk)
	if !ok {
		return
	}
	c.context().endAsk()
	if c.taken {
		c.taken = false
		return
	}
	if err == nil {
		err = ErrUnhandled
	}
	ask.reject(err, c.worker.Load())
}

// handleSignals carries out the pending signals. REQUIRES: the turn owns c.
func (c *cell[M]) handleSignals() {
	c.mu.Lock()
	signals := c.takeSignals()
	if len(signals) > 0 && signals[0].kind != sigStop { // which closes the mailbox first
		c.acquireMailbox() // now, or a tell would bring one in the middle of what follows
	}
	c.mu.Unlock()
	next := 0
	defer func() { // a callback may end the goroutine: the rest is for the turn after
		if next < len(signals) && !c.lost() && c.phase != stopped {
			c.putBackSignals(signals[next:])
		}
	}()
	for next < len(signals) && c.phase != stopped {
		s := signals[next]
		next++
		if c.defers(s) {
			continue
		}
		switch s.kind {
		case sigStop:
			reason := Stopped
			if s.mode == stopKill {
				reason = Killed
			}
			c.beginStop(s.mode, reason, nil)
		case sigFailed:
			c.supervise(s)
		case sigLook:
			s.look()
			c.back()
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
			switch c.phase {
			case running:
				c.fail(s.err)
			case suspended:
				c.ext.exit = s.err // for when it is resumed
			default: // it ends anyway, or begins anew
			}
		case sigRegroup:
			if c.ext.group != nil {
				c.ext.backoff = nil
				c.regroupStep()
			}
		case sigGiveUp:
			reason := Failed
			if s.err == nil {
				reason = Stopped
			}
			c.beginStop(stopNow, reason, s.err)
		case sigQuit:
			c.halting = true
			c.quit()
		case sigStart:
			if c.phase == restarting || c.phase == suspended && c.actor == nil {
				c.ext.backoff, c.ext.halted = nil, false
				c.start()
			}
		}
	}
}

// resume goes on after a failure as if nothing had happened.
func (c *cell[M]) resume() {
	if c.phase != suspended {
		return
	}
	if c.actor == nil { // its Init failed: there is nothing to go on with
		c.beginRestart(0)
		return
	}
	ext := c.needExt()
	escalated, exit := ext.escalated, ext.exit
	ext.failure, ext.escalated, ext.exit = nil, nil, nil
	c.setPhase(running)
	if exit != nil {
		c.fail(exit)
		return
	}
	for _, child := range escalated { // what had failed below goes on as well
		child.signal(signal{kind: sigResume})
	}
	if ext.group != nil {
		c.regroupStep()
	}
}

// releaseMember lets an actor go on by itself that a group restart has halted, was about
// to halt, or had left for later: the group is given up.
func (c *cell[M]) releaseMember() {
	ext := c.needExt()
	ext.halted, ext.member = false, false
	switch {
	case c.phase == suspended:
		c.beginRestart(0)
	case c.phase == restarting && ext.ended && ext.backoff == nil:
		c.start()
	}
}

// halt ends the incarnation for a restart together with others.
func (c *cell[M]) halt() {
	ext := c.needExt()
	ext.halted, ext.member = true, true
	switch {
	case c.phase == running || c.phase == suspended:
		c.beginRestart(0)
	case c.phase == restarting && ext.ended:
		c.dropBackoff()
		c.parent.signal(signal{kind: sigHalted, child: &c.core})
	}
}

// dropBackoff forgets a start that waits for its time.
func (c *cell[M]) dropBackoff() {
	if ext := c.ext; ext.backoff != nil {
		c.sys().clock.cancel(ext.backoff)
		ext.backoff = nil
	}
}

// start makes a new incarnation and initializes it. REQUIRES: the turn owns c.
func (c *cell[M]) start() {
	c.ext.ended = false // from here on there may be children
	err := errGoexit    // what remains if Init ends the goroutine
	defer func() {
		if !c.lost() {
			c.startEnded(err)
		}
	}()
	err = c.tryStart()
}

// startEnded goes on after the start of another incarnation.
func (c *cell[M]) startEnded(err error) {
	if err != nil {
		c.fail(err)
		return
	}
	c.setPhase(running)
	if c.sys().listeners.any() {
		c.sys().publish(ActorRestarted{PID: c.pid(), Restarts: c.restarts()})
	}
	if ext := c.ext; ext != nil && ext.member {
		ext.member = false
		c.parent.signal(signal{kind: sigStarted, child: &c.core})
	}
	if c.halting {
		c.quit()
	}
}

func (c *cell[M]) tryStart() (err error) {
	returned := false
	defer func() {
		failure := recover()
		c.back()
		if !returned {
			err = recovered(failure)
		}
		if err != nil { // an incarnation that never was has nothing to terminate
			err = fmt.Errorf("init: %w", err)
			c.dismiss()
			c.endIncarnation()
		}
	}()
	a := c.actor
	if c.newActor != nil {
		a = c.newActor.make()
		c.mu.Lock()
		c.actor = a
		c.mu.Unlock()
	}
	if in, ok := any(a).(Initializer[M]); ok {
		c.mu.Lock()
		c.acquireMailbox()
		c.mu.Unlock()
		err = in.Init(c.context())
	}
	returned = true
	return err
}

// dismiss forgets the incarnation's state. A function has none.
func (c *cell[M]) dismiss() {
	if c.newActor == nil {
		return
	}
	c.mu.Lock()
	c.actor = nil
	c.mu.Unlock()
}

// fail suspends the actor and leaves the decision to its supervisor.
func (c *cell[M]) fail(err error) {
	if c.phase >= stopping {
		return
	}
	c.sys().failures.Add(1)
	c.noteFailure(err, c.messageType())
	if c.phase == suspended && c.traits.reentrant() { // the supervisor has the failure of another handler already
		c.halting = false
		c.logFailure(err)
		return
	}
	c.needExt().failure = err
	c.halting = false
	c.setPhase(suspended)
	c.logFailure(err)
	c.parent.signal(signal{kind: sigFailed, child: &c.core, err: err, bare: c.actor == nil})
}

// beginRestart stops the children, ends the incarnation and starts a new one.
func (c *cell[M]) beginRestart(after time.Duration) {
	ext := c.needExt()
	c.dropBackoff()
	c.disband(false)
	ext.escalated, ext.exit = nil, nil
	ext.backoffFor, ext.ended = after, false
	c.setPhase(restarting)
	c.stopChildren(stopNow)
}

// beginStop closes the mailbox, stops the children and then the actor itself.
func (c *cell[M]) beginStop(mode stopMode, reason Reason, why error) {
	ext := c.peekExt()
	if ext == nil && (mode != stopNow || reason != Stopped || why != nil) {
		ext = c.needExt()
	}
	if c.halting {
		c.halting = false
		drained, _, _ := ext.ends()
		mode = max(mode, drained)
	}
	if c.phase >= stopping {
		if c.phase == stopping && mode == stopKill && ext.end != stopKill { // impatience: the slow way becomes the short one
			ext.end, ext.endReason, ext.stopChild = stopKill, Killed, nil
			c.stopChildren(stopKill)
		}
		return
	}
	c.mu.Lock()
	if ext = c.ext; ext != nil {
		if ext.killed && mode != stopKill { // the order waits already
			mode, reason = stopKill, Killed
		}
		ext.end, ext.endReason = mode, reason
		if why != nil {
			ext.failure = why
		}
	}
	c.phase = stopping
	var rest []envelope[M]
	if s := c.mailbox; s != nil {
		if m := s.inc; m != nil && len(m.stash) > 0 {
			s.putFirst(m.stash)
			m.stash = nil
		}
		rest = s.rest()
	}
	c.mu.Unlock()
	if ext != nil {
		c.dropBackoff()
		c.disband(mode == stopDrain)
	}
	for i := range rest {
		c.discard(&rest[i], reason, ErrStopped)
	}
	c.stopChildren(mode)
}

// discard turns an envelope that nobody will handle into a dead letter; its asker, if
// there is one, gets err.
func (c *cell[M]) discard(e *envelope[M], reason Reason, err error) {
	if h, ok := e.with.(*headed); ok {
		e.with = h.inner
	}
	switch x := e.with.(type) {
	case nil, *core:
		c.sys().deadLetter(&c.core, e.from(), e.msg, reason)
	case pendingAsk:
		c.sys().deadLetter(&c.core, x.sender(), e.msg, reason)
		x.reject(err, nil)
	}
	// Notes and a last order are from the actor to itself or from the runtime: nobody
	// else sent them, nobody misses them.
}

// stopChildren tells the youngest child to stop and, when there is none any more,
// goes on with what the actor was about to do. REQUIRES: the turn owns c.
func (c *cell[M]) stopChildren(mode stopMode) {
	child := c.lastChild()
	if child == nil {
		if ext := c.peekExt(); ext != nil {
			ext.stopChild = nil
		}
		c.childless()
		return
	}
	if child == c.ext.stopChild {
		return
	}
	c.ext.stopChild = child
	if mode == stopDrain {
		child.impl().drain()
	} else {
		child.signal(signal{kind: sigStop, mode: mode})
	}
}

// childEnded goes on with the next child. REQUIRES: the turn owns c.
func (c *cell[M]) childEnded(child *core) {
	c.halted(child, true)
	switch c.phase {
	case stopping:
		c.stopChildren(c.ext.end)
	case restarting:
		c.stopChildren(stopNow)
	default: // a child that ended for reasons of its own
	}
}

// childless is reached when the last child has ended.
func (c *cell[M]) childless() {
	if c.phase == stopping {
		if mode, _, _ := c.peekExt().ends(); mode == stopKill {
			c.close()
		} else {
			c.terminate()
		}
		return
	}
	if c.ext.ended {
		return // the old incarnation has ended already
	}
	c.ext.ended = true
	c.terminate()
}

// renew goes on after the end of an incarnation that is to be replaced.
func (c *cell[M]) renew() {
	ext := c.ext
	ext.failure, ext.failures = nil, nil // the children to come have failed in nothing
	c.dismiss()
	c.mu.Lock()
	ext.restarts++
	c.mu.Unlock()
	c.sys().restarts.Add(1)
	if ext.halted {
		c.parent.signal(signal{kind: sigHalted, child: &c.core})
		return
	}
	if ext.backoffFor <= 0 {
		c.start()
		return
	}
	ext.backoff = c.sys().clock.after(ext.backoffFor, func() { c.signal(signal{kind: sigStart}) })
}

// terminate ends the incarnation: the user's Terminate if it has one, its timers, its
// watches, its context; and then ends the actor or renews it. A panic in Terminate is logged and changes
// nothing, and neither does the end of the goroutine.
func (c *cell[M]) terminate() {
	t, ok := any(c.actor).(Terminator[M])
	if !ok {
		c.terminated()
		return
	}
	c.mu.Lock()
	if ext := c.ext; ext != nil && ext.reentry != nil {
		ext.reentry.ending = false // what cut the handlers short is not for Terminate
	}
	_, _, why := c.ext.ends()
	c.mu.Unlock()
	returned := false
	defer func() {
		failure := recover()
		c.back()
		if !returned {
			c.logFailure(fmt.Errorf("terminate: %w", recovered(failure)))
		}
		c.terminated()
	}()
	t.Terminate(c.context(), why)
	returned = true
}

// terminated goes on when the incarnation has ended.
func (c *cell[M]) terminated() {
	c.endIncarnation()
	if c.phase == stopping {
		c.close()
	} else {
		c.renew()
	}
}

// release gives back what the incarnation held.
func (c *cell[M]) endIncarnation() {
	if m := c.peekIncarnation(); m != nil {
		c.mailbox.inc = nil
		m.release(c)
	}
	c.mu.Lock()
	ended := false
	if ext := c.ext; ext != nil && ext.reentry != nil {
		ext.reentry.ending = false
	}
	if ext := c.ext; ext != nil && ext.lifeDone != nil {
		ext.lifeDone()
		ext.life, ext.lifeDone = nil, nil
		ended = true
	}
	c.mu.Unlock()
	if ended {
		c.sys().sched.settle()
	}
}

// close is the end: the name is free, the watchers and the parent are told.
func (c *cell[M]) close() {
	c.endIncarnation() // a killed actor has not terminated
	sys := c.sys()
	if c.path != nil {
		sys.names.remove(*c.path)
	}
	c.mu.Lock()
	c.phase = stopped
	if !c.ghost() { // a handler that was left behind may still look at them
		c.actor, c.newActor = nil, nil
	}
	c.flags.And(^signaled)
	c.flags.Or(ended)
	ext := c.ext
	var watchers []watcher
	var links map[*core]struct{}
	if ext != nil {
		watchers, links = ext.watchers, ext.links
		ext.signals, ext.watchers, ext.links = nil, nil, nil
	}
	c.mu.Unlock()
	if len(watchers) > 0 || len(links) > 0 || sys.listeners.any() {
		c.announce(ext, watchers, links)
	}
	if ext != nil {
		ext.thread.leave()
	}
	sys.living.Add(-1)
	if c.parent == nil {
		sys.actors.remove(&c.core)
		close(sys.gone)
		return
	}
	awaited := c.parent.disown(&c.core)
	sys.actors.remove(&c.core)
	if awaited {
		c.parent.signal(signal{kind: sigEnded, child: &c.core})
	}
}

// announce tells those who want to know that the actor has ended.
func (c *cell[M]) announce(ext *extension, watchers []watcher, links map[*core]struct{}) {
	_, reason, why := ext.ends()
	down := Down{PID: c.pid(), Reason: reason}
	if reason == Failed {
		down.Err = why
	}
	if sys := c.sys(); sys.listeners.any() {
		sys.listeners.drop(&c.core)
		sys.publish(ActorStopped(down))
	}
	for _, w := range watchers {
		w.down(down)
	}
	c.cutLinks(links, down)
}

// drain queues the order to stop behind all that is in the mailbox now.
func (c *cell[M]) drain() {
	if c.post(&envelope[M]{with: drainMark{}}, nil) == verdictTaken {
		return
	}
	c.signal(signal{kind: sigStop, mode: stopDrain}) // it is stopping or gone
}

func (c *cell[M]) mailboxLen() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mailbox == nil {
		return 0
	}
	return c.mailbox.waiting()
}

func (c *cell[M]) typeName() string {
	c.mu.Lock()
	a := c.actor
	c.mu.Unlock()
	if a == nil {
		return fmt.Sprintf("Actor[%s]", nameOf[M]())
	}
	if _, ok := a.(funcActor[M]); ok {
		return fmt.Sprintf("func(%s)", nameOf[M]())
	}
	return fmt.Sprintf("%T", a)
}

// recovered makes an error of what recover returned; nil means runtime.Goexit.
func recovered(v any) error {
	if v == nil {
		return errGoexit
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}

func (c *core) restarts() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return 0
	}
	return c.ext.restarts
}

// logFailure writes the one line about a failure, and tells listeners.
func (c *cell[M]) logFailure(err error) {
	if c.sys().listeners.any() {
		c.sys().publish(ActorFailed{PID: c.pid(), Err: err, MessageType: c.messageType()})
	}
	attrs := []slog.Attr{
		slog.String("actor", c.pid().String()),
		slog.String("error", fmt.Sprint(err)), // and not Error, which may panic
		slog.String("message_type", c.messageType()),
	}
	if p, ok := errors.AsType[*PanicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	c.sys().log.LogAttrs(context.Background(), slog.LevelWarn, "actor failed", attrs...)
}

// messageType returns the printed type of the message being handled, "" when none is.
func (c *cell[M]) messageType() string {
	if !c.handling() {
		return ""
	}
	return fmt.Sprintf("%T", c.message().msg)
}
