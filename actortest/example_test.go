package actortest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// inTest runs f as a test: an example has no testing.T. A test of one's own is a function
// TestX(t *testing.T), and needs nothing of this.
func inTest(f func(t *testing.T)) {
	// A verbose test prints its name, and `go test -run ExampleX` filters this one too.
	for name, value := range map[string]string{"test.v": "false", "test.run": "", "test.skip": ""} {
		set := flag.Lookup(name).Value
		was := set.String()
		if err := set.Set(value); err != nil {
			panic(err)
		}
		defer func() { _ = set.Set(was) }()
	}
	var once sync.Once // `go test -cpu 1,2 -count 3` runs a test six times and an example once
	all := func(_, _ string) (bool, error) { return true, nil }
	testing.RunTests(all, []testing.InternalTest{{Name: "TestExample", F: func(t *testing.T) { once.Do(func() { f(t) }) }}})
}

// run is actortest.Run in a test.
func run(f func(k *actortest.Kit)) {
	inTest(func(t *testing.T) { actortest.Run(t, f) })
}

func ExampleRun() {
	inTest(func(t *testing.T) {
		actortest.Run(t, func(k *actortest.Kit) {
			inbox := actortest.NewProbe[Reminder](k)
			clerk := actor.Spawn(k.System(), "clerk", NewClerk(inbox.Ref()))

			clerk.Tell(k.Context(), RemindMe{After: time.Hour, Text: "tea"})
			k.Advance(59 * time.Minute)
			inbox.ExpectNone()
			k.Advance(time.Minute)
			inbox.Expect(Reminder{Text: "tea"})
			fmt.Println("an hour passes in no time:", inbox.At() == time.Hour, k.Elapsed())
		})
	})
	// Output: an hour passes in no time: true 1h0m0s
}

func ExampleKit_Settle() {
	run(func(k *actortest.Kit) {
		n := 0 // no lock: when everything is at rest nobody else looks at it
		ref := actor.SpawnFunc(k.System(), "", func(_ *actor.Context[int], m int) error {
			n += m
			return nil
		})
		for range 100 {
			ref.Tell(k.Context(), 1)
		}
		k.Settle() // every message has been handled
		if n != 100 {
			k.T().Errorf("got %d", n)
		}
		fmt.Println(n)
	})
	// Output: 100
}

func ExampleKit_Log() {
	run(func(k *actortest.Kit) {
		actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
			ctx.System().Log().LogAttrs(ctx, slog.LevelInfo, "counted", slog.Int("n", n))
			return nil
		}).Tell(k.Context(), 7)
		k.Settle()
		fmt.Println(k.Log())
	})
	// Output: at=0s level=INFO msg=counted n=7
}

var errFell = errors.New("fell")

func falls(*actor.Context[string], string) error { return errFell }

// A failure that the test does not expect fails it: a supervisor would hide it.
func ExampleKit_ExpectFailures() {
	run(func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "", falls)
		ref.Tell(k.Context(), "jump")
		ref.Tell(k.Context(), "jump")
		k.ExpectFailures(2)
		fmt.Println(k.System().Stats().Restarts, "restarts")

		k.AllowFailures() // from here on any number
		ref.Tell(k.Context(), "jump")
	})
	// Output: 2 restarts
}

func ExampleExpectDown() {
	run(func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "clerk", falls, actor.Temporary)
		k.Watch(ref) // so that the reason is known, whenever it ends
		ref.Tell(k.Context(), "jump")
		d := actortest.ExpectDown(k, ref)
		fmt.Println(d.Reason, d.Err)
		k.ExpectFailures(1)
	})
	// Output: failed fell
}

func ExampleExpectDeadLetter() {
	run(func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k)
		p.Ref().Tell(k.Context(), "before")
		k.ExpectNoDeadLetter()
		p.Ref().Stop()
		k.Settle()
		p.Ref().Tell(k.Context(), "after")
		d := actortest.ExpectDeadLetter[string](k)
		fmt.Println(d.Message, d.Reason)
	})
	// Output: after no_actor
}

