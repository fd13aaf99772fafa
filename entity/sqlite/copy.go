package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// Copy writes a consistent copy of the store in a directory, which a server may be using, to a file, which must
// not exist or be empty. It contains all that was committed before, and may contain what is committed meanwhile. It is
// not synced. It fails with ErrDamaged for a store whose WAL is missing or lacks commits.
func Copy(ctx context.Context, dir, to string) (err error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return err
	}
	db, err := openReader(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", to); err != nil {
		return fmt.Errorf("copy %s to %s: %w", path, to, err)
	}
	return nil
}

// openReader opens the database of a store for a caller that does not have its lock. A connection
// that only reads leaves the WAL in place when it is the last to close the database, as it is after
// a crash of the server: the WAL has to exist until the store is closed, see markName.
func openReader(path string) (*sql.DB, error) {
	if err := checkUsed(path); err != nil {
		return nil, err
	}
	return sql.Open("sqlite", sqlitedb.DSN(path, "deferred", "busy_timeout(10000)")+"&mode=ro")
}
