// Seed003-send-middleware is the counterpart of the walk-through's sender middleware: two
// of them, in the order in which they are given, see what an actor sends, and may add to
// the message's header, which goes along with it and with what it causes.
//
// There the middleware belongs to the sending actor. Here it is the system's and sees all
// that is sent; the two of this program look at what comes from a handler and let the
// greeting from outside pass. They need not call the next one: none of them can forget it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type hello struct{ Who string }

type helloActor struct {
	w    io.Writer
	pid1 actor.Ref[string]
}

// Receive greets, and tells another one.
func (state *helloActor) Receive(ctx *actor.Context[hello], msg hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	state.pid1.Tell(ctx, "")
	return nil
}

// says is a middleware that prints its name and signs the message.
func says(w io.Writer, name string) actor.SendMiddleware {
	return func(ctx context.Context, s *actor.Sending) {
		if _, inHandler := ctx.(*actor.Context[hello]); !inHandler {
			return
		}
		fmt.Fprintln(w, name)
		signed := actor.Header{"signed": s.Header["signed"] + name + ";"} // a new one: others may hold the old
		s.Header = signed
	}
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003",
		actor.BeforeSend(says(w, "middleware 1")), actor.BeforeSend(says(w, "middleware 2")))
	defer system.Shutdown(ctx)

	done := make(chan struct{})
	pid1 := actor.SpawnFunc(system, "", func(ctx *actor.Context[string], _ string) error {
		fmt.Fprintln(w, "header:", actor.HeaderOf(ctx)["signed"])
		close(done)
		return nil
	})
	ref := actor.Spawn(system, "", func() *helloActor { return &helloActor{w, pid1} })
	ref.Tell(ctx, hello{Who: "Roger"})
	<-done
}
