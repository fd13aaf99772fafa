// Middleware shows functions that are called around the handling of a message, before a
// message is sent and before an actor is spawned, in the order in which they were given.
//
// AroundReceive belongs to an actor and sees what its handler returned; it is not called
// for Init and Terminate, which are methods and no messages. BeforeSend and BeforeSpawn
// belong to the system and see everything that is sent and spawned in it. They do not call
// the next one, so none of them can forget to.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	fmt.Fprintln(w, "receiving:")
	receiving(w)
	fmt.Fprintln(w, "sending:")
	sending(w)
	fmt.Fprintln(w, "spawning:")
	spawning(w)
}

type hello struct{ Who string }

type greeter struct{ w io.Writer }

// Receive greets.
func (g *greeter) Receive(_ *actor.Context[hello], msg hello) error {
	fmt.Fprintf(g.w, "Hello %v\n", msg.Who)
	return nil
}

// receiving has two functions around the handler of an actor.
func receiving(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("middleware")
	defer system.Shutdown(ctx)

	around := func(name string) actor.ReceiveOption {
		return actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
			fmt.Fprintln(w, name)
			return next()
		})
	}
	ref := actor.Spawn(system, "", func() *greeter { return &greeter{w} }, around("middleware 1"), around("middleware 2"))
	ref.Tell(ctx, hello{Who: "Roger"})
}

// sending has two functions that sign what an actor sends. The header goes along with the
// message and with what the message causes.
func sending(w io.Writer) {
	ctx := context.Background()
	sign := func(name string) actor.SystemOption {
		return actor.BeforeSend(func(ctx context.Context, s *actor.Sending) error {
			if _, inHandler := ctx.(*actor.Context[hello]); !inHandler {
				return nil // the greeting from outside
			}
			fmt.Fprintln(w, name)
			s.Header = actor.Header{"signed": s.Header["signed"] + name + ";"} // a new one: others may hold the old one
			return nil
		})
	}
	system := actor.NewSystem("middleware", sign("middleware 1"), sign("middleware 2"))
	defer system.Shutdown(ctx)

	done := make(chan struct{})
	next := actor.SpawnFunc(system, "", func(ctx *actor.Context[string], _ string) error {
		fmt.Fprintln(w, "header:", actor.HeaderOf(ctx)["signed"])
		close(done)
		return nil
	})
	ref := actor.SpawnFunc(system, "", func(ctx *actor.Context[hello], msg hello) error {
		fmt.Fprintf(w, "Hello %v\n", msg.Who)
		next.Tell(ctx, "")
		return nil
	})
	ref.Tell(ctx, hello{Who: "Roger"})
	<-done
}

var errFull = errors.New("the house is full")

type knock struct{ actor.Returns[error] }

// spawning has two functions that are asked before each spawn: one prints, one refuses the
// second guest.
func spawning(w io.Writer) {
	ctx := context.Background()
	guests := 0
	system := actor.NewSystem("middleware",
		actor.BeforeSpawn(func(s actor.Spawning) error {
			fmt.Fprintf(w, "about to spawn %s under %s, for messages of type %s\n", s.Name, s.Parent.Path(), s.Type)
			return nil
		}),
		actor.BeforeSpawn(func(s actor.Spawning) error {
			if s.Parent.Path() == "/host" {
				if guests++; guests > 1 {
					return errFull
				}
			}
			return nil
		}))
	defer system.Shutdown(ctx)

	host := actor.SpawnFunc(system, "host", func(ctx *actor.Context[knock], k knock) error {
		_, err := actor.TrySpawnFunc(ctx, "guest-*", func(*actor.Context[string], string) error { return nil })
		actor.Reply(ctx, k, err)
		return nil
	})
	for range 2 {
		refused, err := actor.Ask(ctx, host, knock{})
		fmt.Fprintln(w, refused, err)
	}
}
