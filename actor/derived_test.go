package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// What a handler derives from its context outlives the message where the handler gives it to
// others.

type someKey struct{}

// promising starts an actor that answers nothing by itself.
func promising(sys *actor.System, promises chan<- *actor.Promised[int]) actor.Ref[get] {
	return actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
		promises <- actor.Promise(ctx, m)
		return nil
	})
}

func TestAnAskWithADerivedContextEndsWithItsCauseAlsoInALaterMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough")
		sys := actortest.NewSystem(t)
		slow := promising(sys, make(chan *actor.Promised[int], 1))
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok { // it has another context than other messages
				return ctx.Sleep(2 * time.Second)
			}
			derived, cancel := context.WithTimeoutCause(ctx, time.Second, errEnough)
			time.AfterFunc(time.Hour, cancel)
			go func() {
				_, err := actor.Ask(derived, slow, get{})
				errs <- err
			}()
			return nil
		})
		ref.Tell(bg, 0)
		synctest.Wait()
		go func() { _, _ = actor.Ask(bg, ref, get{}) }()
		if err := <-errs; !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
	})
}

func TestADerivedContextEndsWithItsRequestOrTheIncarnation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		made := make(chan context.Context, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			derived, cancel := context.WithCancel(ctx)
			t.Cleanup(cancel)
			made <- derived
			if _, ok := m.(get); ok {
				actor.ReplyFor(ctx, 1)
			}
			return nil
		})
		ref.Tell(bg, 0)
		ofTold := <-made
		if _, err := actor.Ask(bg, ref, get{}); err != nil {
			t.Fatal(err)
		}
		ofAsked := <-made
		ref.Tell(bg, 0)
		<-made
		synctest.Wait()
		if ofAsked.Err() == nil || ofTold.Err() != nil {
			t.Errorf("that of a request that is answered: %v, that of a message that was told: %v", ofAsked.Err(), ofTold.Err())
		}
		ref.Stop()
		synctest.Wait()
		if ofTold.Err() == nil {
			t.Error("the incarnation has ended, and what was derived lasts")
		}
	})
}

func TestTheHandlerSeesTheCauseOfADerivedContextAlsoInALaterMessageOfTheAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errEnough := errors.New("enough")
		sys := actortest.NewSystem(t)
		causes := make(chan error, 1)
		target := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], _ get) error {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		})
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(get); ok {
				return ctx.Sleep(2 * time.Second)
			}
			derived, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errEnough) })
			go func() { _, _ = actor.Ask(derived, target, get{}) }()
			return nil
		})
		ref.Tell(bg, 0)
		synctest.Wait()
		go func() { _, _ = actor.Ask(bg, ref, get{}) }()
		if err := <-causes; !errors.Is(err, errEnough) {
			t.Errorf("got %v", err)
		}
	})
}

// shorter makes the context that Go programmers write first.
func shorter(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Second)
}

