package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
	"github.com/greenroom-go/greenroom/persist"
)

// inIDs is how many ids one query is for.
const inIDs = 64

// in64 is the SQL list of that many parameters.
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
		WHERE place.actor = ? AND place.number > ? AND place.position <= ? AND event.type IS NOT NULL ORDER BY place.number LIMIT +?`
	selectEvent = `SELECT actor.id, event.number, event.position, event.time, event.type, event.sum, event.data
		FROM event CROSS JOIN actor ON actor.num = event.actor WHERE event.position = ?`
	selectNum      = "SELECT num, erased FROM actor WHERE id = ?"
	selectSnapshot = `SELECT number, type, sum, data FROM snapshot
		WHERE actor = (SELECT num FROM actor WHERE id = ?) AND number < ? ORDER BY number DESC LIMIT 1`
	selectFeed = `SELECT actor.id, event.number, event.position, event.time, event.type, event.sum, event.data
		FROM feed CROSS JOIN event ON event.position = feed.position CROSS JOIN actor ON actor.num = event.actor
		WHERE feed.part = ? AND feed.position > ? AND feed.position <= ? AND event.number >= actor.erased ORDER BY feed.position LIMIT +?`
	selectHead   = "SELECT position, flushed FROM head"
	selectOutbox = `SELECT actor.id, outbox.position, outbox.time, outbox.number, outbox.receiver, outbox.type, outbox.sum, outbox.data
		FROM outbox CROSS JOIN actor ON actor.num = outbox.actor
		WHERE outbox.part = ? AND outbox.position > ? ORDER BY outbox.position LIMIT +?`
	selectDue = `SELECT actor.id, reminder.key, reminder.at, reminder.type, reminder.sum, reminder.data
		FROM reminder CROSS JOIN actor ON actor.num = reminder.actor
		WHERE reminder.part = ? AND reminder.at BETWEEN ? AND ? AND (reminder.at, actor.id, reminder.key) > (?, ?, ?)
		ORDER BY reminder.at, actor.id, reminder.key LIMIT +?`
	selectCursors = "SELECT part, position FROM cursor WHERE projection = ?"
	selectIDs     = "SELECT id FROM actor WHERE id > ? ORDER BY id LIMIT +?"
)

// types are the names of the types, by their numbers.
type types struct {
	mu    sync.RWMutex
	names map[int64]string // guarded by mu
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

// integer, text and data return a column of a row, zero for one that is NULL.
func integer(v driver.Value) int64 { n, _ := v.(int64); return n }
func text(v driver.Value) string   { s, _ := v.(string); return s }
func data(v driver.Value) []byte   { b, _ := v.([]byte); return b }

// read is one call that reads: what it sees is of one moment.
type read struct {
	*sqlitedb.Tx
	j             *Journal
	upTo, flushed int64 // positions
}

// read calls pick with the tail, to copy what is needed of it, and then f to read the database
// as it was at that moment.
func (j *Journal) read(ctx context.Context, what string, pick func(r *read, t *tail) error, f func(r *read) error) error {
	end, err := j.begin(ctx, what)
	if err != nil {
		return err
	}
	defer end()
	// What one call reads is bounded, and the driver would watch the context for each query.
	if err := j.readers.Snapshot(context.WithoutCancel(ctx), func(t *sqlitedb.Tx) error {
		r := &read{Tx: t, j: j}
		if err := r.pick(pick); err != nil {
			return err
		}
		return f(r)
	}); err != nil {
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
	if err := r.Each(selectHead, 2, func(row []driver.Value) (bool, error) {
		r.upTo, r.flushed = integer(row[0]), integer(row[1])
		return false, nil
	}); err != nil {
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
	if err := t.load(r, r.flushed); err != nil {
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

// payload makes a payload of three columns: the number of its type, its sum and its data.
func (r *read) payload(row []driver.Value) (persist.Payload, error) {
	name, err := r.typeName(integer(row[0]))
	return persist.Payload{Type: name, Sum: uint32(integer(row[1])), Data: data(row[2])}, err
}

func (r *read) typeName(num int64) (string, error) {
	t := &r.j.types
	t.mu.RLock()
	name, ok := t.names[num]
	t.mu.RUnlock()
	if ok {
		return name, nil
	}
	err := r.Each("SELECT name FROM type WHERE num = ?", 1, func(row []driver.Value) (bool, error) {
		name, ok = text(row[0]), true
		return false, nil
	}, num)
	if err != nil || !ok {
		return "", fmt.Errorf("read the name of type %d: %w", num, cmp.Or(err, sql.ErrNoRows))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names[num] = name
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
	return r.Each(selectActors, 5, func(row []driver.Value) (bool, error) {
		num := integer(row[0])
		found := persist.Loaded{ID: text(row[1]), Last: uint64(integer(row[2])), Erased: uint64(integer(row[3])), Sent: uint64(integer(row[4]))}
		if events := between(t.actors[num], r.flushed, r.upTo, maxTail); len(events) > 0 {
			l.tail[num] = events
			found.Last = max(found.Last, uint64(events[len(events)-1].number))
		}
		l.nums[len(l.found)] = num
		l.found[num] = l.places[found.ID][0]
		*l.found[num] = found
		return true, nil
	}, texts(ids)...)
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
		after := to.Erased
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
	return r.Each(selectStates, 5, func(row []driver.Value) (_ bool, err error) {
		found[integer(row[0])].State, err = r.snapshot(row[1:])
		return true, err
	}, nums...)
}

func (r *read) loadSnapshots(found map[int64]*persist.Loaded, nums []any) error {
	return r.Each(selectNewest, 5, func(row []driver.Value) (_ bool, err error) {
		found[integer(row[0])].Snapshot, err = r.snapshot(row[1:])
		return true, err
	}, nums...)
}

// snapshot makes a snapshot of four columns.
func (r *read) snapshot(row []driver.Value) (s *persist.Snapshot, err error) {
	s = &persist.Snapshot{Number: uint64(integer(row[0]))}
	s.Payload, err = r.payload(row[1:])
	return s, err
}

func (r *read) loadSeen(found map[int64]*persist.Loaded, nums []any) error {
	return r.Each(selectSeen, 3, func(row []driver.Value) (bool, error) {
		l := found[integer(row[0])]
		l.Seen = append(l.Seen, persist.Seen{From: text(row[1]), Number: uint64(integer(row[2]))})
		return true, nil
	}, nums...)
}

func (r *read) loadReminders(found map[int64]*persist.Loaded, nums []any) error {
	return r.Each(selectReminders, 6, func(row []driver.Value) (bool, error) {
		l := found[integer(row[0])]
		e, err := r.reminder(l.ID, row[1:])
		l.Reminders = append(l.Reminders, e)
		return true, err
	}, nums...)
}

// reminder makes a reminder of five columns.
func (r *read) reminder(id string, row []driver.Value) (e persist.Reminder, err error) {
	e = persist.Reminder{ID: id, ReminderEdit: persist.ReminderEdit{Key: text(row[0]), At: integer(row[1])}}
	e.Payload, err = r.payload(row[2:])
	return e, err
}

// eventsOf returns the events of an actor: those that the tables have, and then those of
// the tail.
func (r *read) eventsOf(num int64, id string, after uint64, limit int, rest []tailEvent) ([]persist.Record, error) {
	l := records{r: r, left: int(atMost(limit))}
	err := r.Each(selectEvents, 6, func(row []driver.Value) (bool, error) {
		err := l.add(id, row)
		return !l.full, err
	}, num, clamp(after), r.flushed, atMost(limit))
	if err != nil {
		return nil, err
	}
	return l.list, l.addTail(slices.DeleteFunc(rest, func(e tailEvent) bool { return uint64(e.number) <= after }), false)
}

// records is an answer under construction.
type records struct {
	r    *read
	list []persist.Record
	page page
	left int  // how many more there may be
	full bool // there is no more room
}

// add adds an event of six columns, if there is room.
func (l *records) add(id string, row []driver.Value) (err error) {
	if l.full = l.left == 0 || !l.page.takes(len(data(row[5]))); l.full {
		return nil
	}
	e := persist.Record{ID: id, Number: uint64(integer(row[0])), Position: uint64(integer(row[1])), Time: integer(row[2]), Erased: row[3] == nil}
	if !e.Erased {
		if e.Payload, err = l.r.payload(row[3:]); err != nil {
			return err
		}
	}
	l.list = append(l.list, e)
	l.left--
	return nil
}

// addTail adds the events of the tail for which there is room.
func (l *records) addTail(rest []tailEvent, erasures bool) error {
	for _, place := range rest {
		if l.full || l.left == 0 {
			return nil
		}
		if err := l.r.Each(selectEvent, 7, func(row []driver.Value) (_ bool, err error) {
			if row[4] != nil || erasures {
				err = l.add(text(row[0]), row[1:])
			}
			return true, err
		}, place.position); err != nil {
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
		err := r.Each(selectNum, 2, func(row []driver.Value) (bool, error) {
			num, after = integer(row[0]), max(after, uint64(integer(row[1])))
			return false, nil
		}, id)
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
		return r.Each(selectSnapshot, 4, func(row []driver.Value) (bool, error) {
			found, err := r.snapshot(row)
			s = *found
			return false, err
		}, id, clamp(below))
	})
	return s, err
}

// Feed implements [persist.Journal].
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) ([]persist.Record, error) {
	var l records
	var rest []tailEvent
	err := j.read(ctx, "read a feed", func(r *read, t *tail) error {
		l = records{r: r, left: int(atMost(limit))}
		below, err := r.erasing()
		limit := l.left
		if len(below) > 0 {
			limit = maxTail
		}
		rest = slices.DeleteFunc(between(t.parts[part], max(clamp(after), r.flushed), r.upTo, limit), func(e tailEvent) bool { return e.number < below[e.actor] })
		return err
	}, func(r *read) error {
		if err := r.Each(selectFeed, 7, func(row []driver.Value) (bool, error) {
			err := l.add(text(row[0]), row[1:])
			return !l.full, err
		}, int64(part), clamp(after), r.flushed, atMost(limit)); err != nil {
			return err
		}
		return l.addTail(rest, true)
	})
	return l.list, err
}

// erasing returns, by actor, the number below which events were erased but not yet swept.
func (r *read) erasing() (below map[int64]int64, err error) {
	err = r.Each("SELECT actor, below FROM erasing", 2, func(row []driver.Value) (bool, error) {
		if below == nil {
			below = make(map[int64]int64)
		}
		below[integer(row[0])] = integer(row[1])
		return true, nil
	})
	return below, err
}

// Ends implements [persist.Journal]. In this journal positions are global, not per partition.
func (j *Journal) Ends(ctx context.Context) (ends []uint64, err error) {
	err = j.read(ctx, "read the ends", nil, func(r *read) error {
		ends = slices.Repeat([]uint64{uint64(r.upTo)}, persist.Parts)
		return nil
	})
	return ends, err
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) (list []persist.Outgoing, err error) {
	var p page
	err = j.read(ctx, "read an outbox", nil, func(r *read) error {
		return r.Each(selectOutbox, 8, func(row []driver.Value) (bool, error) {
			if !p.takes(len(data(row[7]))) {
				return false, nil
			}
			o := persist.Outgoing{From: text(row[0]), Position: uint64(integer(row[1])), Time: integer(row[2])}
			o.Number, o.To = uint64(integer(row[3])), text(row[4])
			var err error
			o.Payload, err = r.payload(row[5:])
			list = append(list, o)
			return true, err
		}, int64(part), clamp(after), atMost(limit))
	})
	return list, err
}

// Due implements [persist.Journal].
func (j *Journal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) (list []persist.Reminder, err error) {
	var p page
	err = j.read(ctx, "read reminders", nil, func(r *read) error {
		return r.Each(selectDue, 6, func(row []driver.Value) (bool, error) {
			if !p.takes(len(data(row[5]))) {
				return false, nil
			}
			e, err := r.reminder(text(row[0]), row[1:])
			list = append(list, e)
			return true, err
		}, int64(part), after.At, now, after.At, after.ID, after.Key, atMost(limit))
	})
	return list, err
}

// Cursors implements [persist.Journal].
func (j *Journal) Cursors(ctx context.Context, projection string) ([]uint64, error) {
	list := make([]uint64, persist.Parts)
	err := j.read(ctx, "read cursors", nil, func(r *read) error {
		return r.Each(selectCursors, 2, func(row []driver.Value) (bool, error) {
			list[integer(row[0])] = uint64(integer(row[1]))
			return true, nil
		}, projection)
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// IDs implements [persist.Journal].
func (j *Journal) IDs(ctx context.Context, after string, limit int) (list []string, err error) {
	err = j.read(ctx, "list ids", nil, func(r *read) error {
		return r.Each(selectIDs, 1, func(row []driver.Value) (bool, error) {
			list = append(list, text(row[0]))
			return true, nil
		}, after, int64(max(limit, 0)))
	})
	return list, err
}
