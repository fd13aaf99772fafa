package sqlitedb

import (
	"errors"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// IsFull reports whether an error means that the disk is full.
func IsFull(err error) bool {
	failed, ok := errors.AsType[*sqlite.Error](err)
	return ok && (failed.Code()&0xff == sqlite3.SQLITE_FULL || failed.Code() == sqlite3.SQLITE_IOERR_SHMSIZE)
}