// A wait in the handler with a context derived of its own is a wait of the handler: the only worker of the bulkhead
// goes on to the one who answers.
func TestAWaitWithADerivedContextBlocksNoWorker(t *testing.T) {
	waits := map[string]func(ctx context.Context, to actor.Ref[get]) error{
		"Ask": func(ctx context.Context, to actor.Ref[get]) error {
			_, err := actor.Ask(ctx, to, get{})
			return err
		},
		"Future": func(ctx context.Context, to actor.Ref[get]) error {
			_, err := actor.AskFuture(ctx, to, get{}).Wait(ctx)
			return err
		},
		"Gather": func(ctx context.Context, to actor.Ref[get]) error {
			for _, a := range actor.Gather(ctx, []actor.Ref[get]{to}, actor.Request[int](get{})) {
				return a.Err
			}
			return errors.New("nothing has come")
		},
		"Wait": func(ctx context.Context, to actor.Ref[get]) error {
			to.Drain()
			_, err := to.Wait(ctx)
			return err
		},
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
				answers := actor.SpawnFunc(sys, "answers", func(ctx *actor.Context[get], m get) error {
					actor.Reply(ctx, m, 1)
					return nil
				}, actor.OnBulkhead("one"))
				errs := make(chan error, 1)
				actor.SpawnFunc(sys, "asks", func(ctx *actor.Context[int], _ int) error {
					derived, cancel := shorter(context.WithValue(ctx, someKey{}, 1))
					defer cancel()
					errs <- wait(derived, answers)
					return nil
				}, actor.OnBulkhead("one")).Tell(bg, 1)
				if err := <-errs; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Its context ends it: by time, by whoever cancels it, and with the actor.
func TestAWaitWithADerivedContextEndsWithIt(t *testing.T) {
	errEnough := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		silent := promising(sys, make(chan *actor.Promised[int], 9))
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[func(context.Context) (context.Context, func())], derive func(context.Context) (context.Context, func())) error {
			derived, cancel := derive(ctx)
			defer cancel()
			_, err := actor.Ask(derived, silent, get{}, actor.Within(time.Hour))
			errs <- err
			return nil
		})
		for want, derive := range map[error]func(context.Context) (context.Context, func()){
			context.DeadlineExceeded: func(ctx context.Context) (context.Context, func()) { return shorter(ctx) },
			errEnough: func(ctx context.Context) (context.Context, func()) {
				derived, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Second, func() { cancel(errEnough) })
				return derived, func() {}
			},
		} {
			began := time.Now()
			ref.Tell(bg, derive)
			if err := <-errs; !errors.Is(err, want) || time.Since(began) != time.Second {
				t.Errorf("after %v: %v, want %v", time.Since(began), err, want)
			}
		}
		ref.Tell(bg, func(ctx context.Context) (context.Context, func()) { return context.WithTimeout(ctx, time.Hour) })
		synctest.Wait()
		ref.Stop()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("at the end of the actor: %v", err)
		}
	})
}

// A cycle is one however its waits are limited, and wherever its actors run.
func TestACycleOfWaitsWithDerivedContextsFailsAtOnce(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"plain": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()}, "reentrant": {actor.Reentrant()}, "bulkhead": {actor.OnBulkhead("one")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
				errs := make(chan error, 1)
				var a, b actor.Ref[get]
				asks := func(to *actor.Ref[get], say bool) func(ctx *actor.Context[get], m get) error {
					return func(ctx *actor.Context[get], m get) error {
						derived, cancel := shorter(ctx)
						defer cancel()
						_, err := actor.Ask(derived, *to, get{})
						if say {
							errs <- err
						}
						actor.Reply(ctx, m, 1)
						return nil
					}
				}
				a = actor.SpawnFunc(sys, "a", asks(&b, false), opts...)
				b = actor.SpawnFunc(sys, "b", asks(&a, true), opts...)
				go a.Tell(bg, get{})
				failsAtOnce(t, errs)
			})
		})
	}
}

func TestAnInlineActorThatWasToldWithADerivedContextMayNotAskTheTeller(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"plain": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()}, "reentrant": {actor.Reentrant()}, "bulkhead": {actor.OnBulkhead("one")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
				errs := make(chan error, 1)
				var teller, told actor.Ref[get]
				told = actor.SpawnFunc(sys, "told", func(ctx *actor.Context[get], _ get) error {
					_, err := actor.Ask(ctx, teller, get{})
					errs <- err
					return nil
				}, actor.Inline())
				teller = actor.SpawnFunc(sys, "teller", func(ctx *actor.Context[get], _ get) error {
					derived, cancel := shorter(ctx)
					defer cancel()
					told.Tell(derived, get{})
					return nil
				}, opts...)
				go teller.Tell(bg, get{})
				failsAtOnce(t, errs)
			})
		})
	}
}

func TestTwoThatWaitForRoomWithDerivedContextsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		refs, both := make([]actor.Ref[int], 2), make(chan struct{}, 2)
		for i := range refs {
			refs[i] = actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], m int) error {
				if m != 0 {
					return nil
				}
				derived, cancel := shorter(ctx)
				defer cancel()
				both <- struct{}{}
				for len(both) < 2 {
					time.Sleep(time.Millisecond)
				}
				refs[1-i].Tell(bg, 1) // the only place
				errs <- refs[1-i].TryTell(derived, 2)
				return nil
			}, actor.Bounded(1, actor.Block))
		}
		for _, ref := range refs {
			ref.Tell(bg, 0)
		}
		began := time.Now()
		if err := <-errs; !errors.Is(err, actor.ErrDeadlock) || time.Since(began) > 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := <-errs; err != nil && !errors.Is(err, actor.ErrDeadlock) { // both may have begun before either looked
			t.Error(err)
		}
	})
}
