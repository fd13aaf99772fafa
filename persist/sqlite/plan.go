package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

// plan is what a batch writes, gathered append by append and then written table by table.
type plan struct {
	w *writer
	b *persist.Batch

	touched   []*known
	erased    []*known // what there was of them is deleted before anything is written
	newTypes  []string
	events    []eventRow
	messages  []messageRow
	states    []payloadRow
	snapshots []payloadRow
	seen      []seenRow
	reminders []reminderRow

	stateAt    map[int64]int // places in states, by actor
	reminderAt map[reminderKey]int
}

// payloadRow is a state or a snapshot.
type payloadRow struct {
	actor, number, typ int64
	p                  *persist.Payload
}

type eventRow struct {
	actor, number, position int64
	part                    int
	typ                     driver.Value // nil for an erasure
	p                       *persist.Payload
}

type messageRow struct {
	actor, position int64
	part            int
	typ             int64
	m               *persist.Message
}

type seenRow struct {
	actor int64
	s     *persist.Seen
}

type reminderRow struct {
	actor int64
	part  int
	typ   int64
	r     *persist.ReminderEdit
}

type reminderKey struct {
	actor int64
	key   string
}

func (p *plan) begin(w *writer, b *persist.Batch) {
	p.end()
	p.w, p.b = w, b
	p.stateAt, p.reminderAt = make(map[int64]int), make(map[reminderKey]int)
}

// end forgets the batch and keeps the room of the rows.
func (p *plan) end() {
	for _, k := range p.touched {
		k.fresh, k.touched, k.dirty = false, false, false
	}
	empty(&p.touched)
	empty(&p.erased)
	empty(&p.newTypes)
	empty(&p.events)
	empty(&p.messages)
	empty(&p.states)
	empty(&p.snapshots)
	empty(&p.seen)
	empty(&p.reminders)
	p.b, p.stateAt, p.reminderAt = nil, nil, nil
}

func empty[T any](list *[]T) {
	clear(*list)
	*list = (*list)[:0]
}

// erasure stands for a payload that is none.
var erasure = &persist.Payload{Data: []byte{}}

// add adds an append that is not refused.
func (p *plan) add(k *known, a *persist.Append) {
	if a.Takes() == 0 && a.Snapshot == nil {
		return
	}
	if k.num == 0 {
		p.w.actors++
		k.num, k.fresh = p.w.actors, true
	}
	if !k.touched {
		k.touched = true
		p.touched = append(p.touched, k)
	}
	part := persist.PartOf(a.ID)
	k.last = int64(a.Last())
	k.dirty = k.dirty || a.Erase || len(a.Events) == 0 || len(a.Send) > 0
	if a.Erase {
		p.erase(k)
		p.events = append(p.events, eventRow{k.num, k.last, p.position(), part, nil, erasure})
		return
	}
	for i := range a.Events {
		e := &a.Events[i]
		p.events = append(p.events, eventRow{k.num, int64(a.After) + 1 + int64(i), p.position(), part, p.typ(e), e})
	}
	for i := range a.Send {
		m := &a.Send[i]
		k.sent = max(k.sent, int64(m.Number))
		p.messages = append(p.messages, messageRow{k.num, p.position(), part, p.typ(&m.Payload), m})
	}
	if a.State != nil {
		place(&p.states, p.stateAt, k.num, payloadRow{k.num, k.last, p.typ(a.State), a.State})
	}
	if a.Snapshot != nil && k.last > 0 {
		p.snapshots = append(p.snapshots, payloadRow{k.num, k.last, p.typ(a.Snapshot), a.Snapshot})
	}
	for i := range a.Seen {
		p.seen = append(p.seen, seenRow{k.num, &a.Seen[i]})
	}
	for i := range a.Reminders {
		r := &a.Reminders[i]
		place(&p.reminders, p.reminderAt, reminderKey{k.num, r.Key}, reminderRow{k.num, part, p.typ(&r.Payload), r})
	}
}

// place appends a row, or puts it in the place of an earlier one with the same key.
func place[K comparable, R any](rows *[]R, at map[K]int, key K, row R) {
	if i, ok := at[key]; ok {
		(*rows)[i] = row
		return
	}
	at[key] = len(*rows)
	*rows = append(*rows, row)
}

