package sqlite

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// markName is a file that is there while the WAL has to be: from the first commit, which has made the WAL
// durable, until the store is closed, when SQLite removes it. SQLite opens a database whose WAL is missing
// without a word, and without what was committed last. So nobody but a Store may close the database in such a way
// that SQLite removes the WAL: see openReader.
const markName = "greenroom.open"

// checkMark fails if the WAL of the database at path is missing although its store was not closed. A server
// may be using the store.
func checkMark(path string) error {
	mark, wal := filepath.Join(filepath.Dir(path), markName), path+"-wal"
	if !exists(mark) {
		return nil
	}
	if _, err := os.Stat(wal); !os.IsNotExist(err) {
		return err
	}
	if !exists(mark) { // the store was being closed: the mark goes first
		return nil
	}
	return fmt.Errorf("%w: %s is missing, with what was committed last: the store was not closed; put it back, or restore a backup into another directory. If another program has opened and closed the database since, or to go on without those commits, remove %s",
		sqlitedb.ErrDamaged, wal, mark)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// setMark makes the mark if it is not there. On a full disk that may fail; a later commit tries again.
// REQUIRES: s.writing held.
func (s *Store) setMark() {
	if !s.marked {
		s.marked = os.WriteFile(filepath.Join(filepath.Dir(s.path), markName), nil, 0o600) == nil
	}
}

// removeMark removes the mark, before the database is closed: the WAL may be missing from then on.
func (s *Store) removeMark() {
	_ = Unmark(filepath.Dir(s.path))
	s.marked = false
}

// Unmark makes a directory forget that its store was not closed, so that another database may take the place of a lost
// one. It does nothing where there is no such store.
func Unmark(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); !os.IsNotExist(err) {
		return err
	}
	return nil
}
