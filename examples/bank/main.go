// Bank moves money between accounts that survive a crash: each account is a durable actor, a
// transfer is a saga over the outbox, and an audit in SQLite is a projection of all events. Its
// test kills it in the middle of transfers: money is neither made nor lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/sqlite"
)

// bank is the accounts with their journal and the audit.
type bank struct {
	sys      *actor.System
	journal  *sqlite.Journal
	audit    *audit
	accounts map[string]actor.Ref[any]
}

// openBank opens a bank with these accounts in a directory.
func openBank(ctx context.Context, dir string, names ...string) (b *bank, err error) {
	b = &bank{accounts: make(map[string]actor.Ref[any])}
	if b.journal, err = sqlite.Open(ctx, filepath.Join(dir, "journal"), sqlite.Options{}); err != nil {
		return nil, err
	}
	if b.audit, err = openAudit(ctx, filepath.Join(dir, "audit.db")); err != nil {
		return nil, errors.Join(err, b.journal.Close())
	}
	b.sys = actor.NewSystem("bank", actor.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))))
	p, err := persist.Open(ctx, b.sys, b.journal, persist.Config{Types: types})
	if err == nil {
		_, err = p.Project("audit", b.audit.handle, persist.CursorsFrom(b.audit.cursors))
	}
	if err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	for _, name := range names {
		b.accounts[name] = persist.Spawn(p, b.sys, name, newAccount, persist.Every(100, 0))
	}
	return b, nil
}

// close ends everything. What was answered is on the disk without it.
func (b *bank) close(ctx context.Context) error {
	_, err := b.sys.Shutdown(ctx)
	return errors.Join(err, b.journal.Close(), b.audit.db.Close())
}

// settled waits until no money is on its way, and the audit has seen what there is.
func (b *bank) settled(ctx context.Context) error {
	for {
		quiet := true
		cursors, err := b.audit.cursors(ctx)
		if err != nil {
			return err
		}
		for part := range persist.Parts {
			sending, err := b.journal.Outbox(ctx, part, 0, 1)
			if err != nil {
				return err
			}
			news, err := b.journal.Feed(ctx, part, cursors[part], persist.PageRecords)
			if err != nil {
				return err
			}
			quiet = quiet && len(sending) == 0
			for _, r := range news {
				quiet = quiet && r.Type == "" // only numbers that were taken
			}
		}
		if quiet {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for money on its way: %w", context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func run(w io.Writer) error {
	dir, err := os.MkdirTemp("", "bank")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	names := []string{"alice", "bob", "carol"}
	b, err := openBank(ctx, dir, names...)
	if err != nil {
		return err
	}
	ask := func(name string, m any) {
		cents, err := actor.AskFor[int64](ctx, b.accounts[name], m)
		switch m := m.(type) {
		case open:
			fmt.Fprintf(w, "%s opens with %d\n", name, cents)
		case transfer:
			fmt.Fprintf(w, "%s sends %d to %s: %v\n", name, m.cents, m.to, err)
		case balance:
			fmt.Fprintf(w, "%s has %d\n", name, cents)
		}
	}
	for _, name := range names {
		ask(name, open{cents: 100})
	}
	ask("carol", shut{})
	ask("alice", transfer{to: "/bob", cents: 30})
	if err := b.settled(ctx); err != nil {
		return errors.Join(err, b.close(ctx))
	}
	ask("alice", transfer{to: "/bob", cents: 90})
	ask("bob", transfer{to: "/carol", cents: 50}) // who has closed: it comes back
	if err := errors.Join(b.settled(ctx), b.close(ctx)); err != nil {
		return err
	}

	fmt.Fprintln(w, "the bank opens again")
	if b, err = openBank(ctx, dir, names...); err != nil {
		return err
	}
	for _, name := range names {
		ask(name, balance{})
	}
	lines, err := b.audit.statement(ctx, "/bob")
	for _, line := range lines {
		fmt.Fprintln(w, "bob:", line)
	}
	return errors.Join(err, b.close(ctx))
}

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bank:", err)
		os.Exit(1)
	}
}
