// Seed003-deadletter shows what the walk-through tells about dead letters: what is sent
// to an actor that has stopped is not lost without a trace.
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

type hello struct{ Who string }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	stopped := make(chan struct{})
	ref := actor.Spawn(system, "gone", func() *goner { return &goner{stopped} })
	ref.Stop()
	<-stopped
	ref.Tell(ctx, hello{Who: "Roger"})
	for _, d := range system.DeadLetters() {
		fmt.Fprintf(w, "dead letter to %s: %s %+v\n", d.To.Path(), d.Type, d.Message)
	}
	err := ref.TryTell(ctx, hello{Who: "Alice"}) // who wants to know at once
	fmt.Fprintln(w, "told:", errors.Is(err, actor.ErrStopped))
	fmt.Fprintln(w, "dead letters:", system.Stats().DeadLetters)
}

type goner struct{ stopped chan<- struct{} }

// Receive is never called: the actor is stopped before anything is sent.
func (g *goner) Receive(*actor.Context[hello], hello) error { return nil }

// Terminate says that the actor takes nothing any more.
func (g *goner) Terminate(*actor.Context[hello], error) { close(g.stopped) }
