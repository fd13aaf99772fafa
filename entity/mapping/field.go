package mapping

import (
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// frame is what a field is computed from at one moment. A frame whose inputs get
// the same readings has the same value, whether they come as they are measured
// or out of the history: there is no second way to compute.
type frame struct {
	spec   *Field
	values []value.Value // by source
	ts     []int64
	known  []bool
	many   []collection // by source, nil for one value
	env    filter.Env   // of evaluate
}

// newFrame returns an empty frame. groups gives the roster of the group that a
// source is over.
func newFrame(spec *Field, groups func(alias string) *roster) *frame {
	n := len(spec.Sources)
	fr := &frame{spec: spec, values: make([]value.Value, n), ts: make([]int64, n), known: make([]bool, n), many: make([]collection, n)}
	for i := range spec.Sources {
		src := &spec.Sources[i]
		switch {
		case src.Group == "" && src.Func != "":
			fr.many[i] = newWindowOf(src, nil)
		case src.windowed():
			fr.many[i] = newWindowOf(src, groups(src.Group))
		case src.Group != "":
			fr.many[i] = newLatestOf(src, groups(src.Group))
		}
	}
	return fr
}

// next returns an empty frame of the same field over single entities, with the
// attributes that have no time.
func (fr *frame) next() *frame {
	n := newFrame(fr.spec, nil)
	for i := range fr.spec.Sources {
		if fr.spec.Sources[i].timeless() {
			n.values[i] = fr.values[i]
		}
	}
	return n
}

// put takes a reading of the source's entity in.
func (fr *frame) put(i int, ts int64, v value.Value) {
	switch {
	case fr.many[i] != nil:
		fr.many[i].put(0, ts, v)
	case fr.spec.Sources[i].timeless():
		fr.values[i] = v
	case !fr.known[i] || ts >= fr.ts[i]:
		fr.values[i], fr.ts[i], fr.known[i] = v, ts, true
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

// evaluate returns the value of a frame, the zero Value where it has none: because a
// source is missing, or the expression says so.
func (fr *frame) evaluate() (value.Value, error) {
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

// A frame is what its expression looks at: the slot of a path is the index of a
// source.
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
