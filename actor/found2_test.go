package actor_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// Whoever waits for the future of an outsider's request, and is forwarded that request, waits for itself.
func TestAForwardToWhoWaitsForTheFutureOfAnOutsiderFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		waits := actor.SpawnFunc(sys, "waits", func(ctx *actor.Context[any], m any) error {
			if f, ok := m.(*actor.Future[int]); ok {
				_, err := f.Wait(ctx)
				errs <- err
			}
			return nil
		})
		b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error {
			if err := ctx.Sleep(time.Second); err != nil { // until the other waits
				return err
			}
			return actor.Forward(ctx, waits)
		})
		waits.Tell(bg, actor.AskFuture(bg, b, get{}))
		time.Sleep(time.Second)
		failsAtOnce(t, errs)
	})
}

// The message of a PipeTo that comes when its receiver has been shut down is not handled because of the shutdown, which
// waits for it and leaves it out of its report.
func TestTheReportOfShutdownCountsWhatAPipeSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewSystem("test", quiet)
		h := newHeld()
		to := actor.SpawnFunc(sys, "to", func(*actor.Context[int], int) error { return nil })
		asked := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, 1)
			return nil
		})
		actor.PipeTo(actor.AskFuture(bg, asked, get{}), to, func(n int, _ error) int {
			close(h.entered)
			<-h.release
			return n
		})
		<-h.entered
		reports := make(chan actor.Report, 1)
		go func() {
			report, err := sys.Shutdown(bg)
			if err != nil {
				t.Error(err)
			}
			reports <- report
		}()
		synctest.Wait() // until it waits for nothing else
		close(h.release)
		if report, n := <-reports, sys.Stats().DeadLetters; report.DeadLetters != n || n != 1 {
			t.Errorf("the report has %d dead letters, of %d", report.DeadLetters, n)
		}
	})
}
