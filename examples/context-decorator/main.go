// Context-decorator shows how to wrap the context of an actor, to observe or change what the
// actor does with it.
//
// Go's embedding is enough: a struct that embeds the Context is a context, with the methods
// that it overrides, and may be passed to Tell and Ask. Only the functions that take an
// *actor.Context, Reply for example, are given the embedded one.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type hello struct{ Who string }

// verbose is a context that says what its actor does with it.
type verbose struct {
	*actor.Context[hello]
	w       io.Writer
	stopped chan<- struct{}
}

// Become says so and does it.
func (v verbose) Become(receive func(verbose, hello) error) {
	fmt.Fprintln(v.w, "decorator: becomes another")
	v.Context.Become(decorate(v.w, v.stopped, receive))
}

// Stop says so and does it.
func (v verbose) Stop() {
	fmt.Fprintln(v.w, "decorator: stops")
	v.Context.Stop()
	close(v.stopped)
}

// decorate makes a handler of one that wants a verbose context.
func decorate(w io.Writer, stopped chan<- struct{}, receive func(verbose, hello) error) func(*actor.Context[hello], hello) error {
	return func(ctx *actor.Context[hello], msg hello) error {
		fmt.Fprintln(w, "decorator: receives", msg.Who)
		return receive(verbose{ctx, w, stopped}, msg)
	}
}

func greet(ctx verbose, msg hello) error {
	fmt.Fprintln(ctx.w, "Hello", msg.Who)
	ctx.Become(part)
	ctx.Self().Tell(ctx, hello{Who: "myself"}) // known as the sender through the decorated context
	return nil
}

func part(ctx verbose, msg hello) error {
	fmt.Fprintln(ctx.w, "Good-bye", msg.Who, "from myself:", ctx.Sender() == ctx.Self().PID())
	ctx.Stop()
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("context-decorator")
	defer system.Shutdown(ctx)

	stopped := make(chan struct{})
	ref := actor.SpawnFunc(system, "", decorate(w, stopped, greet))
	ref.Tell(ctx, hello{Who: "Roger"})
	<-stopped
}
