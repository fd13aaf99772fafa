package actor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// spawns runs the work in the Init of a child.
func spawns(of *actor.Context[any], do work) {
	_, _ = actor.TrySpawn(of, "", func() initDoes { return initDoes{do} })
}

// asks starts an actor that asks another one, says what has come of it, and answers.
func asks(sys *actor.System, other *actor.Ref[any], errs chan<- error) actor.Ref[get] {
	return actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
		_, err := actor.Ask(ctx, *other, get{})
		errs <- err
		actor.Reply(ctx, m, 1)
		return nil
	})
}

// Wherever on a stack one waits, and with whoever's context: all who are on it do.
func TestWhoIsOnAStackWaitsForItsTop(t *testing.T) {
	contexts := map[string]func(of, ctx *actor.Context[any]) (context.Context, context.CancelFunc){
		"own":           func(_, ctx *actor.Context[any]) (context.Context, context.CancelFunc) { return ctx, func() {} },
		"derived":       func(_, ctx *actor.Context[any]) (context.Context, context.CancelFunc) { return shorter(ctx) },
		"below":         func(of, _ *actor.Context[any]) (context.Context, context.CancelFunc) { return of, func() {} },
		"derived below": func(of, _ *actor.Context[any]) (context.Context, context.CancelFunc) { return shorter(of) },
	}
	bottoms := map[string][]actor.SpawnOption{
		"plain": nil, "pinned": {actor.Pinned()}, "inline": {actor.Inline()}, "reentrant": {actor.Reentrant()}, "bulkhead": {actor.OnBulkhead("one")},
	}
	for name, opts := range bottoms {
		for with, context := range contexts {
			for _, asked := range []string{"bottom", "inline", "child", "top"} {
				t.Run(name+" "+with+" asked "+asked, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
						errs := make(chan error, 1)
						var meant actor.Ref[any]
						other := asks(sys, &meant, errs)
						bottom, inline, top := does(sys, opts...), does(sys, actor.Inline()), does(sys, actor.Inline())
						go bottom.Tell(bg, func(of *actor.Context[any]) error {
							inline.Tell(of, func(in *actor.Context[any]) error {
								spawns(in, func(child *actor.Context[any]) error {
									meant = map[string]actor.Ref[any]{"bottom": bottom, "inline": inline, "child": child.Self(), "top": top}[asked]
									told, cancel := context(of, child)
									defer cancel()
									top.Tell(told, func(ctx *actor.Context[any]) error {
										waits, cancel := context(of, ctx)
										defer cancel()
										_, _ = actor.Ask(waits, other, get{})
										return nil
									})
									return nil
								})
								return nil
							})
							return nil
						})
						failsAtOnce(t, errs)
					})
				})
			}
		}
	}
}

// A request that was passed on is waited for also while the asker's stack waits for something else.
func TestAWaitBelowAnotherIsPartOfACycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var asker actor.Ref[any]
		silent := promising(sys, make(chan *actor.Promised[int], 1))
		answers := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			_, err := actor.Ask(ctx, asker, get{})
			errs <- err
			actor.Reply(ctx, m.(get), 1)
			return nil
		})
		var of *actor.Context[any]
		inline := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
			if err := actor.Forward(ctx, answers); err != nil {
				return err
			}
			_, _ = actor.Ask(of, silent, get{})
			return nil
		}, actor.Inline())
		asker = does(sys)
		asker.Tell(bg, func(ctx *actor.Context[any]) error {
			of = ctx
			_, err := actor.Ask(ctx, inline, get{})
			return err
		})
		failsAtOnce(t, errs)
	})
}

func TestABlockingHandlerThatAsksItselfWithADerivedContextFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		does(sys).Tell(bg, func(ctx *actor.Context[any]) error {
			return actor.Blocking(ctx, func() error {
				derived, cancel := shorter(ctx)
				defer cancel()
				_, err := actor.Ask(derived, ctx.Self(), get{})
				errs <- err
				return nil
			})
		})
		failsAtOnce(t, errs)
	})
}

