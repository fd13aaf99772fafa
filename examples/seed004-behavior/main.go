// Seed004-behavior is the counterpart of the article's Hello World, where an actor
// changes its behavior through its context (SetBehavior there).
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

// SetBehaviorActor has two behaviors.
type SetBehaviorActor struct{ w io.Writer }

// Receive is the first one.
func (state *SetBehaviorActor) Receive(ctx *actor.Context[Hello], msg Hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	ctx.Become(state.Other)
	return nil
}

// Other is the second one.
func (state *SetBehaviorActor) Other(_ *actor.Context[Hello], msg Hello) error {
	fmt.Fprintf(state.w, "%v, ey we are now handling messages in another behavior\n", msg.Who)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed004")
	defer system.Shutdown(ctx)

	ref, err := actor.TrySpawn(system, "", func() *SetBehaviorActor { return &SetBehaviorActor{w} })
	if err != nil {
		panic(err)
	}
	ref.Tell(ctx, Hello{Who: "Roger"})
	ref.Tell(ctx, Hello{Who: "Roger"})
}
