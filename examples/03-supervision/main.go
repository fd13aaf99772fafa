// Supervision is the third step of the tour: what happens when the barista fails.
//
// An error or a panic in a handler is a failure of that actor alone. Its supervisor
// restarts it with a fresh state; the reference and the mailbox survive, and the message
// that failed is not delivered again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what a barista accepts.
type Msg interface{ msg() }

// Order asks for a drink.
type Order struct{ Drink string }

// Sold asks how many drinks were sold.
type Sold struct{ actor.Returns[int] }

func (Order) msg() {}
func (Sold) msg()  {}

var errNoDecaf = errors.New("out of decaf")

// Barista makes drinks and counts them.
type Barista struct {
	w    io.Writer
	sold int
}

// Init runs before the first message, and again after each restart.
func (b *Barista) Init(*actor.Context[Msg]) error {
	fmt.Fprintln(b.w, "barista starts")
	return nil
}

// Receive handles one message.
func (b *Barista) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Order:
		switch m.Drink {
		case "decaf":
			return errNoDecaf
		case "tea":
			panic("this is a coffee bar")
		}
		b.sold++
		fmt.Fprintln(b.w, "one", m.Drink)
	case Sold:
		actor.Reply(ctx, m, b.sold)
	}
	return nil
}

// Terminate runs once at the end of each incarnation, with the failure that ended it, or
// nil if it was stopped.
func (b *Barista) Terminate(_ *actor.Context[Msg], why error) {
	fmt.Fprintf(b.w, "barista ends: %v, sold: %d\n", why, b.sold)
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar",
		actor.WithLogger(slog.New(slog.DiscardHandler)), // failures are logged, with their stacks
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(5, time.Minute), actor.Backoff(50*time.Millisecond, time.Second)))
	defer sys.Shutdown(ctx)

	barista := actor.Spawn(sys, "barista", func() *Barista { return &Barista{w: w} })
	for _, drink := range []string{"espresso", "latte", "decaf", "mocha", "tea", "cortado"} {
		barista.Tell(ctx, Order{drink})
	}
	n, err := actor.Ask(ctx, barista, Sold{})
	fmt.Fprintln(w, "sold since the last restart:", n, "error:", err)

	st := sys.Stats()
	fmt.Fprintln(w, "failures:", st.Failures, "restarts:", st.Restarts)
}
