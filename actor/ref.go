package actor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Ref is a reference to an actor that accepts messages of type M. It is a small comparable value,
// safe to copy, to send and to use from any goroutine, and it stays valid across restarts. The zero
// Ref refers to nobody; sending to it panics.
type Ref[M any] struct{ to target[M] }

// target is what can stand behind a reference.
type target[M any] interface {
	tell(e envelope[M], w *worker) verdict
	// tellOrWait is tell for a sender that may wait for room. If it has to, the verdict is
	// verdictWait, and the message is in the wait, which the caller must call; a nil wait
	// says that there is no point in waiting.
	tellOrWait(e envelope[M], w *worker) (verdict, roomWaiter)
	base() *core
	waitedOn() *core // whom an ask waits for; nil when that is not known
	sys() *System
}

func (c *cell[M]) base() *core { return &c.core }

func (c *cell[M]) waitedOn() *core { return &c.core }

func (c *cell[M]) sys() *System { return c.core.sys() }

// Tell sends msg. It never blocks: a canceled ctx does not stop it, and there is no answer. If the
// actor is gone, or its bounded mailbox has no room, msg becomes a dead letter. In a handler pass
// the handler's own ctx, which tells the receiver who sent the message and keeps it on the sender's
// worker; outside of handlers any context will do.
//
// msg is not copied: from now on, what it points to belongs to the receiver.
func (r Ref[M]) Tell(ctx context.Context, msg M) {
	var from *core
	var w *worker
	if own, ok := ctx.(*Context[M]); ok { // a sender of the receiver's kind, without a call
		from, w = &own.core, own.core.worker.Load()
	} else {
		from, w = caller(ctx)
	}
	if from.isMarked() && r.keep(ctx, from, msg) {
		return
	}
	e := envelope[M]{msg: msg, with: from}
	c, plain := r.to.(*cell[M])
	if plain && len(c.core.sys().beforeSend) == 0 { // the short way, without calls through interfaces
		if v := c.post(&e, w); v != verdictTaken {
			c.core.sys().deadLetter(&c.core, from, msg, v.reason())
		}
		return
	}
	to, err := intercept(ctx, r.recipient(), &e)
	if err != nil {
		to.sys().deadLetter(to.base(), from, msg, Refused)
	} else if v := to.tell(e, w); v != verdictTaken {
		to.sys().deadLetter(to.base(), from, e.msg, v.reason())
	}
}

// TryTell is Tell with an error: [ErrStopped] if the actor is gone, [ErrMailboxFull] if its mailbox
// refuses the message, or the error of middleware, see [BeforeSend]. msg is then not a dead letter
// but still the caller's. If the mailbox has the policy [Block], TryTell waits for room as long as
// ctx allows; its error may then also be the cause of ctx.
func (r Ref[M]) TryTell(ctx context.Context, msg M) error {
	from, w := caller(ctx)
	e := envelope[M]{msg: msg, with: from}
	c := r.recipient().base()
	if from.isMarked() {
		if from.isFenced() {
			return fmt.Errorf("tell %s: the sender was killed: %w", c.fullPath(), ErrStopped)
		}
		if r.keep(ctx, from, msg) {
			return nil
		}
	}
	to, err := intercept(ctx, r.to, &e)
	if err != nil {
		return fmt.Errorf("tell %s: %w", c.fullPath(), err)
	}
	c = to.base()
	v, err := tellWaiting(ctx, to, e, w, from == c && originOf(ctx).located().here, nil)
	switch {
	case err == nil && v == verdictTaken:
		return nil
	case v == verdictDropped:
		c.sys().deadLetter(c, from, e.msg, Overflowed)
		return nil
	case err == nil:
		err = v.err()
	}
	return fmt.Errorf("tell %s: %w", c.fullPath(), err)
}

// tellWaiting is tell that waits for room where the mailbox says so, and no longer than
// the ask, if it is one, has time. own says that the actor sends itself something: then nobody
// else makes room.
func tellWaiting[M any](ctx context.Context, to target[M], e envelope[M], w *worker, own bool, ask pendingAsk) (verdict, error) {
	if own {
		return full(to.tell(e, w)), nil
	}
	v, wait := to.tellOrWait(e, w)
	if wait == nil {
		return full(v), nil
	}
	return waitWith(ctx, wait, to.waitedOn(), e.from(), ask)
}

// waitWith waits for room at the actor with that mailbox. It is no part of tellWaiting, whose messages
// most often need not wait: what it defers is not free.
func waitWith(ctx context.Context, wait roomWaiter, at, from *core, ask pendingAsk) (v verdict, err error) {
	o := originOf(ctx).located()
	if from != nil {
		defer from.cover(o.here).uncover()
	}
	if ask == nil {
		if o.here {
			before, ok := from.inquire(wait, at, false)
			if !ok {
				return gaveUp(wait, noRoom(ctx))
			}
			defer from.inquired(before)
			if err := from.deadlock(at, wait); err != nil {
				return gaveUp(wait, err)
			}
		}
		return waitForRoom(ctx, wait)
	}
	if o.here {
		both := &askForRoom{ask, wait}
		from.waitsWith(both)
		defer func() {
			if v == verdictTaken {
				from.waitsWith(ask)
			}
		}()
		if ask.over() { // an order to stop has come before that
			return gaveUp(wait, noRoom(ctx))
		}
		if err := from.deadlock(at, both); err != nil {
			return gaveUp(wait, err)
		}
	}
	parent, deadline := ask.asker()
	limited, cancel := context.WithDeadline(parent, deadline)
	defer cancel()
	return waitForRoom(limited, wait)
}

