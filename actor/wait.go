package actor

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
)

// Wait returns when the actor with that address has ended, and why; at once, with the reason
// [NoActor], if there is no such actor. A restart is not an end. The actor's name is free then. A
// message that it has sent before may still wait in its receiver's mailbox: where the order
// matters, use [Context.Watch].
//
// Wait may be called by any goroutine, and in a handler: with the handler's ctx, or one derived
// from it, the handler waits as in [Ask]. It fails with the cause of ctx; in a handler also with
// [ErrTooManyWaiting], and at once with [ErrDeadlock] if the handler would wait for its own end,
// for that of a parent, or for an actor that waits for it.
func (s *System) Wait(ctx context.Context, pid PID) (Down, error) {
	return s.waitEnd(ctx, s.local(pid), pid)
}

// Wait is [System.Wait] for the actor that the reference is of.
func (r Ref[M]) Wait(ctx context.Context) (Down, error) {
	c := r.recipient().base()
	return c.sys().waitEnd(ctx, c, c.pid())
}

// AfterEnd runs f on a goroutine of its own when the actor with that address has ended; at once,
// with the reason [NoActor], if there is no such actor. stop takes that back; it reports whether f
// will not run for this reason. Shutdown waits until f returns. Use it to have a channel to select
// from:
//
//	ended := make(chan actor.Down, 1)
//	stop := sys.AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
//	defer stop()
func (s *System) AfterEnd(pid PID, f func(Down)) (stop func() bool) {
	required(f != nil, "AfterEnd: the function is nil")
	target := s.local(pid)
	var over atomic.Bool // f runs, or never will
	w := &watcher{down: func(d Down) {
		if !over.Swap(true) {
			s.sched.background(&s.root.core, func() { f(d) })
		}
	}}
	if target == nil || !target.watchedBy(w) {
		w.down(Down{PID: pid, Reason: NoActor})
	}
	return func() bool {
		stopped := !over.Swap(true)
		if stopped {
			target.forget(w)
		}
		return stopped
	}
}

// local returns the living actor with that address, nil if there is none in this system.
func (s *System) local(pid PID) *core {
	if pid.node != s.name {
		return nil
	}
	return s.at(pid)
}

// waitEnd waits for the end of target, nil if there is nobody.
func (s *System) waitEnd(ctx context.Context, target *core, pid PID) (Down, error) {
	d := Down{PID: pid, Reason: NoActor}
	if target == nil {
		return d, nil
	}
	wait := new(waiting)
	w := &watcher{down: func(down Down) {
		d = down
		wait.comes()
	}}
	err := wait.until(ctx, s, target, func() {
		if !target.watchedBy(w) {
			wait.comes()
		}
	})
	if err != nil {
		target.forget(w)
		return Down{}, fmt.Errorf("wait for the end of %s: %w", pid.Path(), err)
	}
	return d, nil
}

// waiting is somebody who waits for something that comes once and is not the answer to an ask of
// its own: the end of an actor, the outcome of a [Future].
type waiting struct {
	come *inbox[struct{}]
	came atomic.Bool
	ask  interrupter // the ask of a Future, otherwise nil
}

// comes ends the wait. It is called once at most, and not before the wait has begun.
func (w *waiting) comes() {
	w.came.Store(true)
	w.come.put(struct{}{})
}

// interrupt implements interrupter. The incarnation's context, which has ended, ends the wait.
func (w *waiting) interrupt() {}

func (w *waiting) over() bool { return w.came.Load() }

func (w *waiting) passedTo() *heir {
	if w.ask == nil {
		return nil
	}
	return w.ask.passedTo()
}

// until waits until comes is called, which begin has to bring about, or until ctx ends. target is
// who will bring it about, nil when that is not known.
func (w *waiting) until(ctx context.Context, s *System, target *core, begin func()) (err error) {
	from, worker, t, own := handlerOf(ctx)
	if w.come, err = inboxOf[struct{}](from, worker, s); err != nil {
		return err
	}
	if own {
		moment := t.moment() // now: an order to stop that comes after inquire ends this one
		if isTurn(ctx) {
			ctx = moment
		}
		i := inquiry{call: w, first: target, aside: w.come.pause.parked() && from.setsAside()}
		if !from.taken {
			i.asked = t.request()
		}
		if !from.inquire(i) {
			return cmp.Or(context.Cause(ctx), context.Canceled)
		}
		defer from.inquired()
		if err := from.deadlock(target, w); err != nil {
			return err
		}
		if w.ask == nil && target.isAbove(from) {
			return fmt.Errorf("%w: %s would wait for its own end", ErrDeadlock, from.fullPath())
		}
	}
	begin()
	if _, ok := w.come.take(ctx); !ok {
		return cmp.Or(context.Cause(ctx), context.Canceled)
	}
	return nil
}

// isAbove reports whether c ends only after the other has: it is the same actor or a parent.
func (c *core) isAbove(other *core) bool {
	for ; other != nil; other = other.parent {
		if other == c {
			return true
		}
	}
	return false
}
