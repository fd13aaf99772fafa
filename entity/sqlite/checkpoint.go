package sqlite

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
	// checkpointEvery is how often the WAL is copied while there are commits.
	checkpointEvery = 500 * time.Millisecond
	// longWAL is the number of pages from which on the WAL is to begin anew: 32 MB.
	longWAL = 8192
)

// checkpoints makes checkpoints until stop is closed.
func (s *Store) checkpoints(stop <-chan struct{}) {
	ticker := time.NewTicker(checkpointEvery)
	defer ticker.Stop()
	var before uint64
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		if n := s.commits.Load(); n != before {
			before = n
			// An error shows in the next commit, if it matters: without a checkpoint
			// the WAL grows, and that is all.
			_ = s.checkpoint()
		}
	}
}

// checkpoint copies the WAL, and sees to it that it begins anew when it is long.
func (s *Store) checkpoint() error {
	ctx := context.Background()
	pages, err := passive(ctx, s.checkDB)
	if err != nil || pages < s.longWAL {
		return err
	}
	s.begin()
	defer s.writing.Unlock()
	_, err = passive(ctx, s.checkDB)
	return err
}

// passive makes a checkpoint that waits for nobody, and returns how many pages
// the WAL has.
func passive(ctx context.Context, db *sql.DB) (pages int, err error) {
	var busy, done int
	if err := db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &done); err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	return pages, nil
}