func ExampleProbe() {
	run(func(k *actortest.Kit) {
		p := actortest.NewProbe[any](k)
		sender := actor.SpawnFunc(k.System(), "sender", func(ctx *actor.Context[any], m any) error {
			p.Ref().Tell(ctx, m)
			return nil
		})
		for _, m := range []any{1, "two", 3.0, "four", "five"} {
			sender.Tell(k.Context(), m)
		}
		p.Expect(1)
		fmt.Println(actortest.ExpectMsg[string](p)) // of a type
		fmt.Println(p.Next())                       // of any
		fmt.Println(p.Sender() == sender.PID())
		fmt.Println(p.All()) // what is left
		p.ExpectNone()
	})
	// Output:
	// two
	// 3
	// true
	// [four five]
}

func ExampleProbe_ExpectAll() {
	run(func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k)
		for _, m := range []string{"a", "b", "c"} {
			p.Ref().Tell(k.Context(), m)
		}
		p.ExpectAll("a", "b", "c") // no more and no less
		fmt.Println("as expected")
	})
	// Output: as expected
}

// Handle makes a probe play a part.
func ExampleProbe_Handle() {
	run(func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k)
		store.Handle(func(ctx *actor.Context[price], m price) error {
			actor.Reply(ctx, m, len(m.Item))
			return nil
		})
		fmt.Println(actortest.Ask(k, store.Ref(), price{Item: "tea"}).Answer())
		store.Expect(price{Item: "tea"}) // it is written down all the same
	})
	// Output: 3
}

// The shop asks the store, and the test answers for it.
func ExampleAsk() {
	run(func(k *actortest.Kit) {
		shop, store, _ := open(k)
		call := actortest.Ask(k, shop, order{Item: "tea"})
		req := actortest.ExpectMsg[price](store)
		fmt.Println("pending:", call.Pending())
		actortest.Reply(store, req, 21)
		fmt.Println("answer:", call.Answer())

		call = actortest.Ask(k, shop, order{Item: "gold"})
		actortest.Reject(store, price{Item: "gold"}, errors.New("sold out"))
		fmt.Println(call.Err())
	})
	// Output:
	// pending: true
	// answer: 42
	// ask /shop with actortest_test.order: price of gold: ask /probe-1 with actortest_test.price: sold out
}

func ExampleAskContext() {
	run(func(k *actortest.Kit) {
		store := actortest.NewProbe[price](k) // it never answers
		ctx, cancel := context.WithTimeout(k.Context(), time.Hour)
		defer cancel()
		call := actortest.AskContext(ctx, k, store.Ref(), price{Item: "tea"})
		k.Advance(59 * time.Minute)
		fmt.Println("pending:", call.Pending())
		k.Advance(time.Minute)
		fmt.Println(call.Err())
	})
	// Output:
	// pending: true
	// ask /probe-1 with actortest_test.price: context deadline exceeded
}

func ExampleReplyFor() {
	run(func(k *actortest.Kit) {
		p := actortest.NewProbe[string](k)
		answer := make(chan int, 1)
		go func() {
			n, err := actor.AskFor[int](k.Context(), p.Ref(), "how many?")
			if err != nil {
				k.T().Error(err)
			}
			answer <- n
		}()
		p.Expect("how many?")
		actortest.ReplyFor(p, "how many?", 7)
		fmt.Println(<-answer)
	})
	// Output: 7
}

// A gate makes an actor busy, so that its mailbox fills.
func ExampleGate() {
	run(func(k *actortest.Kit) {
		gate := actortest.NewGate(k)
		gate.Close()
		p := actortest.NewProbe[int](k, gate.Around(), actor.Bounded(2, actor.DropOldest))
		for n := range 5 {
			p.Ref().Tell(k.Context(), n)
			k.Settle()
		}
		fmt.Println(gate.Waiting(), "waits")
		gate.Open()
		fmt.Println(p.All())
	})
	// Output:
	// 1 waits
	// [0 3 4]
}

// What only an actor can do, done by a probe.
func ExampleDo() {
	run(func(k *actortest.Kit) {
		shop, _, _ := open(k)
		p := actortest.NewProbe[any](k)
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			ctx.Watch(shop.PID(), func(d actor.Down) any { return d.Reason })
			return nil
		})
		shop.Kill()
		p.Expect(actor.Killed)
		fmt.Println("the probe was told")
	})
	// Output: the probe was told
}

