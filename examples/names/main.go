// Names shows how actors get their names: a generated one, a generated suffix, or a chosen
// one, which must not be taken or reserved.
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
	system := actor.NewSystem("names")
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
}
