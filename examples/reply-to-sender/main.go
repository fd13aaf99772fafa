// Reply-to-sender shows the two ways to answer: a tell to the sender, whose PID comes along
// with every message that a handler sends, and the reply to an ask, whose type the compiler
// checks.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type question struct {
	actor.Returns[string]
	text string
}

type answer string

// oracle answers whoever has sent the question, in the way in which it was sent.
type oracle struct{ w io.Writer }

// Receive answers.
func (o *oracle) Receive(ctx *actor.Context[question], m question) error {
	if _, asked := ctx.Deadline(); asked {
		actor.Reply(ctx, m, "42, of course")
		return nil
	}
	if ctx.Sender().IsZero() {
		fmt.Fprintf(o.w, "%q comes from outside of any actor: nobody to respond to\n", m.text)
		return nil
	}
	fmt.Fprintf(o.w, "%q comes from %s\n", m.text, ctx.Sender().Path())
	sender, err := actor.Lookup[answer](ctx.System(), ctx.Sender())
	if err != nil {
		return err // it has stopped, or is told other things than answers
	}
	sender.Tell(ctx, "42")
	return nil
}

// pilgrim puts the question in its Init and waits for the answer as for any message.
type pilgrim struct {
	w      io.Writer
	oracle actor.Ref[question]
	done   chan<- struct{}
}

// Init puts the question.
func (p *pilgrim) Init(ctx *actor.Context[answer]) error {
	p.oracle.Tell(ctx, question{text: "what is it?"})
	return nil
}

// Receive gets the answer.
func (p *pilgrim) Receive(ctx *actor.Context[answer], m answer) error {
	fmt.Fprintf(p.w, "%s is told %q by %s\n", ctx.Self().PID().Path(), m, ctx.Sender().Path())
	close(p.done)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("reply-to-sender")
	defer system.Shutdown(ctx)

	ref := actor.Spawn(system, "oracle", func() *oracle { return &oracle{w} })
	ref.Tell(ctx, question{text: "is anybody there?"})

	done := make(chan struct{})
	actor.Spawn(system, "pilgrim", func() *pilgrim { return &pilgrim{w, ref, done} })
	<-done

	text, err := actor.Ask(ctx, ref, question{text: "what is it?"})
	fmt.Fprintln(w, "asked:", text, err)
}
