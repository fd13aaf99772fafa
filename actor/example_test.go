package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// quiet keeps the log out of the examples' output.
var quiet = actor.WithLogger(slog.New(slog.DiscardHandler))

type greet struct{ who string }

func Example() {
	sys := actor.NewSystem("hello", quiet)
	greeter := actor.SpawnFunc(sys, "greeter", func(ctx *actor.Context[greet], m greet) error {
		fmt.Println("hello", m.who)
		return nil
	})
	greeter.Tell(context.Background(), greet{"Roger"})
	_, _ = sys.Shutdown(context.Background()) // handles what is queued
	// Output: hello Roger
}

// accountMsg is what an account accepts: a sealed interface, Go's idiom for a sum type.
type accountMsg interface{ accountMsg() }

type (
	deposit struct{ cents int }
	balance struct{ actor.Returns[int] }
)

func (deposit) accountMsg() {}
func (balance) accountMsg() {}

type account struct{ cents int }

func newAccount() *account { return &account{} }

var errNegative = errors.New("a deposit is positive")

func (a *account) Receive(ctx *actor.Context[accountMsg], msg accountMsg) error {
	switch m := msg.(type) {
	case deposit:
		if m.cents <= 0 {
			return errNegative // a failure: the supervisor decides
		}
		a.cents += m.cents
	case balance:
		actor.Reply(ctx, m, a.cents)
	}
	return nil
}

func ExampleSpawnFunc() {
	sys := actor.NewSystem("shop", quiet)
	sum := 0 // the function is called for one message at a time
	till := actor.SpawnFunc(sys, "till", func(_ *actor.Context[int], cents int) error {
		sum += cents
		return nil
	})
	till.Tell(context.Background(), 250)
	till.Tell(context.Background(), 120)
	_, _ = sys.Shutdown(context.Background()) // returns when all messages are handled
	fmt.Println(sum)
	// Output: 370
}

func ExampleRef_Tell() {
	sys := actor.NewSystem("office", quiet)
	printer := actor.SpawnFunc(sys, "printer", func(_ *actor.Context[string], page string) error {
		fmt.Println(page)
		return nil
	})
	clerk := actor.SpawnFunc(sys, "clerk", func(ctx *actor.Context[string], letter string) error {
		printer.Tell(ctx, letter+", page 1") // in a handler with its own ctx
		printer.Tell(ctx, letter+", page 2") // messages of one sender keep their order
		return nil
	})
	clerk.Tell(context.Background(), "letter")
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// letter, page 1
	// letter, page 2
}

func ExampleSpawn() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "account", newAccount)
	ref.Tell(context.Background(), deposit{300})
	cents, err := actor.Ask(context.Background(), ref, balance{})
	fmt.Println(ref.PID().Path(), cents, err)
	// Output: /account 300 <nil>
}

func ExampleTrySpawn() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	actor.Spawn(sys, "account", newAccount)
	_, err := actor.TrySpawn(sys, "account", newAccount)
	fmt.Println(err, errors.Is(err, actor.ErrNameTaken))
	// Output: spawn /account: name taken true
}

func ExampleSupervise() {
	sys := actor.NewSystem("bank", quiet, actor.Supervise(actor.OneForOne,
		actor.MaxRestarts(5, time.Minute),
		actor.Decide(func(err error) actor.Directive {
			if errors.Is(err, errNegative) {
				return actor.Resume // harmless: keep the state
			}
			return actor.Restart
		})))
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "account", newAccount)
	ref.Tell(context.Background(), deposit{300})
	ref.Tell(context.Background(), deposit{-1})
	cents, _ := actor.Ask(context.Background(), ref, balance{})
	fmt.Println(cents)
	// Output: 300
}

func ExampleRef_TryTell() {
	sys := actor.NewSystem("bank", quiet)
	ref := actor.Spawn(sys, "account", newAccount)
	_, _ = sys.Shutdown(context.Background())
	fmt.Println(ref.TryTell(context.Background(), deposit{1}))
	// Output: tell /account: actor stopped
}

