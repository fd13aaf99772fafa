// Stopping shows the four ways in which an actor ends: Stop, which overtakes the messages in
// the mailbox; Drain, which comes after them; Kill, which leaves out Terminate; and the
// actor's own decision. What is not handled becomes dead letters. Stopping an actor twice
// does nothing the second time.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"

	"github.com/greenroom-go/greenroom/actor"
)

// clerk handles the papers on its desk. It is kept busy with the first one until it is
// released.
type clerk struct {
	name             string
	w                io.Writer
	entered, release chan struct{}
}

// Receive handles a paper.
func (c *clerk) Receive(ctx *actor.Context[string], paper string) error {
	fmt.Fprintln(c.w, c.name, "handles", paper)
	switch paper {
	case "the first":
		close(c.entered)
		return actor.Blocking(ctx, func() error { <-c.release; return nil })
	case "a resignation":
		return actor.ErrStop // or ctx.Stop()
	}
	return nil
}

// Terminate runs at the end, unless the actor is killed.
func (c *clerk) Terminate(*actor.Context[string], error) { fmt.Fprintln(c.w, c.name, "goes home") }

// archive is told how each clerk has ended.
type archive struct {
	w    io.Writer
	of   actor.PID
	done chan<- struct{}
}

// Init watches the clerk.
func (a *archive) Init(ctx *actor.Context[actor.Down]) error {
	ctx.Watch(a.of, func(d actor.Down) actor.Down { return d })
	return nil
}

// Receive gets the one message there is.
func (a *archive) Receive(_ *actor.Context[actor.Down], d actor.Down) error {
	fmt.Fprintln(a.w, d.PID.Path(), "is gone:", d.Reason)
	close(a.done)
	return actor.ErrStop
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	employ(w, "ann", nil, func(ann actor.Ref[string]) { ann.Stop(); ann.Stop() })
	employ(w, "bob", nil, func(bob actor.Ref[string]) { bob.Drain() })
	employ(w, "cid", nil, func(cid actor.Ref[string]) { cid.Kill() })
	employ(w, "dan", []string{"a resignation"}, func(actor.Ref[string]) {})
}

// employ gives a clerk some papers and ends it while it is busy with the first one.
func employ(w io.Writer, name string, more []string, end func(actor.Ref[string])) {
	ctx := context.Background()
	system := actor.NewSystem("office", actor.WithLogger(slog.New(slog.DiscardHandler)))

	entered, release := make(chan struct{}), make(chan struct{})
	ref := actor.Spawn(system, name, func() *clerk { return &clerk{name, w, entered, release} })
	done := make(chan struct{})
	actor.Spawn(system, "", func() *archive { return &archive{w, ref.PID(), done} })
	for _, paper := range slices.Concat([]string{"the first"}, more, []string{"the last"}) {
		ref.Tell(ctx, paper)
	}
	<-entered
	end(ref)
	close(release)
	<-done
	system.Shutdown(ctx)
	for _, d := range slices.Backward(system.DeadLetters()) {
		fmt.Fprintf(w, "dead letter %q: %s\n", d.Message, d.Reason)
	}
}
