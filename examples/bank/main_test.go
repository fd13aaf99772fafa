package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/killtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
)

func TestOutput(t *testing.T) {
	t.Parallel() // it waits for the disk
	var out strings.Builder
	if err := run(&out); err != nil {
		t.Fatal(err)
	}
	const want = `alice opens with 100
bob opens with 100
carol opens with 100
alice sends 30 to /bob: <nil>
alice sends 90 to /bob: ask /alice with main.transfer: there is not that much in the account
bob sends 50 to /carol: <nil>
the bank opens again
alice has 70
bob has 130
carol has 100
bob: opened          100
bob: from /alice      30
bob: to /carol       -50
bob: back from /carol     50
`
	if got := out.String(); got != want {
		t.Errorf("it prints\n%s\nwant\n%s", got, want)
	}
}

// childDir names the directory of a bank for this program to work in until it is killed.
const childDir = "GREENROOM_BANK_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := transferForever(context.Background(), dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

const (
	customers = 8
	capital   = customers * 1000
)

func names() (list []string) {
	for i := range customers {
		list = append(list, fmt.Sprint("customer-", i))
	}
	return list
}

// transferForever sends money to and fro, and prints a line for each transfer that was accepted.
// The last customer has closed: what is sent there comes back.
func transferForever(ctx context.Context, dir string) error {
	b, err := openBank(ctx, dir, names()...)
	if err != nil {
		return err
	}
	for _, ref := range b.accounts {
		if _, err := actor.AskFor[int64](ctx, ref, open{cents: 1000}); err != nil {
			return err
		}
	}
	if _, err := actor.AskFor[int64](ctx, b.accounts[fmt.Sprint("customer-", customers-1)], shut{}); err != nil {
		return err
	}
	failed := make(chan error)
	for _, from := range names() {
		for range 4 {
			go func() {
				for {
					to := fmt.Sprint("/customer-", rand.IntN(customers))
					switch _, err := actor.AskFor[int64](ctx, b.accounts[from], transfer{to: to, cents: 1 + rand.Int64N(50)}); {
					case err == nil:
						fmt.Println("accepted") // in one write
					case errors.Is(err, errOverdrawn), errors.Is(err, errClosed):
					default:
						failed <- err
					}
				}
			}()
		}
	}
	return <-failed
}

// Killed in the middle of transfers, again and again: the accounts have as much money as they
// began with, so has the audit, and each transfer that was answered is there.
func TestMoneyIsNeitherMadeNorLost(t *testing.T) {
	t.Parallel() // it waits for another process
	dir, accepted := t.TempDir(), 0
	for round := range soaktest.Rounds(t, 5, 50) {
		accepted += killOne(t, dir, 20+rand.IntN(200))
		if round%5 == 4 {
			checkMoney(t, dir, accepted)
		}
	}
}

// killOne starts a process, kills it when that many transfers were accepted, and returns of how
// many it has said so.
func killOne(t *testing.T, dir string, transfers int) (accepted int) {
	t.Helper()
	killtest.Run(t, childDir+"="+dir, func(line string) bool {
		if line != "accepted" {
			t.Errorf("the bank has printed %q", line)
			return true
		}
		accepted++
		return accepted >= transfers
	})
	return accepted
}

func checkMoney(t *testing.T, dir string, accepted int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, err := openBank(ctx, dir, names()...)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := b.settled(ctx); err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, ref := range b.accounts {
		cents, err := actor.AskFor[int64](ctx, ref, balance{})
		if err != nil {
			t.Fatal(err)
		}
		total += cents
	}
	entries, audited, err := b.audit.sums(ctx)
	if err != nil || total != capital || audited != capital {
		t.Fatalf("the accounts have %d cents, the audit %d, and there were %d: %v", total, audited, capital, err)
	}
	if withdrawn := b.withdrawals(t); withdrawn < accepted || entries < 2*withdrawn {
		t.Fatalf("%d transfers were accepted, %d are there, with %d entries", accepted, withdrawn, entries)
	}
	for _, name := range names() {
		if err := persist.Verify(ctx, b.journal, types, "/"+name, newAccount); err != nil {
			t.Error(err)
		}
	}
}

func (b *bank) withdrawals(t *testing.T) (n int) {
	t.Helper()
	if err := b.audit.db.QueryRowContext(t.Context(), "SELECT count(*) FROM entry WHERE text LIKE 'to %'").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
