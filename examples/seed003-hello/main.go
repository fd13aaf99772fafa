// Seed003-hello is the counterpart of the walk-through's first sample: an actor from a
// factory that makes its state (PropsFromProducer there), and one from a function
// (PropsFromFunc).
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type hello struct{ Who string }

type helloActor struct{ w io.Writer }

// Receive greets.
func (state *helloActor) Receive(_ *actor.Context[*hello], msg *hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003")

	ref := actor.Spawn(system, "", func() *helloActor { return &helloActor{w} })
	ref.Tell(ctx, &hello{Who: "Roger"})
	system.Shutdown(ctx)

	system = actor.NewSystem("seed003")
	ref = actor.SpawnFunc(system, "", func(_ *actor.Context[*hello], msg *hello) error {
		fmt.Fprintf(w, "Hello %v, from a function\n", msg.Who)
		return nil
	})
	ref.Tell(ctx, &hello{Who: "Roger"})
	system.Shutdown(ctx)
}
