package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

const (
	// sweepMost is how many slices are removed in one go: then the tail and the WAL have their turn.
	sweepMost = 64

	// sliceBytes is how many bytes of events a slice removes, unless it is one event: commits wait
	// for it.
	sliceBytes = 4 << 20
)

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
	events, bytes := 0, int64(0)
	if err := t.Each("SELECT place.number, length(event.data) FROM place JOIN event USING (position) WHERE place.actor = ? AND place.number < ? ORDER BY place.number", 2, func(row []driver.Value) (bool, error) {
		events++
		bytes += integer(row[1])
		if full := events > 1 && (events > sliceEvents || bytes > sliceBytes); full {
			below = integer(row[0])
			return false, nil
		}
		return true, nil
	}, actor, below); err != nil {
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
