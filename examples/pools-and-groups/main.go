// Pools-and-groups shows the two kinds of routers. A pool makes its actors and supervises
// them: one that fails is restarted and keeps its place and its mailbox. A group is given
// actors that exist already, and watches them: one that has ended is removed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

// job is a request: its answer says who did it, and its how manieth it was.
type job struct {
	actor.Returns[string]
	name string
}

var errBad = errors.New("bad job")

type myActor struct{ done int }

func newMyActor() *myActor { return &myActor{} }

// Receive does a job.
func (a *myActor) Receive(ctx *actor.Context[job], j job) error {
	switch j.name {
	case "bad":
		return errBad
	case "last":
		ctx.Stop()
	}
	a.done++
	actor.Reply(ctx, j, fmt.Sprintf("%s does %s, its job number %d", ctx.Self().PID().Path(), j.name, a.done))
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("pools-and-groups", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	ask := func(to actor.Ref[job], name string) {
		did, err := actor.Ask(ctx, to, job{name: name})
		if err != nil {
			did = err.Error()
		}
		fmt.Fprintln(w, did)
	}

	// A pool of five workers.
	pool := router.SpawnPool(system, "pool", router.RoundRobin, 5, newMyActor)
	for range 5 {
		ask(pool.Ref, "one")
	}
	ask(pool.Ref, "bad") // to the first one, which is restarted: it counts anew
	for range 4 {
		ask(pool.Ref, "two")
	}
	ask(pool.Ref, "three")
	fmt.Fprintln(w, "resized:", pool.Resize(ctx, 2), len(pool.Routees()))

	// A group of two that are there already.
	ann, bob := actor.Spawn(system, "ann", newMyActor), actor.Spawn(system, "bob", newMyActor)
	group := router.SpawnGroup(system, "group", router.RoundRobin, ann, bob)
	ask(group.Ref, "one")
	ask(group.Ref, "last")         // bob goes
	for len(group.Routees()) > 1 { // until the group has been told
		<-time.After(time.Millisecond)
	}
	ask(group.Ref, "two")
	ask(group.Ref, "three")
	fmt.Fprintln(w, "added:", group.Add(ctx, actor.Spawn(system, "cid", newMyActor)))

	// A message for all of them, whatever the strategy; and all the answers.
	var all []string
	for _, answer := range actor.Gather(ctx, group.Routees(), job{name: "roll call"}) {
		all = append(all, answer.Value)
	}
	slices.Sort(all)
	for _, line := range all {
		fmt.Fprintln(w, line)
	}
}
