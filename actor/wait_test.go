package actor_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestWaitReturnsHowAnActorHasEnded(t *testing.T) {
	errBroken := errors.New("broken")
	for name, end := range map[string]struct {
		by   func(ref actor.Ref[any])
		want actor.Reason
		err  error
	}{
		"stop": {func(ref actor.Ref[any]) { ref.Stop() }, actor.Stopped, nil},
		"kill": {func(ref actor.Ref[any]) { ref.Kill() }, actor.Killed, nil},
		"fail": {func(ref actor.Ref[any]) { ref.Tell(bg, errBroken) }, actor.Failed, errBroken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, noRestarts)
				ref := actor.SpawnFunc(sys, "a", func(_ *actor.Context[any], m any) error { return m.(error) })
				type outcome struct {
					d   actor.Down
					err error
				}
				outcomes := make(chan outcome, 2)
				for _, wait := range []func(context.Context) (actor.Down, error){
					func(ctx context.Context) (actor.Down, error) { return ref.Wait(ctx) },
					func(ctx context.Context) (actor.Down, error) { return sys.Wait(ctx, ref.PID()) },
				} {
					go func() {
						d, err := wait(bg)
						outcomes <- outcome{d, err}
					}()
				}
				synctest.Wait()
				if len(outcomes) > 0 {
					t.Error("it has not waited")
				}
				end.by(ref)
				for range 2 {
					o := <-outcomes
					if o.err != nil || o.d.PID != ref.PID() || o.d.Reason != end.want || !errors.Is(o.d.Err, end.err) {
						t.Errorf("got %+v", o)
					}
				}
				if _, err := actor.TrySpawnFunc(sys, "a", inert); err != nil {
					t.Errorf("the name is not free: %v", err)
				}
				if d, err := ref.Wait(bg); err != nil || d.Reason != actor.NoActor {
					t.Errorf("once it has ended: %+v, %v", d, err)
				}
			})
		})
	}
}

func TestWaitForNobodyReturnsAtOnce(t *testing.T) {
	sys := actortest.NewSystem(t)
	elsewhere, err := actor.ParsePID("elsewhere/a#1")
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range []actor.PID{{}, elsewhere} {
		if d, err := sys.Wait(bg, pid); err != nil || d.Reason != actor.NoActor || d.PID != pid {
			t.Errorf("%q: %+v, %v", pid, d, err)
		}
	}
}

func TestAWaitByAReferenceThatWasReadConcernsTheActorOfItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "a", inert)
		text, err := ref.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var other actor.Ref[string] // of messages that it does not accept
		if err := other.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		other.Bind(sys)
		time.AfterFunc(time.Second, ref.Stop)
		if d, err := other.Wait(bg); d.Reason != actor.Stopped || d.PID != ref.PID() || err != nil {
			t.Errorf("while it lives: %+v, %v", d, err)
		}
		var same actor.Ref[any]
		if err := same.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		same.Bind(sys)
		if d, err := same.Wait(bg); d.Reason != actor.NoActor || d.PID != ref.PID() || err != nil {
			t.Errorf("once it has ended: %+v, %v", d, err)
		}
	})
}

func TestARestartIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "a", func(_ *actor.Context[any], m any) error { return m.(error) })
		limited, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		ref.Tell(bg, errors.New("broken"))
		if d, err := ref.Wait(limited); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %+v, %v", d, err)
		}
	})
}

// TestWaitsThatGiveUpAreForgotten looks at what a watched actor keeps.
func TestWaitsThatGiveUpAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "a", inert)
		limited, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		_, _ = ref.Wait(limited)
		stop := sys.AfterEnd(ref.PID(), func(actor.Down) { t.Error("it was taken back") })
		if !stop() || stop() {
			t.Error("stop does not report that it has stopped")
		}
		if d, err := sys.Detail(bg, ref.PID()); err != nil || d.Watchers != 0 {
			t.Errorf("%d watchers are left, %v", d.Watchers, err)
		}
		ref.Stop()
		_, _ = ref.Wait(bg)
	})
}

func TestWaitInAHandlerBlocksNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		target := actor.SpawnFunc(sys, "target", inert)
		downs := make(chan actor.Down, 2)
		for _, opts := range [][]actor.WaitOption{nil, {actor.Within(time.Hour)}} {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				d, err := target.Wait(ctx, opts...)
				downs <- d
				return err
			}).Tell(bg, 0)
		}
		synctest.Wait()
		if n := sys.Stats().Waiting; n != 2 {
			t.Errorf("%d handlers wait with their stacks set aside", n)
		}
		target.Stop()
		for range 2 {
			if d := <-downs; d.Reason != actor.Stopped {
				t.Errorf("got %+v", d)
			}
		}
	})
}

func TestWithinLimitsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		target := actor.SpawnFunc(sys, "target", inert)
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
			_, err := target.Wait(ctx, actor.Within(time.Second))
			errs <- err
			actor.Reply(ctx, m, 1)
			return nil
		})
		for name, wait := range map[string]func(){
			"outside":              func() { _, err := sys.Wait(bg, target.PID(), actor.Within(time.Second)); errs <- err },
			"handler":              func() { ref.Tell(bg, get{}) },
			"handler of a request": func() { mustAsk(t, ref, get{}) },
		} {
			began := time.Now()
			wait()
			if err := <-errs; !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "/target: it has not ended within 1s") || time.Since(began) != time.Second {
				t.Errorf("%s: after %v: %v", name, time.Since(began), err)
			}
		}
		if _, err := target.Wait(bg, actor.Within(0)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a limit that has passed: %v", err)
		}
		if _, err := actor.SpawnFunc(sys, "nobody has looked at it", inert).Wait(bg, actor.Within(-1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a negative limit: %v", err)
		}
	})
}

