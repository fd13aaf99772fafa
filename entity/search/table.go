package search

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/value"
)

// noTime is the time of a missing value.
const noTime = math.MinInt64

// noColumn stands for the rows without a column, which suffice for filters about ids and
// types.
var noColumn filter.Path

// table has a row for each entity, and columns. The zero value is not usable; see
// newTable. The index guards it.
type table struct {
	generation time.Time // distinguishes this table from the one before
	complete   bool      // there is a row for each entity

	byID             map[string]int32
	ids, types       []string
	created, updated []int64
	free             []int32 // rows of deleted entities
	order            []int32 // rows by id
	fresh            []int32 // rows that order does not have yet
	gone             bool    // order has rows that are free

	columns map[filter.Path]*column
	// removed has the entities that were deleted since columns began to be filled; nil
	// while none are.
	removed map[string]struct{}
}

// column has the values at one path, by row.
type column struct {
	path   filter.Path
	values []value.Value
	times  []int64
	full   bool      // all rows have been read
	used   time.Time // by a search, last
	// touched has the rows that the follower has set while the column is filled: what
	// the pass over all entities has read for them may be older. nil once it is full.
	touched map[int32]struct{}
}

func newTable() table {
	return table{generation: time.Now(), byID: make(map[string]int32), columns: make(map[filter.Path]*column)}
}

// open makes columns for paths that have none, dropping others where there is no room.
func (t *table) open(paths []filter.Path) []*column {
	t.removed = make(map[string]struct{})
	var columns []*column
	for _, p := range paths {
		if t.columns[p] != nil || p == noColumn {
			continue
		}
		for len(t.columns) >= maxColumns {
			t.dropOldest()
		}
		c := &column{path: p, used: time.Now(), touched: make(map[int32]struct{})}
		c.grow(len(t.ids))
		t.columns[p] = c
		columns = append(columns, c)
	}
	return columns
}

func (t *table) dropOldest() {
	var oldest *column
	for _, c := range t.columns {
		if oldest == nil || c.used.Before(oldest.used) {
			oldest = c
		}
	}
	delete(t.columns, oldest.path)
}

func (t *table) drop(paths []filter.Path) {
	for _, p := range paths {
		if c := t.columns[p]; c != nil && !c.full {
			delete(t.columns, p)
		}
	}
}

// filled marks columns as having the values of all entities.
func (t *table) filled(columns []*column) {
	t.complete, t.removed = true, nil
	for _, c := range columns {
		c.full, c.touched = true, nil
	}
}

func (c *column) grow(n int) {
	for len(c.values) < n {
		c.values = append(c.values, value.Value{})
		c.times = append(c.times, noTime)
	}
}

func (c *column) set(row int32, v value.Value, ts int64) {
	c.values[row], c.times[row] = v, ts
}

// row returns the row of an entity, making one if it has none.
func (t *table) row(id string) int32 {
	if row, ok := t.byID[id]; ok {
		return row
	}
	if t.gone && len(t.free) > 0 { // a row may be reused once order does not have it
		t.sort()
	}
	row := int32(len(t.ids))
	if n := len(t.free); n > 0 {
		row, t.free = t.free[n-1], t.free[:n-1]
		t.ids[row] = id
	} else {
		t.ids, t.types = append(t.ids, id), append(t.types, "")
		t.created, t.updated = append(t.created, 0), append(t.updated, 0)
		for _, c := range t.columns {
			c.grow(len(t.ids))
		}
	}
	t.byID[id] = row
	t.fresh = append(t.fresh, row)
	return row
}

// remove forgets an entity.
func (t *table) remove(id string) {
	if t.removed != nil {
		t.removed[id] = struct{}{}
	}
	row, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	t.free, t.gone = append(t.free, row), true
	t.types[row], t.created[row], t.updated[row] = "", 0, 0
	for _, c := range t.columns {
		c.set(row, value.Value{}, noTime)
		c.touch(row)
	}
}

