// Routing-strategies sends ten messages to a pool of five with each of four strategies: round
// robin, random, consistent hash and broadcast. The output is sorted by the actor, since the
// five work at the same time; where chance chooses the actor, it is a question mark.
//
// The pool is no actor: the sender's side chooses one. A pool's reference has the type of its
// actors' messages, and asks go through it too.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

type myMessage struct{ i int }

// Hash is the key that the consistent hash goes by.
func (m myMessage) Hash() string { return strconv.Itoa(m.i) }

// got says who has got which message.
type got struct {
	who string
	i   int
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("nonhost")
	defer system.Shutdown(ctx)

	seen := make(chan got)
	act := func(ctx *actor.Context[myMessage], msg myMessage) error {
		return actor.Blocking(ctx, func() error {
			seen <- got{ctx.Self().PID().Node() + ctx.Self().PID().Path(), msg.i}
			return nil
		})
	}
	// route sends ten messages and returns who got them, in the order of the actors and,
	// for each of them, of their coming.
	route := func(name string, strategy router.Strategy[myMessage], copies int) []got {
		pool := router.SpawnPoolFunc(system, name, strategy, 5, act)
		for i := range 10 {
			pool.Tell(ctx, myMessage{i})
		}
		var all []got
		for range 10 * copies {
			all = append(all, <-seen)
		}
		slices.SortStableFunc(all, func(a, b got) int { return cmp.Compare(a.who, b.who) })
		return all
	}
	show := func(title string, all []got) {
		fmt.Fprintln(w, title, "routing:")
		for _, g := range all {
			fmt.Fprintf(w, "%s got message %d\n", g.who, g.i)
		}
	}

	show("Round robin", route("round-robin", router.RoundRobin, 1))

	random := route("random", router.Random, 1)
	slices.SortFunc(random, func(a, b got) int { return cmp.Compare(a.i, b.i) })
	for i := range random {
		random[i].who = "nonhost/random/?"
	}
	show("Random", random)

	show("ConsistentHash", route("consistent-hash", router.ConsistentHash(myMessage.Hash), 1))
	show("BroadcastPool", route("broadcast", router.Broadcast, 5))
}