func ExampleContext_Watch() {
	sys := actor.NewSystem("watch", quiet)
	worker := actor.SpawnFunc(sys, "worker", func(*actor.Context[string], string) error { return actor.ErrStop })
	done := make(chan struct{})
	actor.SpawnFunc(sys, "watcher", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case actor.PID:
			ctx.Watch(m, func(d actor.Down) any { return d })
			worker.Tell(ctx, "go home")
		case actor.Down:
			fmt.Println(m.PID.Path(), m.Reason)
			close(done)
		}
		return nil
	}).Tell(context.Background(), worker.PID())
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: /worker stopped
}

func ExampleContext_Every() {
	sys := actor.NewSystem("timers", quiet)
	done := make(chan struct{})
	n := 0
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
		switch m {
		case "start":
			ctx.Every("heartbeat", time.Millisecond, "beat")
		case "beat":
			if n++; n == 3 {
				ctx.Cancel("heartbeat")
				fmt.Println(n, "beats")
				close(done)
			}
		}
		return nil
	}).Tell(context.Background(), "start")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: 3 beats
}

func ExampleContext_Stash() {
	sys := actor.NewSystem("door", quiet)
	open := func(_ *actor.Context[string], m string) error {
		fmt.Println(m, "goes in")
		return nil
	}
	door := actor.SpawnFunc(sys, "door", func(ctx *actor.Context[string], m string) error {
		if m != "open" {
			return ctx.Stash() // later
		}
		ctx.Become(open)
		ctx.Unstash()
		return nil
	})
	tellAll(door, "Ann", "Bob", "open", "Cid")
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// Ann goes in
	// Bob goes in
	// Cid goes in
}

func ExamplePipe() {
	sys := actor.NewSystem("pipe", quiet)
	done := make(chan struct{})
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			actor.Pipe(ctx, func(context.Context) (int, error) {
				return len(m), nil // slow work, off the actor
			}, func(n int, err error) any { return n })
		case int:
			fmt.Println("it has", m, "letters")
			close(done)
		}
		return nil
	}).Tell(context.Background(), "greenroom")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: it has 9 letters
}

func ExamplePromise() {
	sys := actor.NewSystem("later", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error {
		p := actor.Promise(ctx, m)
		go p.Resolve(42) // from anywhere, at any time
		return nil
	})
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output: 42 <nil>
}

func ExampleForward() {
	sys := actor.NewSystem("forward", quiet)
	defer sys.Shutdown(context.Background())

	account := actor.Spawn(sys, "account", newAccount)
	desk := actor.SpawnFunc(sys, "desk", func(ctx *actor.Context[accountMsg], _ accountMsg) error {
		return actor.Forward(ctx, account) // the account answers the asker
	})
	desk.Tell(context.Background(), deposit{5})
	fmt.Println(actor.Ask(context.Background(), desk, balance{}))
	// Output: 5 <nil>
}

func ExampleGather() {
	sys := actor.NewSystem("gather", quiet)
	defer sys.Shutdown(context.Background())

	var accounts []actor.Ref[accountMsg]
	for i := range 3 {
		ref := actor.Spawn(sys, "account-*", newAccount)
		ref.Tell(context.Background(), deposit{i + 1})
		accounts = append(accounts, ref)
	}
	total := 0
	for _, answer := range actor.Gather(context.Background(), accounts, balance{}) {
		total += answer.Value
	}
	fmt.Println(total)
	// Output: 6
}

func ExampleAskThen() {
	sys := actor.NewSystem("ask", quiet)
	account := actor.Spawn(sys, "account", newAccount)
	account.Tell(context.Background(), deposit{7})
	done := make(chan struct{})
	actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		switch m := m.(type) {
		case string:
			actor.AskThen(ctx, account, balance{}, func(cents int, err error) any { return cents })
			fmt.Println("not waiting")
		case int:
			fmt.Println("balance", m)
			close(done)
		}
		return nil
	}).Tell(context.Background(), "ask")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// not waiting
	// balance 7
}

