package actor_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
)

func TestRoutedReferencePassesOnWhatItGets(t *testing.T) {
	sys := newSystem(t)
	cause := errors.New("no")
	refuser := actor.SpawnFunc(sys, "refuser", func(*actor.Context[get], get) error { return cause })
	answerer := actor.SpawnFunc(sys, "answerer", func(ctx *actor.Context[get], m get) error {
		actor.Reply(ctx, m, len(ctx.Sender().Path()))
		return nil
	})
	gone := actor.SpawnFunc(sys, "gone", func(*actor.Context[get], get) error { return nil })
	down := ended(t, sys, gone)
	gone.Stop()
	down()
	owner := actor.Spawn(sys, "owner", newCounter)
	route := func(refs ...actor.Ref[get]) actor.Ref[get] {
		ref, err := actor.Routed(sys, owner.PID(), func(_ get, to func(actor.Ref[get])) {
			for _, r := range refs {
				to(r)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	if n := mustAsk(t, route(refuser, gone, answerer), get{}); n != 0 {
		t.Errorf("got %d", n)
	}
	if _, err := actor.Ask(bg, route(refuser, refuser), get{}); !errors.Is(err, cause) {
		t.Errorf("all refuse: %v", err)
	}
	if _, err := actor.Ask(bg, route(gone), get{}); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("the only one is gone: %v", err)
	}
	nobody := route()
	nobody.Tell(bg, get{})
	if d := sys.DeadLetters()[0]; d.To != owner.PID() || d.Reason != actor.NoActor {
		t.Errorf("a message for nobody: %+v", d)
	}
	if nobody.PID() != owner.PID() {
		t.Errorf("address %v, want the owner's", nobody.PID())
	}
}
