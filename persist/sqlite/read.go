package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/persist"
)

// inIDs is how many ids one query is for.
const inIDs = 64

// in64 is a list of that many parameters.
var in64 = "(?" + strings.Repeat(",?", inIDs-1) + ")"

var (
	selectActors = "SELECT num, id, last, erased, sent FROM actor WHERE id IN " + in64
	selectStates = "SELECT actor, number, type, sum, data FROM state WHERE actor IN " + in64
	selectNewest = `SELECT actor, number, type, sum, data FROM snapshot
		WHERE (actor, number) IN (SELECT actor, max(number) FROM snapshot WHERE actor IN ` + in64 + " GROUP BY actor)"
	selectSeen      = "SELECT actor, sender, number FROM seen WHERE actor IN " + in64 + " ORDER BY actor, sender"
	selectReminders = "SELECT actor, key, at, type, sum, data FROM reminder WHERE actor IN " + in64 + " ORDER BY actor, key"
)

const (
	selectEvents = `SELECT number, position, time, type, sum, data FROM event
		WHERE actor = ? AND number > ? AND type IS NOT NULL ORDER BY number LIMIT ?`
	selectNum      = "SELECT num FROM actor WHERE id = ?"
	selectSnapshot = `SELECT number, type, sum, data FROM snapshot
		WHERE actor = (SELECT num FROM actor WHERE id = ?) AND number < ? ORDER BY number DESC LIMIT 1`
	selectFeed = `SELECT actor.id, event.number, feed.position, event.time, event.type, event.sum, event.data
		FROM feed CROSS JOIN event ON event.actor = feed.actor AND event.number = feed.number CROSS JOIN actor ON actor.num = feed.actor
		WHERE feed.part = ? AND feed.position > ? ORDER BY feed.position LIMIT ?`
	selectOutbox = `SELECT actor.id, outbox.position, outbox.time, outbox.number, outbox.receiver, outbox.type, outbox.sum, outbox.data
		FROM outbox CROSS JOIN actor ON actor.num = outbox.actor
		WHERE outbox.part = ? AND outbox.position > ? ORDER BY outbox.position LIMIT ?`
	selectDue = `SELECT actor.id, reminder.key, reminder.at, reminder.type, reminder.sum, reminder.data
		FROM reminder CROSS JOIN actor ON actor.num = reminder.actor
		WHERE reminder.part = ? AND reminder.at <= ? ORDER BY reminder.at, actor.id, reminder.key LIMIT ?`
	selectCursors = "SELECT part, position FROM cursor WHERE projection = ?"
	selectIDs     = "SELECT id FROM actor WHERE id > ? ORDER BY id LIMIT ?"
)

// reads are the prepared queries, and the names of the types.
type reads struct {
	actors, states, newest, seen, reminders, events, num, snapshot, feed, outbox, due, cursors, ids *sql.Stmt

	mu    sync.RWMutex
	types map[int64]string // guarded by mu
}

func (r *reads) prepare(ctx context.Context, db *sql.DB) (err error) {
	r.types = make(map[int64]string)
	for query, stmt := range map[string]**sql.Stmt{
		selectActors: &r.actors, selectStates: &r.states, selectNewest: &r.newest, selectSeen: &r.seen, selectReminders: &r.reminders,
		selectEvents: &r.events, selectNum: &r.num, selectSnapshot: &r.snapshot, selectFeed: &r.feed, selectOutbox: &r.outbox,
		selectDue: &r.due, selectCursors: &r.cursors, selectIDs: &r.ids,
	} {
		if *stmt, err = db.PrepareContext(ctx, query); err != nil {
			return fmt.Errorf("prepare %q: %w", query, err)
		}
	}
	return nil
}

// texts are parameters, filled up with ids that nobody has.
func texts(ids []string) []any {
	args := make([]any, inIDs)
	for i := range args {
		args[i] = ""
		if i < len(ids) {
			args[i] = ids[i]
		}
	}
	return args
}

// raw is a payload as the database has it.
type raw struct {
	typ  sql.NullInt64
	sum  int64
	data []byte
}

// read is one call that reads: what it sees is of one moment.
type read struct {
	ctx context.Context //nolint:containedctx // lives as long as one call of Journal.read
	j   *Journal
	tx  *sql.Tx
}

