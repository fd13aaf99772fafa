package sqlite

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// withRoom runs f, which is one transaction. If the disk is full, it makes a checkpoint and runs f
// again: once all of the WAL is in the database, a transaction reuses the WAL from its start, and
// needs no space. REQUIRES: s.writing held.
func (s *Store) withRoom(f func() error) error {
	err := f()
	if sqlitedb.IsFull(err) && s.copies != nil { // nil while the store is being opened
		_, _ = s.copies.Copy(context.Background()) // f fails again if that was not enough
		err = f()
	}
	if sqlitedb.IsFull(err) {
		err = fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}

// openInReserve opens the database, in the room of the reserve if the disk has no other.
func (s *Store) openInReserve(ctx context.Context) error {
	err := s.reserve.Open(s.path, func() error { return s.openDatabase(ctx) }, s.closeDatabase)
	if sqlitedb.IsFull(err) {
		err = fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}
