package actor

import (
	"context"
	"errors"
	"runtime"
	"time"
)

// turn runs the actor for a while: signals first, then at most what lay in the mailbox when the
// turn began, at most turnMessages of it and about turnTime. It reports whether there is more
// to do, and then the actor still belongs to the caller, who queues it again. The turn may end
// on another worker than w: its handlers may wait. It may also end by a panic, or by the end
// of the goroutine: the caller has to see to it that crashed and endTurn follow.
//
// The deferred recover that turns a panic into a failure is set up once for a run of turns, in
// coroutine.shift, and not for each message: that is 5 ns a message less.
func (c *cell[M]) turn(w *worker) (again bool) {
	c.core.beginTurn()
	if c.core.worker.Load() != w {
		c.core.worker.Store(w)
	}
	mail := true                                          // that is what has woken the actor: there is a mailbox, with the mail in the batch
	if c.core.hasSignals() || c.core.traits.reentrant() { // which a stack may have woken, too
		c.core.handleSignals()
		mail = c.core.phase == running && c.fetch()
	}
	if mail && c.core.isPassive() {
		if c.lapsed() {
			c.core.handleSignals()
		} else {
			c.activate()
		}
	}
	var s *mailbox[M]
	if mail && c.core.phase == running {
		s = c.mailbox()
		c.core.rearmPassivation()
		c.work(s)
	}
	c.core.endFirstTurn()
	if c.core.traits.runsOn() == onSender {
		c.core.dismount()
	}
	c.core.lockOnStack()
	if s != nil && !s.owned() {
		c.core.mu.Unlock()
		c.core.exit()
	}
	return c.endTurnLocked(c.core.worker.Load())
}

// exit ends the goroutine of a handler that its actor was taken away from.
func (c *core) exit() {
	c.leftBehind()
	runtime.Goexit()
}

// work handles mail until the turn is over. It may return in the window after a marked message:
// the caller has to look whether the mailbox is still its own.
func (c *cell[M]) work(s *mailbox[M]) {
	sched := c.core.sched()
	t := turnBudget{messages: max(1, sched.turnMessages*int(c.core.weight))}
	if ps := sched.profiles.Load(); ps != nil {
		t.timing = c.timeTurn(s, ps)
	}
	t.begin(c.core.worker.Load())
	for c.core.mayBegin() && c.serve(s, &t) {
		if !c.core.hasSignals() && (t.messages <= 0 || !s.left() && !c.expectsMore(s)) {
			return
		}
		if !s.leave() {
			c.core.exit()
		}
		if c.core.hasSignals() {
			c.putAway(s)
			if c.core.handleSignals(); c.core.isPassive() {
				return
			}
		} else if !s.left() && !c.refill(s) {
			return
		}
		if t.messages <= 0 || c.core.phase != running {
			return
		}
	}
}

// putAway lets go of the messages that have been handled: in what the signals bring, which may be an Init
// or a Terminate, none of them is the current one.
func (c *cell[M]) putAway(s *mailbox[M]) {
	c.core.lock(c.core.worker.Load())
	s.sweep()
	c.core.mu.Unlock()
}

// expectsMore reports whether refill is worth a try.
func (c *cell[M]) expectsMore(s *mailbox[M]) bool {
	if s.special != nil || s.behind {
		return true
	}
	w := c.core.worker.Load()
	return w != nil && w.alone()
}

// refill sees to it that the batch holds mail again. What has come since the batch was taken
// waits for the next turn, unless the mailbox decides at each message or nobody else waits.
func (c *cell[M]) refill(s *mailbox[M]) bool {
	if s.special != nil || s.behind {
		return c.fetch()
	}
	return c.linger(s)
}

// turnBudget is what is left of a turn.
//
// The clock costs more than a short message, so it is read with each turnLook-th. The monitor's ticks
// show turns that last: then the worker reads the clock from the beginning of its turns, and after each
// message, as long as messages are found to be long. So the share of an actor is its weight also where a
// message takes longer than a turn should: the turn is as many messages as the weight then.
type turnBudget struct {
	messages int
	used     int
	next     int // the message after which the clock is read
	ticks    int
	began    time.Time // when the clock was first read
	from     int       // how many messages had been handled then
	timing   *timing   // of a turn whose messages are timed for a profile, else nil
}

// begin begins a turn on w, which may be nil.
func (t *turnBudget) begin(w *worker) {
	t.next = turnLook
	if w != nil && w.long {
		t.next, t.began = 0, time.Now()
	}
}

