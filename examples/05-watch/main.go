// Watch is the fifth step of the tour: an owner who hires baristas learns when one of them
// has ended, and why.
//
// The news comes as a message of the watcher's own protocol, once, and never before the
// last message that the other has sent. What is sent to an actor that has ended is not
// lost silently: it becomes a dead letter with its reason.
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

// Order is what a barista accepts.
type Order struct{ Drink string }

// Msg is what the owner accepts.
type Msg interface{ msg() }

// Note is what a barista tells the owner.
type Note struct{ Text string }

// Left is what the owner makes of the end of a barista.
type Left struct{ actor.Down }

func (Note) msg() {}
func (Left) msg() {}

var errBurnt = errors.New("burnt my hand")

// barista returns the handler of a barista: it quits after "the last one", and fails on a
// flat white.
func barista(owner actor.Ref[Msg]) func(*actor.Context[Order], Order) error {
	return func(ctx *actor.Context[Order], o Order) error {
		switch o.Drink {
		case "flat white":
			return errBurnt
		case "the last one":
			owner.Tell(ctx, Note{"I quit"})
			return actor.ErrStop
		}
		return nil
	}
}

// Owner runs the bar with two baristas.
type Owner struct {
	w        io.Writer
	ann, bob actor.Ref[Order]
	done     chan<- struct{}
}

// Init hires the baristas: they are the owner's children, and the owner is their supervisor.
func (o *Owner) Init(ctx *actor.Context[Msg]) error {
	o.ann = actor.SpawnFunc(ctx, "ann", barista(ctx.Self()))
	o.bob = actor.SpawnFunc(ctx, "bob", barista(ctx.Self()))
	o.watch(ctx, o.ann)
	o.watch(ctx, o.bob)
	o.ann.Tell(ctx, Order{"the last one"})
	return nil
}

func (o *Owner) watch(ctx *actor.Context[Msg], barista actor.Ref[Order]) {
	ctx.Watch(barista.PID(), func(d actor.Down) Msg { return Left{d} })
}

// Receive is told of each end.
func (o *Owner) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Note:
		fmt.Fprintf(o.w, "%s says: %s\n", ctx.Sender().Path(), m.Text)
	case Left:
		fmt.Fprintf(o.w, "%s has ended: %s, error: %v\n", m.PID.Path(), m.Reason, m.Err)
		switch {
		case m.PID == o.ann.PID():
			o.bob.Tell(ctx, Order{"flat white"})
		case m.Reason != actor.NoActor:
			o.bob.Tell(ctx, Order{"espresso"}) // to nobody
			o.watch(ctx, o.bob)                // is answered at once
		default:
			close(o.done)
		}
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer sys.Shutdown(ctx)

	done := make(chan struct{})
	actor.Spawn(sys, "owner", func() *Owner { return &Owner{w: w, done: done} },
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop })))
	<-done
	for _, d := range sys.DeadLetters() {
		fmt.Fprintf(w, "dead letter: %+v from %s to %s: %s\n", d.Message, d.From.Path(), d.To.Path(), d.Reason)
	}
}
