package actor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"

	"github.com/greenroom-go/greenroom/actor"
)

func ExamplePID() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	pid := actor.Spawn(sys, "account", newAccount).PID()
	fmt.Println(pid.Node(), pid.Path(), pid.IsZero())

	text := pid.String() // "bank~…/account#" and a number that no other actor gets
	again, err := actor.ParsePID(text)
	fmt.Println(again == pid, err, pid.Incarnation() == sys.Incarnation())
	_, err = actor.ParsePID("account")
	fmt.Println(err)
	// Output:
	// bank /account false
	// true <nil> true
	// parse "account": not a PID: want system~incarnation/path#number
}

// A PID is text in JSON and wherever else encoding.TextMarshaler is known.
func ExamplePID_MarshalText() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	type transfer struct{ From, To actor.PID }
	sent := transfer{To: actor.Spawn(sys, "account", newAccount).PID()}
	wire, err := json.Marshal(sent)
	if err != nil {
		fmt.Println(err)
	}
	var got transfer
	if err := json.Unmarshal(wire, &got); err != nil {
		fmt.Println(err)
	}
	fmt.Println(got == sent, got.From)

	text, err := sent.To.MarshalText()
	fmt.Println(string(text) == sent.To.String(), err)
	fmt.Println(got.From.UnmarshalText(text), got.From == sent.To)
	// Output:
	// true -
	// true <nil>
	// <nil> true
}

// A reference is text, too. What is read is bound to a system before it is used.
func ExampleRef_Bind() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	account := actor.Spawn(sys, "account", newAccount)
	text, err := account.MarshalText()
	fmt.Println(string(text) == account.String(), err)

	read := account // of the same type, and nobody's
	fmt.Println(read.UnmarshalText(nil), read.IsZero())
	fmt.Println(read.UnmarshalText(text), read == account, read.PID() == account.PID())
	read.Bind(sys)
	fmt.Println(read == account)
	// Output:
	// true <nil>
	// <nil> true
	// <nil> false true
	// true
}

func ExampleLookup() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "account", newAccount)
	again, err := actor.Lookup[accountMsg](sys, ref.PID())
	fmt.Println(again == ref, err)
	_, err = actor.Lookup[string](sys, ref.PID())
	fmt.Println(errors.Is(err, actor.ErrNotAccepted))
	// Output:
	// true <nil>
	// true
}

func ExampleRef() {
	sys := actor.NewSystem("bank", quiet)
	defer sys.Shutdown(context.Background())

	var nobody actor.Ref[accountMsg]
	fmt.Println(nobody.IsZero(), nobody)

	ref := actor.Spawn(sys, "account", newAccount)
	fmt.Println(ref.IsZero(), ref.String() == ref.PID().String())
	// Output:
	// true -
	// false true
}

// BeforeSend refuses what must not be sent.
func ExampleBeforeSend_refuse() {
	limit := func(_ context.Context, s *actor.Sending) error {
		if d, ok := s.Message.(deposit); ok && d.cents > 1000 {
			return errors.New("1000 is the limit")
		}
		return nil
	}
	sys := actor.NewSystem("bank", quiet, actor.BeforeSend(limit))
	defer sys.Shutdown(context.Background())

	ref := actor.Spawn(sys, "account", newAccount)
	fmt.Println(ref.TryTell(context.Background(), deposit{5000}))
	ref.Tell(context.Background(), deposit{5000})
	fmt.Println(sys.DeadLetters()[0].Reason == actor.Refused)
	// Output:
	// tell /account: refused before it was sent: 1000 is the limit
	// true
}

// With BeforeSend and HeaderOf something goes along with a message that is none of its
// business: a trace, a tenant.
func ExampleBeforeSend() {
	trace := func(_ context.Context, s *actor.Sending) error {
		if s.Header == nil { // from outside: the beginning of a trace
			s.Header = actor.Header{"trace": "t-1"}
		}
		return nil
	}
	sys := actor.NewSystem("traced", quiet, actor.BeforeSend(trace))
	defer sys.Shutdown(context.Background())

	back := actor.SpawnFunc(sys, "back", func(ctx *actor.Context[balance], m balance) error {
		fmt.Println(ctx.Self().PID().Path(), actor.HeaderOf(ctx)["trace"])
		actor.Reply(ctx, m, 1)
		return nil
	})
	front := actor.SpawnFunc(sys, "front", func(ctx *actor.Context[balance], m balance) error {
		fmt.Println(ctx.Self().PID().Path(), actor.HeaderOf(ctx)["trace"])
		n, err := actor.Ask(ctx, back, m)
		actor.Reply(ctx, m, n)
		return err
	})
	fmt.Println(actor.Ask(context.Background(), front, balance{}))
	// Output:
	// /front t-1
	// /back t-1
	// 1 <nil>
}

func ExampleBeforeSpawn() {
	atMost := func(n int) actor.SystemOption {
		return actor.BeforeSpawn(func(s actor.Spawning) error {
			if n--; n < 0 {
				return fmt.Errorf("no room for %s", s.Name)
			}
			return nil
		})
	}
	sys := actor.NewSystem("small", quiet, atMost(1))
	defer sys.Shutdown(context.Background())

	_, err := actor.TrySpawn(sys, "first", newAccount)
	fmt.Println(err)
	_, err = actor.TrySpawn(sys, "second", newAccount)
	fmt.Println(err)
	// Output:
	// <nil>
	// spawn "second" under /: no room for second
}

