// Seed003-receive-timeout is the counterpart of the walk-through's receive timeout, with
// the messages that do not count as a sign of life. It prints what the walk-through
// prints, without the times of day, and with the last two lines the other way round:
// there one went to the terminal directly and one through the logger. Where the
// walk-through waits for a key, it waits a moment.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// noInfluence does not reset the receive timeout, because its type says so.
type noInfluence struct {
	actor.Unobtrusive
	text string
}

type receiveTimeout struct{}

// sleeper accepts anything, as all actors of Proto.Actor do.
type sleeper struct {
	w io.Writer
	c int
}

// Init sets the timeout.
func (s *sleeper) Init(ctx *actor.Context[any]) error {
	ctx.SetReceiveTimeout(time.Second, receiveTimeout{})
	return nil
}

// Receive handles a message, or the lack of one.
func (s *sleeper) Receive(ctx *actor.Context[any], msg any) error {
	switch m := msg.(type) {
	case receiveTimeout:
		s.c++
		fmt.Fprintf(s.w, "ReceiveTimeout: %d\n", s.c)
		ctx.SetReceiveTimeout(0, nil) // once, as in the walk-through; else it comes each second of silence
	case string:
		fmt.Fprintf(s.w, "received '%s'\n", m)
		if m == "cancel" {
			fmt.Fprintln(s.w, "Cancelling") //nolint:misspell // the walk-through prints it so
			ctx.SetReceiveTimeout(0, nil)
		}
	case noInfluence:
		fmt.Fprintln(s.w, "received a no-influence message")
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	fmt.Fprintln(w, "Receive timeout test")
	system := actor.NewSystem("seed003")
	defer system.Shutdown(ctx)

	ref := actor.Spawn(system, "", func() *sleeper { return &sleeper{w: w} })
	for range 6 {
		ref.Tell(ctx, "hello")
		<-time.After(500 * time.Millisecond)
	}
	fmt.Fprintln(w, "hit [return] to send no-influence messages")
	<-time.After(600 * time.Millisecond)

	for range 6 {
		ref.Tell(ctx, noInfluence{text: "hello"})
		<-time.After(500 * time.Millisecond)
	}
	fmt.Fprintln(w, "hit [return] to send a message to cancel the timeout")
	ref.Tell(ctx, "cancel")
	<-time.After(100 * time.Millisecond)

	fmt.Fprintln(w, "hit [return] to finish")
	ref.Stop()
}
