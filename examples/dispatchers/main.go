// Dispatchers shows the three ways in which an actor can be run: by the system's pool of
// workers, which is the default; on an operating system thread of its own (Pinned), for
// libraries that need one; or on the sender's goroutine (Inline), so that the message has
// been handled when Tell returns.
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
	system := actor.NewSystem("dispatchers")
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
	system := actor.NewSystem("dispatchers")
	defer system.Shutdown(ctx)
	fmt.Fprintln(w, "inline")

	ref := actor.SpawnFunc(system, "", func(_ *actor.Context[string], msg string) error {
		fmt.Fprintln(w, "  handled", msg)
		return nil
	}, actor.Inline())
	ref.Tell(ctx, "Hello")
	fmt.Fprintln(w, "  Tell returned")
}