func ExampleUnsubscribe() {
	sys := actor.NewSystem("events", quiet)
	started := make(chan string)
	ref := actor.SpawnFunc(sys, "listener", func(_ *actor.Context[actor.ActorStarted], e actor.ActorStarted) error {
		started <- e.PID.Path()
		return nil
	})
	actor.Subscribe(sys, ref)
	actor.Spawn(sys, "first", newAccount)
	fmt.Println(<-started)
	actor.Unsubscribe(sys, ref)
	actor.Spawn(sys, "second", newAccount) // of which the listener hears nothing
	_, _ = sys.Shutdown(context.Background())
	// Output: /first
}

// AskFor is for requests that cannot embed Returns, such as generated code.
func ExampleAskFor() {
	sys := actor.NewSystem("generated", quiet)
	defer sys.Shutdown(context.Background())

	type sizeRequest struct{ Name string }
	ref := actor.SpawnFunc(sys, "disk", func(ctx *actor.Context[sizeRequest], m sizeRequest) error {
		actor.ReplyFor(ctx, len(m.Name))
		return nil
	})
	fmt.Println(actor.AskFor[int](context.Background(), ref, sizeRequest{"readme"}))
	_, err := actor.AskFor[string](context.Background(), ref, sizeRequest{"readme"})
	fmt.Println(err)
	// Output:
	// 6 <nil>
	// ask /disk with actor_test.sizeRequest: message type not accepted by the target: the answer is a int and the asker wants another type
}

func ExamplePromised_Reject() {
	sys := actor.NewSystem("later", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "oracle", func(ctx *actor.Context[balance], m balance) error {
		p := actor.Promise(ctx, m)
		go p.Reject(errors.New("ask again later"))
		return nil
	})
	fmt.Println(actor.Ask(context.Background(), ref, balance{}))
	// Output: 0 ask /oracle with actor_test.balance: ask again later
}

func ExampleWithAskTimeout() {
	sys := actor.NewSystem("impatient", quiet, actor.WithAskTimeout(1))
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "slow", func(ctx *actor.Context[balance], m balance) error {
		_ = actor.Promise(ctx, m) // and never keeps it
		return nil
	})
	_, err := actor.Ask(context.Background(), ref, balance{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// ask /slow with actor_test.balance: no answer within the system's ask timeout of 1ns: context deadline exceeded
	// true
}

// A simulated system draws the same numbers again from the same seed.
func ExampleSystem_Rand() {
	sys := actor.NewSystem("casino", quiet)
	defer sys.Shutdown(context.Background())

	dice := actor.SpawnFunc(sys, "dice", func(ctx *actor.Context[balance], m balance) error {
		actor.Reply(ctx, m, 1+ctx.System().Rand().IntN(6))
		return nil
	})
	n, err := actor.Ask(context.Background(), dice, balance{})
	fmt.Println(1 <= n && n <= 6, err)
	// Output: true <nil>
}

func ExampleWithMaxWaiting() {
	sys := actor.NewSystem("narrow", quiet, actor.WithMaxWaiting(1))
	defer sys.Shutdown(context.Background())

	asked := make(chan *actor.Promised[int])
	bank := actor.SpawnFunc(sys, "bank", func(ctx *actor.Context[balance], m balance) error {
		asked <- actor.Promise(ctx, m)
		return nil
	})
	teller := func(ctx *actor.Context[balance], m balance) error {
		n, err := actor.Ask(ctx, bank, m)
		if err == nil {
			actor.Reply(ctx, m, n)
		}
		return err
	}
	first, second := actor.SpawnFunc(sys, "first", teller), actor.SpawnFunc(sys, "second", teller)
	answer := make(chan int)
	go func() {
		n, _ := actor.Ask(context.Background(), first, balance{})
		answer <- n
	}()
	promised := <-asked // the first teller waits
	for sys.Stats().Waiting == 0 {
		runtime.Gosched()
	}
	_, err := actor.Ask(context.Background(), second, balance{})
	fmt.Println(errors.Is(err, actor.ErrTooManyWaiting))
	promised.Resolve(500)
	fmt.Println(<-answer)
	// Output:
	// true
	// 500
}

// Package router is built on Routed.
func ExampleRouted() {
	sys := actor.NewSystem("routed", quiet)
	defer sys.Shutdown(context.Background())

	euros, cents := actor.Spawn(sys, "euros", newAccount), actor.Spawn(sys, "cents", newAccount)
	bySize := func(m accountMsg, to func(actor.Ref[accountMsg])) {
		if d, ok := m.(deposit); ok && d.cents >= 100 {
			to(euros)
			return
		}
		to(cents)
	}
	ref, err := actor.Routed(sys, cents.PID(), bySize)
	if err != nil {
		fmt.Println(err)
	}
	ref.Tell(context.Background(), deposit{500})
	ref.Tell(context.Background(), deposit{5})
	fmt.Println(actor.Ask(context.Background(), euros, balance{}))
	fmt.Println(actor.Ask(context.Background(), cents, balance{}))
	// Output:
	// 500 <nil>
	// 5 <nil>
}

func ExampleRef_Backlog() {
	sys := actor.NewSystem("example")
	gate := make(chan struct{})
	inHand := make(chan struct{})
	ref := actor.SpawnFunc(sys, "slow", func(*actor.Context[int], int) error {
		inHand <- struct{}{}
		<-gate
		return nil
	})
	for i := range 3 {
		ref.Tell(context.Background(), i)
	}
	<-inHand // the first message is being handled, two wait
	n, ok := ref.Backlog()
	fmt.Println(n, ok)
	go func() {
		for range inHand {
		}
	}()
	close(gate)
	_, _ = sys.Shutdown(context.Background())
	// Output: 3 true
}
