// Ask-timeout shows an ask that waits for one second at most, of an actor that answers too
// late every other time.
//
// A late answer is dropped, since its asker has gone on, and is no dead letter. The
// answering actor need not finish work that nobody waits for: while a request is handled,
// ctx ends when the asker gives up, so Sleep returns early.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

type pong struct{}

type ping struct{ actor.Returns[*pong] }

type pongActor struct{ timeOut bool }

// Receive answers every other ping too late.
func (p *pongActor) Receive(ctx *actor.Context[ping], msg ping) error {
	sleep := 300 * time.Millisecond
	if p.timeOut {
		sleep = 2500 * time.Millisecond
	}
	p.timeOut = !p.timeOut
	if ctx.Sleep(sleep) == nil {
		actor.Reply(ctx, msg, &pong{})
	}
	return nil
}

type tick struct{}

type pingActor struct {
	w    io.Writer
	pong actor.Ref[ping]
}

// Receive asks, and waits for a second at most.
func (p *pingActor) Receive(ctx *actor.Context[tick], _ tick) error {
	result, err := actor.Ask(ctx, p.pong, ping{}, actor.Within(time.Second))
	if err != nil {
		fmt.Fprintln(p.w, "Timed out")
		return nil //nolint:nilerr // the actor goes on
	}
	fmt.Fprintf(p.w, "Received pong message %#v\n", result)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("ask-timeout")
	defer system.Shutdown(ctx)

	pongRef := actor.Spawn(system, "pong", func() *pongActor { return &pongActor{} })
	pingRef := actor.Spawn(system, "ping", func() *pingActor { return &pingActor{w, pongRef} })
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for range 6 {
		<-ticker.C
		pingRef.Tell(ctx, tick{})
	}
}
