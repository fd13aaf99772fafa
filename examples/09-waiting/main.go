// Waiting is the ninth step of the tour: a waiter who needs something from others before
// the answer is ready.
//
// There are four ways. Ask waits in the handler: that blocks no worker, but the waiter
// handles nothing else meanwhile. Gather waits for many at once. AskThen and Pipe do not
// wait: the outcome comes later as a message, of another actor's answer or of work on a
// goroutine of its own, and Promise keeps the duty to answer until then.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Drink is what a barista is asked for. It takes a second.
type Drink struct{ actor.Returns[string] }

func makeDrink(ctx *actor.Context[Drink], d Drink) error {
	if err := ctx.Sleep(time.Second); err != nil {
		return err
	}
	actor.Reply(ctx, d, "a drink by "+ctx.Self().PID().Path())
	return nil
}

// Msg is what the waiter accepts.
type Msg interface{ msg() }

type (
	// OneByOne asks each barista and waits for each.
	OneByOne struct{ actor.Returns[int] }
	// AllAtOnce asks all of them and waits once.
	AllAtOnce struct{ actor.Returns[int] }
	// Meanwhile asks one barista and does not wait.
	Meanwhile struct{ actor.Returns[string] }
	// Fetch has something fetched from the cellar, and does not wait either.
	Fetch struct{ actor.Returns[string] }

	// outcome is what Meanwhile and Fetch lead to.
	outcome struct {
		answer *actor.Promised[string]
		text   string
		err    error
	}
)

func (OneByOne) msg()  {}
func (AllAtOnce) msg() {}
func (Meanwhile) msg() {}
func (Fetch) msg()     {}
func (outcome) msg()   {}

// Waiter serves.
type Waiter struct{ baristas []actor.Ref[Drink] }

// Receive handles one message.
func (k *Waiter) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case OneByOne:
		for _, b := range k.baristas {
			if _, err := actor.Ask(ctx, b, Drink{}); err != nil {
				return err
			}
		}
		actor.Reply(ctx, m, len(k.baristas))
	case AllAtOnce:
		made := 0
		for _, answer := range actor.Gather(ctx, k.baristas, Drink{}) {
			if answer.Err != nil {
				return answer.Err
			}
			made++
		}
		actor.Reply(ctx, m, made)
	case Meanwhile:
		answer := actor.Promise(ctx, m)
		actor.AskThen(ctx, k.baristas[0], Drink{}, func(text string, err error) Msg { return outcome{answer, text, err} })
	case Fetch:
		answer := actor.Promise(ctx, m)
		actor.Pipe(ctx, fetch, func(text string, err error) Msg { return outcome{answer, text, err} })
	case outcome:
		if m.err != nil {
			m.answer.Reject(m.err)
			return nil
		}
		m.answer.Resolve(m.text)
	}
	return nil
}

// fetch stands for work outside of any actor, an HTTP request for example.
func fetch(ctx context.Context) (string, error) {
	select {
	case <-time.After(1500 * time.Millisecond):
		return "beans from the cellar", nil
	case <-ctx.Done(): // the waiter was stopped
		return "", context.Cause(ctx)
	}
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bar")
	defer sys.Shutdown(ctx)

	var baristas []actor.Ref[Drink]
	for _, name := range []string{"ann", "bob", "cid"} {
		baristas = append(baristas, actor.SpawnFunc(sys, name, makeDrink))
	}
	waiter := actor.Spawn(sys, "waiter", func() *Waiter { return &Waiter{baristas} })

	began := time.Now()
	lap := func(what string, result any, err error) {
		fmt.Fprintf(w, "%s: %v %v, after %.1f s\n", what, result, err, time.Since(began).Seconds())
		began = time.Now()
	}
	n, err := actor.Ask(ctx, waiter, OneByOne{})
	lap("one by one", n, err)
	n, err = actor.Ask(ctx, waiter, AllAtOnce{})
	lap("all at once", n, err)

	// Both of these are under way at the same time.
	var drink, beans string
	var drinkErr, beansErr error
	var both sync.WaitGroup
	both.Go(func() { drink, drinkErr = actor.Ask(ctx, waiter, Meanwhile{}) })
	both.Go(func() { beans, beansErr = actor.Ask(ctx, waiter, Fetch{}) })
	both.Wait()
	lap("meanwhile", []string{drink, beans}, errors.Join(drinkErr, beansErr))
}
