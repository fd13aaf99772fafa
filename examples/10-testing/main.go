// Testing is the tenth and last step of the tour: there is one croissant left and there are
// two waiters.
//
// The program is ordinary. What is new is its main_test.go. Package actortest tests one
// actor in virtual time, with a probe in place of its neighbor. Package sim runs several
// in thousands of orders: it finds that a waiter who looks before taking sells the same
// croissant twice, and that the waiter of this program does not.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// ShelfMsg is what the shelf accepts.
type ShelfMsg interface{ shelfMsg() }

type (
	// Left asks how many croissants there are.
	Left struct{ actor.Returns[int] }
	// Take asks for one; the answer says whether there was one.
	Take struct{ actor.Returns[bool] }
)

func (Left) shelfMsg() {}
func (Take) shelfMsg() {}

// Shelf holds croissants.
type Shelf struct{ left int }

// Receive handles one message.
func (s *Shelf) Receive(ctx *actor.Context[ShelfMsg], msg ShelfMsg) error {
	switch m := msg.(type) {
	case Left:
		actor.Reply(ctx, m, s.left)
	case Take:
		if s.left == 0 {
			actor.Reply(ctx, m, false)
			return nil
		}
		s.left--
		actor.Reply(ctx, m, true)
	}
	return nil
}

// Order is what a waiter accepts.
type Order struct{ actor.Returns[string] }

// waiter returns the handler of a waiter, who takes first and then looks what came of it.
func waiter(shelf actor.Ref[ShelfMsg]) func(*actor.Context[Order], Order) error {
	return func(ctx *actor.Context[Order], o Order) error {
		took, err := actor.Ask(ctx, shelf, Take{})
		if err != nil {
			return err
		}
		if took {
			actor.Reply(ctx, o, "a croissant")
		} else {
			actor.Reply(ctx, o, "sold out")
		}
		return nil
	}
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)

	shelf := actor.Spawn(sys, "shelf", func() *Shelf { return &Shelf{left: 1} })
	for _, name := range []string{"ann", "bob"} {
		text, err := actor.Ask(ctx, actor.SpawnFunc(sys, name, waiter(shelf)), Order{})
		fmt.Fprintf(w, "%s: %s, error: %v\n", name, text, err)
	}
}
