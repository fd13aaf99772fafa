// Hello is the smallest program with an actor: a function that gets messages one at a
// time, and a reference to tell it something.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Greet is what the greeter accepts.
type Greet struct{ Who string }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("hello")
	defer sys.Shutdown(ctx) // the greeter first handles what it has been told

	greeter := actor.SpawnFunc(sys, "greeter", func(_ *actor.Context[Greet], m Greet) error {
		fmt.Fprintln(w, "hello", m.Who)
		return nil
	})
	greeter.Tell(ctx, Greet{"Roger"})
}
