package server

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

// noTime is the time of a value that there is not.
const noTime = math.MinInt64

// noColumn stands for the rows alone, which filters about ids and types need.
var noColumn filter.Path

// finderTable is what a finder knows: a row for each entity, and the columns.
type finderTable struct {
	generation time.Time // tells one table from the next
	complete   bool      // there is a row for each entity

	byID             map[string]int32
	ids, types       []string
	created, updated []int64
	free             []int32 // rows of entities that are no more
	order            []int32 // rows by id
	fresh            []int32 // rows that are not in order yet
	gone             bool    // there are rows in order that are free

	columns map[filter.Path]*finderColumn
	// removed are the entities that were deleted while columns are filled; nil at
	// other times.
	removed map[string]struct{}
}

// finderColumn has the value at one path of each row.
type finderColumn struct {
	path   filter.Path
	values []filter.Value
	times  []int64
	full   bool      // all rows have been read
	used   time.Time // last
	// touched are the rows that were read again while the column is filled: what
	// comes from the reading of all is older.
	touched map[int32]struct{}
}

func newFinderTable() finderTable {
	return finderTable{generation: time.Now(), byID: make(map[string]int32), columns: make(map[filter.Path]*finderColumn)}
}

// open makes columns for paths, where there are none, and room for them.
func (t *finderTable) open(paths []filter.Path) []*finderColumn {
	t.removed = make(map[string]struct{})
	var columns []*finderColumn
	for _, p := range paths {
		if t.columns[p] != nil || p == noColumn {
			continue
		}
		for len(t.columns) >= finderColumns {
			t.dropOldest()
		}
		c := &finderColumn{path: p, used: time.Now(), touched: make(map[int32]struct{})}
		c.grow(len(t.ids))
		t.columns[p] = c
		columns = append(columns, c)
	}
	return columns
}

func (t *finderTable) dropOldest() {
	var oldest *finderColumn
	for _, c := range t.columns {
		if oldest == nil || c.used.Before(oldest.used) {
			oldest = c
		}
	}
	delete(t.columns, oldest.path)
}

func (t *finderTable) drop(paths []filter.Path) {
	for _, p := range paths {
		if c := t.columns[p]; c != nil && !c.full {
			delete(t.columns, p)
		}
	}
}

// filled notes that columns have a value of each entity.
func (t *finderTable) filled(columns []*finderColumn) {
	t.complete, t.removed = true, nil
	for _, c := range columns {
		c.full, c.touched = true, nil
	}
}

func (c *finderColumn) grow(n int) {
	for len(c.values) < n {
		c.values = append(c.values, filter.Value{})
		c.times = append(c.times, noTime)
	}
}

func (c *finderColumn) set(row int32, v filter.Value, ts int64) {
	c.values[row], c.times[row] = v, ts
}

// row returns the row of an entity, making it.
func (t *finderTable) row(id string) int32 {
	if row, ok := t.byID[id]; ok {
		return row
	}
	if t.gone && len(t.free) > 0 { // rows are used again when they are out of the order
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
func (t *finderTable) remove(id string) {
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
		c.set(row, filter.Value{}, noTime)
		c.touch(row)
	}
}

func (c *finderColumn) touch(row int32) {
	if c.touched != nil {
		c.touched[row] = struct{}{}
	}
}

// sort puts the rows in the order of their ids.
func (t *finderTable) sort() {
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

// put takes in an entity as it is: the given columns, or all. With newer it is the
// newest there is; otherwise what was touched since stays as it is.
func (t *finderTable) put(v *entityview.View, columns []*finderColumn, newer bool) {
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
	take := func(c *finderColumn) {
		if _, touched := c.touched[row]; touched && !newer {
			return
		}
		value, there := v.Lookup(&c.path)
		if !there {
			value = filter.Value{}
		}
		ts, ok := v.Time(&c.path)
		if !ok {
			ts = noTime
		}
		if !newer && c.path.Root == filter.RootLatest && c.times[row] > ts {
			return // a reading has come since
		}
		c.set(row, value, ts)
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

// apply takes in a change. It reports true when the entity has to be read again,
// because the change does not tell all.
func (t *finderTable) apply(c *entity.Change) (again bool) {
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
	t.updated[row] = max(t.updated[row], c.TS)
	for i := range c.Values {
		s := &c.Values[i]
		if column := t.columns[filter.Path{Root: filter.RootLatest, Name: s.Key}]; column != nil && c.TS >= column.times[row] {
			column.set(row, entityview.Value(s.Value), c.TS)
		}
	}
	return false
}

// edit takes in an edit. Where a leaf has become an object, or the other way round,
// the entity has to be read again.
func (t *finderTable) edit(row int32, e *entity.Edit) (again bool) {
	if e.Typed {
		t.types[row] = e.Type
	}
	for path, column := range t.columns {
		section, ok := entityview.Section(path.Root)
		if !ok {
			continue
		}
		for i := range e.Attributes {
			a := &e.Attributes[i]
			switch {
			case a.Section != section || a.Path != path.Name && !under(a.Path, path.Name):
			case a.Path == path.Name && !a.Removed():
				column.set(row, entityview.Value(a.Value), a.TS)
				column.touch(row)
			default:
				again = true
			}
		}
	}
	return again
}
