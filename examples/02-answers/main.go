// Answers is the second step of the tour: a protocol with typed answers.
//
// From here on the tour is about a coffee bar. Its barista accepts two kinds of messages:
// an order, which is told, and a question, which is asked and whose answer is an int.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what a barista accepts: a sealed interface, Go's idiom for a sum type. Telling a
// barista anything else does not compile.
type Msg interface{ msg() }

// Order asks for a drink.
type Order struct{ Drink string }

// Sold asks how many drinks were sold. It embeds the type of its answer.
type Sold struct{ actor.Returns[int] }

func (Order) msg() {}
func (Sold) msg()  {}

// Barista makes drinks and counts them.
type Barista struct {
	w    io.Writer
	sold int
}

// Receive handles one message.
func (b *Barista) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Order:
		b.sold++
		fmt.Fprintln(b.w, "one", m.Drink)
	case Sold:
		actor.Reply(ctx, m, b.sold) // the compiler checks that the answer is an int
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)

	barista := actor.Spawn(sys, "barista", func() *Barista { return &Barista{w: w} })
	barista.Tell(ctx, Order{"espresso"})
	barista.Tell(ctx, Order{"latte"})
	n, err := actor.Ask(ctx, barista, Sold{}) // n is an int; messages of one sender arrive in order
	fmt.Fprintln(w, "sold:", n, "error:", err)

	// An ask always ends: with the answer, with the handler's error, or with the reason why
	// there will be no answer.
	barista.Stop()
	_, err = actor.Ask(ctx, barista, Sold{})
	fmt.Fprintln(w, "error:", err, errors.Is(err, actor.ErrStopped))
}
