// Counter is an actor with a protocol, state and a typed answer.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// CounterMsg is what a counter accepts: a sealed interface, the Go idiom for a sum type.
type CounterMsg interface{ counterMsg() }

// Add adds N to the counter.
type Add struct{ N int }

// Get asks for the count: its answer is an int.
type Get struct{ actor.Returns[int] }

func (Add) counterMsg() {}
func (Get) counterMsg() {}

// Counter counts. No mutex: one message is handled at a time.
type Counter struct{ n int }

// Receive handles one message.
func (c *Counter) Receive(ctx *actor.Context[CounterMsg], msg CounterMsg) error {
	switch m := msg.(type) {
	case Add:
		c.n += m.N
	case Get:
		actor.Reply(ctx, m, c.n) // the compiler checks that the answer is an int
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("counter")
	defer sys.Shutdown(ctx)

	counter := actor.Spawn(sys, "counter", func() *Counter { return &Counter{} })
	for i := range 4 {
		counter.Tell(ctx, Add{i})
	}
	n, err := actor.Ask(ctx, counter, Get{}) // n is an int
	fmt.Fprintln(w, "count:", n, "error:", err)

	counter.Stop()
	_, err = actor.Ask(ctx, counter, Get{})
	fmt.Fprintln(w, "error:", err)
}
