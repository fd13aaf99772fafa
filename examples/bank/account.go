package main

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
)

// What an account records.
type (
	// Opened is the beginning of an account.
	Opened struct{ Cents int64 }
	// Withdrawn is money that goes to another account.
	Withdrawn struct {
		Transfer int
		To       string
		Cents    int64
	}
	// Deposited is money that has come from another account.
	Deposited struct {
		Transfer int
		From     string
		Cents    int64
	}
	// Returned is money that the other account has not taken.
	Returned struct {
		Transfer int
		From     string
		Cents    int64
	}
	// Closed is the end of an account, which keeps what it has.
	Closed struct{}
)

// What accounts send each other. They survive a crash, as what is recorded does.
type (
	// Credit is money on its way.
	Credit struct {
		Transfer int
		From     string
		Cents    int64
	}
	// Bounce is a credit on its way back: the saga's compensation.
	Bounce struct {
		Transfer int
		From     string
		Cents    int64
	}
)

// What an account is asked.
type (
	open struct {
		actor.Returns[int64]
		cents int64
	}
	transfer struct {
		actor.Returns[int64]
		to    string
		cents int64
	}
	shut    struct{ actor.Returns[int64] }
	balance struct{ actor.Returns[int64] }
)

// types names everything that is written. The names stay as long as there are journals with them.
var types = codec.NewTypes(
	codec.Of[Opened]("bank.opened"), codec.Of[Withdrawn]("bank.withdrawn"), codec.Of[Deposited]("bank.deposited"),
	codec.Of[Returned]("bank.returned"), codec.Of[Closed]("bank.closed"),
	codec.Of[Credit]("bank.credit"), codec.Of[Bounce]("bank.bounce"),
	codec.Of[Statement]("bank.account"),
)

var (
	errOverdrawn = errors.New("there is not that much in the account")
	errClosed    = errors.New("the account is not open")
)

// Account is a durable actor. Its id is its path, "/alice".
type Account struct {
	persist.Events[any]
	s Statement
}

// Statement is the state of an account, for snapshots.
type Statement struct {
	Opened    bool // once
	Open      bool // now
	Cents     int64
	Transfers int
}

func newAccount() *Account { return &Account{} }

// Apply is all that changes the state: now, and again when the account is recovered.
func (a *Account) Apply(e any) {
	switch e := e.(type) {
	case Opened:
		a.s.Opened, a.s.Open, a.s.Cents = true, true, e.Cents
	case Withdrawn:
		a.s.Cents -= e.Cents
		a.s.Transfers = e.Transfer
	case Deposited:
		a.s.Cents += e.Cents
	case Returned:
		a.s.Cents += e.Cents
	case Closed:
		a.s.Open = false
	}
}

// Receive decides. What it answers and sends leaves when what it has recorded is on the disk.
func (a *Account) Receive(ctx *actor.Context[any], m any) error {
	self := ctx.Self().PID().Path()
	switch m := m.(type) {
	case open:
		if !a.s.Opened {
			a.Record(Opened{m.cents})
		}
	case transfer:
		switch {
		case !a.s.Open:
			return actor.Refuse(ctx, errClosed)
		case m.cents <= 0:
			return actor.Refuse(ctx, fmt.Errorf("cents must be greater than 0, not %d", m.cents))
		case m.cents > a.s.Cents:
			return actor.Refuse(ctx, errOverdrawn)
		}
		number := a.s.Transfers + 1
		a.Record(Withdrawn{number, m.to, m.cents})
		a.Send(m.to, Credit{number, self, m.cents}) // in the same transaction: both, or neither
	case Credit:
		if !a.s.Open {
			a.Send(m.From, Bounce{m.Transfer, self, m.Cents})
			return nil
		}
		a.Record(Deposited(m))
	case Bounce: // also when it was closed meanwhile: the money is there
		a.Record(Returned(m))
	case shut:
		if a.s.Open {
			a.Record(Closed{})
		}
	case balance:
	}
	actor.ReplyFor(ctx, a.s.Cents)
	return nil
}

// Snapshot and Restore save the time to replay an account's whole life.
func (a *Account) Snapshot() (Statement, error) { return a.s, nil }

// Restore is the other half.
func (a *Account) Restore(s Statement) error {
	a.s = s
	return nil
}
