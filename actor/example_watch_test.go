package actor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// What one actor handles, while the system runs.
func ExampleSystem_Record() {
	sys := actor.NewSystem("plant", quiet)
	defer sys.Shutdown(context.Background())

	begin := func(ctx *actor.Context[string], _ string) error {
		ctx.Become(func(*actor.Context[string], string) error { return nil })
		ctx.Every("poll", time.Millisecond, "read the meter")
		return nil
	}
	meter := actor.SpawnFunc(sys, "meter", begin)
	meter.Tell(context.Background(), "begin")
	list, err := sys.Record(context.Background(), meter.PID(), 3) // the first may be the order to begin
	fmt.Println(len(list), list[2].Message, "by", list[2].Origin, err)
	// Output: 3 read the meter by timer poll <nil>
}

// Where the time of the handlers goes.
func ExampleSystem_Profile() {
	sys := actor.NewSystem("plant", quiet)
	defer sys.Shutdown(context.Background())

	busy := actor.SpawnFunc(sys, "busy", func(ctx *actor.Context[deposit], m deposit) error {
		ctx.Self().Tell(ctx, m)
		return nil
	})
	busy.Tell(context.Background(), deposit{1})
	var usage []actor.Usage
	for len(usage) == 0 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		usage = sys.Profile(ctx)
		cancel()
	}
	busy.Stop()
	fmt.Println(usage[0].PID.Path(), usage[0].Type, usage[0].Messages > 0)
	// Output: /busy actor_test.deposit true
}

// A handler that does not return holds up its end for as long as it may.
func ExampleStopWithin() {
	sys := actor.NewSystem("plant", quiet)
	defer sys.Shutdown(context.Background())
	begun, never := make(chan struct{}), make(chan struct{})
	defer close(never)

	stuck := actor.SpawnFunc(sys, "stuck", func(*actor.Context[int], int) error {
		close(begun)
		<-never
		return nil
	}, actor.StopWithin(10*time.Millisecond))
	stuck.Tell(context.Background(), 1)
	<-begun
	stuck.Stop()
	down, err := stuck.Wait(context.Background(), actor.Within(time.Minute))
	fmt.Println(down.Reason, err)
	// Output: killed <nil>
}

// The one that keeps the accounts is needed until all others have ended, although it came last.
func ExampleStopLast() {
	sys := actor.NewSystem("plant", quiet)
	entries := make(chan string, 1)
	desk := actor.Spawn(sys, "desk", func() *salesDesk { return new(salesDesk) })
	books := actor.SpawnFunc(sys, "books", func(_ *actor.Context[string], entry string) error {
		entries <- entry
		return nil
	}, actor.StopLast())
	desk.Tell(context.Background(), books)

	_, err := sys.Shutdown(context.Background())
	fmt.Println(<-entries, err)
	// Output: the desk has closed <nil>
}

// salesDesk writes of its end to the books that it was given.
type salesDesk struct{ books actor.Ref[string] }

func (d *salesDesk) Receive(_ *actor.Context[actor.Ref[string]], books actor.Ref[string]) error {
	d.books = books
	return nil
}

func (d *salesDesk) Terminate(ctx *actor.Context[actor.Ref[string]], _ error) {
	d.books.Tell(ctx, "the desk has closed")
}

type tenantValue struct{}

// Middleware makes of a header what handlers find in their context, and what goes on from there.
func ExampleDecorate() {
	tenant := actor.AroundReceive(func(ctx context.Context, r actor.Reception, next func() error) error {
		actor.SetHeader(ctx, actor.Header{"tenant": "acme"})
		actor.Decorate(ctx, func(c context.Context) context.Context {
			return context.WithValue(c, tenantValue{}, "acme")
		})
		return next()
	})
	passOn := actor.BeforeSend(func(context.Context, *actor.Sending) error { return nil }) // the header as it is
	sys := actor.NewSystem("plant", quiet, passOn)
	defer sys.Shutdown(context.Background())

	back := actor.SpawnFunc(sys, "back", func(ctx *actor.Context[balance], m balance) error {
		fmt.Println("back:", actor.HeaderOf(ctx)["tenant"])
		actor.Reply(ctx, m, 1)
		return nil
	})
	front := actor.SpawnFunc(sys, "front", func(ctx *actor.Context[balance], m balance) error {
		fmt.Println("front:", ctx.Value(tenantValue{}))
		n, err := actor.Ask(ctx, back, m)
		actor.Reply(ctx, m, n)
		return err
	}, tenant)
	_, err := actor.Ask(context.Background(), front, balance{})
	fmt.Println(err)
	// Output:
	// front: acme
	// back: acme
	// <nil>
}
