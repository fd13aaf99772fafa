package actor_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// ledgerGate is a gate: what a handler sends and answers leaves when the ledger has been written.
// A handler that fails has sent nothing.
type ledgerGate struct {
	mu   sync.Mutex
	held []func(dropped error)
}

func (l *ledgerGate) Handle(_ context.Context, next func() error) error {
	err := next()
	if err != nil {
		l.release(err)
	}
	return err
}

func (l *ledgerGate) Hold(leave func(dropped error)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = append(l.held, leave)
	return true
}

func (l *ledgerGate) Settle(context.Context) error {
	l.write()
	return nil
}

func (l *ledgerGate) write() {
	fmt.Println("the ledger is written")
	l.release(nil)
}

func (l *ledgerGate) release(dropped error) {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, leave := range held {
		leave(dropped)
	}
}

// A request is answered when what the answer stands for is written.
func ExampleGated() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	l, handled := &ledgerGate{}, make(chan struct{})
	cents := 0
	account := actor.SpawnFunc(sys, "account", func(ctx *actor.Context[accountMsg], msg accountMsg) error {
		switch m := msg.(type) {
		case deposit:
			cents += m.cents
		case balance:
			actor.Reply(ctx, m, cents)
			close(handled)
		}
		return nil
	}, actor.Gated(l))

	account.Tell(context.Background(), deposit{300})
	answer := actor.AskFuture(context.Background(), account, balance{})
	<-handled
	l.write()
	fmt.Println(answer.Wait(context.Background()))
	// Output:
	// the ledger is written
	// 300 <nil>
}

// What is no message goes through the gate as well.
func ExampleHold() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	handled := make(chan struct{})
	account := func(ctx *actor.Context[deposit], m deposit) error {
		mail := func(context.Context) { fmt.Println("mail:", m.cents, "cents have come") }
		fmt.Println("through a gate:", actor.Holds(ctx))
		if !actor.Hold(ctx, mail) {
			mail(ctx)
		}
		handled <- struct{}{}
		return nil
	}
	l := &ledgerGate{}
	plain := actor.SpawnFunc(sys, "plain", account)
	gated := actor.SpawnFunc(sys, "gated", account, actor.Gated(l))
	plain.Tell(context.Background(), deposit{100})
	<-handled
	gated.Tell(context.Background(), deposit{200})
	<-handled
	l.write()
	// Output:
	// through a gate: false
	// mail: 100 cents have come
	// through a gate: true
	// the ledger is written
	// mail: 200 cents have come
}

var errOverdrawn = errors.New("there is not that much")

// A request that is refused is no failure: the account goes on as it is.
func ExampleRefuse() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	type withdraw struct {
		actor.Returns[int]
		cents int
	}
	cents := 300
	account := actor.SpawnFunc(sys, "account", func(ctx *actor.Context[withdraw], m withdraw) error {
		if m.cents > cents {
			return actor.Refuse(ctx, errOverdrawn)
		}
		cents -= m.cents
		actor.Reply(ctx, m, cents)
		return nil
	})
	for _, n := range []int{400, 100} {
		left, err := actor.Ask(context.Background(), account, withdraw{cents: n})
		fmt.Println(left, errors.Is(err, errOverdrawn))
	}
	// Output:
	// 0 true
	// 200 false
}
