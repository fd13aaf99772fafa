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

// The Init of a child and an Inline actor run on the stack of somebody's handler.

type work = func(ctx *actor.Context[any]) error

// initDoes is an actor whose Init does the work, and which answers.
type initDoes struct{ work work }

func (i initDoes) Init(ctx *actor.Context[any]) error { return i.work(ctx) }

func (initDoes) Receive(ctx *actor.Context[any], m any) error {
	actor.Reply(ctx, m.(get), 1)
	return nil
}

// does starts an actor that does the work it is told.
func does(sys *actor.System, opts ...actor.SpawnOption) actor.Ref[any] {
	return actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		if m, ok := m.(work); ok {
			return m(ctx)
		}
		return nil
	}, opts...)
}

// In a bulkhead another worker takes the place of one whose stack cannot be set aside for a wait.
func TestAWaitThatKeepsItsStackHoldsUpNobodyInABulkhead(t *testing.T) {
	one := actor.OnBulkhead("one")
	derived := func(ctx context.Context) context.Context {
		ctx, cancel := shorter(ctx)
		_ = time.AfterFunc(time.Minute, cancel)
		return ctx
	}
	for name, with := range map[string]func(ctx context.Context) context.Context{"own": func(ctx context.Context) context.Context { return ctx }, "derived": derived} {
		for where, run := range map[string]func(sys *actor.System, ask work){
			"inline": func(sys *actor.System, ask work) {
				inline := does(sys, actor.Inline())
				does(sys, one).Tell(bg, func(ctx *actor.Context[any]) error { inline.Tell(ctx, ask); return nil })
			},
			"init": func(sys *actor.System, ask work) {
				does(sys, one).Tell(bg, func(ctx *actor.Context[any]) error {
					_, err := actor.TrySpawn(ctx, "", func() initDoes { return initDoes{ask} })
					return err
				})
			},
			"init under inline": func(sys *actor.System, ask work) {
				inline := does(sys, actor.Inline())
				spawns := func(ctx *actor.Context[any]) error {
					_, err := actor.TrySpawn(ctx, "", func() initDoes { return initDoes{ask} })
					return err
				}
				does(sys, one).Tell(bg, func(ctx *actor.Context[any]) error { inline.Tell(ctx, spawns); return nil })
			},
			"reentrant": func(sys *actor.System, ask work) { does(sys, one, actor.Reentrant()).Tell(bg, ask) },
		} {
			t.Run(where+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
					answers := actor.SpawnFunc(sys, "answers", func(ctx *actor.Context[get], m get) error {
						actor.Reply(ctx, m, 1)
						return nil
					}, one)
					errs := make(chan error, 1)
					run(sys, func(ctx *actor.Context[any]) error {
						_, err := actor.Ask(with(ctx), answers, get{}, actor.Within(time.Second))
						errs <- err
						return nil
					})
					if err := <-errs; err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}

// A wait on a handler's stack with that handler's context does not make the runtime forget who runs there.
func TestAChildThatHasWaitedWithItsParentsContextIsStillOnItsStack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 1)
		var child actor.Ref[any]
		other := actor.SpawnFunc(sys, "other", func(ctx *actor.Context[get], m get) error {
			if child.PID() != (actor.PID{}) {
				_, err := actor.Ask(ctx, child, get{}) // which waits for this answer
				errs <- err
			}
			actor.Reply(ctx, m, 1)
			return nil
		})
		parent := does(sys)
		parent.Tell(bg, func(of *actor.Context[any]) error {
			_, err := actor.TrySpawn(of, "", func() initDoes {
				return initDoes{func(ctx *actor.Context[any]) error {
					derived, cancel := shorter(of)
					defer cancel()
					if _, err := actor.Ask(derived, other, get{}); err != nil {
						return err
					}
					child = ctx.Self()
					if _, err := actor.Ask(derived, other, get{}); err != nil {
						return err
					}
					_, err := actor.Ask(ctx, parent, get{})
					errs <- err
					return nil
				}}
			})
			if err != nil {
				errs <- err
			}
			return nil
		})
		failsAtOnce(t, errs)
		failsAtOnce(t, errs)
	})
}

// An order to stop ends a wait of the handler also when an actor on its stack has waited meanwhile, with its context.
func TestStopEndsTheWaitUnderAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		errs := make(chan error, 2)
		silent := promising(sys, make(chan *actor.Promised[int], 1))
		var of *actor.Context[any]
		inline := actor.SpawnFunc(sys, "inline", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m)
			_, err := actor.Ask(of, silent, get{})
			errs <- err
			return nil
		}, actor.Inline())
		asks := does(sys)
		asks.Tell(bg, func(ctx *actor.Context[any]) error {
			of = ctx
			_, err := actor.Ask(ctx, inline, get{})
			errs <- err
			return nil
		})
		synctest.Wait()
		began := time.Now()
		asks.Stop()
		for range 2 {
			if err := <-errs; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
	})
}
