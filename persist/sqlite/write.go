package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

// write writes a plan, table by table.
type write struct {
	*plan.Plan
	w *writer
}

// inserts are the statements that write many rows.
type inserts struct {
	fresh, moved, last, event, place, feed, state, snapshot, outbox, seen, reminder, delivered sqlitedb.Bulk
}

func newInserts() inserts {
	return inserts{
		fresh: sqlitedb.Bulk{Head: "INSERT INTO actor (num, id, last, erased, sent)", Width: 5},
		moved: sqlitedb.Bulk{
			Head: "WITH moved (num, last, erased, sent) AS (", Width: 4,
			Tail: ") UPDATE actor SET last = moved.last, erased = moved.erased, sent = moved.sent FROM moved WHERE actor.num = moved.num",
		},
		last: sqlitedb.Bulk{
			Head: "WITH moved (num, last) AS (", Width: 2,
			Tail: ") UPDATE actor SET last = moved.last FROM moved WHERE actor.num = moved.num AND actor.last < moved.last",
		},
		event:    sqlitedb.Bulk{Head: "INSERT INTO event (position, part, actor, number, time, type, sum, data)", Width: 8},
		place:    sqlitedb.Bulk{Head: "INSERT INTO place (actor, number, position)", Width: 3, Tail: "ON CONFLICT (actor, number) DO NOTHING"},
		feed:     sqlitedb.Bulk{Head: "INSERT INTO feed (part, position)", Width: 2, Tail: "ON CONFLICT (part, position) DO NOTHING"},
		state:    insertPayloads("state", "actor"),
		snapshot: insertPayloads("snapshot", "actor, number"),
		outbox:   sqlitedb.Bulk{Head: "INSERT INTO outbox (part, position, actor, number, time, receiver, type, sum, data)", Width: 9},
		seen: sqlitedb.Bulk{
			Head: "INSERT INTO seen (actor, sender, number)", Width: 3,
			Tail: "ON CONFLICT (actor, sender) DO UPDATE SET number = max(seen.number, excluded.number)",
		},
		reminder: sqlitedb.Bulk{
			Head: "INSERT INTO reminder (actor, key, part, at, type, sum, data)", Width: 7,
			Tail: "ON CONFLICT (actor, key) DO UPDATE SET at = excluded.at, type = excluded.type, sum = excluded.sum, data = excluded.data",
		},
		delivered: sqlitedb.Bulk{
			Head: "WITH gone (id, number) AS (", Width: 2,
			Tail: `) DELETE FROM outbox WHERE (actor, number) IN
				(SELECT actor.num, gone.number FROM gone CROSS JOIN actor ON actor.id = gone.id)`,
		},
	}
}

// insertPayloads replaces what has the same key.
func insertPayloads(table, key string) sqlitedb.Bulk {
	return sqlitedb.Bulk{
		Head: "INSERT INTO " + table + " (actor, number, type, sum, data)", Width: 5,
		Tail: "ON CONFLICT (" + key + ") DO UPDATE SET number = excluded.number, type = excluded.type, sum = excluded.sum, data = excluded.data",
	}
}

func (n *inserts) all() []*sqlitedb.Bulk {
	return []*sqlitedb.Bulk{&n.fresh, &n.moved, &n.last, &n.event, &n.place, &n.feed, &n.state, &n.snapshot, &n.outbox, &n.seen, &n.reminder, &n.delivered}
}

// all writes the whole plan.
func (p *write) all(t *sqlitedb.Tx) error {
	for _, step := range []func(*sqlitedb.Tx) error{
		p.writeErased, p.writeTypes, p.writeActors, p.writeEvents, p.writeMessages, p.writeStates, p.writeSnapshots, p.writeSeen, p.writeReminders, p.writeCursors,
	} {
		if err := step(t); err != nil {
			return err
		}
	}
	if err := t.Exec("UPDATE head SET position = ?, session = ?, batch = ?", p.w.position, p.w.session, int64(p.w.attempts)); err != nil {
		return err
	}
	p.w.tail.take(p.Events)
	return nil
}

