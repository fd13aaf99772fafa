// Dead-letters shows what becomes of messages that nobody will handle: they are counted, the
// latest are kept, and an actor can subscribe to them.
//
// Events are published within one system. The type of the subscriber's messages chooses the
// events it gets: those of one kind, or all.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

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
	system := actor.NewSystem("dead-letters", actor.WithLogger(slog.New(slog.DiscardHandler)))
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

	// TryTell reports it at once instead.
	err := ref.TryTell(ctx, hello{Who: "Cid"})
	fmt.Fprintln(w, "refused:", errors.Is(err, actor.ErrStopped))

	// Without a subscriber they are still counted, and the latest are kept.
	fmt.Fprintln(w, "dead letters:", system.Stats().DeadLetters)
	for _, d := range slices.Backward(system.DeadLetters()) {
		fmt.Fprintf(w, "kept: %s %+v to %s\n", d.Type, d.Message, d.To.Path())
	}
}
