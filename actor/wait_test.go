package actor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
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
					ref.Wait,
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
		for _, derive := range []bool{false, true} {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				var waits context.Context = ctx
				if derive {
					limited, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					waits = limited
				}
				d, err := target.Wait(waits)
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

func TestWithinLimitsOneAsk(t *testing.T) {
	const limit = 300 * time.Millisecond
	for name, ask := range map[string]func(sys *actor.System, slow actor.Ref[get], ended func(error)){
		"Ask": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			_, err := actor.Ask(bg, slow, get{}, actor.Within(limit))
			ended(err)
		},
		"AskFor": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			_, err := actor.AskFor[int](bg, slow, get{}, actor.Within(limit))
			ended(err)
		},
		"before the deadline of the context": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			ctx, cancel := context.WithTimeout(bg, time.Minute)
			defer cancel()
			_, err := actor.Ask(ctx, slow, get{}, actor.Within(time.Hour), actor.Within(limit), actor.AskOption{})
			ended(err)
		},
		"after the deadline of the context": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			ctx, cancel := context.WithTimeout(bg, limit)
			defer cancel()
			_, err := actor.Ask(ctx, slow, get{}, actor.Within(time.Hour))
			ended(err)
		},
		"Gather": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			for _, answer := range actor.Gather(bg, []actor.Ref[get]{slow}, get{}, actor.Within(limit)) {
				ended(answer.Err)
			}
		},
		"AskFuture": func(_ *actor.System, slow actor.Ref[get], ended func(error)) {
			_, err := actor.AskFuture(bg, slow, get{}, actor.Within(limit)).Wait(bg)
			ended(err)
		},
		"in a handler": func(sys *actor.System, slow actor.Ref[get], ended func(error)) {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				_, err := actor.Ask(ctx, slow, get{}, actor.Within(limit))
				ended(err)
				return nil
			}).Tell(bg, 0)
		},
		"AskThen": func(sys *actor.System, slow actor.Ref[get], ended func(error)) {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
				if err, ok := m.(error); ok {
					ended(err)
					return nil
				}
				actor.AskThen(ctx, slow, get{}, func(_ int, err error) any { return err }, actor.Within(limit))
				return nil
			}).Tell(bg, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Hour))
				slow := promising(sys, make(chan *actor.Promised[int], 1))
				began, ended := time.Now(), make(chan error, 1)
				ask(sys, slow, func(err error) { ended <- err })
				err := <-ended
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != limit {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if name != "after the deadline of the context" && !strings.Contains(err.Error(), "no answer within 300ms") {
					t.Errorf("it does not name the limit: %v", err)
				}
			})
		})
	}
}

func TestWithinMayBeLongerThanTheSystemsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithAskTimeout(time.Second))
		handled := 0
		ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[get], m get) error {
			handled++
			at, _ := ctx.Deadline()
			if left := time.Until(at); left != time.Minute {
				t.Errorf("the handler sees that its asker waits for %v", left)
			}
			if err := ctx.Sleep(2 * time.Second); err != nil {
				return err
			}
			actor.Reply(ctx, m, 1)
			return nil
		})
		if n, err := actor.Ask(bg, ref, get{}, actor.Within(time.Minute)); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := actor.Ask(bg, ref, get{}, actor.Within(-1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a limit that has passed: %v", err)
		}
		if _, err := actor.AskFuture(bg, ref, get{}, actor.Within(0)).Wait(bg); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a limit that has passed: %v", err)
		}
		if handled != 1 {
			t.Errorf("%d requests were handled", handled)
		}
	})
}

func TestAFutureHasManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		promises := make(chan *actor.Promised[int], 1)
		f := actor.AskFuture(bg, promising(sys, promises), get{})
		answers := make(chan int, 20)
		for range 5 {
			go func() {
				n, _ := f.Wait(bg)
				answers <- n
			}()
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
				n, err := f.Wait(ctx)
				answers <- n
				return err
			}).Tell(bg, 0)
		}
		synctest.Wait()
		if n := sys.Stats().Waiting; n != 5 {
			t.Errorf("%d handlers wait with their stacks set aside", n)
		}
		enough, cancel := context.WithTimeout(bg, time.Second)
		defer cancel()
		if _, err := f.Wait(enough); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("who gives up gets %v", err)
		}
		(<-promises).Resolve(7)
		for range 10 {
			if n := <-answers; n != 7 {
				t.Errorf("got %d", n)
			}
		}
		<-f.Done()
		if n, err := f.Wait(bg); n != 7 || err != nil {
			t.Errorf("once it is there: %d, %v", n, err)
		}
	})
}

func TestAFutureEndsWithItsContext(t *testing.T) {
	errEnough := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ctx, cancel := context.WithCancelCause(bg)
		slow := promising(sys, make(chan *actor.Promised[int], 2))
		f := actor.AskFuture(ctx, slow, get{})
		cancel(errEnough)
		if _, err := f.Wait(bg); !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
		if _, err := actor.AskFuture(ctx, slow, get{}).Wait(bg); !errors.Is(err, errEnough) {
			t.Errorf("begun with a context that has ended: %v", err)
		}
	})
}

func TestAFutureOfAHandlerEndsWithItsIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		slow := promising(sys, make(chan *actor.Promised[int], 1))
		var f *actor.Future[int]
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[get], m get) error {
			f = actor.AskFuture(ctx, slow, get{})
			actor.Reply(ctx, m, 1)
			return nil
		})
		mustAsk(t, ref, get{})
		synctest.Wait()
		select {
		case <-f.Done():
			t.Error("it has ended with the handler")
		default:
		}
		ref.Stop()
		if _, err := f.Wait(bg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAWaitForAFutureThatClosesACycleFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			f := actor.AskFuture(ctx, b, get{})
			_, err := f.Wait(ctx)
			return err
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			if err := ctx.Sleep(time.Second); err != nil { // until a waits
				return err
			}
			_, err := actor.Ask(ctx, a, askBack{})
			errs <- err
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		a.Tell(bg, 0)
		time.Sleep(time.Second)
		failsAtOnce(t, errs)
	})
}

func TestPipeToTellsTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		promises := make(chan *actor.Promised[int], 1)
		f := actor.AskFuture(bg, promising(sys, promises), get{})
		var mu sync.Mutex
		sum := 0
		sink := actor.SpawnFunc(sys, "sink", func(_ *actor.Context[any], m any) error {
			mu.Lock()
			defer mu.Unlock()
			sum += m.(int)
			return nil
		})
		pipe := func() { actor.PipeTo(f, sink, func(n int, _ error) any { return n }) }
		pipe()
		pipe()
		actor.PipeTo(f, sink, func(int, error) any { panic("no message") })
		(<-promises).Resolve(10)
		<-f.Done()
		pipe()
		synctest.Wait()
		if mu.Lock(); sum != 30 {
			t.Errorf("the sum is %d", sum)
		}
		mu.Unlock()
		sink.Stop()
		_, _ = sink.Wait(bg)
		pipe()
		synctest.Wait()
		if n := sys.Stats().DeadLetters; n != 1 {
			t.Errorf("%d dead letters", n)
		}
	})
}
