package actor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

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