// The end of the asker ends a wait in the handler of its request.
func TestAWaitInAHandlerEndsWithItsAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough")
		sys := actortest.NewSystem(t)
		target := actor.SpawnFunc(sys, "target", inert)
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], _ get) error {
			_, err := target.Wait(ctx)
			errs <- err
			return nil
		})
		ctx, cancel := context.WithCancelCause(bg)
		go func() { _, _ = actor.Ask(ctx, ref, get{}) }()
		synctest.Wait()
		cancel(errEnough)
		if err := <-errs; !errors.Is(err, errEnough) {
			t.Error(err)
		}
	})
}

func TestStopEndsAWaitInAHandler(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		target := actor.SpawnFunc(sys, "target", inert)
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			_, err := target.Wait(ctx)
			errs <- err
			return nil
		}, opts...)
		ref.Tell(bg, 0)
		synctest.Wait()
		ref.Stop()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestWaitForOnesOwnEndFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(string); ok {
				up := ctx.Self()
				actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[any], _ any) error {
					_, err := up.Wait(ctx)
					errs <- err
					return nil
				}).Tell(ctx, 0)
				return nil
			}
			_, err := ctx.Self().Wait(ctx)
			errs <- err
			return nil
		})
		parent.Tell(bg, "child")
		failsAtOnce(t, errs)
		parent.Tell(bg, 0)
		failsAtOnce(t, errs)
	})
}

func TestAnAskOfWhoWaitsForTheAskersEndFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			b.Drain()
			_, err := b.Wait(ctx)
			return err
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error {
			if err := ctx.Sleep(time.Second); err != nil { // until a waits
				return err
			}
			_, err := actor.Ask(ctx, a, get{})
			errs <- err
			return nil
		})
		b.Tell(bg, 0)
		synctest.Wait()
		a.Tell(bg, 0)
		time.Sleep(time.Second)
		began := time.Now()
		if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || !strings.Contains(err.Error(), "/b -> /a -> /b") || time.Since(began) != 0 {
			t.Error(err)
		}
	})
}

// Whoever waits for the end of a reentrant actor waits for all of its handlers.
func TestAWaitForTheEndOfAReentrantActorWaitsForItsHandlers(t *testing.T) {
	for name, through := range map[string]bool{"which asks": false, "which waits for one who asks": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				errs := make(chan error, 1)
				var b actor.Ref[any]
				a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
					b.Drain()
					_, err := b.Wait(ctx)
					return err
				})
				asks := func(ctx *actor.Context[any]) error {
					if err := ctx.Sleep(time.Second); err != nil { // until a waits
						return err
					}
					_, err := actor.Ask(ctx, a, get{})
					errs <- err
					return nil
				}
				c := actor.SpawnFunc(sys, "c", func(ctx *actor.Context[any], _ any) error { return asks(ctx) })
				b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
					switch {
					case m == "sleep":
						return ctx.Sleep(2 * time.Second) // another one that waits
					case through:
						_, _ = actor.Ask(ctx, c, get{})
						return nil
					default:
						return asks(ctx)
					}
				}, actor.Reentrant())
				b.Tell(bg, 0)
				b.Tell(bg, "sleep")
				synctest.Wait()
				a.Tell(bg, 0)
				time.Sleep(time.Second)
				began := time.Now()
				want := "/b -> /a -> /b"
				if through {
					want = "/c -> /a -> /b -> /c"
				}
				if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || !strings.Contains(err.Error(), want) || time.Since(began) != 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		})
	}
}

// One that waits to be told to stop is no wait for whoever told it.
func TestAWaitForTheEndOfWhoWasToldToStopIsNoDeadlock(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		reasons := make(chan actor.Reason, 1)
		var a actor.Ref[any]
		b := actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, a, get{})
			return err
		}, opts...)
		a = actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			b.Tell(ctx, 0)
			if err := ctx.Sleep(time.Second); err != nil { // until b asks
				return err
			}
			b.Stop()
			d, err := b.Wait(ctx)
			reasons <- d.Reason
			return err
		})
		a.Tell(bg, 0)
		if got := <-reasons; got != actor.Stopped && got != actor.NoActor { // it may have ended before the wait
			t.Errorf("got %v", got)
		}
	})
}

func TestAPanicAfterAnEndIsLoggedAndEndsNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		ref := actor.SpawnFunc(sys, "clerk", func(*actor.Context[int], int) error { return nil })
		sys.AfterEnd(ref.PID(), func(actor.Down) { panic("who cares") })
		ref.Stop()
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
		for _, part := range []string{"level=ERROR", "/clerk", "who cares", "wait_test.go"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%q is not in %s", part, &log)
			}
		}
	})
}

func TestAfterEndRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "a", inert)
		downs := make(chan actor.Down, 3)
		for range 2 {
			sys.AfterEnd(ref.PID(), func(d actor.Down) { downs <- d })
		}
		ref.Stop()
		for range 2 {
			if d := <-downs; d.Reason != actor.Stopped || d.PID != ref.PID() {
				t.Errorf("got %+v", d)
			}
		}
		sys.AfterEnd(ref.PID(), func(d actor.Down) { downs <- d })
		if d := <-downs; d.Reason != actor.NoActor || d.PID != ref.PID() {
			t.Errorf("got %+v", d)
		}
		synctest.Wait()
		if len(downs) > 0 {
			t.Error("it has run twice")
		}
	})
}