// The order in which things happen that are no messages.
func ExampleJournal() {
	run(func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(_ *actor.Context[string], m string) error {
			log.Addf("%s at %v", m, k.Elapsed())
			return nil
		}, actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
			log.Addf("before")
			return next()
		}))
		ref.Tell(k.Context(), "tea")
		log.Expect("before", "tea at 0s") // no more and no less
		k.Advance(time.Hour)
		ref.Tell(k.Context(), "coffee")
		fmt.Println(log.All())
	})
	// Output: [before coffee at 1h0m0s]
}

func ExampleEvents() {
	run(func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		ref := actor.SpawnFunc(k.System(), "clerk", falls)
		ref.Tell(k.Context(), "jump")
		k.ExpectFailures(1)
		e := failures.Next()
		fmt.Println(e.PID.Path(), e.Err)
		failures.ExpectNone()
	})
	// Output: /clerk fell
}

// An answer that takes its time.
func ExampleCall_Await() {
	run(func(k *actortest.Kit) {
		slow := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[price], m price) error {
			if err := ctx.Sleep(time.Second); err != nil {
				return err
			}
			actor.Reply(ctx, m, 7)
			return nil
		})
		fmt.Println(actortest.Ask(k, slow, price{Item: "tea"}).Await().Answer(), "after", k.Elapsed())
	})
	// Output: 7 after 1s
}

// An actor is held up in the middle of a message.
func ExampleGate_Pass() {
	run(func(k *actortest.Kit) {
		gate, log := actortest.NewGate(k), actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("begins %s", m)
			gate.Pass(ctx)
			log.Addf("ends %s", m)
			return nil
		})
		gate.Close()
		ref.Tell(k.Context(), "tea")
		log.Expect("begins tea")
		gate.Open()
		log.Expect("ends tea")
		fmt.Println(gate.Waiting(), "waits")
	})
	// Output: 0 waits
}

// Without a bubble: for benchmarks and counts of allocations.
func ExampleNewSystem() {
	inTest(func(t *testing.T) {
		sys := actortest.NewSystem(t)
		ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil })
		ref.Tell(t.Context(), 1)
		fmt.Println(testing.AllocsPerRun(100, func() { ref.Tell(t.Context(), 1) }) < 1)
	})
	// Output: true
}

func ExampleProbe_Expect() {
	run(func(k *actortest.Kit) {
		inbox := actortest.NewProbe[Reminder](k)
		inbox.Ref().Tell(k.Context(), Reminder{Text: "tea"})
		inbox.Expect(Reminder{Text: "tea"}) // fails the test, with the difference, if it is another
		inbox.ExpectNone()
		fmt.Println("as expected")
	})
	// Output: as expected
}

// A test answers in the place of the actor that is asked.
func ExampleReply() {
	type Double struct {
		actor.Returns[int]
		N int
	}
	run(func(k *actortest.Kit) {
		calculator := actortest.NewProbe[Double](k)
		call := actortest.Ask(k, calculator.Ref(), Double{N: 21})
		req := actortest.ExpectMsg[Double](calculator)
		actortest.Reply(calculator, req, 2*req.N)
		fmt.Println(call.Answer())
	})
	// Output: 42
}

func ExampleReject() {
	type Double struct {
		actor.Returns[int]
		N int
	}
	run(func(k *actortest.Kit) {
		calculator := actortest.NewProbe[Double](k)
		call := actortest.Ask(k, calculator.Ref(), Double{N: 21})
		actortest.Reject(calculator, actortest.ExpectMsg[Double](calculator), errors.New("no battery"))
		fmt.Println(call.Err())
	})
	// Output: ask /probe-1 with actortest_test.Double: no battery
}

func ExampleKit_Advance() {
	run(func(k *actortest.Kit) {
		inbox := actortest.NewProbe[Reminder](k)
		clerk := actor.Spawn(k.System(), "clerk", NewClerk(inbox.Ref()))
		clerk.Tell(k.Context(), RemindMe{After: 24 * time.Hour, Text: "pay the rent"})
		k.Advance(24 * time.Hour) // takes no real time
		fmt.Println(inbox.Next().Text, "after", k.Elapsed())
	})
	// Output: pay the rent after 24h0m0s
}
