package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

const (
	// flushFrom is how many events in the tail are worth a flush while there are commits;
	// without any, everything is flushed. With a quarter of it the pages of a thousand actors
	// are written four times as often: a tenth more processor time for a durable event.
	flushFrom = 1 << 16
	// maxTail is how many are too many: then a commit waits for the flush.
	maxTail = 1 << 20
	// sliceEvents is how many events one transaction of a flush is for. Commits go between
	// them.
	sliceEvents = 1 << 11
)

// flush completes the tables up to the last position, in slices that are not synced: lost ones are
// written again, and what is there already is skipped. Readers use the new rows only once the end
// is recorded, see flushed.
func (j *Journal) flush() error {
	j.flushing.Lock()
	defer j.flushing.Unlock()
	j.writing.Lock()
	upTo, stale := j.w.position, j.w.stale
	j.writing.Unlock()
	if stale || j.tail.size() == 0 {
		return nil
	}
	for _, step := range []func(int64) error{j.flushPlaces, j.flushFeeds, j.flushed} {
		if err := step(upTo); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
	}
	return nil
}

// flushed records that the tables are complete up to a position.
func (j *Journal) flushed(upTo int64) error {
	if err := j.slice(func(t *sqlitedb.Tx) error { return t.Exec("UPDATE head SET flushed = ?", upTo) }); err != nil {
		return err
	}
	j.tail.cut(upTo)
	return nil
}

// slice runs a transaction between two commits.
func (j *Journal) slice(f func(t *sqlitedb.Tx) error) error {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.w.stale {
		return errStale
	}
	ctx := context.Background()
	if fits, err := j.copies.Fits(ctx, j.w.Conn, sqlitedb.SpareRoom); err != nil || !fits {
		return cmp.Or(err, errNoRoom)
	}
	return j.w.transact(ctx, false, f)
}

var (
	errStale  = errors.New("a commit has failed")
	errNoRoom = errors.New("what room the disk has is left to commits")
)

// flushPlaces writes where the events of each actor are, actor by actor, and their numbers.
func (j *Journal) flushPlaces(upTo int64) error {
	j.tail.mu.RLock()
	actors := slices.Sorted(maps.Keys(j.tail.actors))
	j.tail.mu.RUnlock()
	for len(actors) > 0 {
		err := j.slice(func(t *sqlitedb.Tx) error {
			var rows, last []tailEvent
			j.tail.mu.RLock()
			for len(actors) > 0 && len(rows) < sliceEvents {
				list := between(j.tail.actors[actors[0]], 0, upTo, maxTail)
				if len(list) > 0 {
					rows, last = append(rows, list...), append(last, list[len(list)-1])
				}
				actors = actors[1:]
			}
			j.tail.mu.RUnlock()
			if err := bulk(t, "places", &j.w.inserts.place, len(rows), func(i int, row []driver.NamedValue) {
				set(row, rows[i].actor, rows[i].number, rows[i].position)
			}); err != nil {
				return err
			}
			return bulk(t, "numbers", &j.w.inserts.last, len(last), func(i int, row []driver.NamedValue) { set(row, last[i].actor, last[i].number) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) flushFeeds(upTo int64) error {
	for part := range persist.Parts {
		for from := int64(0); ; {
			j.tail.mu.RLock()
			rows := between(j.tail.parts[part], from, upTo, sliceEvents)
			j.tail.mu.RUnlock()
			if len(rows) == 0 {
				break
			}
			from = rows[len(rows)-1].position
			if err := j.slice(func(t *sqlitedb.Tx) error {
				return bulk(t, "feeds", &j.w.inserts.feed, len(rows), func(i int, row []driver.NamedValue) { set(row, int64(part), rows[i].position) })
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
