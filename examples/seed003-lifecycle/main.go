// Seed003-lifecycle is the counterpart of the walk-through's life of an actor, and
// prints what it prints. The walk-through waits a second before it stops the actor, for
// the greeting to be handled first; here Drain says that.
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

// Init is the walk-through's Started.
func (state *helloActor) Init(*actor.Context[hello]) error {
	fmt.Fprintln(state.w, "Started, initialize actor here")
	return nil
}

// Receive greets.
func (state *helloActor) Receive(_ *actor.Context[hello], msg hello) error {
	fmt.Fprintf(state.w, "Hello %v\n", msg.Who)
	return nil
}

// Terminate is the walk-through's Stopping, and its Restarting when why is not nil.
func (state *helloActor) Terminate(_ *actor.Context[hello], why error) {
	if why != nil {
		fmt.Fprintln(state.w, "Restarting, actor is about restart")
		return
	}
	fmt.Fprintln(state.w, "Stopping, actor is about shut down")
}

// observer is told when the actor has Stopped.
type observer struct {
	w    io.Writer
	of   actor.PID
	done chan<- struct{}
}

// Init watches the actor.
func (o *observer) Init(ctx *actor.Context[actor.Down]) error {
	ctx.Watch(o.of, func(d actor.Down) actor.Down { return d })
	return nil
}

// Receive gets the one message there is.
func (o *observer) Receive(*actor.Context[actor.Down], actor.Down) error {
	fmt.Fprintln(o.w, "Stopped, actor and its children are stopped")
	close(o.done)
	return actor.ErrStop
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003")
	defer system.Shutdown(ctx)

	ref := actor.Spawn(system, "", func() *helloActor { return &helloActor{w} })
	done := make(chan struct{})
	actor.Spawn(system, "", func() *observer { return &observer{w, ref.PID(), done} })
	ref.Tell(ctx, hello{Who: "Roger"})
	ref.Drain()
	<-done
}
