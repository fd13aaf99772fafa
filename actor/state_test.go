package actor

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestKillLeavesTheTurnToTheRuntimesOwnCode kills an actor whose turn is long in code of the
// runtime: nobody may take the actor away from that.
func TestKillLeavesTheTurnToTheRuntimesOwnCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
		ref := SpawnFunc(sys, "x", func(*Context[int], int) error { return nil })
		c := ref.to.base()
		begun, release := make(chan struct{}), make(chan struct{})
		c.signal(signal{kind: sigLook, look: func() { close(begun); <-release }})
		<-begun
		ref.Kill()
		time.Sleep(10 * fenceAfter)
		if c.isFenced() {
			t.Error("the actor was taken away from the runtime's own code")
		}
		if c.hasStopped() {
			t.Error("the actor has ended while its turn was under way")
		}
		close(release)
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// TestKillWaitsForAFunctionOfTheRuntimeThatTheHandlerHasCalled fences only when the handler is
// not in the middle of something that touches the actor.
func TestKillWaitsForAFunctionOfTheRuntimeThatTheHandlerHasCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("s", WithLogger(slog.New(slog.DiscardHandler)))
		entered, release := make(chan struct{}), make(chan struct{})
		inRuntime, leaveRuntime := make(chan struct{}), make(chan struct{})
		ref := SpawnFunc(sys, "x", func(ctx *Context[int], _ int) error {
			close(entered)
			<-inRuntime
			if !ctx.cell().core.enterRuntime() {
				t.Error("the actor was taken away before it was killed")
			}
			<-leaveRuntime
			ctx.cell().core.exitRuntime()
			<-release
			return nil
		})
		c := ref.to.base()
		ref.Tell(context.Background(), 1)
		<-entered
		close(inRuntime)
		synctest.Wait()
		ref.Kill()
		time.Sleep(10 * fenceAfter)
		if c.isFenced() {
			t.Error("the actor was taken away from a function of the runtime")
		}
		close(leaveRuntime)
		time.Sleep(10 * fenceAfter)
		if !c.isFenced() || !c.hasStopped() {
			t.Errorf("back in the handler: fenced %t, stopped %t", c.isFenced(), c.hasStopped())
		}
		close(release)
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
