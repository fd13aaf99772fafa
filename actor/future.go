package actor

import (
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// Future is an answer to come: of an ask that is under way, and for which any number of
// goroutines and handlers may wait. [AskFuture] makes one. It is safe for concurrent use.
type Future[R any] struct {
	sys  *System
	to   *core    // who was asked, nil when that is not known
	call *call[R] // its answer and err are the outcome once done is closed
	done chan struct{}

	mu      sync.Mutex
	settled bool        // guarded by mu
	stop    func() bool // lets go of the ask's context; guarded by mu
	waiting list.List   // of *waiting; guarded by mu
	pipes   []func()    // guarded by mu
}

// AskFuture is [Ask] without waiting: it sends req and returns what will be the answer. The ask
// ends when ctx does, with the limit that [Within] sets, or with the system's ask timeout. With a
// handler's own ctx it ends when the actor is told to stop and when its incarnation ends, and goes
// on when the handler returns.
func AskFuture[R, M any](ctx context.Context, to Ref[M], req Request[R], opts ...AskOption) *Future[R] {
	dst := to.recipient()
	sys, limit := dst.base().sys(), limitOf(opts)
	of := ctx
	if t, own := ctx.(turn); own {
		c, _ := t.running()
		of = c.life()
	}
	deadline, timed := sys.askDeadline(of, limit)
	f := &Future[R]{sys: sys, to: dst.waitedOn(), call: newCall[R](of, sys, deadline), done: make(chan struct{})}
	a := f.call
	a.notify = func() {
		a.err = describe(sys.timeUp(a.err, limit), to, req)
		f.settle()
	}
	f.mu.Lock()
	f.stop = context.AfterFunc(of, func() { a.expire(context.Cause(of), nil) })
	f.mu.Unlock()
	if timed {
		sys.clock.at(&a.alarm, deadline, a)
	}
	from, w := caller(ctx)
	if limit < 0 {
		a.ring()
	} else if of.Err() != nil {
		a.expire(context.Cause(of), nil)
	} else if err := sendAsk(ctx, from, w, to, req, a, false); err != nil {
		a.expire(err, nil)
	}
	return f
}

// settle tells all who wait. The outcome is known.
func (f *Future[R]) settle() {
	f.sys.clock.cancel(&f.call.alarm)
	f.mu.Lock()
	f.settled = true
	f.stop()
	var all []*waiting
	for e := f.waiting.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*waiting))
	}
	f.waiting.Init()
	pipes := f.pipes
	f.pipes = nil
	f.mu.Unlock()
	close(f.done)
	for _, w := range all {
		w.comes()
	}
	for _, pipe := range pipes {
		f.sys.sched.background(&f.sys.root.core, pipe)
	}
}

// Done is closed when the answer has come, or the error. Then Wait does not block.
func (f *Future[R]) Done() <-chan struct{} { return f.done }

// Wait returns the answer, or the error with which [Ask] would have ended, and waits for it until
// ctx ends, whose cause it then returns. That ends this wait only, not the ask. In a handler it
// waits as Ask does, and fails as Ask does with [ErrDeadlock] and [ErrTooManyWaiting].
func (f *Future[R]) Wait(ctx context.Context) (R, error) {
	if isClosed(f.done) {
		return f.call.answer, f.call.err
	}
	w := &waiting{ask: f.call}
	var at *list.Element
	err := w.until(ctx, f.sys, f.to, func() { at = f.add(w) })
	if err != nil {
		f.drop(at)
		var none R
		return none, fmt.Errorf("wait for an answer: %w", err)
	}
	return f.call.answer, f.call.err
}

// add lets w know of the outcome. It returns nil if that is known already.
func (f *Future[R]) add(w *waiting) *list.Element {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.settled {
		w.comes()
		return nil
	}
	return f.waiting.PushBack(w)
}

// drop takes back what add has added.
func (f *Future[R]) drop(at *list.Element) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at != nil && !f.settled {
		f.waiting.Remove(at)
	}
}

// PipeTo tells an actor the outcome of the future when it is there, as a message that wrap makes of
// it, on a goroutine of its own. The message has no sender; if the actor is gone it becomes a dead
// letter. A panic in wrap is logged, and nothing is sent. To have the outcome of an ask of one's
// own as a message, use [AskThen].
func PipeTo[R, M any](f *Future[R], to Ref[M], wrap func(R, error) M) {
	required(wrap != nil, "PipeTo: the function that wraps the outcome is nil")
	to.recipient()
	pipe := func() {
		defer func() {
			if r := recover(); r != nil {
				f.sys.say(slog.LevelError, "the function of a PipeTo has panicked: nothing is sent",
					slog.String("to", to.String()), slog.String("error", fmt.Sprint(recovered(r))))
			}
		}()
		to.Tell(context.Background(), wrap(f.call.answer, f.call.err))
	}
	f.mu.Lock()
	settled := f.settled
	if !settled {
		f.pipes = append(f.pipes, pipe)
	}
	f.mu.Unlock()
	if settled {
		f.sys.sched.background(&f.sys.root.core, pipe)
	}
}
