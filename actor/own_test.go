package actor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// A handler that asks with context.WithTimeout(ctx, d) waits like one that asks with ctx.

// promising starts an actor that answers nothing by itself.
func promising(sys *actor.System, promises chan<- *actor.Promised[int]) actor.Ref[get] {
	return actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
		promises <- actor.Promise(ctx, m)
		return nil
	})
}

func TestAnAskWithADerivedContextThatClosesACycleFailsAtOnce(t *testing.T) {
	reentrantOrNot(t, func(t *testing.T, sys *actor.System, opts ...actor.SpawnOption) {
		errs := make(chan error, 1)
		var b actor.Ref[any]
		a := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := actor.Ask(limited, b, askBack{})
			return err
		})
		b = actor.SpawnFunc(sys, "b", func(ctx *actor.Context[any], m any) error {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := actor.Ask(context.WithValue(limited, someKey{}, 1), a, get{})
			errs <- err
			actor.Reply(ctx, m.(askBack), 1)
			return nil
		}, opts...)
		a.Tell(bg, "go")
		failsAtOnce(t, errs)
	})
}

type someKey struct{}

func TestAnAskOfOneselfWithADerivedContextFailsAtOnce(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "blocking": nil, "pinned": {actor.Pinned()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				errs := make(chan error, 1)
				actor.SpawnFunc(sys, "a", func(ctx *actor.Context[any], _ any) error {
					limited, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					ask := func() error {
						_, err := actor.Ask(limited, ctx.Self(), get{})
						errs <- err
						return nil
					}
					if name == "blocking" {
						return actor.Blocking(ctx, ask)
					}
					return ask()
				}, opts...).Tell(bg, "go")
				failsAtOnce(t, errs)
			})
		})
	}
}

func TestAsksWithDerivedContextsBlockNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const askers = 500
		sys := actortest.NewSystem(t)
		promises, answers := make(chan *actor.Promised[int], askers), make(chan int, askers)
		slow := promising(sys, promises)
		for range askers {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				limited, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				n, err := actor.Ask(limited, slow, get{})
				answers <- n
				return err
			}).Tell(bg, 0)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if st := sys.Stats(); st.Waiting != askers || st.Workers > 8 {
			t.Errorf("%d of %d handlers wait with their stacks set aside; there are %d workers", st.Waiting, askers, st.Workers)
		}
		for range askers {
			(<-promises).Resolve(1)
		}
		for range askers {
			if n := <-answers; n != 1 {
				t.Errorf("the answer is %d", n)
			}
		}
	})
}

func TestADerivedContextEndsTheAskInItsHandler(t *testing.T) {
	errEnough := errors.New("enough")
	for name, derive := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"timeout": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(ctx, time.Second, errEnough)
		},
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc) {
			derived, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(time.Second, func() { cancel(errEnough) })
			return derived, func() { cancel(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				slow := promising(sys, make(chan *actor.Promised[int], 1))
				errs := make(chan error, 2)
				began := time.Now()
				ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[int], i int) error {
					if i == 0 {
						derived, cancel := derive(ctx)
						defer cancel()
						_, err := actor.Ask(derived, slow, get{})
						errs <- err
						return nil
					}
					errs <- nil
					return nil
				})
				ref.Tell(bg, 0)
				ref.Tell(bg, 1)
				if err := <-errs; !errors.Is(err, errEnough) || time.Since(began) != time.Second {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				<-errs // it goes on with its next message
			})
		})
	}
}

func TestStopEndsAnAskWithADerivedContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		slow := promising(sys, make(chan *actor.Promised[int], 1))
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[int], _ int) error {
			limited, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			_, err := actor.Ask(limited, slow, get{})
			errs <- err
			return nil
		})
		ref.Tell(bg, 0)
		synctest.Wait()
		began := time.Now()
		ref.Stop()
		if err := <-errs; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestWaitsForRoomWithDerivedContextsAreSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		var refs [2]actor.Ref[string]
		errs := make(chan error, 2)
		for i := range refs {
			refs[i] = actor.SpawnFunc(sys, []string{"a", "b"}[i], func(ctx *actor.Context[string], m string) error {
				if m == "go" {
					limited, cancel := context.WithTimeout(ctx, time.Hour)
					defer cancel()
					if err := ctx.Sleep(time.Second); err != nil { // meanwhile the mailboxes fill
						return err
					}
					errs <- refs[1-i].TryTell(limited, "more")
				}
				return nil
			}, actor.Bounded(1, actor.Block))
		}
		for _, ref := range refs {
			ref.Tell(bg, "go")
		}
		synctest.Wait()
		for _, ref := range refs {
			ref.Tell(bg, "mail")
		}
		first, second := <-errs, <-errs
		if !errors.Is(first, actor.ErrDeadlock) || !strings.Contains(first.Error(), "/a") || second != nil {
			t.Errorf("first %v, second %v", first, second)
		}
	})
}

func TestTryTellIntoOnesOwnFullMailboxWithADerivedContextFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[string], m string) error {
			if m == "go" {
				limited, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				ctx.Self().Tell(ctx, "one")
				errs <- ctx.Self().TryTell(limited, "two")
			}
			return nil
		}, actor.Bounded(1, actor.Block))
		began := time.Now()
		ref.Tell(bg, "go")
		if err := <-errs; !errors.Is(err, actor.ErrMailboxFull) || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestGatherWithADerivedContextBlocksNoWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		promises := make(chan *actor.Promised[int], 1)
		slow := promising(sys, promises)
		sum := make(chan int, 1)
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			for _, answer := range actor.Gather(limited, []actor.Ref[get]{slow}, get{}) {
				sum <- answer.Value
			}
			return nil
		}).Tell(bg, 0)
		synctest.Wait()
		if n := sys.Stats().Waiting; n != 1 {
			t.Errorf("%d handlers wait with their stacks set aside", n)
		}
		(<-promises).Resolve(7)
		if n := <-sum; n != 7 {
			t.Errorf("the answer is %d", n)
		}
	})
}
