package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// sweepMost is how many slices are removed in one go: then the tail and the WAL have their turn.
const sweepMost = 64

// sweep removes events of what was erased, in slices: commits go between them. It ends when the journal
// is closed; the rest is removed when it is opened the next time.
func (j *Journal) sweep() error {
	if err := j.flush(); err != nil { // what is in the tail only is not found by its actor
		return err
	}
	more := true
	for n := 0; more && n < sweepMost; n++ {
		select {
		case <-j.stop:
			return nil
		default:
		}
		if err := j.slice(func(t *sqlitedb.Tx) (err error) {
			more, err = j.w.sweep(t)
			return err
		}); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return nil
}

// sweep removes some events, and reports whether there are more that can be removed now.
func (w *writer) sweep(t *sqlitedb.Tx) (more bool, err error) {
	var actor, part, below int64
	found := false
	if err := t.Each(`SELECT actor, part, below FROM erasing WHERE position <= (SELECT flushed FROM head) LIMIT 1`, 3, func(row []driver.Value) (bool, error) {
		actor, part, below = integer(row[0]), integer(row[1]), integer(row[2])
		found = true
		return false, nil
	}); err != nil {
		return false, err
	}
	if !found {
		w.erasing.Store(false)
		return false, t.Each("SELECT 1 FROM erasing LIMIT 1", 1, func([]driver.Value) (bool, error) {
			w.erasing.Store(true) // after the next flush
			return false, nil
		})
	}
	whole := below
	if err := t.Each("SELECT number FROM place WHERE actor = ? AND number < ? ORDER BY number LIMIT 1 OFFSET ?", 1, func(row []driver.Value) (bool, error) {
		below = integer(row[0])
		return false, nil
	}, actor, below, int64(sliceEvents)); err != nil {
		return false, err
	}
	if err := cmp.Or(
		t.Exec("DELETE FROM feed WHERE part = ? AND position IN (SELECT position FROM place WHERE actor = ? AND number < ?)", part, actor, below),
		t.Exec("DELETE FROM event WHERE position IN (SELECT position FROM place WHERE actor = ? AND number < ?)", actor, below),
		t.Exec("DELETE FROM place WHERE actor = ? AND number < ?", actor, below),
	); err != nil {
		return false, err
	}
	if below == whole {
		err = t.Exec("DELETE FROM erasing WHERE actor = ?", actor)
	}
	return true, err
}
