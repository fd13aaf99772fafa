package actor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

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

// recovered makes an error of what recover returned; nil means runtime.Goexit.
func recovered(v any) error {
	if v == nil {
		return errGoexit
	}
	return &PanicError{Value: v, Stack: debug.Stack()}
}
