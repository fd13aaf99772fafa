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
