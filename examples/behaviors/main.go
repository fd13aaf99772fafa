// Behaviors shows how an actor changes the way it handles messages: Become replaces the
// behavior, BecomeStacked keeps the one before, and Unbecome returns to it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Hello is what the actor accepts.
type Hello struct{ Who string }

type setBehaviorActor struct{ w io.Writer }

// Receive is the first behavior.
func (state *setBehaviorActor) Receive(ctx *actor.Context[Hello], msg Hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	ctx.Become(state.other)
	return nil
}

func (state *setBehaviorActor) other(ctx *actor.Context[Hello], msg Hello) error {
	fmt.Fprintf(state.w, "%v, ey we are now handling messages in another behavior\n", msg.Who)
	ctx.BecomeStacked(state.third)
	return nil
}

func (state *setBehaviorActor) third(ctx *actor.Context[Hello], msg Hello) error {
	fmt.Fprintf(state.w, "%v, a third one, and back to the one before\n", msg.Who)
	ctx.Unbecome()
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("behaviors")
	defer system.Shutdown(ctx)

	ref := actor.Spawn(system, "", func() *setBehaviorActor { return &setBehaviorActor{w} })
	for range 4 {
		ref.Tell(ctx, Hello{Who: "Roger"})
	}
}
