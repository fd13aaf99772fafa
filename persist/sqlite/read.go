package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
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
	selectEvents = `SELECT event.number, event.position, event.time, event.type, event.sum, event.data
		FROM place CROSS JOIN event ON event.position = place.position
		WHERE place.actor = ? AND place.number > ? AND place.position <= ? AND event.type IS NOT NULL ORDER BY place.number LIMIT ?`
	selectEvent = `SELECT actor.id, event.number, event.position, event.time, event.type, event.sum, event.data
		FROM event CROSS JOIN actor ON actor.num = event.actor WHERE event.position = ?`
	selectNum      = "SELECT num FROM actor WHERE id = ?"
	selectSnapshot = `SELECT number, type, sum, data FROM snapshot
		WHERE actor = (SELECT num FROM actor WHERE id = ?) AND number < ? ORDER BY number DESC LIMIT 1`
	selectFeed = `SELECT actor.id, event.number, event.position, event.time, event.type, event.sum, event.data
		FROM feed CROSS JOIN event ON event.position = feed.position CROSS JOIN actor ON actor.num = event.actor
		WHERE feed.part = ? AND feed.position > ? AND feed.position <= ? ORDER BY feed.position LIMIT ?`
	selectHead   = "SELECT position, flushed FROM head"
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
	actors, states, newest, seen, reminders, events, event, head, num, snapshot, feed, outbox, due, cursors, ids *sql.Stmt

	mu    sync.RWMutex
	types map[int64]string // guarded by mu
}

