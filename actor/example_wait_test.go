package actor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Wait for the end of an actor, in a goroutine or in a handler.
func ExampleRef_Wait() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())

	clerk := actor.SpawnFunc(sys, "clerk", func(_ *actor.Context[string], m string) error {
		fmt.Println("files", m)
		return nil
	})
	clerk.Tell(context.Background(), "a letter")
	clerk.Drain()
	down, err := clerk.Wait(context.Background())
	fmt.Println(down.Reason, down.Err, err)
	// Output:
	// files a letter
	// stopped <nil> <nil>
}

// An address is enough: here of an actor that is gone already.
func ExampleSystem_Wait() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())

	clerk := actor.SpawnFunc(sys, "clerk", func(*actor.Context[string], string) error { return nil })
	clerk.Kill()
	_, err := sys.Wait(context.Background(), clerk.PID()) // Killed, unless it has ended before
	fmt.Println(err)
	down, err := sys.Wait(context.Background(), clerk.PID())
	fmt.Println(down.Reason, err)
	// Output:
	// <nil>
	// no_actor <nil>
}

// A channel, to select from.
func ExampleSystem_AfterEnd() {
	sys := actor.NewSystem("office", quiet, noRestarts)
	defer sys.Shutdown(context.Background())

	clerk := actor.SpawnFunc(sys, "clerk", func(*actor.Context[string], string) error { return errors.New("no ink") })
	ended := make(chan actor.Down, 1)
	stop := sys.AfterEnd(clerk.PID(), func(d actor.Down) { ended <- d })
	defer stop()

	clerk.Tell(context.Background(), "a letter")
	select {
	case d := <-ended:
		fmt.Println(d.PID.Path(), d.Reason, d.Err)
	case <-time.After(time.Minute):
		fmt.Println("still at work")
	}
	// Output: /clerk failed no ink
}

type question struct{ actor.Returns[string] }

// A limit for one ask, in a handler as well.
func ExampleWithin() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())

	clerk := actor.SpawnFunc(sys, "clerk", func(ctx *actor.Context[question], _ question) error {
		return ctx.Sleep(time.Hour)
	})
	_, err := actor.Ask(context.Background(), clerk, question{}, actor.Within(5*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

// Any number of goroutines and handlers may wait for the same answer.
func ExampleAskFuture() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())

	clerk := actor.SpawnFunc(sys, "clerk", func(ctx *actor.Context[question], m question) error {
		actor.Reply(ctx, m, "42")
		return nil
	})
	f := actor.AskFuture(context.Background(), clerk, question{})
	<-f.Done()
	for range 2 {
		fmt.Println(f.Wait(context.Background()))
	}
	// Output:
	// 42 <nil>
	// 42 <nil>
}

// An actor gets the answer to somebody else's ask.
func ExamplePipeTo() {
	sys := actor.NewSystem("office", quiet)

	clerk := actor.SpawnFunc(sys, "clerk", func(ctx *actor.Context[question], m question) error {
		actor.Reply(ctx, m, "42")
		return nil
	})
	heard := make(chan struct{})
	archive := actor.SpawnFunc(sys, "archive", func(_ *actor.Context[string], m string) error {
		fmt.Println("keeps", m)
		close(heard)
		return nil
	})
	f := actor.AskFuture(context.Background(), clerk, question{})
	actor.PipeTo(f, archive, func(answer string, err error) string { return fmt.Sprint(answer, " ", err) })
	<-heard
	_, _ = sys.Shutdown(context.Background())
	// Output: keeps 42 <nil>
}
