package postgres

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

var (
	// ErrInUse is returned if another server holds the lock of the schema.
	ErrInUse = errors.New("store in use by another server")

	// ErrTakenOver is returned if another server has opened the schema while this one was
	// disconnected, or with a higher Options.Claim. What this one knows is out of date: the store must
	// be opened again.
	ErrTakenOver = errors.New("store taken over by another server")

	// ErrSchema is returned if this version cannot use the schema, because a newer version or
	// another program has written it. Nothing was changed.
	ErrSchema = errors.New("schema not usable by this version")

	// ErrServer is returned if the PostgreSQL server is too old, or configured in an unsuitable
	// way.
	ErrServer = pgdb.ErrServer

	// ErrAddress is returned if the address of the store is malformed. The text never contains the
	// password.
	ErrAddress = pgdb.ErrAddress
)

// fullError turns an error about a full disk into an entity.ErrFull.
func fullError(err error) error {
	if pgdb.Code(err) == pgdb.CodeDiskFull {
		return fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}
