package actor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A recording that ends while a handler of a reentrant actor waits must not leave the actor on the
// longer path that it needs.
func TestARecordingThatEndsWhileAHandlerWaitsLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("test")
		ref := SpawnFunc(sys, "a", func(ctx *Context[int], n int) error {
			if n == 1 {
				return ctx.Sleep(time.Hour)
			}
			return nil
		}, Reentrant())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(time.Second, func() { ref.Tell(ctx, 1) })
		if list, err := sys.Record(ctx, ref.PID(), 10); err != nil || len(list) != 0 {
			t.Errorf("recorded %v, %v", list, err)
		}
		time.Sleep(2 * time.Hour)
		ref.Tell(t.Context(), 2)
		synctest.Wait()
		c := ref.to.(*cell[int])
		if m := c.peekIncarnation(); m != nil {
			t.Errorf("the actor still has %+v", m)
		}
		if _, err := sys.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
