// Context shows what a handler can do through its context. In Proto.Actor a context is made
// of roles; this is where each of them is found:
//
//	Spawner     Spawn and its variants take a System or a Context: children of the root, or of the actor
//	Stopper     Stop, Drain and Kill are methods of a reference; Context.Stop stops the actor itself
//	Info        Self, Parent, Children, Sender, System
//	Sender      Ref.Tell and actor.Ask, with the handler's ctx or any other
//	Receiver    the handler's second argument: there is no envelope to unwrap
//	Invoker     belongs to the runtime
//	Supervisor  Supervise, an option of the parent
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

type (
	start struct{}
	order string
	gone  struct{ actor.Down }
)

var errNo = errors.New("no")

type foreman struct {
	w    io.Writer
	done chan<- struct{}
}

// Receive shows its context.
func (f *foreman) Receive(ctx *actor.Context[any], msg any) error {
	switch m := msg.(type) {
	case start:
		fmt.Fprintln(f.w, "system:", ctx.System().Name(), "self:", ctx.Self().PID().Path(),
			"parent:", ctx.Parent().Path(), "from outside:", ctx.Sender().IsZero())
		ann := actor.SpawnFunc(ctx, "ann", work) // Spawner
		bob := actor.SpawnFunc(ctx, "bob", work)
		fmt.Fprintln(f.w, "children:", paths(ctx.Children()))
		for _, worker := range []actor.Ref[order]{ann, bob} {
			ctx.Watch(worker.PID(), func(d actor.Down) any { return gone{d} })
		}
		bob.Tell(ctx, "refuse") // Sender; and Supervisor, since this is a failure
	case string:
		fmt.Fprintf(f.w, "%s says %q\n", ctx.Sender().Path(), m)
	case gone:
		fmt.Fprintln(f.w, m.PID.Path(), "is gone:", m.Reason, m.Err)
		if left := ctx.Children(); len(left) > 0 {
			fmt.Fprintln(f.w, "children:", paths(left))
			ann, err := actor.Lookup[order](ctx.System(), left[0])
			if err != nil {
				return err
			}
			ann.Stop() // Stopper
			return nil
		}
		ctx.Stop()
		close(f.done)
	}
	return nil
}

func work(ctx *actor.Context[order], m order) error {
	foreman, err := actor.Lookup[any](ctx.System(), ctx.Parent())
	if err != nil {
		return err
	}
	foreman.Tell(ctx, "I "+string(m))
	return errNo
}

func paths(pids []actor.PID) string {
	var list []string
	for _, pid := range pids {
		list = append(list, pid.Path())
	}
	return strings.Join(list, " ")
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("context", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	done := make(chan struct{})
	ref := actor.Spawn(system, "foreman", func() *foreman { return &foreman{w, done} },
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Stop })))
	ref.Tell(ctx, start{})
	<-done
}
