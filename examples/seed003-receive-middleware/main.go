// Seed003-receive-middleware is the counterpart of the walk-through's receiver
// middleware: two of them around the handler of an actor, in the order in which they are
// given.
//
// It prints what the walk-through prints for the greeting. There the two lines come once
// more before it, for the message Started; here Init is a method and no message, and
// middleware is around messages only. And a middleware here sees what came of the
// message, since next returns the handler's error.
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
	defer system.Shutdown(ctx)

	ref := actor.Spawn(system, "", func() *helloActor { return &helloActor{w} },
		actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
			fmt.Fprintln(w, "middleware 1")
			return next()
		}),
		actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
			fmt.Fprintln(w, "middleware 2")
			return next()
		}),
	)
	ref.Tell(ctx, &hello{Who: "Roger"})
}
