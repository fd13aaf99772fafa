// Hello is the first step of the tour: an actor and a message.
//
// An actor handles one message at a time. Its reference is all that others have of it, and
// the reference's type says which messages it accepts.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Hello is the message.
type Hello struct{ Who string }

// Greeter is an actor with state. It needs no mutex, because its messages are handled one
// after the other.
type Greeter struct {
	w io.Writer
	n int
}

// Receive handles one message.
func (g *Greeter) Receive(_ *actor.Context[Hello], msg Hello) error {
	g.n++
	fmt.Fprintf(g.w, "Hello %s, you are guest number %d\n", msg.Who, g.n)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()

	sys := actor.NewSystem("hello")
	greeter := actor.Spawn(sys, "greeter", func() *Greeter { return &Greeter{w: w} })
	greeter.Tell(ctx, Hello{"Roger"}) // puts the message into the mailbox and returns
	greeter.Tell(ctx, Hello{"Alice"})
	sys.Shutdown(ctx) // waits until the mailbox is empty

	// An actor without state of its own is a function.
	sys = actor.NewSystem("hello")
	function := actor.SpawnFunc(sys, "greeter", func(_ *actor.Context[Hello], msg Hello) error {
		fmt.Fprintf(w, "Hello %s, from a function\n", msg.Who)
		return nil
	})
	function.Tell(ctx, Hello{"Roger"})
	sys.Shutdown(ctx)
}
