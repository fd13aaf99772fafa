// Ask-then shows asks whose answers come as messages: the asker goes on handling messages,
// and a later ask may be answered first.
//
// The ask's deadline is the system's. An ask that ends without an answer comes as an error
// in the answer's place, which this program leaves out of its output.
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
	system := actor.NewSystem("ask-then", actor.WithAskTimeout(2500*time.Millisecond))
	defer system.Shutdown(ctx)

	pongs := router.SpawnPoolFunc(system, "pongs", router.RoundRobin, 10, receivePing)
	pingRef := actor.Spawn(system, "ping", func() *pingActor { return &pingActor{w: w, pongs: pongs.Ref} })
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for range 22 {
		<-ticker.C
		pingRef.Tell(ctx, tick{})
	}
	<-time.After(500 * time.Millisecond) // for the answers that are on their way
}
