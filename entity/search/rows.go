package search

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// rows evaluates one query on the rows of the table. REQUIRES: the index's lock is held
// for reading while it is used.
type rows struct {
	rowView
	filter *filter.Filter
	env    filter.Env
	typ    string
}

// each calls f with the matching ids greater than after, in order, until f returns
// false.
func (q *rows) each(after string, f func(id string) bool) {
	t := q.table
	first, _ := slices.BinarySearchFunc(t.order, after, func(row int32, after string) int {
		if t.ids[row] <= after {
			return -1
		}
		return 1
	})
	for _, q.row = range t.order[first:] {
		if q.typ != "" && !q.Is(q.typ) {
			continue
		}
		if q.filter.Match(&q.rowView, &q.env) && !f(t.ids[q.row]) {
			return
		}
	}
}

// rowView shows one row of the table to a filter.
type rowView struct {
	rt      *entity.Runtime
	table   *table
	columns []*column                  // by the slots of the filter, from 1
	isA     map[string]map[string]bool // for each type, the types that it is or extends
	row     int32
}

// Lookup returns the value at a path.
func (v *rowView) Lookup(p *filter.Path) (value.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return value.String(v.table.ids[v.row]), true
	case filter.RootType:
		return value.String(v.table.types[v.row]), v.table.types[v.row] != ""
	case filter.RootCreated:
		return value.Time(v.table.created[v.row]), true
	case filter.RootUpdated:
		return value.Time(v.table.updated[v.row]), v.table.updated[v.row] != 0
	default:
		value := v.columns[p.Slot-1].values[v.row]
		return value, value.Kind() != 0
	}
}

// Time returns when the value at a path was measured or set.
func (v *rowView) Time(p *filter.Path) (int64, bool) {
	c := v.columns[p.Slot-1]
	return c.times[v.row], c.times[v.row] != noTime
}

// Is reports whether the type of the entity is id or extends it.
func (v *rowView) Is(id string) bool {
	typ := v.table.types[v.row]
	if typ == "" || typ == id {
		return typ != ""
	}
	known, ok := v.isA[typ]
	if !ok {
		if t, err := v.rt.ResolvedType(typ); err == nil { // it may have been deleted
			known = t.IsA
		}
		v.isA[typ] = known
	}
	return known[id]
}

// Related is never called: filters about relations are not indexed.
func (v *rowView) Related(*filter.Relation, *filter.Env) bool { return false }
