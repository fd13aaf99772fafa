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

// The tail: what is durable in the change log, and not yet in the tables.
//
// The rows of a reading, or of an edit of attributes, belong to as many places of the tables as it
// has keys, and each place is a page. A commit that wrote them there would write, and sync, a page
// for nearly each value. A commit therefore writes only the change log, which contains the whole
// reading or edit in a few bytes at its end, and keeps the rows in memory. They are moved to the
// tables later, many of a page at a time and without a separate sync: after a loss of power, the
// change log still has them (flush.go).
//
// Everything that reads the tables must add the rows of the tail. It must read the tail first and
// then the tables: a row that is moved in between is then found twice, but not missed. Since the
// rows of an edit come with its revision, their readers must also ensure that none were moved
// meanwhile (Store.consistently), or they might see a mixture of two revisions.
type tail struct {
	mu       sync.RWMutex
	entities map[string]*tailEntity // by id; guarded by mu, and changed only while Store.writing is held

	// The fields up to moves are guarded by Store.writing.
	bytes int64
	edits int       // rows of edits
	since time.Time // when the oldest commit that is only in the log was made

	// All changes up to flushed are in the tables. Of the later ones, oldest is the least ts of a
	// value, and logged is their size in the log. oldestNew and loggedNew are the same for those
	// that came after the round began.
	flushed           uint64
	oldest, oldestNew int64
	logged, loggedNew int64
	round             *round // nil if none is in progress
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

// tailRow is a value of a reading, or a leaf of an edit, which has a section. An edit that changes
// no leaf has a row without a key, for its revision.
type tailRow struct {
	key     *name
	source  *name // nil for a reading of a device
	ts      int64
	seq     uint64 // of the reading, or the revision of the edit
	n       uint64 // the source's own sequence number
	change  uint64
	edit    bool
	arrived bool // see entity.Reading
	section entity.Section
	value   value.Value // in an edit, the zero Value removes the leaf
}

// name is a row of the table key.
type name struct {
	num  int64
	text string
}

// names holds the names in the table key, for readers. A name that is not committed may be
// replaced; but the name for any number in a committed row is here.
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

// round is one pass over what was in the tail when it began.
type round struct {
	left  []*tailEntity // sorted by num
	upTo  uint64        // the last change at the beginning
	parts []part        // reused by each slice
}

// tailRowBytes is the approximate memory of a row, without its text.
const tailRowBytes = 100

func (r *tailRow) bytes() int64 { return int64(tailRowBytes + len(r.value.Text())) }

// place returns the place of the row in the history.
func (r *tailRow) place() entity.Place {
	if r.arrived {
		return entity.Place{TS: r.ts, Seq: r.seq}
	}
	return entity.Place{TS: r.ts}
}

// newer reports whether a row takes precedence over the latest value with ts and seq.
func (r *tailRow) newer(ts int64, seq uint64) bool { return r.ts > ts || r.ts == ts && r.seq >= seq }

func newTail() *tail {
	return &tail{sortFrom: sortFrom, entities: make(map[string]*tailEntity), oldest: math.MaxInt64, oldestNew: math.MaxInt64}
}

// add appends rows of an entity, and takes ownership of them. REQUIRES: mu and Store.writing held.
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

// drop removes the first n rows of an entity, because they are in the tables or the entity is
// deleted. REQUIRES: mu and Store.writing held.
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

// order returns the place of a key in the tables; nil comes before all.
func (n *name) order() int64 {
	if n == nil {
		return math.MinInt64
	}
	return n.num
}

// newest returns the latest row of each key of an entity in the tail, and the rows of its edits in
// their order.
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

// noLimit is a limit for all rows.
const noLimit = math.MaxInt32

// series returns the rows of a key of an entity with from <= place < to, sorted by place, for each
// place the last one: the first of them up to the limit, or, descending, the last. An entity may
// have a hundred thousand rows, and reading its history page by page must not sort all of them each
// time: rows beyond those already found are skipped.
func (t *tail) series(id, key string, from, to entity.Place, limit int, descending bool) []tailRow {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.entities[id]
	if e == nil || limit < 1 {
		return nil
	}
	var list []tailRow
	for i := range e.rows {
		r := &e.rows[i]
		if r.edit || r.ts < from.TS || r.ts > to.TS || r.key.text != key || r.place().Compare(from) < 0 || r.place().Compare(to) >= 0 {
			continue
		}
		if list = append(list, *r); len(list)-limit < max(limit, 64) {
			continue
		}
		if list = sortPlaces(list, limit, descending); len(list) < limit {
			continue
		}
		if descending {
			from = list[0].place()
		} else {
			to = list[limit-1].place()
			to.Seq++ // what comes in the last place replaces it
		}
	}
	return sortPlaces(list, limit, descending)
}

// sortPlaces sorts rows, and keeps the last one of each place, and of the places the first or, descending,
// the last up to the limit.
func sortPlaces(list []tailRow, limit int, descending bool) []tailRow {
	slices.SortStableFunc(list, func(a, b tailRow) int { return a.place().Compare(b.place()) })
	kept := list[:0]
	for i := range list {
		if i+1 == len(list) || list[i+1].place() != list[i].place() {
			kept = append(kept, list[i])
		}
	}
	if over := len(kept) - limit; over > 0 && descending {
		kept = kept[over:]
	} else if over > 0 {
		kept = kept[:limit]
	}
	return kept
}

// points is like series, and returns points.
func (t *tail) points(id, key string, from, to entity.Place, limit int, descending bool) []entity.Point {
	rows := t.series(id, key, from, to, limit, descending)
	points := make([]entity.Point, len(rows))
	for i := range rows {
		points[i] = entity.Point{TS: rows[i].ts, Seq: rows[i].place().Seq, Value: rows[i].value}
	}
	return points
}

// overlay applies rows of the tail to the latest values, which are sorted by key.
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

// overlayEdits applies rows of the tail to the attributes, which are sorted by section and path.
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
