package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func ExampleBounded_dropOldest() {
	sys := actor.NewSystem("bounded", quiet)
	ref, release := busyReader(sys, actor.Bounded(2, actor.DropOldest))
	tellAll(ref, 1, 2, 3, 4)
	release()
	_, _ = sys.Shutdown(context.Background())
	for _, d := range slices.Backward(sys.DeadLetters()) {
		fmt.Println("dropped", d.Message, d.Reason == actor.Overflowed)
	}
	// Output:
	// handles 0
	// handles 3
	// handles 4
	// dropped 1 true
	// dropped 2 true
}

func ExampleBounded_dropNewest() {
	sys := actor.NewSystem("bounded", quiet)
	ref, release := busyReader(sys, actor.Bounded(2, actor.DropNewest))
	tellAll(ref, 1, 2, 3, 4)
	release()
	_, _ = sys.Shutdown(context.Background())
	fmt.Println("dropped:", sys.Stats().DeadLettersByReason["overflowed"])
	// Output:
	// handles 0
	// handles 1
	// handles 2
	// dropped: 2
}

// TryTell waits for room as long as its context allows. Tell never waits.
func ExampleBounded_block() {
	sys := actor.NewSystem("bounded", quiet)
	ref, release := busyReader(sys, actor.Bounded(1, actor.Block))
	fmt.Println(ref.TryTell(context.Background(), 1))
	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	fmt.Println(ref.TryTell(soon, 2))
	release()
	fmt.Println(ref.TryTell(context.Background(), 3))
	_, _ = sys.Shutdown(context.Background())
	// Unordered output:
	// handles 0
	// <nil>
	// tell /reader: mailbox full: no room until the time was up: context deadline exceeded
	// handles 1
	// <nil>
	// handles 3
}

func ExamplePriority() {
	sys := actor.NewSystem("priority", quiet)
	urgency := func(n int) int {
		if n >= 100 {
			return 1
		}
		return 0
	}
	ref, release := busyReader(sys, actor.Priority(urgency))
	tellAll(ref, 1, 100, 2, 101)
	release()
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// handles 0
	// handles 100
	// handles 101
	// handles 1
	// handles 2
}

func ExampleInline() {
	sys := actor.NewSystem("inline", quiet)
	defer sys.Shutdown(context.Background())

	n := 0 // no lock and no waiting: it is this goroutine that handles the message
	ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], m int) error {
		n += m
		return nil
	}, actor.Inline())
	ref.Tell(context.Background(), 3)
	fmt.Println(n)
	// Output: 3
}

// A pinned actor has a thread of the operating system to itself, for libraries that want
// to be called from one.
func ExamplePinned() {
	sys := actor.NewSystem("pinned", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "display", func(ctx *actor.Context[balance], m balance) error {
		runtime.Gosched() // it stays on its thread all the same
		actor.Reply(ctx, m, 60)
		return nil
	}, actor.Pinned())
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output: 60 <nil>
}

// However many imports there are, two of them use the database at once, and nobody else waits for
// them.
func ExampleWithBulkhead() {
	sys := actor.NewSystem("shop", quiet, actor.WithBulkhead("db", 2, 1))

	var now, most atomic.Int32
	for range 10 {
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(5 * time.Millisecond) // a query
			now.Add(-1)
			return nil
		}, actor.OnBulkhead("db")).Tell(context.Background(), 1)
	}
	_, _ = sys.Shutdown(context.Background())
	fmt.Println("at once:", most.Load())
	// Output: at once: 2
}

// A passivated actor has no state until the next message comes.
func ExamplePassivate() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())
	idle := make(chan struct{}, 1)
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(*actor.Context[actor.ActorPassivated], actor.ActorPassivated) error {
		select {
		case idle <- struct{}{}:
		default: // it is idle again
		}
		return nil
	}))

	ref := actor.Spawn(sys, "ledger", func() *account {
		fmt.Println("opened")
		return newAccount()
	}, actor.Passivate(time.Millisecond))
	<-idle
	fmt.Println("idle")
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output:
	// opened
	// idle
	// opened
	// 0 <nil>
}

// An actor with a weight has longer turns when others wait too.
func ExampleWeight() {
	sys := actor.NewSystem("shares", quiet)
	defer sys.Shutdown(context.Background())

	ledger := actor.Spawn(sys, "ledger", newAccount, actor.Weight(4))
	for range 1000 {
		ledger.Tell(context.Background(), deposit{1})
	}
	fmt.Println(actor.Ask(context.Background(), ledger, balance{}))
	// Output: 1000 <nil>
}

// What is replaced is counted as a dead letter, and not kept.
func ExampleConflate_counted() {
	sys := actor.NewSystem("conflate", quiet)
	ref, release := busyReader(sys, actor.Conflate(func(n int) int { return n % 10 }))
	tellAll(ref, 1, 2, 11, 21)
	release()
	_, _ = sys.Shutdown(context.Background())
	fmt.Println(len(sys.DeadLetters()), sys.Stats().DeadLettersByReason[actor.Conflated.String()])
	// Output:
	// handles 0
	// handles 21
	// handles 2
	// 0 2
}

func ExampleBlocking() {
	sys := actor.NewSystem("files", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "disk", func(ctx *actor.Context[balance], m balance) error {
		size := 0
		err := actor.Blocking(ctx, func() error { // the worker's place is taken by another meanwhile
			size = 4096
			return nil
		})
		actor.Reply(ctx, m, size)
		return err
	})
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))

	_, err := actor.TrySpawnFunc(sys, "disk", func(*actor.Context[int], int) error { return nil })
	fmt.Println(errors.Is(err, actor.ErrNameTaken))
	// Output:
	// 4096 <nil>
	// true
}

// The till asks the bank in its handler, and serves others meanwhile.
func ExampleReentrant() {
	sys := actor.NewSystem("shop", quiet)
	defer sys.Shutdown(context.Background())

	asked, closed := make(chan *actor.Promised[int]), make(chan struct{})
	bank := actor.SpawnFunc(sys, "bank", func(ctx *actor.Context[balance], m balance) error {
		asked <- actor.Promise(ctx, m) // the bank takes its time
		return nil
	})
	till := actor.SpawnFunc(sys, "till", func(ctx *actor.Context[string], customer string) error {
		if customer == "by card" {
			fmt.Println("by card: wait, please")
			cents, err := actor.Ask(ctx, bank, balance{})
			fmt.Println("by card:", cents, err)
			close(closed)
			return nil
		}
		fmt.Println("in cash: thank you")
		return nil
	}, actor.Reentrant())

	till.Tell(context.Background(), "by card")
	promised := <-asked
	till.Tell(context.Background(), "in cash")
	for n, _ := till.Backlog(); n > 1; n, _ = till.Backlog() {
		runtime.Gosched() // the one who pays by card is still there
	}
	promised.Resolve(500)
	<-closed
	// Output:
	// by card: wait, please
	// in cash: thank you
	// by card: 500 <nil>
}
