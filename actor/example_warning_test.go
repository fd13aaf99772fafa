package actor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Without a subscriber the log says that an actor does not keep up.
func ExampleWithWarnings() {
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.MessageKey {
				return a
			}
			return slog.Attr{}
		},
	}))
	sys := actor.NewSystem("office", actor.WithLogger(log), actor.WithWarnings(true))
	release := make(chan struct{})
	clerk := actor.SpawnFunc(sys, "clerk", func(*actor.Context[int], int) error {
		<-release
		return nil
	})
	for i := range 3000 {
		clerk.Tell(context.Background(), i)
	}
	close(release)
	_, _ = sys.Shutdown(context.Background())
	// Output: msg="actor does not keep up with its messages"
}

// A tool stops an actor of which it knows nothing but the address.
func ExampleSystem_Stop() {
	sys := actor.NewSystem("office", quiet)
	defer sys.Shutdown(context.Background())

	for _, name := range []string{"ann", "bob", "joe"} {
		actor.SpawnFunc(sys, name, func(*actor.Context[int], int) error { return nil })
	}
	tree, _ := sys.Inspect("/", 10)
	orders := []func(actor.PID) error{sys.Stop, sys.Drain, sys.Kill}
	for i, child := range tree.Children {
		pid, _ := actor.ParsePID(child.PID)
		err := orders[i](pid)
		down, _ := sys.Wait(context.Background(), pid)
		fmt.Println(err, down.Reason != actor.Failed)
	}
	// Output:
	// <nil> true
	// <nil> true
	// <nil> true
}

// A tool gives an actor a fresh state.
func ExampleSystem_Restart() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "account", newAccount)
	ref.Tell(context.Background(), deposit{5})
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	_ = sys.Restart(ref.PID())
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output:
	// 5 <nil>
	// 0 <nil>
}
