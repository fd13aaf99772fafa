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

// A worker that is fenced leaves those that are active once, whatever waits are covered or about to be.
func TestAFencedWorkerIsDiscountedOnce(t *testing.T) {
	for name, before := range map[string]int{"no wait": 0, "a wait": 1, "two waits": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := NewSystem("x", WithLogger(slog.New(slog.DiscardHandler)))
				in, release := make(chan *worker), make(chan struct{})
				a := SpawnFunc(sys, "a", func(ctx *Context[int], _ int) error {
					in <- ctx.core.worker.Load()
					<-release
					return nil
				})
				a.Tell(context.Background(), 1)
				w, c := <-in, a.to.base()
				synctest.Wait() // until the others sleep
				at := sys.sched.active.Load()
				var covers []*worker
				for range before {
					covers = append(covers, c.cover(true))
				}
				w.fenced.Store(true)
				w.discount()
				covers = append(covers, c.cover(true)) // it has looked before
				for _, w := range covers {
					w.uncover()
				}
				if n := sys.sched.active.Load() - at; n != -1 {
					t.Errorf("the active workers are %d more", n)
				}
				w.fenced.Store(false)
				w.covered.Store(0)
				sys.sched.active.Add(1)
				close(release)
				if _, err := sys.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
