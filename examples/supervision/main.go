// Supervision shows a worker that fails and comes back: with fresh state, after a
// backoff, and with its mailbox and its reference as they were.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Job is what the worker accepts.
type Job struct{ Name string }

var errBadJob = errors.New("bad job")

// Worker counts the jobs that it has done since it was started.
type Worker struct {
	w    io.Writer
	done int
}

// Init runs before the first message of each incarnation.
func (k *Worker) Init(*actor.Context[Job]) error {
	fmt.Fprintln(k.w, "worker starts")
	return nil
}

// Receive does a job. An error is a failure, and so is a panic.
func (k *Worker) Receive(_ *actor.Context[Job], j Job) error {
	switch j.Name {
	case "bad":
		return errBadJob
	case "worse":
		panic("worse than bad")
	}
	k.done++
	fmt.Fprintf(k.w, "%s done, %d since the start\n", j.Name, k.done)
	return nil
}

// Terminate runs once at the end of each incarnation.
func (k *Worker) Terminate(_ *actor.Context[Job], why error) {
	fmt.Fprintln(k.w, "worker ends:", why)
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("supervision",
		actor.WithLogger(slog.New(slog.DiscardHandler)), // the failures would be there, with their stacks
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(5, time.Minute), actor.Backoff(50*time.Millisecond, time.Second)))
	defer sys.Shutdown(ctx)

	worker := actor.Spawn(sys, "worker", func() *Worker { return &Worker{w: w} })
	for _, name := range []string{"one", "two", "bad", "three", "worse", "four"} {
		worker.Tell(ctx, Job{name})
	}
	ended := make(chan struct{})
	watcher(sys, worker.PID(), ended)
	worker.Drain() // after all that is in the mailbox, the backoffs included
	<-ended
	st := sys.Stats()
	fmt.Fprintln(w, "failures:", st.Failures, "restarts:", st.Restarts)
}

// watcher closes ended when the actor with that address is gone.
func watcher(sys *actor.System, pid actor.PID, ended chan struct{}) {
	actor.Spawn(sys, "", func() *lookout { return &lookout{pid, ended} })
}

type lookout struct {
	pid   actor.PID
	ended chan struct{}
}

// Init begins to watch.
func (l *lookout) Init(ctx *actor.Context[actor.Down]) error {
	ctx.Watch(l.pid, func(d actor.Down) actor.Down { return d })
	return nil
}

// Receive gets the one message there is.
func (l *lookout) Receive(*actor.Context[actor.Down], actor.Down) error {
	close(l.ended)
	return actor.ErrStop
}
