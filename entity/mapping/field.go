package mapping

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// frame holds the inputs of a field at one moment. Frames with the same readings have the same
// value, whether these come live or from the history: there is only one way to compute.
type frame struct {
	spec   *Field
	values []value.Value // by source
	ts     []int64
	known  []bool
	many   []collection // by source, nil for one value
	room   *account     // for the texts of one value
	short  []bool       // by source: there was no room; nil for none
	env    filter.Env   // of evaluate
}

// newFrame returns an empty frame. groups returns the roster of a source's group, and room is the
// account for its values.
func newFrame(spec *Field, groups func(alias string) *roster, room *account) *frame {
	n := len(spec.Sources)
	fr := &frame{spec: spec, room: room, values: make([]value.Value, n), ts: make([]int64, n), known: make([]bool, n), many: make([]collection, n)}
	for i := range spec.Sources {
		src := &spec.Sources[i]
		switch {
		case src.Group == "" && src.Func != "":
			fr.many[i] = newWindowOf(src, nil, room)
		case src.windowed():
			fr.many[i] = newWindowOf(src, groups(src.Group), room)
		case src.Group != "":
			fr.many[i] = newLatestOf(src, groups(src.Group), room)
		}
	}
	return fr
}

// next returns an empty frame of the same field over single entities, with the
// attributes that have no time. room is what its values may take.
func (fr *frame) next(room *account) *frame {
	n := newFrame(fr.spec, nil, room)
	n.short = slices.Clone(fr.short)
	for i := range fr.spec.Sources {
		if fr.spec.Sources[i].timeless() {
			n.values[i] = fr.values[i]
		} else if n.short != nil {
			n.short[i] = false
		}
	}
	return n
}

// set sets one value.
func (fr *frame) set(i int, v value.Value) {
	before := textBytes(fr.values[i])
	short := !fr.room.take(textBytes(v) - before)
	if short {
		fr.room.drop()
		fr.room.take(-before)
		v = value.Value{}
	}
	fr.values[i] = v
	if short && fr.short == nil {
		fr.short = make([]bool, len(fr.values))
	}
	if fr.short != nil {
		fr.short[i] = short
	}
}

// put adds a reading of the source's entity.
func (fr *frame) put(i int, ts int64, v value.Value) {
	switch {
	case fr.many[i] != nil:
		fr.many[i].put(0, ts, v)
	case fr.spec.Sources[i].timeless():
		fr.set(i, v)
	case !fr.known[i] || ts >= fr.ts[i]:
		fr.set(i, v)
		fr.ts[i], fr.known[i] = ts, true
	}
}

// newest is the time of the newest reading; false when there is none.
func (fr *frame) newest() (ts int64, ok bool) {
	for i := range fr.values {
		at, has := fr.ts[i], fr.known[i]
		if fr.many[i] != nil {
			at, has = fr.many[i].newest()
		}
		if has && (!ok || at > ts) {
			ts, ok = at, true
		}
	}
	return ts, ok
}

// evaluate returns the value of a frame, the zero Value if it has none because a source is missing
// or the expression gives none.
func (fr *frame) evaluate() (value.Value, error) {
	if i := slices.Index(fr.short, true); i >= 0 {
		return value.Value{}, fr.room.noRoom("the value of " + fr.spec.Sources[i].String())
	}
	for i, c := range fr.many {
		if c == nil {
			continue
		}
		v, err := c.value()
		if err != nil {
			return value.Value{}, err
		}
		fr.values[i] = v
	}
	return fr.spec.expression.Value(fr, &fr.env)
}

// A frame is the view of its expression: the slot of a path is the index of a source.
var _ filter.View = (*frame)(nil)

// Lookup returns the value of a source.
func (fr *frame) Lookup(p *filter.Path) (value.Value, bool) {
	v := fr.values[p.Slot]
	return v, !v.IsZero()
}

// Time is not asked for by an expression.
func (*frame) Time(*filter.Path) (int64, bool) { return 0, false }

// Is is not asked for by an expression.
func (*frame) Is(string) bool { return false }

// Related is not asked for by an expression.
func (*frame) Related(*filter.Relation, *filter.Env) bool { return false }
