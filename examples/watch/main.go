// Watch shows how an actor learns that another one has ended, and why: as a message of
// its own protocol, once, and never before the other's last words.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what the captain accepts.
type Msg interface{ msg() }

// Report is what a sailor says to the captain.
type Report struct{ Text string }

// Lost is what the captain makes of the end of a sailor.
type Lost struct{ actor.Down }

func (Report) msg() {}
func (Lost) msg()   {}

// Order is what a sailor accepts.
type Order string

var errOverboard = errors.New("man overboard")

// Captain watches two sailors.
type Captain struct {
	w        io.Writer
	ann, bob actor.Ref[Order]
	done     chan<- struct{}
}

// Init hires the sailors and watches them.
func (c *Captain) Init(ctx *actor.Context[Msg]) error {
	c.ann = actor.SpawnFunc(ctx, "ann", sailor(ctx.Self()))
	c.bob = actor.SpawnFunc(ctx, "bob", sailor(ctx.Self()))
	c.watch(ctx, c.ann)
	c.watch(ctx, c.bob)
	c.ann.Tell(ctx, "leave")
	return nil
}

func (c *Captain) watch(ctx *actor.Context[Msg], sailor actor.Ref[Order]) {
	ctx.Watch(sailor.PID(), func(d actor.Down) Msg { return Lost{d} })
}

// Receive is told of each end.
func (c *Captain) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Report:
		fmt.Fprintf(c.w, "%s says %s\n", ctx.Sender().Path(), m.Text)
	case Lost:
		fmt.Fprintf(c.w, "%s is gone: %s, error: %v\n", m.PID.Path(), m.Reason, m.Err)
		switch {
		case m.PID == c.ann.PID():
			c.bob.Tell(ctx, "storm")
		case m.Reason != actor.NoActor:
			c.watch(ctx, c.bob) // who is not there any more is reported at once
		default:
			close(c.done)
		}
	}
	return nil
}

func sailor(captain actor.Ref[Msg]) func(*actor.Context[Order], Order) error {
	return func(ctx *actor.Context[Order], o Order) error {
		if o == "storm" {
			return errOverboard
		}
		captain.Tell(ctx, Report{"farewell"})
		return actor.ErrStop
	}
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("ship", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer sys.Shutdown(ctx)

	done := make(chan struct{})
	actor.Spawn(sys, "captain", func() *Captain { return &Captain{w: w, done: done} },
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop })))
	<-done
}
