// Routers is the seventh step of the tour: more baristas behind one reference.
//
// A pool makes its actors and supervises them. The sender's side chooses one for each
// message, so there is no actor in the middle that could become the bottleneck.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

// Order asks for a drink; the answer says who made it.
type Order struct {
	actor.Returns[string]
	Drink string
}

func makeDrink(ctx *actor.Context[Order], o Order) error {
	if err := ctx.Sleep(time.Second); err != nil {
		return err // the customer has left, or the bar closes
	}
	actor.Reply(ctx, o, fmt.Sprintf("%s by %s", o.Drink, ctx.Self().PID().Path()))
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)

	baristas := router.SpawnPoolFunc(sys, "baristas", router.RoundRobin, 3, makeDrink)
	for range 4 { // one after the other: each barista in turn
		made, err := actor.Ask(ctx, baristas.Ref, Order{Drink: "espresso"})
		fmt.Fprintln(w, made, err)
	}

	// Six customers at once: three baristas need two seconds.
	began := time.Now()
	made := make([]string, 6)
	var customers sync.WaitGroup
	for i := range made {
		customers.Go(func() {
			made[i], _ = actor.Ask(ctx, baristas.Ref, Order{Drink: "latte"})
		})
	}
	customers.Wait()
	slices.Sort(made)
	for _, m := range made {
		fmt.Fprintln(w, m)
	}
	fmt.Fprintf(w, "after %.1f s\n", time.Since(began).Seconds())

	// The pool can be resized while it works.
	fmt.Fprintln(w, "resized:", baristas.Resize(ctx, 2), len(baristas.Routees()))
}
