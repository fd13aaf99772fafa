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
			_, err := actor.Ask(ctx, slow, get{}, actor.Within(time.Hour), actor.Within(limit), actor.WaitOption{})
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
		ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[get], m get) error {
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
	})
}

func TestWithALimitThatHasPassedNothingIsSent(t *testing.T) {
	for name, ask := range map[string]func(sys *actor.System, ref actor.Ref[get], ended func(error)){
		"Ask": func(_ *actor.System, ref actor.Ref[get], ended func(error)) {
			_, err := actor.Ask(bg, ref, get{}, actor.Within(-1))
			ended(err)
		},
		"Gather": func(_ *actor.System, ref actor.Ref[get], ended func(error)) {
			for _, answer := range actor.Gather(bg, []actor.Ref[get]{ref}, get{}, actor.Within(0)) {
				ended(answer.Err)
			}
		},
		"AskThen": func(sys *actor.System, ref actor.Ref[get], ended func(error)) {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
				if err, ok := m.(error); ok {
					ended(err)
					return nil
				}
				actor.AskThen(ctx, ref, get{}, func(_ int, err error) any { return err }, actor.Within(0))
				return nil
			}).Tell(bg, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				handled := make(chan struct{}, 1)
				ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
					handled <- struct{}{}
					actor.Reply(ctx, m, 1)
					return nil
				})
				errs := make(chan error, 1)
				ask(sys, ref, func(err error) { errs <- err })
				if err := <-errs; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				synctest.Wait()
				if len(handled) > 0 {
					t.Error("the request was sent")
				}
			})
		})
	}
}
