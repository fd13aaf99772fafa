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
		if isDone(f) {
			t.Error("it has ended with the handler")
		}
		ref.Stop()
		if _, err := f.Wait(bg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// As for an ask, it does not matter that the request is passed on to who waits for its answer only later.
func TestAForwardThatClosesACycleWithAFutureFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				return nil
			}
			_, err := actor.AskFuture(ctx, b, get{}).Wait(ctx)
			errs <- err
			return nil
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], _ any) error {
			if err := ctx.Sleep(time.Second); err != nil { // until a waits
				return err
			}
			return actor.Forward(ctx, a)
		})
		a.Tell(bg, 0)
		time.Sleep(time.Second)
		failsAtOnce(t, errs)
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

// Behind a reentrant actor it is the handler of the request that counts.
func TestAWaitForAFutureOfAReentrantActorThatClosesACycleFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.AskFuture(ctx, b, get{}).Wait(ctx)
			return err
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			if m == 0 {
				return ctx.Sleep(time.Minute) // another handler that waits
			}
			if err := ctx.Sleep(time.Second); err != nil { // until a waits
				return err
			}
			_, err := actor.Ask(ctx, a, askBack{})
			errs <- err
			return nil
		}, actor.Reentrant())
		b.Tell(bg, 0)
		a.Tell(bg, 0)
		time.Sleep(time.Second)
		failsAtOnce(t, errs)
	})
}

// What context.WithValue makes of a handler's context is still that context.
func TestAFutureWithTheHandlersValuesOutlivesTheHandlerOfARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		promises := make(chan *actor.Promised[int], 2)
		slow := promising(sys, promises)
		var futures []*actor.Future[int]
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[get], m get) error {
			for range 2 {
				futures = append(futures, actor.AskFuture(context.WithValue(ctx, someKey{}, 1), slow, get{}))
			}
			actor.Reply(ctx, m, 1)
			return nil
		})
		mustAsk(t, ref, get{})
		synctest.Wait()
		(<-promises).Resolve(7)
		if n, err := futures[0].Wait(bg); n != 7 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		ref.Stop()
		if n, err := futures[1].Wait(bg); !errors.Is(err, context.Canceled) {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestAFutureWithADerivedContextEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough")
		sys := actortest.NewSystem(t)
		slow := promising(sys, make(chan *actor.Promised[int], 1))
		var f *actor.Future[int]
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				return ctx.Sleep(2 * time.Second)
			}
			derived, cancel := context.WithTimeoutCause(ctx, time.Second, errEnough)
			time.AfterFunc(time.Hour, cancel)
			f = actor.AskFuture(derived, slow, get{})
			return nil
		})
		ref.Tell(bg, 0)
		synctest.Wait()
		go func() { _, _ = actor.Ask(bg, ref, get{}) }()
		if n, err := f.Wait(bg); !errors.Is(err, errEnough) {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestAnEndedLimitOrContextOfAFutureSendsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough")
		sys := actortest.NewSystem(t)
		promises := make(chan *actor.Promised[int], 1)
		slow := promising(sys, promises)
		if _, err := actor.AskFuture(bg, slow, get{}, actor.Within(0)).Wait(bg); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a limit that has passed: %v", err)
		}
		ended, cancel := context.WithCancelCause(bg)
		cancel(errEnough)
		if _, err := actor.AskFuture(ended, slow, get{}).Wait(bg); !errors.Is(err, errEnough) {
			t.Errorf("a context that has ended: %v", err)
		}
		synctest.Wait()
		if len(promises) > 0 {
			t.Error("a request was sent")
		}
		f := actor.AskFuture(bg, slow, get{}, actor.Within(time.Second))
		if _, err := f.Wait(bg, actor.Within(time.Millisecond)); !errors.Is(err, context.DeadlineExceeded) || isDone(f) {
			t.Errorf("a wait that gives up: %v, done %v", err, isDone(f))
		}
		if _, err := f.Wait(bg); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no answer within 1s") {
			t.Errorf("an ask that has ended: %v", err)
		}
	})
}

func isDone(f *actor.Future[int]) bool {
	select {
	case <-f.Done():
		return true
	default:
		return false
	}
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
