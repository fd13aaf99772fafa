package sqlite

import (
	"context"
	"time"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// checkpoints makes checkpoints until stop is closed.
func (s *Store) checkpoints(stop <-chan struct{}) {
	ticker := time.NewTicker(sqlitedb.CheckpointEvery)
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
	return s.copies.Make(context.Background(), s.longWAL, s.begin, s.writing.Unlock)
}
