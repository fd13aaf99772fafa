package sqlite

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// The tail: what is durable in the change log and not yet in its tables.
//
// The rows of a reading, and of an edit of attributes, belong to as many places of the tables as it has keys, and
// each place is a page. A commit that wrote them there would write, and sync, a page
// for nearly each value. So a commit writes the change log alone, which has the whole
// reading or edit in a few bytes at its end, and keeps the rows in memory. They are moved into
// the tables later, many of a place at once, and without a sync of their own: after a
// loss of power the change log has them still (flush.go).
//
// Everything that reads the tables must add what the tail has. It takes that first,
// and reads the tables then: a row that is moved in between is found twice, and not
// missed. The rows of an edit come with its revision, and who reads them makes sure that
// none were moved meanwhile (Store.consistently): a mixture of two revisions would be
// found otherwise.
type tail struct {
	mu       sync.RWMutex
	entities map[string]*tailEntity // by id; changed by the holder of Store.writing only, guarded by mu

	// What follows belongs to the holder of Store.writing.
	bytes int64
	edits int       // rows of edits
	since time.Time // of the oldest commit that is in the log only

	// flushed is a change that is in the tables with all before it. Of later ones oldest
	// is the least ts of a value and logged their size in the log; the others are the
	// same of those that came after the round began.
	flushed           uint64
	oldest, oldestNew int64
	logged, loggedNew int64
	round             *round // nil when none is under way
	sortFrom          int    // sortFrom, but for tests

	moves atomic.Uint64 // how many slices with rows of edits have begun
}

// tailEntity has the rows of an entity: those of a key in the order of their changes, and
// the keys one after the other in what the round under way began with (byKey).
type tailEntity struct {
	id   string
	num  int64
	rows []tailRow

	// sorted is the last change of the round for which the rows are sorted. It belongs to the
	// holder of Store.writing.
	sorted uint64
}

// tailRow is one value of a reading, or one leaf of an edit, which has a section. Of an
// edit that changes no leaf there is a row without a key, for its revision.
type tailRow struct {
	key     *name
	source  *name // nil for a reading of a device
	ts      int64
	seq     uint64 // of the reading, or the revision of the edit
	n       uint64 // the source's own sequence
	change  uint64
	edit    bool
	arrived bool // see entity.Reading
	section entity.Section
	value   value.Value // the zero Value of an edit removes the leaf
}

// name is a row of the table key.
type name struct {
	num  int64
	text string
}

// names has the names of the table key for readers. One that is not committed may stand
// for another one later: whoever finds a number in a row that is committed finds its
// name here.
type names struct {
	computed  atomic.Bool // some are sources of computed readings
	commanded atomic.Bool // there have been commands

	mu    sync.RWMutex
	byNum map[int64]string // guarded by mu
}

func (n *names) of(num int64) (name string, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	name, ok = n.byNum[num]
	return name, ok
}

func (n *names) set(k *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byNum[k.num] = k.text
}

// round is one pass over what the tail had when it began.
type round struct {
	left  []*tailEntity // by num
	upTo  uint64        // the last change at the beginning
	parts []part        // a buffer
}

// tailRowBytes is about what a row occupies, without its text.
const tailRowBytes = 100

func (r *tailRow) bytes() int64 { return int64(tailRowBytes + len(r.value.Text())) }

// place is where the row is in the history.
func (r *tailRow) place() entity.Place {
	if r.arrived {
		return entity.Place{TS: r.ts, Seq: r.seq}
	}
	return entity.Place{TS: r.ts}
}

// newer reports whether a row is to be the latest rather than another one.
func (r *tailRow) newer(ts int64, seq uint64) bool { return r.ts > ts || r.ts == ts && r.seq >= seq }

func newTail() *tail {
	return &tail{sortFrom: sortFrom, entities: make(map[string]*tailEntity), oldest: math.MaxInt64, oldestNew: math.MaxInt64}
}

// add appends rows of an entity. The rows are the tail's from now on. REQUIRES: mu
// and Store.writing held.
func (t *tail) add(id string, num int64, rows ...tailRow) {
	e := t.entities[id]
	if e == nil {
		e = &tailEntity{id: strings.Clone(id), num: num}
		t.entities[e.id] = e
	}
	e.rows = append(e.rows, rows...)
	for i := range rows {
		t.bytes += rows[i].bytes()
		if rows[i].edit {
			t.edits++
		} else {
			t.oldest, t.oldestNew = min(t.oldest, rows[i].ts), min(t.oldestNew, rows[i].ts)
		}
	}
}

// drop forgets the first n rows of an entity, which are in the tables, or all of an
// entity that is deleted. REQUIRES: mu and Store.writing held.
func (t *tail) drop(e *tailEntity, n int) {
	for i := range e.rows[:n] {
		t.bytes -= e.rows[i].bytes()
		if e.rows[i].edit {
			t.edits--
		}
	}
	e.rows = e.rows[n:]
	if len(e.rows) == 0 && t.entities[e.id] == e {
		delete(t.entities, e.id)
	}
}