// look ends the turn when its time is up: when it began before the monitor's last tick, or by the clock.
// It is called with a message that has been handled and is not in used yet.
func (t *turnBudget) look(w *worker, weight uint8) {
	ticked, handled := w != nil && w.due.Load(), t.used+1
	if ticked {
		w.due.Store(false)
		w.publish()
	}
	if t.began.IsZero() {
		t.next = t.used + turnLook
		if !ticked {
			t.began, t.from = time.Now(), handled
			return
		}
		w.long = true // or so it seems
		if t.ticks++; time.Duration(t.ticks)*tickBusy >= turnTime*time.Duration(weight) {
			t.end(w)
		}
		return
	}
	spent := time.Since(t.began)
	long := spent >= time.Duration(handled-t.from)*turnTime/turnLook
	if w != nil {
		w.long = long
	}
	if t.next = handled; !long {
		t.next = t.used + turnLook
	}
	spent = spent * time.Duration(handled) / time.Duration(handled-t.from) // and for those before
	if spent >= turnTime*time.Duration(weight) && handled >= int(weight) {
		t.end(w)
	}
}

// end says that the time of the turn is up.
func (t *turnBudget) end(w *worker) {
	t.messages = 0
	if w != nil {
		w.hasty = true
	}
}

// fetch moves mail to where the turn finds it.
func (c *cell[M]) fetch() bool {
	c.core.lock(c.core.worker.Load())
	s := c.mailbox()
	got := s != nil && (s.left() || s.take())
	c.core.mu.Unlock()
	return got
}