// bulk writes n rows.
func bulk(t *sqlitedb.Tx, what string, b *sqlitedb.Bulk, n int, fill func(i int, row []driver.NamedValue)) error {
	if err := t.Bulk(b, n, fill); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// set sets the parameters of a row.
func set(row []driver.NamedValue, values ...driver.Value) {
	for i, v := range values {
		row[i].Value = v
	}
}

// writeErased removes everything of the erased ids except their events, which a sweep removes.
func (p *write) writeErased(t *sqlitedb.Tx) error {
	for _, k := range p.Erased {
		if err := t.Exec(`INSERT INTO erasing (actor, part, below, position) VALUES (?, ?, ?, ?)
			ON CONFLICT (actor) DO UPDATE SET below = excluded.below, position = excluded.position`, k.Num, int64(k.Part), k.Erased, p.w.position); err != nil {
			return fmt.Errorf("erase %q: %w", k.ID, err)
		}
		for _, table := range []string{"state", "snapshot", "outbox", "reminder"} {
			if err := t.Exec("DELETE FROM "+table+" WHERE actor = ?", k.Num); err != nil {
				return fmt.Errorf("erase %q: %w", k.ID, err)
			}
		}
	}
	return nil
}

func (p *write) writeTypes(t *sqlitedb.Tx) error {
	for _, name := range p.w.newTypes {
		if err := t.Exec("INSERT INTO type (num, name) VALUES (?, ?)", p.w.types[name], name); err != nil {
			return fmt.Errorf("write types: %w", err)
		}
	}
	return nil
}

func (p *write) writeActors(t *sqlitedb.Tx) error {
	fresh, moved := make([]*plan.ID, 0, len(p.Touched)), make([]*plan.ID, 0, len(p.Touched))
	for _, k := range p.Touched {
		if k.Fresh {
			fresh = append(fresh, k)
		} else if k.Dirty {
			moved = append(moved, k)
		}
	}
	if err := bulk(t, "ids", &p.w.inserts.fresh, len(fresh), func(i int, row []driver.NamedValue) {
		k := fresh[i]
		set(row, k.Num, k.ID, k.Last, k.Erased, k.Sent)
	}); err != nil {
		return err
	}
	return bulk(t, "ids", &p.w.inserts.moved, len(moved), func(i int, row []driver.NamedValue) {
		k := moved[i]
		set(row, k.Num, k.Last, k.Erased, k.Sent)
	})
}

func (p *write) writeEvents(t *sqlitedb.Tx) error {
	return bulk(t, "events", &p.w.inserts.event, len(p.Events), func(i int, row []driver.NamedValue) {
		e := &p.Events[i]
		var typ driver.Value
		if e.Type != 0 {
			typ = e.Type
		}
		set(row, e.Position, int64(e.Part), e.Actor, e.Number, p.Batch.Time, typ, int64(e.Sum), plan.Bytes(e.Payload))
	})
}

// writeMessages writes the outbox, and takes out of it what was delivered.
func (p *write) writeMessages(t *sqlitedb.Tx) error {
	if err := bulk(t, "messages", &p.w.inserts.outbox, len(p.Messages), func(i int, row []driver.NamedValue) {
		r := &p.Messages[i]
		set(row, int64(r.Part), r.Position, r.Actor, int64(r.Number), p.Batch.Time, r.To, r.Type, int64(r.Sum), plan.Bytes(&r.Payload))
	}); err != nil {
		return err
	}
	return bulk(t, "what was delivered", &p.w.inserts.delivered, len(p.Batch.Delivered), func(i int, row []driver.NamedValue) {
		d := &p.Batch.Delivered[i]
		set(row, d.From, int64(d.Number))
	})
}

func (p *write) writeStates(t *sqlitedb.Tx) error {
	return bulk(t, "states", &p.w.inserts.state, len(p.States), fillPayloads(p.States))
}

func fillPayloads(rows []plan.Payload) func(i int, row []driver.NamedValue) {
	return func(i int, row []driver.NamedValue) {
		r := &rows[i]
		set(row, r.Actor, r.Number, r.Type, int64(r.Sum), plan.Bytes(r.Payload))
	}
}

func (p *write) writeSnapshots(t *sqlitedb.Tx) error {
	if err := bulk(t, "snapshots", &p.w.inserts.snapshot, len(p.Snapshots), fillPayloads(p.Snapshots)); err != nil {
		return err
	}
	for _, s := range p.Snapshots {
		if err := t.Exec(`DELETE FROM snapshot WHERE actor = ?1 AND number <
			(SELECT number FROM snapshot WHERE actor = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)`, s.Actor, int64(persist.KeepSnapshots-1)); err != nil {
			return fmt.Errorf("delete old snapshots: %w", err)
		}
	}
	return nil
}

func (p *write) writeSeen(t *sqlitedb.Tx) error {
	return bulk(t, "what was seen", &p.w.inserts.seen, len(p.Seen), func(i int, row []driver.NamedValue) {
		r := &p.Seen[i]
		set(row, r.Actor, r.From, int64(r.Number))
	})
}

func (p *write) writeReminders(t *sqlitedb.Tx) error {
	kept := p.Reminders[:0]
	for _, r := range p.Reminders {
		if r.At != 0 {
			kept = append(kept, r)
			continue
		}
		if err := t.Exec("DELETE FROM reminder WHERE actor = ? AND key = ?", r.Actor, r.Key); err != nil {
			return fmt.Errorf("remove reminders: %w", err)
		}
	}
	return bulk(t, "reminders", &p.w.inserts.reminder, len(kept), func(i int, row []driver.NamedValue) {
		r := &kept[i]
		set(row, r.Actor, r.Key, int64(r.Part), r.At, r.Type, int64(r.Sum), plan.Bytes(&r.Payload))
	})
}

func (p *write) writeCursors(t *sqlitedb.Tx) error {
	for _, c := range p.Batch.Cursors {
		if err := t.Exec("INSERT INTO cursor (projection, part, position) VALUES (?, ?, ?) ON CONFLICT (projection, part) DO UPDATE SET position = excluded.position",
			c.Projection, int64(c.Part), int64(c.Position)); err != nil {
			return fmt.Errorf("write cursors: %w", err)
		}
	}
	return nil
}
