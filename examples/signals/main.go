// Signals shows the two kinds of things in a mailbox: messages, which are handled in the order
// in which they came, and the runtime's signals, which overtake them. An actor that fails is
// suspended until its supervisor has decided; here it is resumed, and stopped in the end.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/greenroom-go/greenroom/actor"
)

var errThree = errors.New("not a number that I like")

// reader prints numbers. It is kept busy with the first one until it is released, and
// does not like the third.
type reader struct {
	w                       io.Writer
	entered, release, ended chan struct{}
}

// Receive handles a message of the user.
func (r *reader) Receive(ctx *actor.Context[int], n int) error {
	switch n {
	case 0:
		close(r.entered)
		if err := actor.Blocking(ctx, func() error { <-r.release; return nil }); err != nil {
			return err
		}
	case 3:
		return errThree
	}
	fmt.Fprintln(r.w, "handled", n)
	return nil
}

// Terminate runs when the system has said stop.
func (r *reader) Terminate(*actor.Context[int], error) {
	fmt.Fprintln(r.w, "stopping")
	close(r.ended)
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	fmt.Fprintln(w, "user messages keep their order, and wait while the actor is suspended:")
	play(w, func(ref actor.Ref[int]) { ref.Drain() }) // this one waits its turn
	fmt.Fprintln(w, "stop overtakes them:")
	play(w, func(ref actor.Ref[int]) { ref.Stop() })
}

func play(w io.Writer, end func(actor.Ref[int])) {
	ctx := context.Background()
	system := actor.NewSystem("signals", actor.WithLogger(slog.New(slog.DiscardHandler)),
		actor.Supervise(actor.OneForOne, actor.Decide(func(err error) actor.Directive {
			fmt.Fprintln(w, "suspended:", err) // nothing is handled until this returns
			return actor.Resume
		})))

	entered, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	ref := actor.Spawn(system, "reader", func() *reader { return &reader{w, entered, release, ended} })
	for n := range 6 {
		ref.Tell(ctx, n)
	}
	<-entered
	end(ref)
	close(release)
	<-ended
	system.Shutdown(ctx)
	for _, d := range slices.Backward(system.DeadLetters()) {
		fmt.Fprintln(w, "dead letter", d.Message)
	}
}
