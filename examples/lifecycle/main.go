// Lifecycle shows the life of an actor: it starts, it is restarted after a failure, and it
// stops.
//
// Init runs at each start, and Terminate at the end of each incarnation, with the failure
// that ended it or nil. They are methods and no messages among the others. That an actor has
// stopped is seen from outside: its parent watches it.
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

// child greets, and panics when it is told to greet nobody.
type child struct{ w io.Writer }

// Init runs when the actor starts and each time it is restarted.
func (c *child) Init(*actor.Context[hello]) error {
	fmt.Fprintln(c.w, "Started, initialize actor here")
	return nil
}

// Receive greets.
func (c *child) Receive(_ *actor.Context[hello], msg hello) error {
	fmt.Fprintf(c.w, "Hello %v\n", msg.Who)
	if msg.Who == "nobody" {
		panic("Ouch")
	}
	return nil
}

// Terminate runs at the end of each incarnation.
func (c *child) Terminate(_ *actor.Context[hello], why error) {
	if why != nil {
		fmt.Fprintf(c.w, "Restarting, actor is about to restart (%v)\n", why)
		return
	}
	fmt.Fprintln(c.w, "Stopping, actor is about to shut down")
}

// parent makes a child for each list of greetings, and supervises it.
type parent struct {
	w    io.Writer
	done chan<- struct{}
}

type (
	parentMsg interface{ parentMsg() }
	greetings []hello
	stopped   struct{ actor.Down }
)

func (greetings) parentMsg() {}
func (stopped) parentMsg()   {}

// Receive makes a child, or learns that it has stopped.
func (p *parent) Receive(ctx *actor.Context[parentMsg], msg parentMsg) error {
	switch m := msg.(type) {
	case greetings:
		ref := actor.Spawn(ctx, "", func() *child { return &child{p.w} })
		ctx.Watch(ref.PID(), func(d actor.Down) parentMsg { return stopped{d} })
		for _, h := range m {
			ref.Tell(ctx, h)
		}
		ref.Drain() // stops it after what it was told; Stop would not wait
	case stopped:
		fmt.Fprintln(p.w, "Stopped, actor and its children are stopped")
		p.done <- struct{}{}
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("lifecycle", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	done := make(chan struct{}, 1)
	ref := actor.Spawn(system, "parent", func() *parent { return &parent{w: w, done: done} })

	fmt.Fprintln(w, "a quiet life:")
	ref.Tell(ctx, greetings{{"Roger"}})
	<-done

	fmt.Fprintln(w, "a life with a failure:")
	ref.Tell(ctx, greetings{{"nobody"}, {"Roger"}})
	<-done
}
