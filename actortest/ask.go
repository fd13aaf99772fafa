package actortest

import (
	"context"

	"github.com/greenroom-go/greenroom/actor"
)

// Call is an ask in progress, made by [Ask].
type Call[R any] struct {
	k      *Kit
	req    any
	to     actor.PID
	done   chan struct{}
	answer R
	err    error
}

// Ask asks on a goroutine of its own, so that the test can continue: answer what the
// asked actor asks a probe, or let time pass. The ask ends as [actor.Ask] does, or at the
// end of the test.
func Ask[R, M any](k *Kit, to actor.Ref[M], req actor.Request[R]) *Call[R] {
	return AskContext(k.ctx, k, to, req)
}

// AskContext is [Ask] with a context of the test's own, for example one with a deadline
// or one to cancel.
func AskContext[R, M any](ctx context.Context, k *Kit, to actor.Ref[M], req actor.Request[R]) *Call[R] {
	c := &Call[R]{k: k, req: req, to: to.PID(), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(k.ctx, func() { cancel(context.Cause(k.ctx)) })()
		c.answer, c.err = actor.Ask(ctx, to, req)
	}()
	return c
}

// Pending settles and reports whether the ask has not ended yet.
func (c *Call[R]) Pending() bool {
	c.k.Settle()
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// Await lets virtual time pass until the ask has ended, by its timeout if need be, and
// returns the call.
func (c *Call[R]) Await() *Call[R] {
	<-c.done
	return c
}

// Answer settles and returns the answer. The test fails if there is none.
func (c *Call[R]) Answer() R {
	c.k.t.Helper()
	if err := c.Err(); err != nil {
		c.k.t.Fatalf("Answer: the ask %s of %s failed: %v%s", show(c.req), c.to, err, c.k.circumstances(c.to))
	}
	return c.answer
}

// Err settles and returns the error with which the ask ended, or nil for an answer. The
// test fails if the ask has not ended.
func (c *Call[R]) Err() error {
	c.k.t.Helper()
	if c.Pending() {
		c.k.t.Fatalf("the ask %s of %s has not ended%s%s", show(c.req), c.to, c.k.life(c.to), c.k.circumstances(c.to))
	}
	return c.err
}
