// Seed003-pipeto is the counterpart of the walk-through's Future.PipeTo: asks whose
// answers come as messages, so that the asker goes on and a later ask may be answered
// first. It prints the pongs in the walk-through's order, without the times of day.
//
// What comes too late is an error in the answer's place here. The walk-through's actor
// does not see it, so this one says nothing about it either.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

type pong struct{ count uint }

type ping struct {
	actor.Returns[*pong]
	count uint
}

func receivePing(ctx *actor.Context[ping], msg ping) error {
	sleep := 2900 * time.Millisecond
	switch msg.count % 3 {
	case 0:
		sleep = 1700 * time.Millisecond
	case 1:
		sleep = 300 * time.Millisecond
	}
	if ctx.Sleep(sleep) == nil {
		actor.Reply(ctx, msg, &pong{count: msg.count})
	}
	return nil
}

type (
	pingMsg any
	tick    struct{}
	outcome struct {
		pong *pong
		err  error
	}
)

type pingActor struct {
	w     io.Writer
	count uint
	pongs actor.Ref[ping]
}

// Receive asks and does not wait; the outcome is a message too.
func (p *pingActor) Receive(ctx *actor.Context[pingMsg], msg pingMsg) error {
	switch m := msg.(type) {
	case tick:
		p.count++
		actor.AskThen(ctx, p.pongs, ping{count: p.count}, func(answer *pong, err error) pingMsg { return outcome{answer, err} })
	case outcome:
		if m.err == nil {
			fmt.Fprintf(p.w, "Received pong message %#v\n", m.pong)
		}
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("seed003", actor.WithAskTimeout(2500*time.Millisecond))
	defer system.Shutdown(ctx)

	pongs := router.SpawnPoolFunc(system, "pongs", router.RoundRobin, 10, receivePing)
	pingRef := actor.Spawn(system, "ping", func() *pingActor { return &pingActor{w: w, pongs: pongs.Ref} })
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for range 22 {
		<-ticker.C
		pingRef.Tell(ctx, tick{})
	}
	<-time.After(500 * time.Millisecond) // where the walk-through's output ends
}
