// Auto-respond shows a message that brings its own answer along, an acknowledgement for
// example, so that the handler need not give one.
//
// That is a function around a handler. The compiler checks the type of an answer that the
// handler gives itself; an answer given on its behalf goes through AskFor and ReplyFor,
// which check the type when it is sent.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// autoRespond is a message with its answer.
type autoRespond interface {
	getAutoResponse(ctx *actor.Context[any]) ack
}

type ack struct{ by actor.PID }

type touch struct{ what string }

// getAutoResponse says who was touched.
func (touch) getAutoResponse(ctx *actor.Context[any]) ack { return ack{ctx.Self().PID()} }

// responding makes a handler that answers such messages when receive has handled them.
func responding(receive func(*actor.Context[any], any) error) func(*actor.Context[any], any) error {
	return func(ctx *actor.Context[any], msg any) error {
		if err := receive(ctx, msg); err != nil {
			return err
		}
		if m, ok := msg.(autoRespond); ok {
			actor.ReplyFor(ctx, m.getAutoResponse(ctx))
		}
		return nil
	}
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("auto-respond")
	defer system.Shutdown(ctx)

	ref := actor.SpawnFunc(system, "statue", responding(func(_ *actor.Context[any], msg any) error {
		if m, ok := msg.(touch); ok {
			fmt.Fprintln(w, "somebody touches the", m.what)
		}
		return nil
	}))
	answer, err := actor.AskFor[ack](ctx, ref, touch{"nose"})
	fmt.Fprintln(w, "answered by", answer.by.Path(), err)
	_, err = actor.AskFor[ack](ctx, ref, "how are you?")
	fmt.Fprintln(w, err)
}
