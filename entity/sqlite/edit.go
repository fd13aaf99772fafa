package sqlite

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

// edits makes the edits of the batch, in their order.
func (t *transaction) edits() error {
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit == nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		if err := t.edit(t.w.nums[r.Entity], r.Edit); err != nil {
			return fmt.Errorf("entity %q: %w", t.b.Entities[r.Entity].ID, err)
		}
	}
	for i := range t.b.Entities {
		e := &t.b.Entities[i]
		if !e.Edited || e.Deleted {
			continue
		}
		var typ any
		if e.Type != "" {
			typ = e.Type
		}
		if _, err := t.query("UPDATE entity SET type = ?, revision = ? WHERE num = ?", 1, typ, int64(e.Revision), t.w.nums[i]); err != nil {
			return fmt.Errorf("entity %q: %w", e.ID, err)
		}
	}
	return nil
}

func (t *transaction) edit(num int64, e *entity.Edit) error {
	for i := range e.Attributes {
		if err := t.attribute(num, &e.Attributes[i]); err != nil {
			return fmt.Errorf("attribute %s: %w", e.Attributes[i].Path, err)
		}
	}
	for i := range e.Relations {
		if err := t.relation(num, &e.Relations[i]); err != nil {
			return fmt.Errorf("relation %q to %q: %w", e.Relations[i].Type, e.Relations[i].To, err)
		}
	}
	return nil
}

func (t *transaction) attribute(num int64, a *entity.AttributeEdit) error {
	path, err := t.key(a.Path)
	if err != nil {
		return err
	}
	if a.Removed() {
		_, err = t.query("DELETE FROM attribute WHERE entity = ? AND section = ? AND path = ?", 1, num, int64(a.Section), path.num)
		return err
	}
	_, err = t.query(`INSERT INTO attribute (entity, section, path, ts, kind, value) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (entity, section, path) DO UPDATE SET ts = excluded.ts, kind = excluded.kind, value = excluded.value`,
		1, num, int64(a.Section), path.num, a.TS, int64(a.Value.Kind()), column(a.Value))
	return err
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

// deletions ends the entities that the batch deletes. Their history is no longer
// to be found, and is removed bit by bit by purge.
func (t *transaction) deletions() error {
	for i := range t.b.Entities {
		if !t.b.Entities[i].Deleted {
			continue
		}
		num := t.w.nums[i]
		for _, sql := range [...]string{
			"DELETE FROM latest WHERE entity = ?",
			"DELETE FROM attribute WHERE entity = ?",
			"DELETE FROM relation WHERE source = ?",
			"DELETE FROM relation WHERE target = ?",
			"DELETE FROM applied WHERE entity = ?",
			"DELETE FROM entity WHERE num = ?",
			"INSERT INTO doomed (num, hour) VALUES (?, 0)",
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

// How much of the history of deleted entities one commit removes at most: what
// fits beside it.
const (
	purgeHours = 200
	purgeRows  = 2000
)

// purge removes a bit of the history of deleted entities.
func (t *transaction) purge() error {
	if !t.w.doomed {
		return nil
	}
	row, err := t.query("SELECT num, hour FROM doomed LIMIT 1", 2)
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	if row == nil {
		t.w.doomed = false
		return nil
	}
	num, from := row[0], row[1]
	row, err = t.query("SELECT max(hour) FROM (SELECT hour FROM hour WHERE hour >= ? ORDER BY hour LIMIT ?)", 1, from, int64(purgeHours))
	if err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	if last, ok := row[0].(int64); ok {
		if _, err := t.query("DELETE FROM telemetry WHERE entity = ? AND hour IN (SELECT hour FROM hour WHERE hour BETWEEN ? AND ?)", 1, num, from, last); err != nil {
			return fmt.Errorf("purge: %w", err)
		}
		_, err = t.query("UPDATE doomed SET hour = ? WHERE num = ?", 1, last+1, num)
		return err
	}
	row, err = t.query("DELETE FROM computed WHERE (entity, key, ts) IN (SELECT entity, key, ts FROM computed WHERE entity = ? LIMIT ?) RETURNING 1", 1, num, int64(purgeRows))
	if err == nil && row == nil {
		_, err = t.query("DELETE FROM doomed WHERE num = ?", 1, num)
	}
	return err
}
