// Seed003-eventstream is the counterpart of the walk-through's event stream, to which an
// actor subscribes for dead letters: messages that certainly cannot be delivered. The
// type of the subscriber's messages says which events it gets: those of one kind, or all.
//
// The dead letters of one system stay in it, as in the walk-through. Where no actor
// listens they are still counted, and the latest are kept: see seed003-deadletter.
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

// once greets one time.
type once struct{}

// Receive ends the actor normally.
func (once) Receive(*actor.Context[hello], hello) error { return actor.ErrStop }

// undertaker looks after the dead letters.
type undertaker struct {
	w    io.Writer
	done chan<- struct{}
}

// Receive gets one.
func (u *undertaker) Receive(_ *actor.Context[actor.DeadLetter], d actor.DeadLetter) error {
	from := "from outside"
	if !d.From.IsZero() {
		from = "from " + d.From.Path()
	}
	fmt.Fprintf(u.w, "dead letter: %+v to %s %s: %s\n", d.Message, d.To.Path(), from, d.Reason)
	u.done <- struct{}{}
	return nil
}

// chronicler gets events of every kind, and is interested in some.
type chronicler struct {
	w    io.Writer
	gone chan<- struct{}
}

// Receive gets one.
func (c *chronicler) Receive(_ *actor.Context[actor.Event], e actor.Event) error {
	if e, ok := e.(actor.ActorStopped); ok && e.PID.Path() == "/once" {
		fmt.Fprintln(c.w, "event:", e.PID.Path(), e.Reason)
		c.gone <- struct{}{}
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	dead, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	actor.Subscribe(system, actor.Spawn(system, "undertaker", func() *undertaker { return &undertaker{w, dead} }))
	all := actor.Spawn(system, "chronicler", func() *chronicler { return &chronicler{w, gone} })
	actor.Subscribe(system, all)

	ref := actor.Spawn(system, "once", func() once { return once{} })
	ref.Tell(ctx, hello{Who: "Roger"})
	<-gone
	actor.Unsubscribe(system, all)

	ref.Tell(ctx, hello{Who: "Alice"})
	<-dead
	actor.SpawnFunc(system, "late", func(ctx *actor.Context[hello], m hello) error {
		ref.Tell(ctx, m)
		return nil
	}).Tell(ctx, hello{Who: "Bob"})
	<-dead
}
