package sqlite

import (
	"context"
	"time"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// restTicks is the number of ticks of CheckpointEvery without a commit after which the WAL is
// truncated: a minute.
const restTicks = 120

// checkpoints makes checkpoints until stop is closed.
func (s *Store) checkpoints(stop <-chan struct{}) {
	ticker := time.NewTicker(sqlitedb.CheckpointEvery)
	defer ticker.Stop()
	var before uint64
	quiet, full := 0, true // how many ticks nothing was committed, and the WAL may take room
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		n := s.commits.Load()
		if n == before {
			if quiet++; full && quiet%restTicks == 0 {
				done, err := s.copies.Truncate(context.Background(), s.beginTruncate, s.writing.Unlock)
				full = err != nil || !done // then it is tried again
			}
			continue
		}
		before, quiet, full = n, 0, true
		// If an error matters, it will recur in the next commit: without a checkpoint, only the WAL
		// grows.
		_ = s.checkpoint()
	}
}

// checkpoint copies the WAL, and restarts it when it is long. It makes the reserve again when the
// disk has room.
func (s *Store) checkpoint() error {
	s.reserve.Fill(sqlitedb.SpareRoom)
	return s.copies.Make(context.Background(), s.longWAL, s.beginSlice, s.endSlice)
}

// beginTruncate is begin for a caller that truncates the WAL.
func (s *Store) beginTruncate() {
	s.begin()
	s.clearMark()
}
