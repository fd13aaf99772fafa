package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/greenroom-go/greenroom/persist"
)

// audit is a view of all accounts that can be queried: a table in a database of its own. Its place
// in the events is written in the transaction of what it makes of them, so each is there once.
type audit struct{ db *sql.DB }

func openAudit(ctx context.Context, path string) (*audit, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE IF NOT EXISTS entry (account TEXT, number INTEGER, text TEXT, cents INTEGER, PRIMARY KEY (account, number)) WITHOUT ROWID;
		CREATE TABLE IF NOT EXISTS place (part INTEGER PRIMARY KEY, position INTEGER)`)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the audit: %w", err), db.Close())
	}
	return &audit{db}, nil
}

// cursors says how far it has come.
func (a *audit) cursors(ctx context.Context) ([]uint64, error) {
	list := make([]uint64, persist.Parts)
	rows, err := a.db.QueryContext(ctx, "SELECT part, position FROM place")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var part int
		var position uint64
		if err := rows.Scan(&part, &position); err != nil {
			return nil, err
		}
		list[part] = position
	}
	return list, rows.Err()
}

// handle writes what events say about money.
func (a *audit) handle(ctx context.Context, events []persist.Event) error {
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	for _, e := range events {
		text, cents := entry(e.Value)
		if _, err := tx.ExecContext(ctx, "INSERT INTO entry VALUES (?, ?, ?, ?)", e.ID, e.Number, text, cents); err != nil {
			return err
		}
	}
	last := events[len(events)-1]
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO place VALUES (?, ?)", last.Part, last.Position); err != nil {
		return err
	}
	return tx.Commit()
}

// entry is an event as a line of a statement.
func entry(event any) (text string, cents int64) {
	switch e := event.(type) {
	case Opened:
		return "opened", e.Cents
	case Withdrawn:
		return fmt.Sprintf("to %s", e.To), -e.Cents
	case Deposited:
		return fmt.Sprintf("from %s", e.From), e.Cents
	case Returned:
		return fmt.Sprintf("back from %s", e.From), e.Cents
	}
	return "closed", 0
}

// statement returns the lines of an account.
func (a *audit) statement(ctx context.Context, account string) (lines []string, err error) {
	rows, err := a.db.QueryContext(ctx, "SELECT text, cents FROM entry WHERE account = ? ORDER BY number", account)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		var cents int64
		if err := rows.Scan(&text, &cents); err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%-12s %6d", text, cents))
	}
	return lines, rows.Err()
}

// sums returns how many entries there are, and what they come to.
func (a *audit) sums(ctx context.Context) (entries int, cents int64, err error) {
	err = a.db.QueryRowContext(ctx, "SELECT count(*), coalesce(sum(cents), 0) FROM entry").Scan(&entries, &cents)
	return entries, cents, err
}
