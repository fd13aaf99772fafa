package sqlite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// markName is a file that exists while the WAL has to exist: from the first commit, which has made
// the WAL durable, until the store is closed, when SQLite removes the WAL. SQLite silently opens a
// database whose WAL is missing, without the last commits. So only a Store may close the database
// in such a way that SQLite removes the WAL: see openReader. The file contains a sqlitedb.Known,
// because SQLite also takes the first damaged page of a WAL for its end. It is not synced, so after
// a loss of power it may know less.
const markName = "greenroom.open"

// markOf returns the path of the mark of the database at path.
func markOf(path string) string { return filepath.Join(filepath.Dir(path), markName) }

// mark is a Store's access to the file. OWNER: the holder of s.writing, except in Open and Close.
type mark struct {
	file  *os.File // nil if it does not exist
	index *os.File // of the WAL, nil before it was needed. Closing it while SQLite has the database open would release SQLite's locks.
}

// checkFiles fails if some of the files of the database at path are missing. The database must not
// be in use.
func checkFiles(path string) error {
	if err := sqlitedb.CheckFiles(path, readMark(path)); err != nil {
		return orRemoveMark(path, err)
	}
	return checkMark(path)
}

// checkUsed fails if the WAL of the database at path is missing or lacks commits. A server may be
// using the store: it has already checked what changes meanwhile.
func checkUsed(path string) error {
	if err := checkMark(path); err != nil {
		return err
	}
	known := readMark(path)
	err := sqlitedb.CheckWAL(path, known)
	if errors.Is(err, sqlitedb.ErrLacking) {
		if now := readMark(path); !known.SameWAL(&now) { // the WAL was truncated, or has begun anew
			return nil
		}
	}
	return orRemoveMark(path, err)
}

// orRemoveMark adds to an ErrLacking how to continue nevertheless.
func orRemoveMark(path string, err error) error {
	if errors.Is(err, sqlitedb.ErrLacking) {
		return fmt.Errorf("%w. To go on without those commits, remove %s", err, markOf(path))
	}
	return err
}

// checkMark fails if the WAL of the database at path is missing although its store was not closed. A server
// may be using the store.
func checkMark(path string) error {
	mark, wal := markOf(path), path+"-wal"
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

// readMark returns the content of the mark of the database at path.
func readMark(path string) (known sqlitedb.Known) {
	f, err := os.Open(markOf(path))
	if err != nil {
		return known
	}
	defer f.Close()
	known, _ = sqlitedb.ReadKnown(f) // nothing is known by a part
	return known
}

// setMark creates the mark if it does not exist, and records the commit that was just synced. On a
// full disk that may fail; a later commit tries again, and the previous content stays valid.
// REQUIRES: s.writing held.
func (s *Store) setMark() {
	if !s.openMark(os.O_CREATE) {
		return
	}
	if s.mark.index == nil {
		index, err := os.Open(s.path + "-shm")
		if err != nil {
			return
		}
		s.mark.index = index
	}
	if known, err := sqlitedb.ReadKnown(s.mark.index); err == nil {
		_, _ = s.mark.file.WriteAt(known[:], 0)
	}
}

// openMark opens the mark, and reports whether it exists.
func (s *Store) openMark(flag int) bool {
	if s.mark.file == nil {
		f, err := os.OpenFile(markOf(s.path), os.O_RDWR|flag, 0o600)
		if err != nil {
			return false
		}
		s.mark.file = f
	}
	return true
}

// clearMark clears and syncs the mark before the WAL is truncated, which must not happen first.
// REQUIRES: s.writing held.
func (s *Store) clearMark() {
	if !s.openMark(0) { // it may be there from before a crash, or not be writable now
		s.removeMark()
		return
	}
	var nothing sqlitedb.Known
	_, err := s.mark.file.WriteAt(nothing[:], 0)
	if err == nil {
		err = s.mark.file.Sync()
	}
	if err != nil {
		s.removeMark()
	}
}

// removeMark removes the mark, before the database is closed or if the mark cannot be cleared: the
// WAL may be missing from then on.
func (s *Store) removeMark() {
	if s.mark.file != nil {
		_ = s.mark.file.Close()
	}
	s.mark.file = nil
	_ = Unmark(filepath.Dir(s.path))
}

// Unmark makes a directory forget that its store was not closed, so that another database may
// replace a lost one. It does nothing if there is no such store.
func Unmark(dir string) error {
	if err := os.Remove(filepath.Join(dir, markName)); !os.IsNotExist(err) {
		return err
	}
	return nil
}
