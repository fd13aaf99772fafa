package actor

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Returns makes a struct a request whose answer is an R: embed it, first.
//
//	type Get struct{ actor.Returns[int] }
//
// It has no size.
type Returns[R any] struct{}

func (Returns[R]) returns(R) {}

// Request is a message that is answered with an R. Structs become one by embedding
// [Returns].
type Request[R any] interface{ returns(R) }

// defaultAskTimeout ends an ask whose context has no deadline.
const defaultAskTimeout = 5 * time.Second

// Ask sends req and waits for the answer. It always ends: with the answer, the
// error that the handler returned, [ErrUnhandled], [ErrStopped] when the target has
// stopped or stops before it answers, [ErrNotAccepted] when its message type does not
// include req, [ErrDeadlock] when the target waits for the asker, or the cause of
// ctx. Without a deadline on ctx the system's ask timeout applies, 5 seconds unless
// set otherwise. After an ask that timed out it is unknown whether req was handled.
//
// In a handler pass the handler's ctx or one made of it. While the handler waits its
// actor handles nothing else, and the worker's place is taken by another.
func Ask[R, M any](ctx context.Context, to Ref[M], req Request[R]) (R, error) {
	var none R
	dst := to.recipient()
	c := dst.base()
	msg, ok := any(req).(M)
	if !ok {
		return none, fmt.Errorf("ask %s with %T: %w: it accepts %s", c.fullPath(), req, ErrNotAccepted, nameOf[M]())
	}
	from, w := stage(ctx)
	if from.waitedForBy(c) {
		return none, fmt.Errorf("ask %s with %T from %s: %w", c.fullPath(), req, from.fullPath(), ErrDeadlock)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(c.sys.askTimeout)
	}
	ask := &call[R]{done: make(chan struct{}), ctx: ctx, deadline: deadline}
	if from != nil {
		from.waitsFor.Store(c)
		defer from.waitsFor.Store(nil)
		if from.waitedForBy(c) { // two asks crossed: at least one of them sees the other
			return none, fmt.Errorf("ask %s with %T from %s: %w", c.fullPath(), req, from.fullPath(), ErrDeadlock)
		}
	}
	if !dst.tell(envelope[M]{msg: msg, from: from, extra: ask}, w) {
		c.sys.deadLetter(c, from, msg, NoActor)
		return none, fmt.Errorf("ask %s with %T: %w", c.fullPath(), req, ErrStopped)
	}
	if w != nil {
		w.stepOut()
		defer w.stepIn()
	}
	if err := ask.wait(c.sys.askTimeout); err != nil {
		return none, fmt.Errorf("ask %s with %T: %w", c.fullPath(), req, err)
	}
	return ask.answer, ask.err
}

// waitedForBy reports whether target waits, directly or through others, for c.
// c may be nil.
func (c *core) waitedForBy(target *core) bool {
	if c == nil {
		return false
	}
	for ; target != nil; target = target.waitsFor.Load() {
		if target == c {
			return true
		}
	}
	return false
}

// Reply answers the request that is being handled; the compiler checks the answer's
// type. For the second answer to a request, and for one that was told and not asked,
// nobody waits: it is dropped. For use in the handler that was given ctx.
func Reply[R, M any](ctx *Context[M], req Request[R], answer R) {
	_ = req // fixes R
	if ask, ok := ctx.c.cur.extra.(*call[R]); ok {
		ask.resolve(answer, nil)
	}
}

// Promise takes the obligation to answer the request that is being handled out of
// the handler: the handler may return, the asker goes on waiting until the promise is
// kept or its time is up.
func Promise[R, M any](ctx *Context[M], req Request[R]) *Promised[R] {
	_ = req // fixes R
	ask, ok := ctx.c.cur.extra.(*call[R])
	ctx.promised = ok
	return &Promised[R]{ask}
}

// Promised is an answer to come. Its methods are safe for concurrent use; the first
// call counts.
type Promised[R any] struct{ ask *call[R] }

// Resolve answers. It reports false when nobody waits any more.
func (p *Promised[R]) Resolve(answer R) bool { return p.ask != nil && p.ask.resolve(answer, nil) }

// Reject ends the ask with an error. It reports false when nobody waits any more.
func (p *Promised[R]) Reject(err error) bool { return p.ask != nil && p.ask.reject(err) }

// pendingAsk is an ask as the target's cell sees it.
type pendingAsk interface {
	reject(err error) bool
	asker() (ctx context.Context, deadline time.Time)
}

// call is an ask under way. It is settled once; who settles it owns answer and err
// until done is closed.
type call[R any] struct {
	settled  atomic.Bool
	done     chan struct{}
	answer   R
	err      error
	ctx      context.Context
	deadline time.Time
}

func (a *call[R]) asker() (ctx context.Context, deadline time.Time) { return a.ctx, a.deadline }

func (a *call[R]) reject(err error) bool {
	var none R
	return a.resolve(none, err)
}

func (a *call[R]) resolve(answer R, err error) bool {
	if a.settled.Swap(true) {
		return false
	}
	a.answer, a.err = answer, err
	close(a.done)
	return true
}

// wait returns when the call is settled, or an error when nobody waits any more; a
// later answer is then dropped.
func (a *call[R]) wait(timeout time.Duration) error {
	var alarm <-chan time.Time
	if _, ok := a.ctx.Deadline(); !ok {
		t := time.NewTimer(timeout)
		defer t.Stop()
		alarm = t.C
	}
	var err error
	select {
	case <-a.done:
		return nil
	case <-a.ctx.Done():
		err = context.Cause(a.ctx)
	case <-alarm:
		err = fmt.Errorf("no answer within the system's ask timeout of %v: %w", timeout, context.DeadlineExceeded)
	}
	if a.settled.Swap(true) { // it was answered at the last moment
		<-a.done
		return nil
	}
	return err
}
