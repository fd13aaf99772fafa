package actor

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"time"
)

// result is something that an actor has under way outside of its turn and whose
// outcome comes back as a message: a Pipe, an AskThen. It belongs to the incarnation
// that sent it out.
type result[M any] struct {
	outcome  func() M // set before the result is queued
	timedOut bool     // it is that of an ask whose time is up; set before the result is queued
	active   bool     // owned by the turn
	header   Header   // of the message in whose handler it began, and of its own
}

// expectResult returns nil when the actor was taken away from the caller, a callback.
func (c *cell[M]) expectResult() *result[M] {
	if !c.core.enterRuntime() {
		return nil
	}
	defer c.core.exitRuntime()
	e := &result[M]{active: true, header: c.turnHeader()}
	m := c.needIncarnation()
	if m.results == nil {
		m.results = make(map[*result[M]]struct{})
	}
	m.results[e] = struct{}{}
	return e
}

// back queues the outcome. It may be called from any goroutine, once.
func (e *result[M]) deliver(c *cell[M], outcome func() M) {
	e.outcome = outcome
	c.post(&envelope[M]{with: e}, nil)
}

func (e *result[M]) origin() string { return "outcome" }

func (e *result[M]) message(c *cell[M]) (msg M, ok bool) {
	if !e.active {
		return msg, false
	}
	e.active = false
	delete(c.mailbox().inc.results, e)
	c.setHeader(e.header)
	c.core.enterUser()
	msg = e.outcome()
	c.core.leaveUser()
	return msg, true
}

// Pipe runs work on a goroutine of its own and sends the actor the outcome as a message of its
// protocol, which wrap makes in the actor's own turn. The work's context has the values of the
// handler's and ends with the incarnation, but not with a request; an outcome for an incarnation that
// is gone is dropped. A panic in work is its error, a
// [*PanicError]. The message has the header of the message in whose handler the work was begun; the
// same holds for [AskThen]. For use in the actor's own callbacks.
func Pipe[T, M any](ctx *Context[M], work func(context.Context) (T, error), wrap func(T, error) M) {
	required(work != nil && wrap != nil, "Pipe: the work, or the function that wraps its outcome, is nil")
	c := ctx.cell()
	e := c.expectResult()
	if e == nil {
		return // nobody waits for the outcome
	}
	begun := c.core.workContext(ctx)
	run := func() {
		var value T
		err := errGoexit
		defer func() {
			if r := recover(); r != nil {
				err = recovered(r)
			}
			e.deliver(c, func() M { return wrap(value, err) })
		}()
		value, err = work(begun)
	}
	if !c.core.isGated() {
		c.core.sched().background(&c.core, run)
		return
	}
	c.core.holdOrLeave(func(dropped error) {
		if dropped == nil {
			c.core.sched().background(&c.core, run)
			return
		}
		e.deliver(c, func() M {
			var none T
			return wrap(none, dropped)
		})
	})
}

// Later is [Pipe] for work that is done elsewhere, for example by a library that calls back: deliver
// sends the actor the outcome, as a message of its protocol that wrap makes in the actor's own turn.
// deliver may be called on any goroutine and does not wait; a second call does nothing. An outcome for
// an incarnation that is gone is dropped. The message has the header of the message in whose handler
// Later was called. For use in the actor's own callbacks.
func Later[T, M any](ctx *Context[M], wrap func(T, error) M) (deliver func(T, error)) {
	required(wrap != nil, "Later: the function that wraps the outcome is nil")
	c := ctx.cell()
	e := c.expectResult()
	var delivered atomic.Bool
	return func(value T, err error) {
		if e != nil && !delivered.Swap(true) {
			e.deliver(c, func() M { return wrap(value, err) })
		}
	}
}