// byKey sorts the rows of an entity by keys, edits first, for a round that goes up to a change.
// Slices that took the rows in the order of their changes would write a page of each key for
// every few values of it. REQUIRES: Store.writing held.
func (t *tail) byKey(e *tailEntity, upTo uint64) {
	if e.sorted == upTo {
		return
	}
	e.sorted = upTo
	counts := make(map[*name]int)
	rows := e.rows // of the round: later ones stay behind them
	for i := range rows {
		if rows[i].change > upTo {
			rows = rows[:i]
			break
		}
		counts[rows[i].sortKey()]++
	}
	if len(counts) < 2 {
		return
	}
	next, n := counts, 0 // where the next row of a key goes
	for _, key := range slices.SortedFunc(maps.Keys(counts), func(a, b *name) int { return cmp.Compare(a.order(), b.order()) }) {
		next[key], n = n, n+counts[key]
	}
	sorted := make([]tailRow, n, len(e.rows))
	for i := range rows {
		key := rows[i].sortKey()
		sorted[next[key]] = rows[i]
		next[key]++
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.rows = append(sorted, e.rows[n:]...)
}

// sortKey is the key of a reading, nil for an edit.
func (r *tailRow) sortKey() *name {
	if r.edit {
		return nil
	}
	return r.key
}

// order is the place of a key in the tables; before all of them is that of nil.
func (n *name) order() int64 {
	if n == nil {
		return math.MinInt64
	}
	return n.num
}

// newest returns what is latest in the tail of an entity, once for each key, and the
// rows of its edits in their order.
func (t *tail) newest(id string, num int64) (latest, edits []tailRow) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.entities[id]
	if e == nil || e.num != num {
		return nil, nil
	}
	at := make(map[*name]int)
	for i := range e.rows {
		r := &e.rows[i]
		if r.edit {
			edits = append(edits, *r)
		} else if j, ok := at[r.key]; !ok {
			at[r.key] = len(latest)
			latest = append(latest, *r)
		} else if r.newer(latest[j].ts, latest[j].seq) {
			latest[j] = *r
		}
	}
	return latest, edits
}

// series returns the rows of a key of an entity with from <= place < to, ordered by
// place, the last one of each.
func (t *tail) series(id, key string, from, to entity.Place) []tailRow {
	var list []tailRow
	t.mu.RLock()
	if e := t.entities[id]; e != nil {
		for i := range e.rows {
			if r := &e.rows[i]; !r.edit && r.ts >= from.TS && r.ts <= to.TS && r.key.text == key && r.place().Compare(from) >= 0 && r.place().Compare(to) < 0 {
				list = append(list, *r)
			}
		}
	}
	t.mu.RUnlock()
	slices.SortStableFunc(list, func(a, b tailRow) int { return a.place().Compare(b.place()) })
	kept := list[:0]
	for i := range list {
		if i+1 == len(list) || list[i+1].place() != list[i].place() {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// points is series as points.
func (t *tail) points(id, key string, from, to entity.Place) []entity.Point {
	rows := t.series(id, key, from, to)
	points := make([]entity.Point, len(rows))
	for i := range rows {
		points[i] = entity.Point{TS: rows[i].ts, Seq: rows[i].place().Seq, Value: rows[i].value}
	}
	return points
}

// overlay makes latest, ordered by key, what it is with the rows of the tail.
func overlay(e *entity.Stored, rows []tailRow) {
	for i := range rows {
		r := &rows[i]
		at, ok := slices.BinarySearchFunc(e.Latest, r.key.text, func(l entity.Latest, key string) int { return strings.Compare(l.Key, key) })
		if ok && !r.newer(e.Latest[at].TS, e.Latest[at].Seq) {
			continue
		}
		l := entity.Latest{Key: r.key.text, TS: r.ts, Seq: r.seq, Value: r.value, Origin: r.origin()}
		if ok {
			e.Latest[at] = l
		} else {
			e.Latest = slices.Insert(e.Latest, at, l)
		}
		e.Updated, e.Seq = max(e.Updated, r.ts), max(e.Seq, r.seq)
	}
}

// overlayEdits makes the attributes, ordered by section and path, what they are with the
// rows of the tail.
func overlayEdits(e *entity.Stored, rows []tailRow) {
	for i := range rows {
		r := &rows[i]
		e.Revision = max(e.Revision, r.seq)
		if r.key == nil {
			continue
		}
		at, ok := slices.BinarySearchFunc(e.Attributes, r, func(a entity.StoredAttribute, r *tailRow) int {
			return cmp.Or(cmp.Compare(a.Section, r.section), strings.Compare(a.Path, r.key.text))
		})
		a := entity.StoredAttribute{Section: r.section, Attribute: entity.Attribute{Path: r.key.text, TS: r.ts, Value: r.value}}
		switch removed := r.value.Kind() == 0; {
		case ok && removed:
			e.Attributes = slices.Delete(e.Attributes, at, at+1)
		case ok:
			e.Attributes[at] = a
		case !removed:
			e.Attributes = slices.Insert(e.Attributes, at, a)
		}
	}
}

func (r *tailRow) origin() entity.Origin {
	if r.source == nil {
		return entity.Origin{}
	}
	return entity.Origin{Source: r.source.text, Seq: r.n}
}
