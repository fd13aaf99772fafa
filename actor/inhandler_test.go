package actor_test

import (
	"context"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// A caller is in the handlers of all actors on its stack, with any context made of one of theirs, and
// nowhere else.
func TestInHandlerKnowsWhoWaitsForTheCaller(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"pooled": nil, "pinned": {actor.Pinned()}, "reentrant": {actor.Reentrant()},
	} {
		t.Run(name, func(t *testing.T) {
			sys := actortest.NewSystem(t)
			other := actor.SpawnFunc(sys, "other", func(*actor.Context[any], any) error { return nil }).PID()
			done := make(chan struct{})
			// expect checks what a context knows of two actors.
			expect := func(what string, ctx context.Context, pid actor.PID, want bool) {
				derived, cancel := context.WithCancel(ctx)
				defer cancel()
				for _, ctx := range []context.Context{ctx, derived, context.WithoutCancel(ctx), context.WithValue(ctx, askerKey{}, 1)} {
					if got := actor.InHandler(ctx, pid); got != want {
						t.Errorf("%s: in the handler: %v, want %v", what, got, want)
					}
				}
				if actor.InHandler(derived, other) {
					t.Errorf("%s: in a handler of another actor", what)
				}
			}
			expect("outside", bg, other, false)
			ref := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[any], m any) error {
				self := ctx.Self().PID()
				expect("handler", ctx, self, true)
				inline := actor.SpawnFunc(ctx, "inline", func(below *actor.Context[any], _ any) error {
					expect("inline actor, of itself", below, below.Self().PID(), true)
					expect("inline actor, of its sender", below, self, true)
					expect("inline actor, with its sender's context", ctx, below.Self().PID(), true)
					return nil
				}, actor.Inline())
				if err := inline.TryTell(ctx, 1); err != nil {
					t.Error(err)
				}
				expect("the inline actor has returned", ctx, inline.PID(), false)
				actor.Spawn(ctx, "child", func() actor.Actor[any] {
					return initial{func(child *actor.Context[any]) {
						expect("first Init, of the child", child, child.Self().PID(), true)
						expect("first Init, of the parent", child, self, true)
					}}
				})
				elsewhere := make(chan struct{})
				derived := context.WithValue(ctx, askerKey{}, 1)
				go func() {
					defer close(elsewhere)
					expect("another goroutine", derived, self, false)
				}()
				<-elsewhere
				go func() {
					<-done
					expect("after the handler", derived, self, false)
					done <- struct{}{}
				}()
				return nil
			}, opts...)
			if err := ref.TryTell(bg, 1); err != nil {
				t.Fatal(err)
			}
			done <- struct{}{}
			<-done
		})
	}
}

// initial calls a function in Init.
type initial struct{ init func(*actor.Context[any]) }

func (i initial) Init(ctx *actor.Context[any]) error { i.init(ctx); return nil }

func (initial) Receive(*actor.Context[any], any) error { return nil }
