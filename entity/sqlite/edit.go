package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// edits applies the edits of the batch in order. Types and relations are rare and are searched
// in their tables, so it writes them at once; for attributes and revisions it makes rows
// for the tail.
func (t *transaction) edits() error {
	t.w.typed = t.w.typed[:0]
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit == nil {
			continue
		}
		if t.b.Entities[r.Entity].Deleted {
			continue // its paths may have no numbers, see editRows
		}
		_, err := t.applied(r)
		if err == nil {
			err = t.edit(r.Entity, r.Edit, t.b.First+uint64(i))
		}
		if err != nil {
			return fmt.Errorf("entity %q: %w", t.b.Entities[r.Entity].ID, err)
		}
	}
	for _, place := range t.w.typed {
		e := &t.b.Entities[place]
		var typ any
		if e.Type != "" {
			typ = e.Type
		}
		if _, err := t.query("UPDATE entity SET type = ? WHERE num = ?", 1, typ, t.w.nums[place]); err != nil {
			return fmt.Errorf("entity %q: %w", e.ID, err)
		}
	}
	return nil
}

func (t *transaction) edit(place int, e *entity.Edit, change uint64) error {
	if e.Typed {
		t.w.typed = append(t.w.typed, place)
	}
	for i := range e.Relations {
		if err := t.relation(t.w.nums[place], &e.Relations[i]); err != nil {
			return fmt.Errorf("relation %q to %q: %w", e.Relations[i].Type, e.Relations[i].To, err)
		}
	}
	for i := range e.Attributes { // a path has its number before the log has its name
		if _, err := t.key(e.Attributes[i].Path); err != nil {
			return err
		}
	}
	for _, row := range editRows(e, change, t.w.keys) {
		t.w.fresh = append(t.w.fresh, freshRow{place, row})
	}
	return nil
}

// editRows returns the rows of an edit for the tail. A path has no number if it occurs only in
// edits of entities that the same commit deletes: the deletion follows in the log.
func editRows(e *entity.Edit, change uint64, keys map[string]*name) []tailRow {
	rows := make([]tailRow, 0, max(1, len(e.Attributes)))
	for i := range e.Attributes {
		a := &e.Attributes[i]
		if key := keys[a.Path]; key != nil {
			rows = append(rows, tailRow{edit: true, key: key, section: a.Section, ts: a.TS, seq: e.Revision, change: change, value: a.Value.Clone()})
		}
	}
	if len(rows) == 0 {
		rows = append(rows, tailRow{edit: true, seq: e.Revision, change: change})
	}
	return rows
}

// moveEdits writes the edits among the rows of the tail to the tables: the last row of each leaf,
// and the revision.
func (t *transaction) moveEdits(parts []part) error {
	w := t.w
	w.edited, w.revisions = w.edited[:0], w.revisions[:0]
	for _, p := range parts {
		revision := revisionRow{num: p.e.num}
		for i := range p.rows {
			if r := &p.rows[i]; r.edit {
				revision.revision = max(revision.revision, r.seq)
				if r.key != nil {
					w.edited = append(w.edited, movedRow{p.e.num, r})
				}
			}
		}
		if revision.revision > 0 {
			w.revisions = append(w.revisions, revision)
		}
	}
	defer clear(w.edited)
	slices.SortStableFunc(w.edited, compareLeaves)
	last := w.edited[:0]
	for i, r := range w.edited {
		if i+1 == len(w.edited) || compareLeaves(r, w.edited[i+1]) != 0 {
			last = append(last, r)
		}
	}
	w.edited = last
	if err := t.attributes(); err != nil {
		return err
	}
	return t.Bulk(&w.revision, len(w.revisions), func(i int, row []driver.NamedValue) {
		row[0].Value, row[1].Value = w.revisions[i].num, int64(w.revisions[i].revision)
	})
}

// revisionRow is the revision of an entity.
type revisionRow struct {
	num      int64
	revision uint64
}

func compareLeaves(a, b movedRow) int {
	return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.section, b.section), cmp.Compare(a.key.num, b.key.num))
}

// attributes writes w.edited, removals first.
func (t *transaction) attributes() error {
	w := t.w
	for _, r := range w.edited {
		if r.value.Kind() != 0 {
			continue
		}
		if _, err := t.query("DELETE FROM attribute WHERE entity = ? AND section = ? AND path = ?", 1, r.entity, int64(r.section), r.key.num); err != nil {
			return fmt.Errorf("attribute %s: %w", r.key.text, err)
		}
	}
	set := slices.DeleteFunc(w.edited, func(r movedRow) bool { return r.value.Kind() == 0 })
	return t.Bulk(&w.attribute, len(set), func(i int, row []driver.NamedValue) {
		r := set[i]
		row[0].Value, row[1].Value, row[2].Value = r.entity, int64(r.section), r.key.num
		row[3].Value, row[4].Value, row[5].Value = r.ts, int64(r.value.Kind()), column(r.value)
	})
}

