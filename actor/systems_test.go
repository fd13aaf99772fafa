package actor_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// acrossSystems has an actor of one system tell an actor of another, which is in its handler
// when it returns.
func acrossSystems(t *testing.T, one, two *actor.System) (actor.Ref[held], held) {
	t.Helper()
	h := newHeld()
	busy := actor.SpawnFunc(two, "busy", func(_ *actor.Context[held], h held) error {
		close(h.entered)
		<-h.release
		return nil
	})
	actor.SpawnFunc(one, "teller", func(ctx *actor.Context[held], h held) error {
		busy.Tell(ctx, h)
		return nil
	}).Tell(bg, h)
	<-h.entered
	return busy, h
}

func TestShutdownDoesNotWaitForAHandlerOfAnotherSystem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := actortest.NewSystem(t), actortest.NewSystem(t)
		_, h := acrossSystems(t, one, two)
		ctx, cancel := context.WithTimeout(bg, time.Hour)
		defer cancel()
		if report, err := one.Shutdown(ctx); err != nil || report.Took >= time.Second {
			t.Errorf("%+v, %v", report, err)
		}
		close(h.release)
		if _, err := two.Shutdown(bg); err != nil {
			t.Error(err)
		}
		if n, m := one.Stats().Handled, two.Stats().Handled; n != 1 || m != 1 {
			t.Errorf("the systems have handled %d and %d, want one each", n, m)
		}
	})
}

func TestKillWorksWhenTheSystemOfTheSenderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := actortest.NewSystem(t), actortest.NewSystem(t)
		busy, h := acrossSystems(t, one, two)
		down := ended(t, two, busy)
		if _, err := one.Shutdown(bg); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		busy.Kill()
		endsWithoutDelay(t, down)
		close(h.release)
	})
}

// A main of a program with windows is locked to its thread. What fails here ends the
// process: Go does not let a coroutine be switched to from another kind of thread.
func TestShutdownOnAGoroutineThatIsLockedToItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		var asks sync.WaitGroup
		for range 8 { // handlers that wait, so that stacks are set aside
			ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
				err := ctx.Sleep(time.Millisecond)
				actor.Reply(ctx, m, 1)
				return err
			})
			asks.Go(func() { mustAsk(t, ref, get{}) })
		}
		asks.Wait()
		down := make(chan error)
		go func() {
			runtime.LockOSThread()
			_, err := sys.Shutdown(bg)
			down <- err
		}()
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

func TestSpawnsAndAsksDuringAShutdownFailOnlyAsStopped(t *testing.T) {
	for range 50 {
		sys := actortest.NewSystem(t)
		begun := make(chan struct{}, 3)
		var clients sync.WaitGroup
		for range 3 {
			clients.Go(func() {
				for i := 0; ; i++ {
					ref, err := actor.TrySpawn(sys, "", newCounter)
					if err == nil {
						_, err = actor.Ask(bg, ref, get{})
					}
					if errors.Is(err, actor.ErrStopped) {
						return
					}
					if err != nil {
						t.Error(err)
						return
					}
					if i == 3 {
						begun <- struct{}{}
					}
				}
			})
		}
		<-begun
		if report, err := sys.Shutdown(bg); err != nil {
			t.Errorf("%+v, %v", report, err)
		}
		clients.Wait()
		if st := sys.Stats(); st.Actors != 0 || st.Timers != 0 || st.Waiting != 0 {
			t.Errorf("left: %+v", st)
		}
	}
}

func TestShutdownHandlesWhatIsQueuedBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		handled, h := 0, newHeld()
		ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
			handled++
			switch n {
			case 0:
				close(h.entered)
				<-h.release
			case 1:
				return errBroken
			case 2:
				panic("broken")
			}
			return nil
		})
		for i := range 100 {
			ref.Tell(bg, i)
		}
		<-h.entered
		go func() {
			synctest.Wait() // for the shutdown, which waits for the handler
			close(h.release)
		}()
		if report, err := sys.Shutdown(bg); err != nil || handled != 100 || report.DeadLetters != 0 {
			t.Errorf("handled %d of 100: %+v, %v", handled, report, err)
		}
	})
}
