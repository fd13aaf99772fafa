// Receive-timeout shows an actor that is told when it has received nothing for a second, and
// messages that do not count as a sign of life.
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
		ctx.SetReceiveTimeout(0, nil) // once; otherwise it comes after each second of silence
	case string:
		fmt.Fprintf(s.w, "received '%s'\n", m)
		if m == "cancel" {
			fmt.Fprintln(s.w, "Canceling")
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
	system := actor.NewSystem("receive-timeout")
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
