// Topics shows an event bus with wildcards on both sides, and why its subscribers are actors:
// a struct whose methods are subscribed would have them called at the same time and would
// need a lock for its state. The second half of the program is such a state, with two
// subscriptions, many publishers and no lock.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
)

// do is the event of the first half.
type do struct{}

// partner does something when it is told to.
type partner struct {
	name  string
	bus   *eventbus.Bus
	tells chan<- string
}

// Init subscribes, in each incarnation anew.
func (p *partner) Init(ctx *actor.Context[do]) error {
	_, err := eventbus.Subscribe(ctx, p.bus, "partner."+p.name+".do", func(_ string, d do) do { return d })
	return err
}

// Receive does something.
func (p *partner) Receive(ctx *actor.Context[do], _ do) error {
	return actor.Blocking(ctx, func() error {
		p.tells <- p.name + " do something"
		return nil
	})
}

type (
	steps int // the event of the second half

	move  struct{ by int }
	where struct{ actor.Returns[int] }
)

// walker has two subscriptions that change one state.
type walker struct {
	bus *eventbus.Bus
	at  int
}

// Init subscribes. What a message of the bus is to the actor, wrap says.
func (k *walker) Init(ctx *actor.Context[any]) error {
	if _, err := eventbus.Subscribe(ctx, k.bus, "walk.forth", func(_ string, n steps) any { return move{int(n)} }); err != nil {
		return err
	}
	_, err := eventbus.Subscribe(ctx, k.bus, "walk.back", func(_ string, n steps) any { return move{-int(n)} })
	return err
}

// Receive walks, one message at a time.
func (k *walker) Receive(ctx *actor.Context[any], msg any) error {
	switch m := msg.(type) {
	case move:
		k.at += m.by
	case where:
		actor.Reply(ctx, m, k.at)
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("topics")
	defer system.Shutdown(ctx)
	bus := eventbus.New(system)

	tells := make(chan string)
	for _, name := range []string{"Bob", "Alice"} {
		actor.Spawn(system, name, func() *partner { return &partner{name, bus, tells} })
	}
	// PublishAll takes wildcards; a subscription may have them too.
	if err := eventbus.PublishAll(ctx, bus, "partner.*.do", do{}); err != nil {
		fmt.Fprintln(w, err)
	}
	both := []string{<-tells, <-tells} // at the same time
	slices.Sort(both)
	for _, line := range both {
		fmt.Fprintln(w, line)
	}

	ref := actor.Spawn(system, "walker", func() *walker { return &walker{bus: bus} })
	var crowd sync.WaitGroup
	for n := range 100 {
		crowd.Go(func() {
			if err := eventbus.Publish(ctx, bus, "walk.forth", steps(n)); err != nil {
				fmt.Fprintln(w, err)
			}
			if err := eventbus.Publish(ctx, bus, "walk.back", steps(1)); err != nil {
				fmt.Fprintln(w, err)
			}
		})
	}
	crowd.Wait()
	at, err := actor.Ask(ctx, ref, where{})
	fmt.Fprintln(w, "the walker is at", at, err)
}