func (c *column) touch(row int32) {
	if c.touched != nil {
		c.touched[row] = struct{}{}
	}
}

// sort updates order.
func (t *table) sort() {
	if len(t.fresh) == 0 && !t.gone {
		return
	}
	alive := func(row int32) bool {
		at, ok := t.byID[t.ids[row]]
		return ok && at == row
	}
	byID := func(a, b int32) int { return cmp.Compare(t.ids[a], t.ids[b]) }
	fresh := slices.DeleteFunc(t.fresh, func(row int32) bool { return !alive(row) })
	slices.SortFunc(fresh, byID)
	fresh = slices.Compact(fresh)
	merged := make([]int32, 0, len(t.order)+len(fresh))
	for _, row := range t.order {
		for len(fresh) > 0 && t.ids[fresh[0]] < t.ids[row] {
			merged, fresh = append(merged, fresh[0]), fresh[1:]
		}
		if alive(row) {
			merged = append(merged, row)
		}
	}
	merged = append(merged, fresh...)
	t.order, t.fresh, t.gone = merged, nil, false
}

// put sets the row of an entity: the given columns or, with newer, all of them. newer
// says that v is newer than what the table has; otherwise the values that the follower
// has set stay.
func (t *table) put(v *entityview.View, columns []*column, newer bool) {
	id := v.ID()
	row, known := t.byID[id]
	if !known {
		if _, removed := t.removed[id]; removed && !newer {
			return
		}
		row = t.row(id)
	}
	if newer || !known {
		t.types[row], t.created[row], t.updated[row] = v.Type(), v.Created(), v.Updated()
	}
	take := func(c *column) {
		if _, touched := c.touched[row]; touched && !newer {
			return
		}
		found, there := v.Lookup(&c.path)
		if !there {
			found = value.Value{}
		}
		ts, ok := v.Time(&c.path)
		if !ok {
			ts = noTime
		}
		if !newer && c.path.Root == filter.RootLatest && c.times[row] > ts {
			return // a reading has come since
		}
		c.set(row, found, ts)
		if newer {
			c.touch(row)
		}
	}
	if newer {
		for _, c := range t.columns {
			take(c)
		}
		return
	}
	for _, c := range columns {
		take(c)
	}
}

// apply updates the table by a change. It reports whether the entity has to be read
// again, because the change does not say everything.
func (t *table) apply(c *entity.Change) (again bool) {
	if c.Edit != nil && c.Edit.Deleted {
		t.remove(c.Entity)
		return false
	}
	row, known := t.byID[c.Entity]
	if !known {
		return true
	}
	if c.Edit != nil {
		return t.edit(row, c.Edit)
	}
	if c.Presence != nil {
		for path := range t.columns {
			again = again || path.Root == filter.RootPresence
		}
		return again
	}
	t.updated[row] = max(t.updated[row], c.TS)
	for i := range c.Values {
		s := &c.Values[i]
		if col := t.columns[filter.Path{Root: filter.RootLatest, Name: s.Key}]; col != nil && c.TS >= col.times[row] {
			col.set(row, s.Value, c.TS)
		}
	}
	return false
}

// edit updates a row by an edit. It reports whether the entity has to be read again,
// because a leaf has become an object or the other way round.
func (t *table) edit(row int32, e *entity.Edit) (again bool) {
	if e.Typed {
		t.types[row] = e.Type
	}
	for path, col := range t.columns {
		section, ok := entityview.Section(path.Root)
		if !ok {
			continue
		}
		for i := range e.Attributes {
			a := &e.Attributes[i]
			switch {
			case a.Section != section || a.Path != path.Name && !strings.HasPrefix(a.Path, path.Name+"/"):
			case a.Path == path.Name && !a.Removed():
				col.set(row, a.Value, a.TS)
				col.touch(row)
			default:
				again = true
			}
		}
	}
	return again
}
