package postgres

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

var (
	// ErrInUse says that another server holds the lock of the schema.
	ErrInUse = errors.New("store in use by another server")

	// ErrTakenOver says that another server has opened the schema while this one
	// was disconnected. What this one knows of it is out of date: it must be
	// opened again.
	ErrTakenOver = errors.New("store taken over by another server")

	// ErrSchema says that the schema cannot be used by this version: a newer
	// version wrote it, or another program. Nothing was changed.
	ErrSchema = errors.New("schema not usable by this version")

	// ErrServer says that the PostgreSQL server is too old, or set up in a way in
	// which it cannot be used.
	ErrServer = pgdb.ErrServer

	// ErrAddress says that the address of the store is not understood. The text
	// never has the password in it.
	ErrAddress = pgdb.ErrAddress
)

// roomless makes an error that says that the server's disk is full an entity.ErrFull.
func roomless(err error) error {
	if pgdb.Code(err) == pgdb.CodeDiskFull {
		return fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}
