package actor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// A template for actors: it is passed to whoever spawns them.
func ExampleProps() {
	sys := actor.NewSystem("shop", quiet)
	defer sys.Shutdown(context.Background())

	till := actor.NewPropsFunc(func(ctx *actor.Context[question], m question) error {
		actor.Reply(ctx, m, ctx.Self().PID().Path()+" is open")
		return nil
	}, actor.Bounded(100, actor.Reject), actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute)))

	ctx := context.Background()
	fmt.Println(actor.Ask(ctx, till.Spawn(sys, "till-1"), question{}))
	fmt.Println(actor.Ask(ctx, till.With(actor.Weight(4)).Spawn(sys, "express"), question{}))
	// Output:
	// /till-1 is open <nil>
	// /express is open <nil>
}

// till answers with its own path.
type till struct{}

func newTill() *till { return &till{} }

func (*till) Receive(ctx *actor.Context[question], m question) error {
	actor.Reply(ctx, m, ctx.Self().PID().Path())
	return nil
}

// Each actor has a state of its own; a name that is taken is an error.
func ExampleNewProps() {
	sys := actor.NewSystem("shop", quiet)
	defer sys.Shutdown(context.Background())

	tills := actor.NewProps(newTill, actor.Bounded(100, actor.Reject))
	ref, err := tills.TrySpawn(sys, "till")
	fmt.Println(ref.PID().Path(), err)
	_, err = tills.TrySpawn(sys, "till")
	fmt.Println(errors.Is(err, actor.ErrNameTaken))
	// Output:
	// /till <nil>
	// true
}