func (t *transaction) relation(num int64, r *entity.RelationEdit) error {
	typ, err := t.key(r.Type)
	if err != nil {
		return err
	}
	if r.Removed {
		_, err = t.query("DELETE FROM relation WHERE source = ? AND type = ? AND target = (SELECT num FROM entity WHERE id = ?)", 1, num, typ.num, r.To)
		return err
	}
	var properties any
	if r.Properties.Kind() != 0 {
		properties = r.Properties.Text()
	}
	_, err = t.query(`INSERT INTO relation (source, type, target, properties) SELECT ?, ?, num, ? FROM entity WHERE id = ?
		ON CONFLICT (source, type, target) DO UPDATE SET properties = excluded.properties`, 1, num, typ.num, properties, r.To)
	return err
}

// deletions deletes entities. Their history can no longer be found; purge removes it
// bit by bit.
func (t *transaction) deletions() error {
	for i := range t.b.Entities {
		if !t.b.Entities[i].Deleted {
			continue
		}
		num := t.w.nums[i]
		for _, sql := range [...]string{
			"DELETE FROM latest WHERE entity = ?",
			"DELETE FROM attribute WHERE entity = ?",
			"DELETE FROM command WHERE entity = ?",
			"DELETE FROM relation WHERE source = ?",
			"DELETE FROM relation WHERE target = ?",
			"DELETE FROM applied WHERE entity = ?",
			"DELETE FROM entity WHERE num = ?",
			"INSERT INTO doomed (num) VALUES (?)",
		} {
			if _, err := t.query(sql, 1, num); err != nil {
				return fmt.Errorf("delete entity %q: %w", t.b.Entities[i].ID, err)
			}
		}
		t.added--
		t.w.doomed = true
	}
	return nil
}

// How much of the history of deleted entities one commit removes at most, so
// that it is not noticeably slower.
const (
	purgeHours = 200
	purgeRows  = 2000

	purgeBlocks = 50
)

// purge removes a part of the history of deleted entities.
func (t *transaction) purge() (err error) {
	defer failure.In(&err, "purge")
	if !t.w.doomed {
		return nil
	}
	row, err := t.query("SELECT num FROM doomed LIMIT 1", 1)
	if err != nil {
		return err
	}
	if row == nil {
		t.w.doomed = false
		return nil
	}
	num := first[int64](row)
	if some, err := t.purgeRows(num); err != nil || some {
		return err
	}
	for _, table := range [...]string{"block", "stamp"} {
		row, err = t.query("DELETE FROM "+table+" WHERE num IN (SELECT num FROM "+table+" WHERE entity = ? LIMIT +?) RETURNING 1", 1, num, int64(purgeBlocks))
		if err != nil || row != nil {
			return err
		}
	}
	row, err = t.query("DELETE FROM computed WHERE (entity, key, ts) IN (SELECT entity, key, ts FROM computed WHERE entity = ? LIMIT +?) RETURNING 1", 1, num, int64(purgeRows))
	if err == nil && row == nil {
		_, err = t.query("DELETE FROM doomed WHERE num = ?", 1, num)
	}
	return err
}

// purgeRows removes some rows of telemetry of a deleted entity. It reports whether there
// were any.
func (t *transaction) purgeRows(num int64) (some bool, err error) {
	for n, hours := 0, 0; n < purgeRows && hours < purgeHours; hours++ {
		row, err := t.query("SELECT key, hour FROM series_hour WHERE entity = ? LIMIT 1", 2, num)
		if err != nil || row == nil {
			return some, err
		}
		some = true
		key, hour := first[int64](row), first[int64](row[1:])
		rows, err := t.count(`DELETE FROM telemetry WHERE (hour, entity, key, ts, seq) IN
			(SELECT hour, entity, key, ts, seq FROM telemetry WHERE hour = ? AND entity = ? AND key = ? LIMIT +?) RETURNING 1`, hour, num, key, int64(purgeRows-n))
		if err != nil {
			return true, err
		}
		if n += rows; n == purgeRows {
			break // there may be more
		}
		if _, err := t.query("DELETE FROM series_hour WHERE entity = ? AND key = ? AND hour = ?", 1, num, key, hour); err != nil {
			return true, err
		}
		t.w.listed.forget(seriesHour{num, key, hour})
	}
	return some, nil
}
