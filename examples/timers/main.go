// Timers are messages to oneself, later. They have keys, are never early, and end with
// their actor.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what the kitchen accepts.
type Msg string

// Kitchen boils an egg.
type Kitchen struct {
	w     io.Writer
	began time.Time
	ready chan<- struct{}
	ticks int
}

// Init sets the timers.
func (k *Kitchen) Init(ctx *actor.Context[Msg]) error {
	k.began = time.Now()
	ctx.Every("clock", time.Second, "tick")
	ctx.After("egg", 2*time.Second, "egg ready")
	ctx.After("egg", 3500*time.Millisecond, "egg ready") // the same key: the one before is replaced
	ctx.After("toast", 2500*time.Millisecond, "toast ready")
	return nil
}

// Receive gets the timers' messages as it gets all others.
func (k *Kitchen) Receive(ctx *actor.Context[Msg], msg Msg) error {
	fmt.Fprintf(k.w, "%.1f s: %s\n", time.Since(k.began).Seconds(), msg)
	switch msg {
	case "tick":
		if k.ticks++; k.ticks == 2 {
			fmt.Fprintln(k.w, "no toast, it was there:", ctx.Cancel("toast"))
		}
	case "egg ready":
		close(k.ready)
		return actor.ErrStop
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("kitchen")
	defer sys.Shutdown(ctx)

	ready := make(chan struct{})
	actor.Spawn(sys, "kitchen", func() *Kitchen { return &Kitchen{w: w, ready: ready} })
	<-ready
}
