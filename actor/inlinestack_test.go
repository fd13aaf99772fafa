package actor_test

import (
	"context"
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

// An inline actor that will answer later has the asker's stack until its handler returns: whoever asks the asker
// meanwhile waits for that handler, and not only for the answer, which others may give.
func TestAnInlineActorMayNotWaitForItsAskerAlsoWhereItHasPromised(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "pinned": {actor.Pinned()}, "reentrant": {actor.Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t)
				errs := make(chan error, 1)
				var asker, other actor.Ref[get]
				asked := actor.SpawnFunc(sys, "asked", func(ctx *actor.Context[get], m get) error {
					promised := actor.Promise(ctx, m)
					_, err := actor.Ask(ctx, other, get{})
					errs <- err
					promised.Resolve(1)
					return nil
				}, actor.Inline())
				other = actor.SpawnFunc(sys, "other", func(ctx *actor.Context[get], _ get) error {
					_, err := actor.Ask(ctx, asker, get{})
					return err
				})
				first := true
				asker = actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[get], m get) error {
					defer actor.Reply(ctx, m, 1)
					if !first {
						return nil
					}
					first = false
					derived, cancel := context.WithCancel(ctx)
					defer cancel()
					_, err := actor.Ask(derived, asked, get{})
					return err
				}, opts...)
				go asker.Tell(bg, get{})
				failsAtOnce(t, errs)
			})
		})
	}
}
