package actor

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// fail suspends the actor and leaves the decision to its supervisor.
func (c *core) fail(err error) {
	if c.phase >= stopping {
		return
	}
	c.enterUser()
	err = vetted(err)
	c.leaveUser()
	c.countFailure(err)
	if c.phase == suspended && c.traits.reentrant() { // the supervisor has the failure of another handler already
		c.halting = false
		c.logFailure(err)
		return
	}
	asked := c.phase == running && c.halting && c.traits.lifetime() != Permanent
	c.needExt().failure = err
	c.halting = false
	c.setPhase(suspended)
	c.logFailure(err)
	if asked { // to stop: nobody need decide. It is carried out like a directive, when the message is put away
		c.putBackSignals([]signal{{kind: sigGiveUp, err: err}})
		return
	}
	c.parent.signal(signal{kind: sigFailed, child: c, err: err, bare: !c.impl().hasState()})
}

// vetted returns err, or, when its methods panic, an error that says so: whoever asks a failure
// what it is would otherwise fail, in the middle of the runtime. Most of these are nil pointers
// in an error that is not nil.
func vetted(err error) (safe error) {
	defer func() {
		if v := recover(); v != nil {
			safe = &PanicError{Value: fmt.Sprintf("the failure is a %T whose methods panic: %v", err, v), Stack: debug.Stack()}
		}
	}()
	_ = err.Error()
	errors.Is(err, errGoexit) // calls each Is and Unwrap
	errors.AsType[*PanicError](err)
	return err
}

// countFailure counts a failure, and keeps it for [System.Detail].
func (c *core) countFailure(err error) {
	c.sys().failures.Add(1)
	c.noteFailure(err, c.impl().messageType())
}

// logFailure writes the one line about a failure, and tells listeners.
func (c *core) logFailure(err error) {
	if c.sys().listeners.any() {
		c.sys().publish(ActorFailed{PID: c.pid(), Err: err, MessageType: c.impl().messageType()})
	}
	attrs := []slog.Attr{
		slog.String("actor", c.pid().String()),
		slog.String("error", fmt.Sprint(err)), // and not Error, which may panic all the same
		slog.String("message_type", c.impl().messageType()),
	}
	if p, ok := errors.AsType[*PanicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	c.sys().say(slog.LevelWarn, "actor failed", attrs...)
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