// read calls f to read.
func (j *Journal) read(ctx context.Context, what string, f func(r *read) error) error {
	end, err := j.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	tx, err := j.readDB.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback() //nolint:errcheck // nothing was written
		err = f(&read{ctx, j, tx})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// each calls f for the rows of a query until it returns false.
func (r *read) each(stmt *sql.Stmt, args []any, f func(scan func(...any) error) (more bool, err error)) error {
	rows, err := r.tx.StmtContext(r.ctx, stmt).QueryContext(r.ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := f(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

// payload makes a payload of what the database has.
func (r *read) payload(row *raw) (persist.Payload, error) {
	name, err := r.typeName(row.typ.Int64)
	return persist.Payload{Type: name, Sum: uint32(row.sum), Data: row.data}, err
}

func (r *read) typeName(num int64) (string, error) {
	t := &r.j.reads
	t.mu.RLock()
	name, ok := t.types[num]
	t.mu.RUnlock()
	if ok {
		return name, nil
	}
	if err := r.tx.QueryRowContext(r.ctx, "SELECT name FROM type WHERE num = ?", num).Scan(&name); err != nil {
		return "", fmt.Errorf("read the name of type %d: %w", num, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.types[num] = name
	return name, nil
}

// page bounds what one answer has.
type page struct {
	records, bytes int
}

// takes reports whether one more record of that size belongs to the answer.
func (p *page) takes(size int) bool {
	if p.records > 0 && p.bytes+size > persist.PageBytes {
		return false
	}
	p.records++
	p.bytes += size
	return true
}

// atMost is how many rows a limit allows.
func atMost(limit int) int64 { return int64(min(max(limit, 0), persist.PageRecords)) }

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// Load implements [persist.Journal].
func (j *Journal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	list := make([]persist.Loaded, len(ids))
	for first := 0; first < max(len(ids), 1); first += inIDs {
		chunk := list[first:min(first+inIDs, len(ids))]
		for i := range chunk {
			chunk[i].ID = ids[first+i]
		}
		if err := j.read(ctx, "load", func(r *read) error { return r.load(chunk) }); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// load fills in up to inIDs ids.
func (r *read) load(list []persist.Loaded) error {
	ids := make([]string, len(list))
	places := make(map[string][]*persist.Loaded, len(list)) // an id may be asked for twice
	for i := range list {
		ids[i] = list[i].ID
		places[ids[i]] = append(places[ids[i]], &list[i])
	}
	found := make(map[int64]*persist.Loaded, len(list))
	nums := make([]any, inIDs)
	for i := range nums {
		nums[i] = int64(0)
	}
	err := r.each(r.j.reads.actors, texts(ids), func(scan func(...any) error) (bool, error) {
		var num int64
		var l persist.Loaded
		if err := scan(&num, &l.ID, &l.Last, &l.Erased, &l.Sent); err != nil {
			return false, err
		}
		nums[len(found)] = num
		found[num] = places[l.ID][0]
		*found[num] = l
		return true, nil
	})
	if err != nil || len(found) == 0 {
		return err
	}
	for _, step := range []func(map[int64]*persist.Loaded, []any) error{r.loadStates, r.loadSnapshots, r.loadSeen, r.loadReminders, r.loadEvents} {
		if err := step(found, nums); err != nil {
			return err
		}
	}
	for _, same := range places {
		for _, l := range same[1:] {
			*l = *same[0]
		}
	}
	return nil
}

func (r *read) loadStates(found map[int64]*persist.Loaded, nums []any) error {
	return r.each(r.j.reads.states, nums, func(scan func(...any) error) (bool, error) {
		num, s, err := r.scanSnapshot(scan)
		if err == nil {
			found[num].State = s
		}
		return true, err
	})
}

func (r *read) loadSnapshots(found map[int64]*persist.Loaded, nums []any) error {
	return r.each(r.j.reads.newest, nums, func(scan func(...any) error) (bool, error) {
		num, s, err := r.scanSnapshot(scan)
		if err == nil {
			found[num].Snapshot = s
		}
		return true, err
	})
}

func (r *read) scanSnapshot(scan func(...any) error) (num int64, s *persist.Snapshot, err error) {
	s = new(persist.Snapshot)
	var row raw
	if err := scan(&num, &s.Number, &row.typ, &row.sum, &row.data); err != nil {
		return 0, nil, err
	}
	s.Payload, err = r.payload(&row)
	return num, s, err
}

func (r *read) loadSeen(found map[int64]*persist.Loaded, nums []any) error {
	return r.each(r.j.reads.seen, nums, func(scan func(...any) error) (bool, error) {
		var num int64
		var s persist.Seen
		err := scan(&num, &s.From, &s.Number)
		if err == nil {
			found[num].Seen = append(found[num].Seen, s)
		}
		return true, err
	})
}

func (r *read) loadReminders(found map[int64]*persist.Loaded, nums []any) error {
	return r.each(r.j.reads.reminders, nums, func(scan func(...any) error) (bool, error) {
		var num int64
		var e persist.ReminderEdit
		var row raw
		err := scan(&num, &e.Key, &e.At, &row.typ, &row.sum, &row.data)
		if err == nil {
			e.Payload, err = r.payload(&row)
		}
		if err == nil {
			found[num].Reminders = append(found[num].Reminders, persist.Reminder{ID: found[num].ID, ReminderEdit: e})
		}
		return true, err
	})
}

func (r *read) loadEvents(found map[int64]*persist.Loaded, _ []any) (err error) {
	for num, l := range found {
		after := uint64(0)
		if l.Snapshot != nil {
			after = l.Snapshot.Number
		}
		if after >= l.Last {
			continue
		}
		if l.Events, err = r.eventsOf(num, l.ID, after, persist.PageRecords); err != nil {
			return fmt.Errorf("events of %q: %w", l.ID, err)
		}
	}
	return nil
}

func (r *read) eventsOf(num int64, id string, after uint64, limit int) (list []persist.Record, err error) {
	var p page
	err = r.each(r.j.reads.events, []any{num, clamp(after), atMost(limit)}, func(scan func(...any) error) (bool, error) {
		e := persist.Record{ID: id}
		var row raw
		err := scan(&e.Number, &e.Position, &e.Time, &row.typ, &row.sum, &row.data)
		if err == nil {
			e.Payload, err = r.payload(&row)
		}
		if err != nil || !p.takes(len(row.data)) {
			return false, err
		}
		list = append(list, e)
		return true, nil
	})
	return list, err
}

// Events implements [persist.Journal].
func (j *Journal) Events(ctx context.Context, id string, after uint64, limit int) (list []persist.Record, err error) {
	err = j.read(ctx, "read events", func(r *read) error {
		var num int64
		err := r.tx.StmtContext(ctx, j.reads.num).QueryRowContext(ctx, id).Scan(&num)
		if err != nil {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		list, err = r.eventsOf(num, id, after, limit)
		return err
	})
	return list, err
}

// Snapshot implements [persist.Journal].
func (j *Journal) Snapshot(ctx context.Context, id string, below uint64) (s persist.Snapshot, err error) {
	err = j.read(ctx, "read a snapshot", func(r *read) error {
		return r.each(j.reads.snapshot, []any{id, clamp(below)}, func(scan func(...any) error) (_ bool, err error) {
			var row raw
			if err = scan(&s.Number, &row.typ, &row.sum, &row.data); err == nil {
				s.Payload, err = r.payload(&row)
			}
			return false, err
		})
	})
	return s, err
}

// Feed implements [persist.Journal].
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) (list []persist.Record, err error) {
	var p page
	err = j.read(ctx, "read a feed", func(r *read) error {
		return r.each(j.reads.feed, []any{part, clamp(after), atMost(limit)}, func(scan func(...any) error) (bool, error) {
			var e persist.Record
			var row raw
			err := scan(&e.ID, &e.Number, &e.Position, &e.Time, &row.typ, &row.sum, &row.data)
			switch {
			case err != nil:
			case row.typ.Valid:
				e.Payload, err = r.payload(&row)
			default:
				e.Erased = true
			}
			if err != nil || !p.takes(len(row.data)) {
				return false, err
			}
			list = append(list, e)
			return true, nil
		})
	})
	return list, err
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) (list []persist.Outgoing, err error) {
	var p page
	err = j.read(ctx, "read an outbox", func(r *read) error {
		return r.each(j.reads.outbox, []any{part, clamp(after), atMost(limit)}, func(scan func(...any) error) (bool, error) {
			var o persist.Outgoing
			var row raw
			err := scan(&o.From, &o.Position, &o.Time, &o.Number, &o.To, &row.typ, &row.sum, &row.data)
			if err == nil {
				o.Payload, err = r.payload(&row)
			}
			if err != nil || !p.takes(len(row.data)) {
				return false, err
			}
			list = append(list, o)
			return true, nil
		})
	})
	return list, err
}

// Due implements [persist.Journal].
func (j *Journal) Due(ctx context.Context, part int, now int64, limit int) (list []persist.Reminder, err error) {
	err = j.read(ctx, "read reminders", func(r *read) error {
		return r.each(j.reads.due, []any{part, now, max(limit, 0)}, func(scan func(...any) error) (bool, error) {
			var e persist.Reminder
			var row raw
			err := scan(&e.ID, &e.Key, &e.At, &row.typ, &row.sum, &row.data)
			if err == nil {
				e.Payload, err = r.payload(&row)
			}
			if err == nil {
				list = append(list, e)
			}
			return true, err
		})
	})
	return list, err
}

// Cursors implements [persist.Journal].
func (j *Journal) Cursors(ctx context.Context, projection string) ([]uint64, error) {
	list := make([]uint64, persist.Parts)
	err := j.read(ctx, "read cursors", func(r *read) error {
		return r.each(j.reads.cursors, []any{projection}, func(scan func(...any) error) (bool, error) {
			var part int
			var position uint64
			err := scan(&part, &position)
			if err == nil {
				list[part] = position
			}
			return true, err
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// IDs implements [persist.Journal].
func (j *Journal) IDs(ctx context.Context, after string, limit int) (list []string, err error) {
	err = j.read(ctx, "list ids", func(r *read) error {
		return r.each(j.reads.ids, []any{after, max(limit, 0)}, func(scan func(...any) error) (bool, error) {
			var id string
			err := scan(&id)
			list = append(list, id)
			return true, err
		})
	})
	return list, err
}
