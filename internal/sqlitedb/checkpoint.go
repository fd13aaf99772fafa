package sqlitedb

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Checkpoints copy pages from the WAL into the database, so that the WAL can begin
// anew. SQLite makes them in a commit whenever the WAL has so many pages; whoever
// waits for that commit then waits for some ten megabytes to be written and
// synced as well. Here they are made on a connection of their own, beside the
// commits. What is added meanwhile is left in the WAL, so that under load it would
// never begin anew; when it is long the rest, which is short, is copied between two
// commits.

const (
	// CheckpointEvery is how often the WAL is copied while there are commits.
	CheckpointEvery = 500 * time.Millisecond
	// LongWAL is the number of pages from which on the WAL is to begin anew: 32 MB.
	LongWAL = 8192
)

// OpenCheckpoints opens a database to make checkpoints of it.
func OpenCheckpoints(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", DSN(path, "deferred", "busy_timeout(5000)", "synchronous(FULL)", "cache_size(-2000)"))
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return db, err
}

// Checkpoint copies the WAL. When it has at least long pages, what has come meanwhile is
// copied between a call of lock and one of unlock, which keep others from committing, so
// that it begins anew.
func Checkpoint(ctx context.Context, db *sql.DB, long int, lock, unlock func()) error {
	pages, err := Passive(ctx, db)
	if err != nil || pages < long {
		return err
	}
	lock()
	defer unlock()
	_, err = Passive(ctx, db)
	return err
}

// Passive makes a checkpoint that waits for nobody, and returns how many pages the WAL
// has.
func Passive(ctx context.Context, db *sql.DB) (pages int, err error) {
	var busy, done int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, nil
}
