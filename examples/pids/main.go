// Pids shows the address of an actor, a value that can be printed, stored, sent and parsed.
//
// No two actors ever have the same PID: each has a number, so that an old PID never reaches
// another actor of the same name. Before anything can be sent to a PID it is looked up with
// the type of the messages; the result is a typed reference.
//
// There is no remoting yet: the PID of another system is not found.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

type say string

// room prints what is said in it.
type room struct{ w io.Writer }

// Receive prints.
func (r *room) Receive(_ *actor.Context[say], m say) error {
	fmt.Fprintln(r.w, "the room hears:", m)
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	system := actor.NewSystem("chat")
	defer system.Shutdown(ctx)

	newRoom := func() *room { return &room{w} }
	pid := actor.Spawn(system, "chatserver", newRoom).PID()
	fmt.Fprintln(w, "node:", pid.Node(), "path:", pid.Path())

	// To a file or over a wire, and back.
	wire, err := json.Marshal(map[string]actor.PID{"server": pid})
	if err != nil {
		fmt.Fprintln(w, err)
	}
	var read map[string]actor.PID
	if err := json.Unmarshal(wire, &read); err != nil {
		fmt.Fprintln(w, err)
	}
	fmt.Fprintln(w, "the same:", read["server"] == pid)

	server, err := actor.Lookup[say](system, read["server"])
	if err != nil {
		fmt.Fprintln(w, err)
		return
	}
	_, err = actor.Lookup[int](system, pid)
	fmt.Fprintln(w, "numbers are not said:", errors.Is(err, actor.ErrNotAccepted))
	server.Tell(ctx, "hello")

	// Its namesake has another number.
	if err := stop(ctx, system, server); err != nil {
		fmt.Fprintln(w, err)
	}
	again := actor.Spawn(system, "chatserver", newRoom).PID()
	fmt.Fprintln(w, "same path:", again.Path() == pid.Path(), "same actor:", again == pid)
	_, err = actor.Lookup[say](system, pid)
	fmt.Fprintln(w, "the old address:", errors.Is(err, actor.ErrStopped))

	remote, err := actor.ParsePID("127.0.0.1:8080/chatserver#1")
	fmt.Fprintln(w, "remote:", remote, err)
	_, err = actor.Lookup[say](system, remote)
	fmt.Fprintln(w, err)
}

// stop stops an actor and returns when it is gone and its name is free.
func stop(ctx context.Context, system *actor.System, ref actor.Ref[say]) error {
	type waiter struct{ actor.Returns[actor.Down] }
	var down *actor.Promised[actor.Down]
	witness := actor.SpawnFunc(system, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case waiter:
			down = actor.Promise(ctx, m)
			ctx.Watch(ref.PID(), func(d actor.Down) any { return d })
			ref.Drain()
		case actor.Down:
			down.Resolve(m)
			return actor.ErrStop
		}
		return nil
	})
	_, err := actor.Ask(ctx, witness, waiter{})
	return err
}