// erase forgets what there was of an id, in the batch too.
func (p *plan) erase(k *known) {
	k.erased = k.last
	p.erased = append(p.erased, k)
	p.events = slices.DeleteFunc(p.events, func(r eventRow) bool { return r.actor == k.num })
	p.messages = slices.DeleteFunc(p.messages, func(r messageRow) bool { return r.actor == k.num })
	p.states = slices.DeleteFunc(p.states, func(r payloadRow) bool { return r.actor == k.num })
	p.snapshots = slices.DeleteFunc(p.snapshots, func(r payloadRow) bool { return r.actor == k.num })
	p.reminders = slices.DeleteFunc(p.reminders, func(r reminderRow) bool { return r.actor == k.num })
	clear(p.stateAt)
	for i, r := range p.states {
		p.stateAt[r.actor] = i
	}
	clear(p.reminderAt)
	for i, r := range p.reminders {
		p.reminderAt[reminderKey{r.actor, r.r.Key}] = i
	}
}

func (p *plan) position() int64 {
	p.w.position++
	return p.w.position
}

// typ returns the number of a payload's type.
func (p *plan) typ(payload *persist.Payload) int64 {
	num, ok := p.w.types[payload.Type]
	if !ok {
		num = int64(len(p.w.types) + 1)
		p.w.types[payload.Type] = num
		p.newTypes = append(p.newTypes, payload.Type)
	}
	return num
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

// write writes the plan.
func (p *plan) write(t *sqlitedb.Tx) error {
	for _, step := range []func(*sqlitedb.Tx) error{
		p.writeErased, p.writeTypes, p.writeActors, p.writeEvents, p.writeMessages, p.writeStates, p.writeSnapshots, p.writeSeen, p.writeReminders, p.writeCursors,
	} {
		if err := step(t); err != nil {
			return err
		}
	}
	if err := t.Exec("UPDATE head SET position = ?, session = ?, batch = ?", p.w.position, p.w.session, int64(p.b.Number)); err != nil {
		return err
	}
	p.w.tail.take(p.events)
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

// bytes returns the data of a payload, which is never NULL.
func bytes(p *persist.Payload) []byte {
	if p.Data == nil {
		return []byte{}
	}
	return p.Data
}

func (p *plan) writeErased(t *sqlitedb.Tx) error {
	for _, k := range p.erased {
		part := int64(persist.PartOf(k.id))
		if err := cmp.Or(
			t.Exec("DELETE FROM feed WHERE part = ? AND position IN (SELECT position FROM place WHERE actor = ?)", part, k.num),
			t.Exec("DELETE FROM event WHERE position IN (SELECT position FROM place WHERE actor = ?)", k.num),
		); err != nil {
			return fmt.Errorf("erase %q: %w", k.id, err)
		}
		for _, e := range p.w.tail.of(k.num) {
			if err := cmp.Or(
				t.Exec("DELETE FROM feed WHERE part = ? AND position = ?", part, e.position),
				t.Exec("DELETE FROM event WHERE position = ?", e.position),
			); err != nil {
				return fmt.Errorf("erase %q: %w", k.id, err)
			}
		}
		for _, table := range []string{"place", "state", "snapshot", "outbox", "reminder"} {
			if err := t.Exec("DELETE FROM "+table+" WHERE actor = ?", k.num); err != nil {
				return fmt.Errorf("erase %q: %w", k.id, err)
			}
		}
	}
	return nil
}

func (p *plan) writeTypes(t *sqlitedb.Tx) error {
	for _, name := range p.newTypes {
		if err := t.Exec("INSERT INTO type (num, name) VALUES (?, ?)", p.w.types[name], name); err != nil {
			return fmt.Errorf("write types: %w", err)
		}
	}
	return nil
}

func (p *plan) writeActors(t *sqlitedb.Tx) error {
	fresh, moved := make([]*known, 0, len(p.touched)), make([]*known, 0, len(p.touched))
	for _, k := range p.touched {
		if k.fresh {
			fresh = append(fresh, k)
		} else if k.dirty {
			moved = append(moved, k)
		}
	}
	if err := bulk(t, "ids", &p.w.inserts.fresh, len(fresh), func(i int, row []driver.NamedValue) {
		k := fresh[i]
		set(row, k.num, k.id, k.last, k.erased, k.sent)
	}); err != nil {
		return err
	}
	return bulk(t, "ids", &p.w.inserts.moved, len(moved), func(i int, row []driver.NamedValue) {
		k := moved[i]
		set(row, k.num, k.last, k.erased, k.sent)
	})
}

func (p *plan) writeEvents(t *sqlitedb.Tx) error {
	return bulk(t, "events", &p.w.inserts.event, len(p.events), func(i int, row []driver.NamedValue) {
		e := &p.events[i]
		set(row, e.position, int64(e.part), e.actor, e.number, p.b.Time, e.typ, int64(e.p.Sum), bytes(e.p))
	})
}

// writeMessages writes the outbox, and takes out of it what was delivered.
func (p *plan) writeMessages(t *sqlitedb.Tx) error {
	if err := bulk(t, "messages", &p.w.inserts.outbox, len(p.messages), func(i int, row []driver.NamedValue) {
		r := &p.messages[i]
		set(row, int64(r.part), r.position, r.actor, int64(r.m.Number), p.b.Time, r.m.To, r.typ, int64(r.m.Sum), bytes(&r.m.Payload))
	}); err != nil {
		return err
	}
	return bulk(t, "what was delivered", &p.w.inserts.delivered, len(p.b.Delivered), func(i int, row []driver.NamedValue) {
		d := &p.b.Delivered[i]
		set(row, d.From, int64(d.Number))
	})
}

func (p *plan) writeStates(t *sqlitedb.Tx) error {
	return bulk(t, "states", &p.w.inserts.state, len(p.states), fillPayloads(p.states))
}

func fillPayloads(rows []payloadRow) func(i int, row []driver.NamedValue) {
	return func(i int, row []driver.NamedValue) {
		r := &rows[i]
		set(row, r.actor, r.number, r.typ, int64(r.p.Sum), bytes(r.p))
	}
}

func (p *plan) writeSnapshots(t *sqlitedb.Tx) error {
	if err := bulk(t, "snapshots", &p.w.inserts.snapshot, len(p.snapshots), fillPayloads(p.snapshots)); err != nil {
		return err
	}
	for _, s := range p.snapshots {
		if err := t.Exec(`DELETE FROM snapshot WHERE actor = ?1 AND number <
			(SELECT number FROM snapshot WHERE actor = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)`, s.actor, int64(persist.KeepSnapshots-1)); err != nil {
			return fmt.Errorf("delete old snapshots: %w", err)
		}
	}
	return nil
}

func (p *plan) writeSeen(t *sqlitedb.Tx) error {
	return bulk(t, "what was seen", &p.w.inserts.seen, len(p.seen), func(i int, row []driver.NamedValue) {
		r := &p.seen[i]
		set(row, r.actor, r.s.From, int64(r.s.Number))
	})
}

func (p *plan) writeReminders(t *sqlitedb.Tx) error {
	kept := p.reminders[:0]
	for _, r := range p.reminders {
		if r.r.At != 0 {
			kept = append(kept, r)
			continue
		}
		if err := t.Exec("DELETE FROM reminder WHERE actor = ? AND key = ?", r.actor, r.r.Key); err != nil {
			return fmt.Errorf("remove reminders: %w", err)
		}
	}
	return bulk(t, "reminders", &p.w.inserts.reminder, len(kept), func(i int, row []driver.NamedValue) {
		r := &kept[i]
		set(row, r.actor, r.r.Key, int64(r.part), r.r.At, r.typ, int64(r.r.Sum), bytes(&r.r.Payload))
	})
}

func (p *plan) writeCursors(t *sqlitedb.Tx) error {
	for _, c := range p.b.Cursors {
		if err := t.Exec("INSERT INTO cursor (projection, part, position) VALUES (?, ?, ?) ON CONFLICT (projection, part) DO UPDATE SET position = excluded.position",
			c.Projection, int64(c.Part), int64(c.Position)); err != nil {
			return fmt.Errorf("write cursors: %w", err)
		}
	}
	return nil
}
