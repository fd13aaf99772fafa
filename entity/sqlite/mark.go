package sqlite

import (
	"fmt"
	"os"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// markName is a file that is there while the WAL has to be: from the first commit, which has made the WAL
// durable, until the store is closed, when SQLite removes it. SQLite opens a database whose WAL is missing
// without a word, and without what was committed last.
const markName = "greenroom.open"

// checkMark fails if the WAL is missing although the store was not closed.
func (s *Store) checkMark() error {
	if _, err := os.Stat(s.mark); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	wal := s.path + "-wal"
	if _, err := os.Stat(wal); !os.IsNotExist(err) {
		return err
	}
	return fmt.Errorf("%w: %s is missing, with what was committed last: the store was not closed; put it back, or restore a backup into another directory. If another program has opened and closed the database since, or to go on without those commits, remove %s",
		sqlitedb.ErrDamaged, wal, s.mark)
}

// setMark makes the mark if it is not there. On a full disk that may fail; a later commit tries again.
// REQUIRES: s.writing held.
func (s *Store) setMark() {
	if !s.marked {
		s.marked = os.WriteFile(s.mark, nil, 0o600) == nil
	}
}

// removeMark removes the mark of a store that is about to be closed: its WAL may be missing from then on.
func (s *Store) removeMark() {
	if s.w != nil {
		_ = os.Remove(s.mark)
		s.marked = false
	}
}
