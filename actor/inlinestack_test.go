package actor_test

import (
	"testing"
	"testing/synctest"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// An inline actor that has answered goes on with its mail on the asker's stack: the asker's wait is over, and yet the
// asker does not go on.
func TestAnInlineActorMayNotAskOnWhoseStackItHandlesMoreMail(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "pinned": {actor.Pinned()}, "reentrant": {actor.Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				errs := make(chan error, 1)
				var asker, asked actor.Ref[get]
				more := false
				asked = actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], m get) error {
					if more {
						_, err := actor.Ask(ctx, asker, get{})
						errs <- err
						return nil
					}
					more = true
					asked.Tell(ctx, get{})
					actor.Reply(ctx, m, 1)
					return nil
				}, actor.Inline())
				asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[get], m get) error {
					_, err := actor.Ask(ctx, asked, get{})
					actor.Reply(ctx, m, 1)
					return err
				}, opts...)
				go asker.Tell(bg, get{})
				failsAtOnce(t, errs)
			})
		})
	}
}
