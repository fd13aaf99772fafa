// Fairness shows that actors which are never out of work do not keep another one waiting,
// however many they are and however few processors there are.
//
// A turn ends after 128 messages or 200 microseconds, and an actor that has more goes to the
// end of the queue. Weight makes the turns of an actor longer.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"

	"github.com/greenroom-go/greenroom/actor"
)

type ping struct{ actor.Returns[int] }

// greedy always has one more message: its own.
type greedy struct{}

// Receive asks for more.
func (greedy) Receive(ctx *actor.Context[int], n int) error {
	ctx.Self().Tell(ctx, n+1)
	return nil
}

// modest answers when it is asked.
type modest struct{ n int }

// Receive answers.
func (m *modest) Receive(ctx *actor.Context[ping], msg ping) error {
	m.n++
	actor.Reply(ctx, msg, m.n)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("fairness", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer system.Shutdown(ctx)

	var crowd []actor.Ref[int]
	for range 8 * runtime.GOMAXPROCS(0) {
		ref := actor.Spawn(system, "greedy-*", func() greedy { return greedy{} }, actor.Weight(2))
		ref.Tell(ctx, 0)
		crowd = append(crowd, ref)
	}
	ref := actor.Spawn(system, "modest", func() *modest { return &modest{} })
	var answers []int
	for range 10 {
		n, err := actor.Ask(ctx, ref, ping{})
		if err != nil {
			fmt.Fprintln(w, err)
			return
		}
		answers = append(answers, n)
	}
	fmt.Fprintln(w, "answered among the greedy:", answers)
	for _, ref := range crowd {
		ref.Stop() // overtakes the one message that is always there
	}
}
