package actor_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestRoutedReferencePassesOnWhatItGets(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		cause := errors.New("no")
		refuser := actor.SpawnFunc(sys, "refuser", func(*actor.Context[get], get) error { return cause })
		answerer := actor.SpawnFunc(sys, "answerer", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, len(ctx.Sender().Path()))
			return nil
		})
		gone := actor.SpawnFunc(sys, "gone", func(*actor.Context[get], get) error { return nil })
		k.Watch(gone)
		gone.Stop()
		actortest.ExpectDown(k, gone)
		owner := actor.Spawn(sys, "owner", newCounter)
		route := func(refs ...actor.Ref[get]) actor.Ref[get] {
			ref, err := actor.Routed(sys, owner.PID(), func(_ get, to func(actor.Ref[get])) {
				for _, r := range refs {
					to(r)
				}
			})
			if err != nil {
				k.T().Fatal(err)
			}
			return ref
		}
		if n := actortest.Ask(k, route(refuser, gone, answerer), get{}).Answer(); n != 0 {
			k.T().Errorf("got %d", n)
		}
		if _, err := actor.Ask(k.Context(), route(refuser, refuser), get{}); !errors.Is(err, cause) {
			k.T().Errorf("all refuse: %v", err)
		}
		if _, err := actor.Ask(k.Context(), route(gone), get{}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("the only one is gone: %v", err)
		}
		nobody := route()
		nobody.Tell(k.Context(), get{})
		if d := sys.DeadLetters()[0]; d.To != owner.PID() || d.Reason != actor.NoActor {
			k.T().Errorf("a message for nobody: %+v", d)
		}
		if nobody.PID() != owner.PID() {
			k.T().Errorf("address %v, want the owner's", nobody.PID())
		}
		k.ExpectFailures(3)
	})
}
