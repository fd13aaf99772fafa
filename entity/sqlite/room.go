package sqlite

import (
	"context"
	"errors"
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

// openInReserve opens the database. If the disk has no room for that, it does so again in the room
// of the reserve, and keeps what is left of it for the next time.
func (s *Store) openInReserve(ctx context.Context) error {
	err := s.openDatabase(ctx)
	if sqlitedb.IsFull(err) {
		_ = s.closeDatabase() // it fails where opening has failed
		released, removal := s.reserve.Release()
		if !released {
			return fmt.Errorf("%w: opening needs %d KiB on the disk of %s: %w", entity.ErrFull, sqlitedb.ReserveBytes>>10, s.path, errors.Join(err, removal))
		}
		if err = s.openDatabase(ctx); sqlitedb.IsFull(err) {
			err = fmt.Errorf("%w: %w", entity.ErrFull, err)
		}
		s.reserve.Refill()
	}
	if err == nil {
		s.reserve.Fill(sqlitedb.SpareRoom)
	}
	return err
}
