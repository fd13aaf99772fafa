package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/greenroom-go/greenroom/entity"
)

// withRoom runs f, which is one transaction. Where the disk has no room for it, f runs once
// more after a checkpoint: once all of the WAL is in the database, a transaction begins it
// anew and needs no room.
// REQUIRES: s.writing held.
func (s *Store) withRoom(f func() error) error {
	err := f()
	if isFull(err) && s.copies != nil { // nil while the store is being opened
		_, _ = s.copies.Copy(context.Background()) // f says whether that was enough
		err = f()
	}
	if isFull(err) {
		err = fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}

// isFull reports whether there is no room on the disk.
func isFull(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failed.Code()&0xff == sqlite3.SQLITE_FULL || failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}
