// Seed003-child is the counterpart of the walk-through's parent that makes a child and
// supervises it: the child panics, and is restarted.
//
// Proto.Actor tells an actor of its life by messages among the others. Here they are two
// methods: Init is Started, and Terminate, which is given the failure that led to it or
// nil, is Restarting and Stopping. That an actor has Stopped is seen from outside.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type hello struct{ Who string }

// parentMsg is what the parent accepts: a greeting, or news of its child.
type parentMsg any

type (
	childStarted struct{}
	childStopped struct{ actor.Down }
)

type parentActor struct {
	w      io.Writer
	child  actor.Ref[hello]
	starts int
	done   chan<- struct{}
}

// Receive makes a child for the greeting, and stops it once it has been restarted.
func (state *parentActor) Receive(ctx *actor.Context[parentMsg], msg parentMsg) error {
	switch m := msg.(type) {
	case hello:
		self := ctx.Self()
		state.child = actor.Spawn(ctx, "", func() *childActor { return &childActor{state.w, self} })
		ctx.Watch(state.child.PID(), func(d actor.Down) parentMsg { return childStopped{d} })
		state.child.Tell(ctx, m)
	case childStarted:
		if state.starts++; state.starts == 2 {
			state.child.Stop()
		}
	case childStopped:
		fmt.Fprintln(state.w, "Stopped, actor and its children are stopped")
		close(state.done)
	}
	return nil
}

type childActor struct {
	w      io.Writer
	parent actor.Ref[parentMsg]
}

// Init runs when the actor starts and each time that it is restarted.
func (state *childActor) Init(ctx *actor.Context[hello]) error {
	fmt.Fprintln(state.w, "Starting, initialize actor here")
	state.parent.Tell(ctx, childStarted{})
	return nil
}

// Receive fails.
func (state *childActor) Receive(_ *actor.Context[hello], msg hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	panic("Ouch")
}

// Terminate runs at the end of each incarnation.
func (state *childActor) Terminate(_ *actor.Context[hello], why error) {
	if why != nil {
		fmt.Fprintf(state.w, "Restarting, actor is about to restart (%v)\n", why)
		return
	}
	fmt.Fprintln(state.w, "Stopping, actor is about to shut down")
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	done := make(chan struct{})
	parent := actor.Spawn(system, "parent", func() *parentActor { return &parentActor{w: w, done: done} })
	parent.Tell(ctx, hello{Who: "Roger"})
	<-done
}