// linger keeps the turn for a moment after the last message when nobody else waits for the
// worker: a sender that is at it finds the actor awake, and its messages gather to a batch
// instead of waking the actor one by one. After a batch it waits longer: the more comes
// together, the less often the turn takes the lock away from the senders.
func (c *cell[M]) linger(s *mailbox[M]) bool {
	w := c.core.worker.Load()
	if w == nil || !w.alone() || w.s.crowded.Load() {
		return false
	}
	w.publish()
	yields := 1
	if len(s.batch) >= lingerBatch && c.core.sched().n > 1 {
		yields = lingerBatch
	}
	for i := range lingerTimes {
		for range yields * (i + 1) {
			runtime.Gosched()
		}
		if c.core.hasSignals() || c.fetch() {
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

// endTurn gives the actor back: to nobody, if it is idle, or to the caller if there is more to
// do.
func (c *cell[M]) endTurn(w *worker) (again bool) {
	if c.core.traits.runsOn() == onSender {
		c.core.dismount()
	}
	c.core.lock(w)
	return c.endTurnLocked(w)
}

// endTurnLocked is endTurn. It releases c.mu. REQUIRES: c.mu held.
func (c *cell[M]) endTurnLocked(w *worker) (again bool) {
	c.core.requireOffStack()
	s := c.mailbox()
	if s != nil {
		s.sweep()
		c.account(s, w)
		if c.core.traits.reentrant() {
			c.dropIncarnation(s)
		}
	}
	again = c.core.hasSignals() && c.core.phase != stopped
	if !again && c.core.traits.reentrant() {
		if again = c.core.resumable(); !again && c.core.mustBlock() {
			c.core.block()
			waits := c.core.waitsToCheck()
			c.core.mu.Unlock()
			c.core.endCycles(waits)
			return false
		}
	}
	if again || c.core.phase == running && s != nil && (s.left() || s.behindBatch() && s.take()) {
		c.core.requeue()
		c.core.mu.Unlock()
		return true
	}
	if c.core.phase == running && s != nil {
		s.shrink(bufferMost)
	}
	recovered := s != nil && s.alarm > overloadStart && c.core.phase == running
	if recovered {
		s.alarm, s.limit = overloadStart, firstLook
		c.core.addOverload(overload{})
	}
	c.core.rest()
	stuck := c.core.phase > running && c.core.needsSupervisor()
	emptied := s.emptied()
	remember := false
	switch {
	case s == nil || c.core.remembered:
	case w == nil, c.core.phase == stopped:
		c.releaseMailbox()
	default:
		c.core.remembered, remember = true, true
	}
	c.core.mu.Unlock()
	if remember {
		w.remember(&c.core)
	}
	if stuck {
		c.core.endCycle()
	}
	if recovered {
		c.core.tellOverloads()
	}
	if emptied {
		s.special.observer.Emptied(c.core.pid())
	}
	return false
}

// account books the messages of the turn. REQUIRES: c.mu held by the turn.
func (c *cell[M]) account(s *mailbox[M], w *worker) {
	if s.handled == 0 {
		return
	}
	c.core.handled += s.handled
	if w != nil {
		w.done += s.handled
	} else {
		c.core.sys().handled.Add(s.handled)
	}
	s.handled = 0
}

// serve handles messages of the batch until it is through, the budget or the time
// is used up, a signal has come, or the actor has failed or wants to stop. For the last two
// it reports false.
//
// What it does itself is all that a plain message costs most often; what others need is called.
func (c *cell[M]) serve(s *mailbox[M], t *turnBudget) bool {
	short := c.core.kind.around == nil && t.timing == nil
	a := c.actor // now: what is read beside a mark could be what close changes once the actor is fenced
	for t.messages > 0 && s.left() && (c.core.flags.Load()&(signaled|virtual) == 0 || c.mayServe()) {
		plain := s.peek().plain() // now: when the handler of a reentrant actor returns, the current message may be another
		var err error
		through := false
		if plain && short && s.inc == nil {
			err, through = c.servePlain(s, t, a)
		} else {
			err, through = c.serveOther(s, t, a, short)
		}
		if t.used == t.next || c.core.isDue() {
			c.lookAtTime(s, t)
		}
		t.messages--
		t.used++
		if !through {
			if more, ok := c.finish(s, plain, err); !more {
				s.cur = nil
				return ok
			}
		}
	}
	s.cur = nil
	return true
}

// servePlain handles plain messages, of which the batch must hold one, until another kind of message
// or anything else is to be seen to. The last one is not booked in t. It reports false when finish is to follow.
func (c *cell[M]) servePlain(s *mailbox[M], t *turnBudget, a Actor[M]) (err error, through bool) { //nolint:revive // the error is what the handler has returned
	for head := s.head.Load(); ; {
		mark, ok := s.enter(head)
		if !ok {
			c.core.exit()
		}
		i := int(head >> headShift)
		// Now: the next compare-and-swap waits for all that was read before it, and what is read
		// here comes while the handler runs.
		another := i+1 < len(s.batch) && s.batch[i+1].plain()
		err = a.Receive(c.context(), s.batch[i].msg)
		if err != nil || s.inc != nil || s.resumed != nil || c.core.halting {
			c.returned(s)
			return err, false
		}
		if !another || t.messages == 1 || t.used == t.next || c.core.isDue() ||
			c.core.flags.Load()&(signaled|virtual) != 0 || s.head.Load() != mark {
			return nil, true
		}
		head = mark
		t.messages--
		t.used++
	}
}

// isDue reports whether the worker is to look at the time of the turn.
func (c *core) isDue() bool {
	w := c.worker.Load() // which is another one after a handler has waited
	return w != nil && w.due.Load()
}

// mayServe reports whether the next message may begin, which no signal must overtake; and which an
// activation gets only as long as it is the one.
func (c *cell[M]) mayServe() bool {
	return !c.core.hasSignals() && !c.lapsed() // else to stop is a signal, with which the message is left
}

// serveOther handles the next message in any case. It reports false when finish is to follow.
func (c *cell[M]) serveOther(s *mailbox[M], t *turnBudget, a Actor[M], short bool) (err error, through bool) { //nolint:revive // the error is what the handler has returned
	e := s.peek()
	plain := e.plain()
	if ask, ok := e.with.(pendingAsk); ok && short && s.inc == nil { // what handle comes to for most requests
		if !c.enterAsk(s, ask) {
			c.core.exit()
		}
		err = a.Receive(c.context(), e.msg)
		through = err == nil && s.inc == nil && s.resumed == nil && !c.core.halting && c.answered(s, ask)
		if !through {
			c.returned(s)
		}
		return err, through
	}
	if !plain && !s.leave() { // what is done for it is not for the window between two marked messages
		c.core.exit()
	}
	s.next()
	if o, ok := e.with.(*ownMail[M]); ok && !c.unwrapOwn(s, o) {
		c.uncount(s)
		return nil, false
	}
	if t.timing == nil {
		_, err = c.handle(s, plain)
	} else {
		err = c.handleTimed(s, plain, t.timing)
	}
	return err, false
}

// lookAtTime ends the turn when its time is up.
func (c *cell[M]) lookAtTime(s *mailbox[M], t *turnBudget) {
	if !s.leave() { // the worker may be that of the next turn
		c.core.exit()
	}
	t.look(c.core.worker.Load(), c.core.weight)
}

// finish sees to what a message needs that was not through with the handler's return. more says that
// another one may follow, and ok that the actor has not failed and does not want to stop.
func (c *cell[M]) finish(s *mailbox[M], plain bool, err error) (more, ok bool) {
	resumed := s.resumed != nil
	if resumed {
		c.endResumed(s)
	}
	if !plain || err != nil {
		if err = c.after(err); err != nil {
			c.core.fail(err)
			return false, false
		}
	}
	if c.core.halting {
		s.cur = nil
		c.core.quit()
		return false, false
	}
	return !resumed, true // else whether another message may begin is for the turn to say
}

// answered ends the handling of a request that has its answer, in the window after its mark. It
// reports false when there is more to be seen to.
func (c *cell[M]) answered(s *mailbox[M], ask pendingAsk) bool {
	if !ask.over() || c.core.taken {
		return false
	}
	if !c.endAsk(s) {
		c.core.exit()
	}
	return true
}

// returned takes the mark of a plain message back whose handler has more to be seen to. It does
// not return when the actor was taken away from the handler.
func (c *cell[M]) returned(s *mailbox[M]) {
	if !s.leave() {
		c.core.exit()
	}
	if s.resumed != nil {
		c.core.leaveUser() // which waitAside has set
	}
	s.inc.noticed(s.cur)
}

// crashed deals with a handler that has panicked, or ended its goroutine. Init and
// Terminate look after themselves.
func (c *cell[M]) crashed(failure error) {
	c.core.leaveUser()
	s := c.mailbox()
	if s == nil || s.cur == nil {
		return
	}
	if !s.leave() {
		c.core.exit()
	}
	if s.resumed != nil {
		c.endResumed(s)
	}
	s.inc.noticed(s.cur)
	defer func() { // also when the gate ends this goroutine
		c.core.fail(failure)
		s.cur = nil
		if c.core.halting {
			c.core.quit()
		}
	}()
	c.putBack(s)
	if c.core.isGated() {
		defer c.core.surviveGate()
	}
	c.settle(failure)
}

// handle passes the current envelope to the handler. What is not a plain message
// is turned into one first, or dealt with here: then it reports that nothing was handled.
func (c *cell[M]) handle(s *mailbox[M], plain bool) (handled bool, err error) {
	if s.inc != nil {
		s.inc.stashed = false
	}
	if !plain && !c.unwrap(s) {
		return false, nil
	}
	if s.inc != nil && len(s.inc.recordings) > 0 {
		return true, c.recorded(s, s.inc.recordings)
	}
	return true, c.pass(s)
}

// pass passes the current message to the middleware, and that to the handler.
func (c *cell[M]) pass(s *mailbox[M]) error {
	var err error
	if len(c.core.kind.around) == 0 {
		err = c.receive(s)
	} else {
		r := Reception{To: c.core.pid(), From: s.cur.from().pid(), Message: s.cur.msg, Header: s.header}
		err = c.receiveAround(r, 0)
		c.undecorate(s)
	}
	s.inc.noticed(s.cur) // here, since middleware may have recovered from a panic of the handler
	return err
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
	if _, drain := s.own.with.(drainMark); drain {
		c.core.halting = true
		c.core.needExt().end = stopDrain
		c.uncount(s)
		return false
	}
	switch x := s.own.with.(type) {
	case pendingAsk:
		c.beginAsk(s, x)
	case note[M]:
		msg, ok := x.message(c)
		if !ok {
			c.uncount(s)
			return false
		}
		s.cur.msg = msg // not in own: the function that made it may have waited
	}
	return true
}

// uncount sees to it that the current envelope, which no handler gets, is not counted as a message that was handled.
func (c *cell[M]) uncount(s *mailbox[M]) {
	c.core.mu.Lock()
	s.handled--
	c.core.mu.Unlock()
}

// receive passes the current message to whatever handles messages now, through the gate if
// there is one.
func (c *cell[M]) receive(s *mailbox[M]) (err error) {
	if c.core.isGated() {
		g := c.core.ext.gateway
		c.core.enterUser()
		err = g.gate.Handle(c.context(), g.next)
		c.core.leaveUser()
	} else {
		err = c.call(s)
	}
	return err
}

// call calls the handler.
func (c *cell[M]) call(s *mailbox[M]) (err error) {
	a, msg := c.actor, s.cur.msg
	var behavior func(*Context[M], M) error
	if m := s.inc; m != nil && len(m.behaviors) > 0 {
		behavior = m.behaviors[len(m.behaviors)-1]
	}
	c.core.enterUser()
	if behavior != nil {
		err = behavior(c.context(), msg)
	} else {
		err = a.Receive(c.context(), msg)
	}
	c.core.leaveUser()
	return err
}

// after settles an ask and sorts the handler's error: ErrStop is none.
func (c *cell[M]) after(err error) error {
	if err == nil {
		c.settle(nil)
		return nil
	}
	if err == ErrStop { //nolint:errorlint // wrapped, it is an error that mentions ErrStop, not the request to stop
		c.core.halting = true
		c.settle(ErrStopped)
		return nil
	}
	if errors.Is(err, context.Canceled) && c.core.ending() { // it passes on how its wait has ended
		c.settle(ErrStopped)
		return nil
	}
	if ctx := c.context(); ctx.askLocked() != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the asker gave up: the same
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
		if s := c.mailbox(); s != nil && len(c.core.kind.around) > 0 { // a panic may have skipped it
			c.undecorate(s)
		}
		return
	}
	c.endAsk(c.mailbox())
	if c.core.taken {
		c.core.taken = false
		return
	}
	if err == nil {
		err = ErrUnhandled
	}
	if c.core.isGated() {
		rejectHeld(&c.core, ask, err)
		return
	}
	ask.reject(err, c.core.worker.Load())
}
