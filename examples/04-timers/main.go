// Timers is the fourth step of the tour: the barista sends messages to itself, later.
//
// A timer has a key; setting the same key again replaces it. A timer is never early, is not
// delivered after it was canceled, and ends with its actor.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what the barista accepts.
type Msg string

// Barista opens the bar, cleans the machine every second and closes.
type Barista struct {
	w      io.Writer
	opened time.Time
	closed chan<- struct{}
	cleans int
}

// Init sets the timers.
func (b *Barista) Init(ctx *actor.Context[Msg]) error {
	b.opened = time.Now()
	ctx.Every("machine", time.Second, "clean the machine")
	ctx.After("doors", 2*time.Second, "close")
	ctx.After("doors", 3500*time.Millisecond, "close") // replaces the timer with the same key
	ctx.After("music", 2500*time.Millisecond, "turn up the music")
	return nil
}

// Receive gets the timers' messages as it gets all others.
func (b *Barista) Receive(ctx *actor.Context[Msg], msg Msg) error {
	fmt.Fprintf(b.w, "%.1f s: %s\n", time.Since(b.opened).Seconds(), msg)
	switch msg {
	case "clean the machine":
		if b.cleans++; b.cleans == 2 {
			fmt.Fprintln(b.w, "no music today:", ctx.Cancel("music"))
		}
	case "close":
		close(b.closed)
		return actor.ErrStop // ends the actor normally, and with it its timers
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)

	closed := make(chan struct{})
	actor.Spawn(sys, "barista", func() *Barista { return &Barista{w: w, closed: closed} })
	<-closed
}