// AskThen is [Ask] without waiting: the answer, or the error with which Ask would
// have ended, comes as a message of the actor's protocol, which wrap makes in the
// actor's own turn. The ask ends with the limit that [Within] sets, otherwise with the system's
// ask timeout, and without a message when the asker's incarnation ends. For use in the actor's own
// callbacks.
func AskThen[R, N, M any](ctx *Context[M], to Ref[N], req Request[R], wrap func(R, error) M, opts ...WaitOption) {
	required(wrap != nil, "AskThen: the function that wraps the answer is nil")
	c := ctx.cell()
	e := c.expectResult()
	if e == nil {
		return
	}
	limit := limitOf(opts)
	ask := newCall[R](c.core.life(), c.core.sys())
	ask.alarm.when = ask.sys.limitAt(limit)
	ask.notify = func() {
		c.core.sys().clock.cancel(&ask.alarm)
		e.timedOut = ask.err == errTimeUp //nolint:errorlint // it is ring's own and never wrapped
		e.deliver(c, func() M { return wrap(ask.answer, describe(c.core.sys().timeUp(ask.err, limit), to, req)) })
	}
	c.core.sys().clock.at(&ask.alarm, ask.alarm.when, ask)
	switch {
	case limit < 0:
		ask.ring()
		return
	case c.core.isGated():
		askHeld(ctx, &c.core, to, req, ask)
		return
	}
	if err := sendAsk(ctx, originOf(ctx), to, req, ask, false); err != nil {
		ask.reject(err, nil)
	}
}

// Answer is one outcome of a [Gather].
type Answer[R any] struct {
	Value R
	Err   error
}

// Gather asks all of refs at once and yields each answer, or the error with which that ask ended,
// as it arrives. It waits like [Ask], with one deadline for all, from ctx, [Within] or the system;
// in a handler it does not hold up the worker. Leaving the loop early drops the answers that have
// not arrived.
func Gather[R, M any](ctx context.Context, refs []Ref[M], req Request[R], opts ...WaitOption) iter.Seq2[Ref[M], Answer[R]] {
	return func(yield func(Ref[M], Answer[R]) bool) {
		if len(refs) == 0 {
			return
		}
		sys, limit := refs[0].recipient().base().sys(), limitOf(opts)
		inner, cancel := withLimit(ctx, sys.askTimeout, limit)
		defer cancel()
		deadline, _ := inner.Deadline()
		from, _ := caller(ctx)
		err := from.settleGate(ctx)
		var come *inbox[int] // the numbers of those that have ended
		if err == nil {
			come, err = newInbox[int](ctx, sys)
		}
		if err == nil && limit < 0 {
			err = limitError(limit)
		}
		if err != nil {
			for _, to := range refs {
				if !yield(to, Answer[R]{Err: describe(err, to, req)}) {
					return
				}
			}
			return
		}
		open := make([]*call[R], len(refs))
		defer func() { // of those that nobody waits for any more
			for _, ask := range open {
				if ask != nil {
					ask.sys.clock.cancel(&ask.alarm)
				}
			}
		}()
		for i, to := range refs {
			ask := newCall[R](inner, to.recipient().base().sys())
			ask.alarm.when = deadline.Sub(ask.sys.clock.base)
			ask.notify = func() {
				ask.sys.clock.cancel(&ask.alarm)
				come.put(i)
			}
			open[i] = ask
			ask.sys.clock.at(&ask.alarm, ask.alarm.when, untilShut[R]{ask})
			if err := sendAsk(ctx, originOf(ctx), to, req, ask, false); err != nil {
				ask.reject(err, nil)
			}
		}
		for range refs {
			i, ok := come.take(inner)
			if !ok {
				break
			}
			ask := open[i]
			open[i] = nil
			if !yield(refs[i], Answer[R]{ask.answer, describe(ask.err, refs[i], req)}) {
				return
			}
		}
		for i, ask := range open { // the time is up
			if ask == nil {
				continue
			}
			ask.expire(context.Cause(inner), nil)
			if !yield(refs[i], Answer[R]{Err: describe(context.Cause(inner), refs[i], req)}) {
				return
			}
		}
	}
}

// untilShut ends an ask of a Gather with its system. In time it ends with the Gather's context.
type untilShut[R any] struct{ *call[R] }

func (untilShut[R]) ring() {}

// Blocking runs f, which may block for long: a driver, a file, a lock. Meanwhile the actor handles
// nothing else, but another worker takes its worker's place. It returns f's error. For use in the
// actor's own callbacks.
func Blocking[M any](ctx *Context[M], f func() error) error {
	required(f != nil, "Blocking: the function is nil")
	if err := ctx.cell().core.settleGate(ctx); err != nil {
		return fmt.Errorf("blocking: %w", err)
	}
	if w := ctx.core.worker.Load(); w != nil && w.current.Load() == &ctx.cell().core {
		if w.s.stepOut(w) {
			defer w.stepIn()
		}
	}
	return f()
}

