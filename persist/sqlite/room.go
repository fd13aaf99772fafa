package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// openInReserve opens the database. If the disk has no room for that, it does so again in the room
// of the reserve, and keeps what is left of it for the next time.
func (j *Journal) openInReserve(ctx context.Context, path string) error {
	err := j.openDatabase(ctx, path)
	if sqlitedb.IsFull(err) {
		_ = j.closeDatabase() // it fails where opening has failed
		released, removal := j.reserve.Release()
		if !released {
			return fmt.Errorf("opening needs %d KiB on the disk of %s: %w", sqlitedb.ReserveBytes>>10, path, errors.Join(err, removal))
		}
		err = j.openDatabase(ctx, path)
		j.reserve.Refill()
	}
	if err == nil {
		j.reserve.Fill(sqlitedb.SpareRoom)
	}
	return err
}

// openDatabase opens the connections, and reads what is in memory while the journal is open.
func (j *Journal) openDatabase(ctx context.Context, path string) (err error) {
	if err := j.openWriter(ctx, path); err != nil {
		return err
	}
	if err := j.openReaders(ctx, path); err != nil {
		return err
	}
	j.copies, err = sqlitedb.OpenCheckpoints(path)
	return err
}

// closeDatabase closes what openDatabase has opened.
func (j *Journal) closeDatabase() error {
	var errs []error
	if j.copies != nil {
		errs = append(errs, j.copies.Close())
	}
	if j.readers != nil {
		errs = append(errs, j.readers.Close())
	}
	if j.w != nil {
		errs = append(errs, j.w.Close(j.w.inserts.all()...))
	}
	j.copies, j.readers, j.w = nil, nil, nil
	return errors.Join(errs...)
}
