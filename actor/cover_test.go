package actor

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
)

// A wait without an end, on a goroutine of the handler's, must not take a worker for good.
func TestAWaitOnAnotherGoroutineReplacesNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := NewSystem("x", WithLogger(slog.New(slog.DiscardHandler)))
		target := SpawnFunc(sys, "target", func(*Context[int], int) error { return nil })
		release := make(chan struct{})
		SpawnFunc(sys, "a", func(ctx *Context[int], _ int) error {
			derived, cancel := context.WithCancel(ctx)
			go func() {
				defer cancel()
				_, _ = target.Wait(derived)
			}()
			<-release
			return nil
		}).Tell(context.Background(), 1)
		synctest.Wait()
		for _, w := range *sys.sched.workers.Load() {
			if w.covered.Load() > 0 {
				t.Error("a worker is replaced while its handler runs")
			}
		}
		close(release)
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
}