// What a Pinned actor forwards has another sender, by whom one cannot tell on whose stack an Inline receiver would be.
func TestWhatAPinnedActorForwardsToAnInlineOneIsNotHandledOnItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var forwards actor.Ref[any]
		inline := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], _ any) error {
			_, err := actor.Ask(ctx, forwards, get{})
			errs <- err
			return nil
		}, actor.Inline())
		forwards = actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			if m, ok := m.(get); ok {
				actor.Reply(ctx, m, 1)
				return nil
			}
			return actor.Forward(ctx, inline)
		}, actor.Pinned())
		began := time.Now()
		forwards.Tell(bg, "")
		if err := <-errs; err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The stack that a child is on may go on with another worker, when it has waited with its parent's context: what the
// child sends then does not wait for the one that is left. The child may be spawned on the stack of another child, with
// the context of their parent.
func TestAChildSendsOnTheWorkerThatItsStackIsOn(t *testing.T) {
	forms := map[string]func(of *actor.Context[any], do work){
		"child": spawns,
		"child on a child": func(of *actor.Context[any], do work) {
			spawns(of, func(*actor.Context[any]) error {
				spawns(of, do)
				return nil
			})
		},
	}
	for name, spawns := range forms {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				promises, held := make(chan *actor.Promised[int], 1), make(chan *actor.Promised[int], 1)
				slow, never := promising(sys, promises), promising(sys, held)
				hog := does(sys, actor.Reentrant())
				other := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
					actor.Reply(ctx, m, 1)
					return nil
				})
				errs := make(chan error, 2)
				does(sys).Tell(bg, func(of *actor.Context[any]) error {
					spawns(of, func(ctx *actor.Context[any]) error {
						hog.Tell(ctx, func(ctx *actor.Context[any]) error { // it keeps this worker
							derived, cancel := context.WithTimeout(ctx, time.Minute)
							defer cancel()
							_, err := actor.Ask(derived, never, get{}, actor.Within(time.Minute))
							return err
						})
						if _, err := actor.Ask(of, slow, get{}); err != nil {
							errs <- err
						}
						_, err := actor.Ask(ctx, other, get{}, actor.Within(time.Second))
						errs <- err
						return nil
					})
					return nil
				})
				holding := <-held
				synctest.Wait()
				began := time.Now()
				(<-promises).Resolve(1)
				if err := <-errs; err != nil || time.Since(began) != 0 {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				holding.Resolve(1)
			})
		})
	}
}

// What a handler sends before it waits reaches others also when another worker covers for its already.
func TestWhatAHandlerSendsBesideTheWaitOfAGoroutineArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		promises, held := make(chan *actor.Promised[int], 1), make(chan *actor.Promised[int], 1)
		slow, never := promising(sys, promises), promising(sys, held)
		other := does(sys)
		errs := make(chan error, 1)
		does(sys, actor.Reentrant()).Tell(bg, func(ctx *actor.Context[any]) error {
			derived, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			go func() { _, _ = actor.Ask(derived, never, get{}, actor.Within(time.Minute)) }()
			holding := <-held
			synctest.Wait() // until it waits
			other.Tell(ctx, func(*actor.Context[any]) error {
				(<-promises).Resolve(1)
				return nil
			})
			began := time.Now()
			_, err := actor.Ask(derived, slow, get{}, actor.Within(time.Second))
			if time.Since(began) != 0 {
				t.Errorf("it has arrived after %v", time.Since(began))
			}
			holding.Resolve(1)
			errs <- err
			return nil
		})
		if err := <-errs; err != nil {
			t.Error(err)
		}
	})
}

// The same where the handler then waits in a way that the runtime does not know of, also while the monitor sleeps.
func TestWhatAHandlerSendsBesideTheWaitOfAGoroutineNeedsNoOtherWait(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			held := make(chan *actor.Promised[int], 1)
			never := promising(sys, held)
			other := does(sys)
			took := make(chan time.Duration, 1)
			does(sys).Tell(bg, func(ctx *actor.Context[any]) error {
				derived, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				go func() { _, _ = actor.Ask(derived, never, get{}, actor.Within(time.Minute)) }()
				holding := <-held
				synctest.Wait()
				time.Sleep(late)
				began := time.Now()
				done := make(chan struct{})
				other.Tell(ctx, func(*actor.Context[any]) error { close(done); return nil })
				select {
				case <-done:
				case <-time.After(30 * time.Second):
				}
				took <- time.Since(began)
				holding.Resolve(1)
				return nil
			})
			if d := <-took; d > 100*time.Millisecond {
				t.Errorf("late %v: after %v", late, d)
			}
		})
	}
}