func (r *reads) prepare(ctx context.Context, db *sql.DB) (err error) {
	r.types = make(map[int64]string)
	for query, stmt := range map[string]**sql.Stmt{
		selectActors: &r.actors, selectStates: &r.states, selectNewest: &r.newest, selectSeen: &r.seen, selectReminders: &r.reminders,
		selectEvents: &r.events, selectEvent: &r.event, selectHead: &r.head, selectNum: &r.num, selectSnapshot: &r.snapshot, selectFeed: &r.feed, selectOutbox: &r.outbox,
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
	ctx           context.Context //nolint:containedctx // lives as long as one call of Journal.read
	j             *Journal
	tx            *sql.Tx
	upTo, flushed int64 // positions
}

// read calls pick with the tail at a moment, to copy what is needed of it, and then f to
// read what the database had at that moment.
func (j *Journal) read(ctx context.Context, what string, pick func(r *read, t *tail) error, f func(r *read) error) error {
	end, err := j.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	ctx = context.WithoutCancel(ctx) // what one call reads is bounded, and the driver would look at the context for each row
	tx, err := j.readDB.BeginTx(ctx, nil)
	if err == nil {
		defer tx.Rollback() //nolint:errcheck // nothing was written
		r := &read{ctx: ctx, j: j, tx: tx}
		if err = r.pick(pick); err == nil {
			err = f(r)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// pick takes the snapshot, and calls pick with the tail of it.
func (r *read) pick(pick func(r *read, t *tail) error) error {
	t := r.j.tail
	if t != nil {
		t.mu.RLock()
		defer t.mu.RUnlock()
	}
	if err := r.tx.StmtContext(r.ctx, r.j.reads.head).QueryRowContext(r.ctx).Scan(&r.upTo, &r.flushed); err != nil {
		return fmt.Errorf("read the head: %w", err)
	}
	if pick == nil {
		return nil
	}
	if t == nil {
		var err error
		if t, err = r.foreign(); err != nil {
			return err
		}
	}
	return pick(r, t)
}

// foreign returns the tail of a journal that another process may write to.
func (r *read) foreign() (*tail, error) {
	known := r.j.foreign.Load()
	if known != nil && known.upTo == r.upTo && known.flushed == r.flushed {
		return known.tail, nil
	}
	t := newTail()
	if err := t.load(r.ctx, r.tx, r.flushed); err != nil {
		return nil, err
	}
	r.j.foreign.Store(&foreign{t, r.upTo, r.flushed})
	return t, nil
}

// foreign is the tail of another process at some moment. It does not change.
type foreign struct {
	tail          *tail
	upTo, flushed int64
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
		l := loading{list: list[first:min(first+inIDs, len(ids))]}
		for i := range l.list {
			l.list[i].ID = ids[first+i]
		}
		if err := j.read(ctx, "load", l.find, l.load); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// loading is the loading of up to inIDs ids.
type loading struct {
	list   []persist.Loaded
	places map[string][]*persist.Loaded // an id may be asked for twice
	found  map[int64]*persist.Loaded    // the first of each, by number
	nums   []any                        // the numbers, filled up with 0
	tail   map[int64][]tailEvent
}

// find finds the ids, and what the tail has of them.
func (l *loading) find(r *read, t *tail) error {
	ids := make([]string, len(l.list))
	l.places = make(map[string][]*persist.Loaded, len(l.list))
	for i := range l.list {
		ids[i] = l.list[i].ID
		l.places[ids[i]] = append(l.places[ids[i]], &l.list[i])
	}
	l.found, l.tail = make(map[int64]*persist.Loaded, len(l.list)), make(map[int64][]tailEvent)
	l.nums = make([]any, inIDs)
	for i := range l.nums {
		l.nums[i] = int64(0)
	}
	return r.each(r.j.reads.actors, texts(ids), func(scan func(...any) error) (bool, error) {
		var num int64
		var found persist.Loaded
		if err := scan(&num, &found.ID, &found.Last, &found.Erased, &found.Sent); err != nil {
			return false, err
		}
		if events := between(t.actors[num], r.flushed, r.upTo, maxTail); len(events) > 0 {
			l.tail[num] = events
			found.Last = max(found.Last, uint64(events[len(events)-1].number))
		}
		l.nums[len(l.found)] = num
		l.found[num] = l.places[found.ID][0]
		*l.found[num] = found
		return true, nil
	})
}

// load reads what there is of the ids that were found.
func (l *loading) load(r *read) error {
	if len(l.found) == 0 {
		return nil
	}
	for _, step := range []func(map[int64]*persist.Loaded, []any) error{r.loadStates, r.loadSnapshots, r.loadSeen, r.loadReminders} {
		if err := step(l.found, l.nums); err != nil {
			return err
		}
	}
	for num, to := range l.found {
		after := uint64(0)
		if to.Snapshot != nil {
			after = to.Snapshot.Number
		}
		if after >= to.Last {
			continue
		}
		var err error
		if to.Events, err = r.eventsOf(num, to.ID, after, persist.PageRecords, l.tail[num]); err != nil {
			return fmt.Errorf("events of %q: %w", to.ID, err)
		}
	}
	for _, same := range l.places {
		for _, to := range same[1:] {
			*to = *same[0]
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

// eventsOf returns the events of an actor: those that the tables have, and then those of
// the tail.
func (r *read) eventsOf(num int64, id string, after uint64, limit int, rest []tailEvent) ([]persist.Record, error) {
	l := records{r: r, left: int(atMost(limit))}
	err := r.each(r.j.reads.events, []any{num, clamp(after), r.flushed, l.left}, func(scan func(...any) error) (bool, error) {
		e := persist.Record{ID: id}
		var row raw
		err := scan(&e.Number, &e.Position, &e.Time, &row.typ, &row.sum, &row.data)
		if err == nil {
			err = l.add(&e, &row)
		}
		return !l.full, err
	})
	if err != nil {
		return nil, err
	}
	return l.list, l.addTail(slices.DeleteFunc(rest, func(e tailEvent) bool { return uint64(e.number) <= after }), false)
}

// records is an answer that is made.
type records struct {
	r    *read
	list []persist.Record
	page page
	left int  // how many more there may be
	full bool // there is no more room
}

// add adds an event, if there is room.
func (l *records) add(e *persist.Record, row *raw) (err error) {
	if l.full = l.left == 0 || !l.page.takes(len(row.data)); l.full {
		return nil
	}
	if row.typ.Valid {
		if e.Payload, err = l.r.payload(row); err != nil {
			return err
		}
	} else {
		e.Erased = true
	}
	l.list = append(l.list, *e)
	l.left--
	return nil
}

// addTail adds the events of the tail for which there is room. One that was erased in
// between is not there any more.
func (l *records) addTail(rest []tailEvent, erasures bool) error {
	for _, place := range rest {
		if l.full || l.left == 0 {
			return nil
		}
		if err := l.r.each(l.r.j.reads.event, []any{place.position}, func(scan func(...any) error) (bool, error) {
			var e persist.Record
			var row raw
			err := scan(&e.ID, &e.Number, &e.Position, &e.Time, &row.typ, &row.sum, &row.data)
			if err == nil && (row.typ.Valid || erasures) {
				err = l.add(&e, &row)
			}
			return true, err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Events implements [persist.Journal].
func (j *Journal) Events(ctx context.Context, id string, after uint64, limit int) (list []persist.Record, err error) {
	var num int64
	var rest []tailEvent
	err = j.read(ctx, "read events", func(r *read, t *tail) error {
		err := r.tx.StmtContext(r.ctx, j.reads.num).QueryRowContext(r.ctx, id).Scan(&num)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		rest = between(t.actors[num], r.flushed, r.upTo, maxTail)
		return err
	}, func(r *read) (err error) {
		list, err = r.eventsOf(num, id, after, limit, rest)
		return err
	})
	return list, err
}

// Snapshot implements [persist.Journal].
func (j *Journal) Snapshot(ctx context.Context, id string, below uint64) (s persist.Snapshot, err error) {
	err = j.read(ctx, "read a snapshot", nil, func(r *read) error {
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
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) ([]persist.Record, error) {
	var l records
	var rest []tailEvent
	err := j.read(ctx, "read a feed", func(r *read, t *tail) error {
		l = records{r: r, left: int(atMost(limit))}
		rest = between(t.parts[part], max(clamp(after), r.flushed), r.upTo, l.left)
		return nil
	}, func(r *read) error {
		if err := r.each(j.reads.feed, []any{part, clamp(after), r.flushed, l.left}, func(scan func(...any) error) (bool, error) {
			var e persist.Record
			var row raw
			err := scan(&e.ID, &e.Number, &e.Position, &e.Time, &row.typ, &row.sum, &row.data)
			if err == nil {
				err = l.add(&e, &row)
			}
			return !l.full, err
		}); err != nil {
			return err
		}
		return l.addTail(rest, true)
	})
	return l.list, err
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) (list []persist.Outgoing, err error) {
	var p page
	err = j.read(ctx, "read an outbox", nil, func(r *read) error {
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
	err = j.read(ctx, "read reminders", nil, func(r *read) error {
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
	err := j.read(ctx, "read cursors", nil, func(r *read) error {
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
	err = j.read(ctx, "list ids", nil, func(r *read) error {
		return r.each(j.reads.ids, []any{after, max(limit, 0)}, func(scan func(...any) error) (bool, error) {
			var id string
			err := scan(&id)
			list = append(list, id)
			return true, err
		})
	})
	return list, err
}
