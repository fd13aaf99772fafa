// Mailbox-policies shows what each kind of mailbox does with more messages than it can hold:
// unbounded, bounded with four policies, ordered by priority, and conflating.
//
// Each actor is kept busy with message 0 while 1 to 5 are sent. What is dropped, at
// whichever end, becomes a dead letter; where the sender is refused, TryTell says so.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	const room = 3
	fill(w, "unbounded")
	fill(w, "bounded", actor.Bounded(room, actor.Reject))
	fill(w, "drop tail", actor.Bounded(room, actor.DropNewest))
	fill(w, "drop head", actor.Bounded(room, actor.DropOldest))
	fill(w, "blocking", actor.Bounded(room, actor.Block))
	fill(w, "priority", actor.Priority(func(n int) int { return n }))
	fill(w, "conflating", actor.Conflate(func(n int) string {
		if n%2 == 0 {
			return "even"
		}
		return "odd"
	}))
}

// fill sends an actor with such a mailbox more than it can take, and prints what became
// of it.
func fill(w io.Writer, title string, mailbox ...actor.SpawnOption) {
	ctx := context.Background()
	system := actor.NewSystem("mailbox-policies", actor.WithLogger(slog.New(slog.DiscardHandler)))

	entered, release := make(chan struct{}), make(chan struct{})
	var handled []int
	ref := actor.SpawnFunc(system, "reader", func(ctx *actor.Context[int], n int) error {
		handled = append(handled, n)
		if n > 0 {
			return nil
		}
		close(entered)
		return actor.Blocking(ctx, func() error { <-release; return nil })
	}, mailbox...)
	ref.Tell(ctx, 0)
	<-entered

	fmt.Fprintf(w, "%s:\n", title)
	for n := range 5 {
		// Only the blocking one waits; it is not given long.
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		if err := ref.TryTell(soon, n+1); err != nil {
			fmt.Fprintf(w, "  %d: %v\n", n+1, err)
		}
		cancel()
	}
	close(release)
	system.Shutdown(ctx) // handles what is in the mailbox first
	fmt.Fprintln(w, "  handled:", handled)

	var dead []any
	for _, d := range slices.Backward(system.DeadLetters()) { // newest first
		dead = append(dead, d.Message)
	}
	if len(dead) > 0 {
		fmt.Fprintln(w, "  dead letters:", dead)
	}
	if n := system.Stats().DeadLettersByReason["conflated"]; n > 0 {
		fmt.Fprintln(w, "  replaced by a newer one:", n)
	}
}
