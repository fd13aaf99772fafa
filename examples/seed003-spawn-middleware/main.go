// Seed003-spawn-middleware is the counterpart of the spawn middleware that the
// walk-through meets in the source of SpawnNamed: it sees who is about to be spawned, by
// whom, and may refuse. Here it is the system's, and sees the children of actors too.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

var errFull = errors.New("the house is full")

type knock struct{ actor.Returns[error] }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	guests := 0
	system := actor.NewSystem("seed003",
		actor.BeforeSpawn(func(s actor.Spawning) error {
			fmt.Fprintf(w, "%s is to be spawned under %s and takes messages of type %s\n", s.Name, s.Parent.Path(), s.Type)
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
