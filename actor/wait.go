package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Wait returns when the actor with that address has ended, and why; at once, with the reason
// [NoActor], if there is no such actor. A restart is not an end. The actor's name is free then. A
// message that it has sent before may still wait in its receiver's mailbox: where the order
// matters, use [Context.Watch].
//
// Wait lasts until ctx ends, whose cause it then returns, and no longer than [Within] says. In a
// handler it waits as [Ask] does, and fails as Ask does with [ErrTooManyWaiting], and with
// [ErrDeadlock] if the handler would wait for its own end, for that of a parent, or for an actor
// that waits for it.
//
// A handler that waits for the end of its own child fails with ErrDeadlock when the child fails: the
// failure is decided only after the handler has returned. A shutdown lets handlers finish: one that
// waits for an actor which is to stop after its own keeps it from ending in time, which is not found
// as a deadlock. Nor is it found where the actor itself waits for nobody, but cannot end or restart before a child
// whose handler, Init or Terminate waits for the one that called Wait. Limit such waits by Within, or use
// Context.Watch.
func (s *System) Wait(ctx context.Context, pid PID, opts ...WaitOption) (Down, error) {
	target, none := s.watchable(pid)
	return s.waitEnd(ctx, target, none, limitOf(opts))
}

// Wait is [System.Wait] for the actor that the reference is to. For a virtual actor that is not active
// it returns at once, with the reason [Passivated].
func (r Ref[M]) Wait(ctx context.Context, opts ...WaitOption) (Down, error) {
	switch to := r.recipient().(type) {
	case placed[M]: // which need not be active
		return to.sys().Wait(ctx, r.PID(), opts...)
	case proxied[M]:
		if _, gone := to.proxy.way.(goneWay); gone { // it stands for an address: also that of an actor here
			return to.sys().Wait(ctx, r.PID(), opts...)
		}
	}
	c := r.recipient().base()
	return c.sys().waitEnd(ctx, c, Down{PID: c.pid(), Reason: NoActor}, limitOf(opts))
}

// AfterEnd runs f on a goroutine of its own when the actor with that address has ended; at once,
// with the reason [NoActor], if there is no such actor. stop cancels that, and reports whether it
// has kept f from running. Shutdown waits until f returns. A panic in f is logged, with its stack,
// and ends nothing else. Use it to get a channel for a select statement:
//
//	ended := make(chan actor.Down, 1)
//	stop := sys.AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
//	defer stop()
func (s *System) AfterEnd(pid PID, f func(Down)) (stop func() bool) {
	required(f != nil, "AfterEnd: the function is nil")
	target, none := s.watchable(pid)
	var over atomic.Bool // f runs, or never will
	w := &watcher{down: func(d Down) {
		if !over.Swap(true) {
			s.sched.background(s.root, func() { s.afterEnd(d, f) })
		}
	}}
	if target == nil || !target.watchedBy(w) {
		w.down(none)
	}
	return func() bool {
		stopped := !over.Swap(true)
		if stopped {
			target.forget(w)
		}
		return stopped
	}
}

// afterEnd calls f. Nobody above it would recover.
func (s *System) afterEnd(d Down, f func(Down)) {
	defer func() {
		if v := recover(); v != nil {
			s.say(slog.LevelError, "function of AfterEnd panicked",
				slog.String("actor", d.PID.String()), slog.String("error", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
		}
	}()
	f(d)
}

// local returns the living actor with that address, nil if there is none in this system. Its number
// says which one that is; the path is looked at as well, since an address may come as text from
// anywhere.
func (s *System) local(pid PID) *core {
	if pid.node == virtualNode {
		return s.standing(pid)
	}
	if pid.node != s.name || pid.inc != s.inc {
		return nil
	}
	if c := s.actors.find(pid.id); c != nil && c.fullPath() == pid.path {
		return c
	}
	return nil
}

// waitEnd waits for the end of target, nil if there is nobody. none is what to say then.
func (s *System) waitEnd(ctx context.Context, target *core, none Down, limit time.Duration) (Down, error) {
	if target == nil {
		return none, nil
	}
	a := newCall[Down](ctx, s)
	w := &watcher{down: func(d Down) { a.resolve(d, nil, nil) }}
	err := a.wait(ctx, endWait{a}, target, limit, func() {
		if !target.watchedBy(w) {
			a.resolve(none, nil, nil)
		}
	})
	if err == nil {
		return a.answer, nil
	}
	target.forget(w)
	if errors.Is(err, errTimeUp) {
		err = fmt.Errorf("it has not ended within %v: %w", max(limit, 0), context.DeadlineExceeded)
	}
	return Down{}, fmt.Errorf("wait for the end of %s: %w", none.PID.Path(), err)
}

// endWait is the wait for the end of an actor.
type endWait struct{ *call[Down] }

// request implements interrupter.
func (endWait) request() interrupter { return nil }

// wait is for what is not the answer to an ask of the caller's own: it waits until a is settled,
// which begin has to bring about, until the context with which a was made ends, or the limit has
// passed.
func (a *call[R]) wait(ctx context.Context, call interrupter, first *core, limit time.Duration, begin func()) error {
	if a.ctx.Err() != nil {
		return causeOf(a.ctx)
	}
	if limit < 0 {
		return errTimeUp
	}
	if from, _ := caller(ctx); from.isGated() { // what it waits for may be held
		if err := from.settleGate(ctx); err != nil {
			return err
		}
	}
	o := originOf(ctx).located()
	own, before, asked, err := a.begin(o, call, first)
	if err != nil {
		return err
	}
	if own != nil {
		defer own.inquired(before)
		if call.request() == nil && first.isAbove(own) {
			a.forget()
			return fmt.Errorf("%w: %s would wait for its own end", ErrDeadlock, own.fullPath())
		}
	}
	if own == nil {
		a.pause.from = nil // it may last for ever, long after the handler has returned: no worker is replaced for it
	}
	begin()
	a.alarm.when = a.sys.clock.in(limit)
	return a.await(asked != nil || !o.own, limit > 0)
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