// Sleep pauses the handler for d, or until the context ends, whose cause it then returns. It holds
// up no other actor. If too many handlers wait it fails at once with [ErrTooManyWaiting].
func (ctx *Context[M]) Sleep(d time.Duration) error {
	c := ctx.cell()
	over, err := newInbox[struct{}](ctx, c.core.sys())
	if err != nil {
		return fmt.Errorf("sleep: %w", err)
	}
	alarm := c.core.sys().clock.after(d, func() { over.put(struct{}{}) })
	defer c.core.sys().clock.cancel(alarm)
	if _, ok := over.take(ctx.moment()); !ok {
		return context.Cause(ctx)
	}
	return nil
}

// Forward passes the message that is being handled to another actor, with its header. That actor
// sees the original sender, and if the message is a request, it has to answer the original asker,
// within the time that the asker has left; what the forwarding handler returns afterwards is not the
// answer. The handler must not answer the request itself any more, by [Reply], [ReplyFor], [Refuse] or
// a [Promise]: the asker gets whichever answer comes first.
//
// Forward does not wait for room: a message that the other actor's mailbox refuses, or whose
// receiver has ended, becomes a dead letter, and its ask ends with the error. So does an ask that is
// forwarded to an actor which waits for the asker, with [ErrDeadlock]. Forward itself fails with
// [ErrNotAccepted] if the other actor does not accept messages of this type, and the message is then
// still the handler's; with [ErrStopped] if the forwarding actor was killed; and where no message is
// being handled. For use in the handler of that message.
func Forward[N, M any](ctx *Context[M], to Ref[N]) error {
	c, dst := ctx.cell(), to.recipient()
	if !c.core.enterRuntime() {
		return fmt.Errorf("forward: the actor was killed: %w", ErrStopped)
	}
	if !c.handling() {
		c.core.exitRuntime()
		return fmt.Errorf("forward to %s: no message is being handled", dst.base().fullPath())
	}
	cur := *c.message()
	msg, ok := any(cur.msg).(N)
	ask, asked := cur.with.(pendingAsk)
	again := c.core.taken // then another one may answer as well
	c.core.taken = again || asked && ok
	c.core.exitRuntime()
	if !ok {
		return fmt.Errorf("forward %T to %s: %w: it accepts %s", cur.msg, dst.base().fullPath(), ErrNotAccepted, nameOf[N]())
	}
	e := envelope[N]{msg: msg, with: withHeader(ctx.currentHeader(), passedOn(cur.with))}
	switch {
	case asked && again:
		ask.passTo(nil)
	case asked:
		ask.passTo(dst.waitedOn())
	}
	if c.core.isGated() {
		passOnHeld(&c.core, dst, e, ask)
		return nil
	}
	w := ctx.core.worker.Load()
	if w == nil {
		e.with = markFar(e.with) // its sender is another, by whom one cannot tell on whose stack that would be
	}
	passOn(c.core.sys(), dst, e, ask, w)
	return nil
}

// passOn sends what was forwarded. ask is nil for what was told.
func passOn[N any](sys *System, dst target[N], e envelope[N], ask pendingAsk, w *worker) {
	defer rejectPanic(ask)
	if v := dst.tell(e, w); v != verdictTaken {
		sys.deadLetter(dst.base(), e.from(), e.msg, v.reason())
		if ask != nil {
			ask.reject(v.err(), nil)
		}
		return
	}
	if ask != nil {
		rejectCycle(e.from(), ask)
	}
}

// rejectCycle ends an ask that was passed on to an actor which waits for the asker, or for the ask's future. As with
// asks that cross each other, who has to answer is known before one looks; if it is shared, that is nobody. asker is
// nil for nobody in the system.
func rejectCycle(asker *core, ask pendingAsk) {
	if err := asker.deadlock(targetOf(ask, nil), ask); err != nil {
		ask.reject(err, nil)
	}
}
