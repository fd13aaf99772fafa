// Mailboxes is the sixth step of the tour: customers who come faster than the barista works.
//
// A mailbox is unbounded by default. A bounded one refuses what does not fit, so that the
// customer knows at once, or makes the customer wait, which is backpressure. There are more
// policies: see examples/mailbox-policies.
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

// Order asks for a drink.
type Order struct{ N int }

// makeDrink takes a second for each order.
func makeDrink(ctx *actor.Context[Order], _ Order) error { return ctx.Sleep(time.Second) }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	const room = 2 // orders that wait while one is being made
	serve(w, "refuse", actor.Bounded(room, actor.Reject))
	serve(w, "wait", actor.Bounded(room, actor.Block))
}

// serve has six customers order, each 300 ms after the one before has ordered.
func serve(w io.Writer, title string, mailbox actor.SpawnOption) {
	ctx := context.Background()
	sys := actor.NewSystem("bar", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer sys.Shutdown(ctx)

	barista := actor.SpawnFunc(sys, "barista", makeDrink, mailbox)
	opened := time.Now()
	fmt.Fprintln(w, title+":")
	for n := range 6 {
		err := barista.TryTell(ctx, Order{n + 1}) // Tell with an error
		fmt.Fprintf(w, "  %.1f s: order %d, refused: %t\n", time.Since(opened).Seconds(), n+1, errors.Is(err, actor.ErrMailboxFull))
		<-time.After(300 * time.Millisecond)
	}
}
