// Seed003-dispatcher is the counterpart of the dispatchers of both texts. The default one
// there starts a goroutine for each run of a mailbox; here it is a pool of workers that
// stays. The synchronized one runs the mailbox on the sender's goroutine, so that the
// sender knows that the message has been handled when the send returns: that is Inline.
// Pinned is a third one, an actor with a thread of its own, for libraries that want one.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	send(w, "pool")
	send(w, "pinned", actor.Pinned())
	sendInline(w)
}

// send sends a message to an actor that handles it when Tell has returned, and not
// before.
func send(w io.Writer, title string, dispatcher ...actor.SpawnOption) {
	ctx := context.Background()
	system := actor.NewSystem("seed003")
	fmt.Fprintln(w, title)

	returned := make(chan struct{})
	ref := actor.SpawnFunc(system, "", func(ctx *actor.Context[string], msg string) error {
		if err := actor.Blocking(ctx, func() error { <-returned; return nil }); err != nil {
			return err
		}
		fmt.Fprintln(w, "  handled", msg)
		return nil
	}, dispatcher...)
	ref.Tell(ctx, "Hello")
	fmt.Fprintln(w, "  Tell returned")
	close(returned)
	system.Shutdown(ctx)
}

// sendInline sends a message to an actor that has handled it when Tell returns.
func sendInline(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003")
	defer system.Shutdown(ctx)
	fmt.Fprintln(w, "inline")

	ref := actor.SpawnFunc(system, "", func(_ *actor.Context[string], msg string) error {
		fmt.Fprintln(w, "  handled", msg)
		return nil
	}, actor.Inline())
	ref.Tell(ctx, "Hello")
	fmt.Fprintln(w, "  Tell returned")
}
