package actor

import (
	"errors"
	"fmt"
)

// ErrStashFull says that an actor has stashed as many messages as it may. The message is not
// stashed; if the handler returns the error, that is a failure.
var ErrStashFull = errors.New("stash full")

// stashMax bounds what an actor can set aside.
const stashMax = 100_000

// Become makes receive handle messages from the next one on. It takes the place of the function of
// the last Become or BecomeStacked; only Receive stays below it. A restart goes back to Receive. For
// use in the actor's own callbacks.
func (ctx *Context[M]) Become(receive func(*Context[M], M) error) {
	ctx.become(receive, true)
}

// BecomeStacked is Become, but keeps what handled messages before for [Context.Unbecome].
func (ctx *Context[M]) BecomeStacked(receive func(*Context[M], M) error) {
	ctx.become(receive, false)
}

func (ctx *Context[M]) become(receive func(*Context[M], M) error, replace bool) {
	required(receive != nil, "Become: the function that handles the messages is nil")
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	m := c.needIncarnation()
	if n := len(m.behaviors); n > 0 && replace {
		m.behaviors[n-1] = receive
		return
	}
	m.behaviors = append(m.behaviors, receive)
}

// Unbecome goes back to what handled messages before the last BecomeStacked that is not taken back,
// or to Receive if there is none: what a Become has replaced is gone. When Receive handles messages
// already, it does nothing. For use in the actor's own callbacks.
func (ctx *Context[M]) Unbecome() {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	if m := c.peekIncarnation(); m != nil && len(m.behaviors) > 0 {
		m.behaviors = m.behaviors[:len(m.behaviors)-1]
	}
}

// Stash sets the current message aside, with its sender and its asker, who keeps waiting. It fails
// with [ErrStashFull], so that a handler can
//
//	return ctx.Stash()
//
// Stashed messages survive a restart, at the head of the mailbox; those of an actor that stops
// become dead letters. Stashing the same message again changes nothing. For use in the handler of
// that message.
func (ctx *Context[M]) Stash() error {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return fmt.Errorf("stash of %s: the actor was killed: %w", c.core.fullPath(), ErrStopped)
	}
	defer c.core.exitRuntime()
	s := c.mailbox()
	if s == nil || s.cur == nil {
		return fmt.Errorf("stash of %s: no message is being handled", c.core.fullPath())
	}
	m := c.needIncarnation()
	if m.stashed {
		return nil
	}
	if len(m.stash) >= stashMax {
		return fmt.Errorf("stash of %s: %w: %d messages; unstash or refuse some", c.core.fullPath(), ErrStashFull, stashMax)
	}
	e := *s.cur
	if _, ok := e.with.(pendingAsk); ok {
		ctx.core.taken = true
	}
	if _, ok := e.with.(note[M]); ok {
		e.with = nil // it has become a plain message
	}
	e.with = withHeader(s.header, e.with)
	m.stash, m.stashed = append(m.stash, e), true
	c.core.mu.Lock()
	s.handled-- // it will be counted when it comes again
	c.core.mu.Unlock()
	return nil
}

// stashSize returns how many messages are set aside. REQUIRES: the turn owns c.
func (c *cell[M]) stashSize() int {
	if m := c.peekIncarnation(); m != nil {
		return len(m.stash)
	}
	return 0
}

// Unstash puts all stashed messages back, before everything else that waits and in
// the order in which they came. For use in the actor's own callbacks.
func (ctx *Context[M]) Unstash() {
	c := ctx.cell()
	if !c.core.enterRuntime() {
		return
	}
	defer c.core.exitRuntime()
	m := c.peekIncarnation()
	if m == nil || len(m.stash) == 0 {
		return
	}
	c.core.mu.Lock()
	c.mailbox().putFirst(m.stash)
	c.core.mu.Unlock()
	m.stash = nil
}