func ExampleBounded() {
	sys := actor.NewSystem("bounded", quiet)
	entered, release := make(chan struct{}), make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
		if n == 0 {
			close(entered)
			<-release
		}
		return nil
	}, actor.Bounded(1, actor.Reject))
	ref.Tell(context.Background(), 0)
	<-entered
	fmt.Println(ref.TryTell(context.Background(), 1))
	fmt.Println(errors.Is(ref.TryTell(context.Background(), 2), actor.ErrMailboxFull))
	close(release)
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// <nil>
	// true
}

func ExampleConflate() {
	type price struct {
		symbol string
		cents  int
	}
	sys := actor.NewSystem("prices", quiet)
	entered, release := make(chan struct{}), make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[price], p price) error {
		if p.symbol == "" {
			close(entered)
			<-release
			return nil
		}
		fmt.Println(p.symbol, p.cents)
		return nil
	}, actor.Conflate(func(p price) string { return p.symbol }))
	ref.Tell(context.Background(), price{})
	<-entered
	tellAll(ref, price{"A", 1}, price{"B", 1}, price{"A", 2}, price{"A", 3})
	close(release)
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// A 3
	// B 1
}

func ExampleSubscribe() {
	sys := actor.NewSystem("events", quiet)
	done := make(chan struct{})
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[actor.ActorFailed], e actor.ActorFailed) error {
		fmt.Println(e.PID.Path(), "failed:", e.Err)
		close(done)
		return nil
	}))
	actor.Spawn(sys, "account", newAccount).Tell(context.Background(), deposit{-1})
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: /account failed: a deposit is positive
}

func ExampleAroundReceive() {
	trace := func(_ context.Context, r actor.Reception, next func() error) error {
		err := next()
		fmt.Printf("%s handled a %T: %v\n", r.To.Path(), r.Message, err)
		return err
	}
	sys := actor.NewSystem("traced", quiet, actor.AroundReceive(trace))
	actor.Spawn(sys, "account", newAccount).Tell(context.Background(), deposit{1})
	_, _ = sys.Shutdown(context.Background())
	// Output: /account handled a actor_test.deposit: <nil>
}

func ExampleLookupPath() {
	sys := actor.NewSystem("lookup", quiet)
	defer sys.Shutdown(context.Background())

	actor.Spawn(sys, "account", newAccount)
	ref, err := actor.LookupPath[accountMsg](sys, "/account")
	fmt.Println(ref.PID().Path(), err)
	_, err = actor.LookupPath[int](sys, "/account")
	fmt.Println(err)
	// Output:
	// /account <nil>
	// look up /account: message type not accepted by the target: it is a *actor_test.account and does not accept int
}

func ExampleSystem_Actors() {
	sys := actor.NewSystem("actors", quiet)
	defer sys.Shutdown(context.Background())

	actor.Spawn(sys, "a", newAccount)
	actor.SpawnFunc(sys, "b", func(*actor.Context[int], int) error { return nil })
	var longest actor.Info
	for info := range sys.Actors() {
		if info.Mailbox >= longest.Mailbox && info.Path > longest.Path {
			longest = info
		}
	}
	fmt.Println(longest.Path, longest.Mailbox)
	// Output: /b 0
}

func ExampleSystem_Inspect() {
	sys := actor.NewSystem("inspect", quiet)
	defer sys.Shutdown(context.Background())

	actor.Spawn(sys, "a", newAccount)
	actor.Spawn(sys, "b", newAccount)
	tree, err := sys.Inspect("/", 10)
	fmt.Println(tree.Path, err)
	for _, c := range tree.Children {
		fmt.Println(c.Path, c.Type, c.State)
	}
	// Output:
	// / <nil>
	// /a *actor_test.account running
	// /b *actor_test.account running
}