// full returns the verdict for whoever cannot wait.
func full(v verdict) verdict {
	if v == verdictWait {
		return verdictFull
	}
	return v
}

// gaveUp ends a wait that cannot go on, because of err.
func gaveUp(wait roomWaiter, err error) (verdict, error) {
	if v := wait.giveUp(); v != verdictWait {
		return v, nil
	}
	return verdictFull, err
}

// waitForRoom waits until the message is taken or refused, or ctx ends.
func waitForRoom(ctx context.Context, wait roomWaiter) (verdict, error) {
	v := wait.wait(ctx.Done())
	if v != verdictWait {
		return v, nil
	}
	if why := wait.interrupted(); errors.Is(why, ErrDeadlock) {
		return v, why
	}
	return v, noRoom(ctx)
}

// noRoom says that there was no room as long as ctx lasted.
func noRoom(ctx context.Context) error {
	return fmt.Errorf("%w: no room until the time was up: %w", ErrMailboxFull, cmp.Or(context.Cause(ctx), context.Canceled)) // the context of one told to stop may not know yet
}

// PID returns the untyped address, the zero PID for the zero Ref.
func (r Ref[M]) PID() PID {
	switch to := r.to.(type) {
	case nil:
		return PID{}
	case placed[M]:
		return to.of.PID(to.key)
	default:
		return to.base().pid()
	}
}

// IsZero reports whether r refers to nobody.
func (r Ref[M]) IsZero() bool { return r.to == nil }

// String returns the form of [PID.String].
func (r Ref[M]) String() string { return r.PID().String() }

// Stop stops the actor after its current message. What is left in the mailbox
// becomes dead letters. It does not wait.
func (r Ref[M]) Stop() { r.recipient().base().stop(stopNow) }

// Drain stops the actor after all messages that are in its mailbox now. From now on it takes no
// others: a message sent to it becomes a dead letter at once, and an ask fails with [ErrStopped].
// Drain does not wait.
func (r Ref[M]) Drain() { r.recipient().base().stop(stopDrain) }

// Kill stops the actor after its current message, without Terminate; its children are killed as
// well. A handler that has not returned after 100 ms is abandoned: the actor ends without it, what
// it does from then on has no effect, and its goroutine ends when it returns. Pinned and inline
// actors, and those in their first Init, end when the callback returns. Kill does not wait.
func (r Ref[M]) Kill() { r.recipient().base().stop(stopKill) }

func (r Ref[M]) recipient() target[M] {
	if r.to == nil {
		panic(fmt.Sprintf("actor: the zero Ref[%s] refers to nobody; use one that Spawn or Lookup returned", nameOf[M]()))
	}
	return r.to
}

// Lookup returns a reference to a living actor by its address. It fails with [ErrStopped] if there
// is none and with [ErrNotAccepted] if the actor's message type is not M. For an actor of another
// system it does not check that: a message that the actor does not accept becomes a dead letter
// there. Lookup fails with [ErrUnreachable] if its node is lost.
func Lookup[M any](sys *System, pid PID) (Ref[M], error) {
	if pid.node == virtualNode {
		return lookupVirtual[M](sys, pid)
	}
	c, err := sys.resolve(pid)
	if err != nil {
		return Ref[M]{}, err
	}
	return typed[M](c, pid.String())
}

// resolve finds an actor by its address: a living one of this system, or the proxy of one of another
// system.
func (s *System) resolve(pid PID) (*core, error) {
	if c := s.local(pid); c != nil {
		return c, nil
	}
	if pid.node != s.name && pid.node != virtualNode && !pid.IsZero() {
		return s.elsewhere(pid)
	}
	return nil, nobody(pid.String())
}

// nobody says that there is no such actor, or not any more.
func nobody(what string) error {
	return fmt.Errorf("look up %s: no actor lives there: %w", what, ErrStopped)
}

// LookupPath is [Lookup] by the path of a named actor, such as "/carts/user-42".
func LookupPath[M any](sys *System, path string) (Ref[M], error) {
	return typed[M](sys.names.find(path), path)
}

func typed[M any](c *core, what string) (Ref[M], error) {
	if c != nil && c.kind.far != nil {
		return Ref[M]{proxied[M]{proxyOf(c)}}, nil
	}
	if c == nil || c.parent == nil { // the root is nobody's to tell
		return Ref[M]{}, nobody(what)
	}
	t, ok := c.impl().(target[M])
	if !ok {
		return Ref[M]{}, fmt.Errorf("look up %s: %w: it is a %s and does not accept %s", what, ErrNotAccepted, c.impl().typeName(), nameOf[M]())
	}
	if a, ok := t.(*cell[M]); ok && a.core.isVirtual() {
		return a.activation().self, nil
	}
	return Ref[M]{t}, nil
}
