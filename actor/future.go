package actor

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Future is the future answer of an ask, for which any number of goroutines and handlers may wait.
// [AskFuture] makes one. It is safe for concurrent use.
type Future[R any] struct {
	sys  *System
	to   *core    // who was asked, nil when that is not known
	call *call[R] // its answer and err are the outcome once done is closed
	done chan struct{}
	ctx  context.Context //nolint:containedctx // with the values of the asker's, for what BeforeSend does to the messages of PipeTo

	mu      sync.Mutex
	settled bool        // guarded by mu
	stop    func() bool // lets go of the ask's context, nil if there is nothing to let go; guarded by mu
	waiting list.List   // of *call[struct{}]; guarded by mu
	pipes   []func()    // guarded by mu
}

// AskFuture is [Ask] without waiting: it sends req and returns the future answer. The ask ends when
// ctx does, with the limit of [Within], or with the system's ask timeout. With a handler's own ctx,
// or one with more values, it continues when the handler returns, and ends when the actor is told
// to stop or its incarnation ends.
func AskFuture[R, M any](ctx context.Context, to Ref[M], req Request[R], opts ...WaitOption) *Future[R] {
	dst := to.recipient()
	sys, limit, of := dst.base().sys(), limitOf(opts), incarnationOf(ctx)
	a := &call[R]{sys: sys, ctx: of}
	when, alarmed := sys.askDeadline(of, limit)
	a.alarm.when = when
	f := &Future[R]{sys: sys, to: dst.waitedOn(), call: a, done: make(chan struct{}), ctx: context.Background()}
	if len(sys.beforeSend) > 0 {
		f.ctx = cmp.Or(valuesOf(ctx), f.ctx)
	}
	a.notify = func() {
		a.err = describe(sys.timeUp(a.err, limit), to, req)
		f.settle()
	}
	switch {
	case of.Err() != nil:
		a.expire(causeOf(of), nil)
		return f
	case limit < 0:
		a.ring()
		return f
	case alarmed:
		sys.clock.at(&a.alarm, when, a)
	}
	stop := whenDone(of, func() { a.expire(causeOf(of), nil) })
	f.mu.Lock()
	if !f.settled {
		f.stop = stop
	} else {
		stop()
	}
	f.mu.Unlock()
	if from, _ := caller(ctx); from.isGated() && !hasLeft(ctx) {
		askHeld(ctx, from, to, req, a)
	} else if err := sendAsk(ctx, originOf(ctx), to, req, a, false); err != nil {
		a.expire(err, nil)
	}
	return f
}

// incarnationOf is lasting for what outlives the handler: a context that ends as the handler's own
// one does ends with the incarnation.
func incarnationOf(ctx context.Context) context.Context {
	t := turnOf(ctx)
	if t == nil {
		return ctx
	}
	c, _ := t.running()
	d, ok := lasting(ctx).(derived)
	switch {
	case !ok:
		return c.life()
	case d.Context == d.at:
		d.Context = c.life()
	}
	return d
}

// settle tells all who wait. The outcome is known.
func (f *Future[R]) settle() {
	f.sys.clock.cancel(&f.call.alarm)
	f.mu.Lock()
	f.settled = true
	if f.stop != nil {
		f.stop()
	}
	var all []*call[struct{}]
	for e := f.waiting.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*call[struct{}]))
	}
	f.waiting.Init()
	pipes := f.pipes
	f.pipes = nil
	close(f.done) // under mu: a Wait that finds settled returns at once, and then Done is closed
	f.mu.Unlock()
	for _, w := range all {
		w.resolve(struct{}{}, nil, nil)
	}
	for _, pipe := range pipes {
		f.sys.sched.background(f.sys.root, pipe)
	}
}

// Done is closed once the answer or the error is there. Then Wait does not block.
func (f *Future[R]) Done() <-chan struct{} { return f.done }

// Wait waits for the answer and returns it, or the error with which [Ask] would have ended. It
// waits until ctx ends, whose cause it then returns, and no longer than [Within] says. That ends
// only this wait, not the ask. In a handler it waits as Ask does, and fails as Ask does with
// [ErrDeadlock] and [ErrTooManyWaiting].
func (f *Future[R]) Wait(ctx context.Context, opts ...WaitOption) (R, error) {
	if isClosed(f.done) {
		return f.call.answer, f.call.err
	}
	limit := limitOf(opts)
	w := newCall[struct{}](ctx, f.sys)
	var at *list.Element
	err := w.wait(ctx, futureWait{w, f.call}, f.to, limit, func() { at = f.add(w) })
	if err == nil {
		return f.call.answer, f.call.err
	}
	f.drop(at)
	if errors.Is(err, errTimeUp) {
		err = limitError(limit)
	}
	var none R
	return none, fmt.Errorf("wait for an answer: %w", err)
}

// futureWait is the wait for the outcome of an ask.
type futureWait struct {
	*call[struct{}]
	ask interrupter
}

// over implements interrupter. Once the ask is over nobody waits for its target, also before the
// waiting handler has heard of it.
func (w futureWait) over() bool { return w.call.over() || w.ask.over() }

// request implements interrupter.
func (w futureWait) request() interrupter { return w.ask }

// passedTo implements interrupter.
func (w futureWait) passedTo() *answerer { return w.ask.passedTo() }

// add lets w know of the outcome. It returns nil if that is known already.
func (f *Future[R]) add(w *call[struct{}]) *list.Element {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.settled {
		return f.waiting.PushBack(w)
	}
	w.resolve(struct{}{}, nil, nil)
	return nil
}

// drop takes back what add has added.
func (f *Future[R]) drop(at *list.Element) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at != nil && !f.settled {
		f.waiting.Remove(at)
	}
}

// PipeTo sends an actor the outcome of the future when it arrives, as a message that wrap makes
// from it, on a goroutine of its own. The message has no sender, but [BeforeSend] gets a context with
// the values of the asker's, for example the trace. Of a handler that has returned these are the values that its
// message came with, and not what it has added to its context. If the actor is gone it becomes a dead letter. A
// panic in wrap is logged, and nothing is sent. To get the outcome of an actor's own ask as a
// message, use [AskThen].
func PipeTo[R, M any](f *Future[R], to Ref[M], wrap func(R, error) M) {
	required(wrap != nil, "PipeTo: the function that wraps the outcome is nil")
	to.recipient()
	pipe := func() {
		defer func() {
			if r := recover(); r != nil {
				f.sys.say(slog.LevelError, "the function of a PipeTo has panicked: nothing is sent",
					slog.String("to", to.String()), slog.String("error", recovered(r).Error()))
			}
		}()
		to.Tell(f.ctx, wrap(f.call.answer, f.call.err))
	}
	f.mu.Lock()
	settled := f.settled
	if !settled {
		f.pipes = append(f.pipes, pipe)
	}
	f.mu.Unlock()
	if settled {
		f.sys.sched.background(f.sys.root, pipe)
	}
}
