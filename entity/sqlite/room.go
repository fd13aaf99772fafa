package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// withRoom runs f, which is one transaction. Where the disk has no room for it, f runs once
// more after a checkpoint: once all of the WAL is in the database, a transaction begins it
// anew and needs no room. What becomes free on a full disk is left to that: until a
// transaction has succeeded the tail is not moved.
// REQUIRES: s.writing held.
func (s *Store) withRoom(f func() error) error {
	err := f()
	if isFull(err) && s.checkDB != nil { // nil while the store is being opened
		_, _ = sqlitedb.Passive(context.Background(), s.checkDB) // f says whether that was enough
		err = f()
	}
	switch {
	case err == nil:
		s.full = false
	case isFull(err):
		s.full = true
		err = fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}

// isFull reports whether there is no room on the disk.
func isFull(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failed.Code()&0xff == sqlite3.SQLITE_FULL || failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}
