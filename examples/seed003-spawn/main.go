// Seed003-spawn is the counterpart of the walk-through's three ways to spawn (Spawn,
// SpawnPrefix and SpawnNamed there), and of what it says about names that are taken and
// about PIDs: addresses that can be printed, sent and read again.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

type nothing struct{}

func ignore(*actor.Context[nothing], nothing) error { return nil }

func main() { run(os.Stdout) }

func run(w io.Writer) {
	system := actor.NewSystem("seed003")
	defer system.Shutdown(context.Background())

	pid1 := actor.SpawnFunc(system, "", ignore)         // a generated name
	pid2 := actor.SpawnFunc(system, "prefix-*", ignore) // a generated suffix
	pid3 := actor.SpawnFunc(system, "my-actor", ignore) // a name of one's own
	fmt.Fprintln(w, "generated:", strings.HasPrefix(pid1.PID().Path(), "/$"))
	fmt.Fprintln(w, "prefix:", pid2.PID().Path())
	fmt.Fprintln(w, "named:", pid3.PID().Path())

	_, err := actor.TrySpawnFunc(system, "my-actor", ignore)
	fmt.Fprintln(w, "again:", err, errors.Is(err, actor.ErrNameTaken))
	_, err = actor.TrySpawnFunc(system, "$1", ignore)
	fmt.Fprintln(w, "reserved:", errors.Is(err, actor.ErrBadName))

	read, err := actor.ParsePID(pid3.PID().String())
	fmt.Fprintln(w, "read again:", read == pid3.PID(), err)
	found, err := actor.Lookup[nothing](system, read)
	fmt.Fprintln(w, "found:", found == pid3, err)
	_, err = actor.Lookup[string](system, read)
	fmt.Fprintln(w, "as something else:", errors.Is(err, actor.ErrNotAccepted))
}
