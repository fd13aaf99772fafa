package sqlite

import (
	"context"
	"errors"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

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
