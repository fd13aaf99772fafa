// State-machine is a cash machine that handles the same messages differently before and after
// the PIN, and stashes those that come too early.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/greenroom-go/greenroom/actor"
)

// Msg is what the machine accepts.
type Msg interface{ msg() }

// Insert puts a card into the machine.
type Insert struct{ Card string }

// PIN is what the card's owner knows.
type PIN struct{ Code int }

// Withdraw asks for money.
type Withdraw struct{ Amount int }

// Eject ends the business.
type Eject struct{}

func (Insert) msg()   {}
func (PIN) msg()      {}
func (Withdraw) msg() {}
func (Eject) msg()    {}

// ATM is the machine. Each state is a method with the signature of Receive.
type ATM struct {
	w    io.Writer
	card string
}

// Receive is the first state: it waits for a card.
func (a *ATM) Receive(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Insert:
		a.card = m.Card
		fmt.Fprintln(a.w, "card of", m.Card)
		ctx.Become(a.locked)
	default:
		fmt.Fprintf(a.w, "%T: insert a card first\n", m)
	}
	return nil
}

// locked waits for the PIN, and keeps for later what needs it.
func (a *ATM) locked(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case PIN:
		if m.Code != 1234 {
			fmt.Fprintln(a.w, "wrong PIN")
			return nil
		}
		fmt.Fprintln(a.w, "PIN accepted")
		ctx.Become(a.open)
		ctx.Unstash() // before all that has come since, in the order of coming
	case Withdraw:
		fmt.Fprintln(a.w, "please wait:", m.Amount)
		return ctx.Stash()
	case Eject:
		ctx.Become(a.Receive)
	}
	return nil
}

// open serves.
func (a *ATM) open(ctx *actor.Context[Msg], msg Msg) error {
	switch m := msg.(type) {
	case Withdraw:
		fmt.Fprintf(a.w, "%d for %s\n", m.Amount, a.card)
	case Eject:
		fmt.Fprintln(a.w, "good-bye", a.card)
		ctx.Become(a.Receive)
	}
	return nil
}

func main() { run(os.Stdout) }

func run(w io.Writer) {
	ctx := context.Background()
	sys := actor.NewSystem("bank")
	defer sys.Shutdown(ctx)

	atm := actor.Spawn(sys, "atm", func() *ATM { return &ATM{w: w} })
	for _, m := range []Msg{
		Withdraw{5}, Insert{"Roger"}, Withdraw{10}, Withdraw{20}, PIN{1}, PIN{1234}, Withdraw{30}, Eject{}, Withdraw{40},
	} {
		atm.Tell(ctx, m)
	}
}
