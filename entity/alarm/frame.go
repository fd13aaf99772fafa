package alarm

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/value"
)

// frame is the entity as conditions see it at one time: a [filter.View] of the values in slots.
type frame struct {
	id, typ string
	created int64
	// presence is set if live rules use it.
	presence entity.Presence
	values   []slotValue // ordered by slot
	env      filter.Env
	isA      func(typ, of string) bool
}

// noTime is the time of an object of attributes: only its leaves have one.
const noTime = math.MinInt64

// slotValue is the value of one slot.
type slotValue struct {
	slot int
	ts   int64
	v    value.Value // the zero Value where there is none
	band band
}

// band is the range of a value in which the answers of conditions that only compare it with numbers
// are known: they are the same for the value for which they were evaluated, and for other numbers
// above one threshold and below another.
type band struct {
	known        bool
	above, below float64
}

// has reports whether the answers stay the same for a value.
func (x *slotValue) has(v value.Value) bool {
	if !x.band.known {
		return false
	}
	if v == x.v {
		return true
	}
	n, ok := v.Number()
	return ok && x.v.IsNumber() && n > x.band.above && n < x.band.below
}

// slots assigns numbers from 1 to the keys and leaves that rules read. Numbers are never reused,
// since rules change seldom.
type slots struct {
	byPath map[slotPath]int
	byKey  map[string]int // of byPath, those of keys
	// updated is the slot of the time of the newest reading, 0 while no rule has read it.
	updated int
	paths   []slotPath // by number
}

type slotPath struct {
	root filter.Root
	name string
}

func newSlots() *slots {
	return &slots{byPath: make(map[slotPath]int), byKey: make(map[string]int), paths: make([]slotPath, 1)}
}

// of returns the slot of a path, assigning one if need be.
func (s *slots) of(p *filter.Path) int {
	path := slotPath{p.Root, p.Name}
	n, ok := s.byPath[path]
	if !ok {
		n = len(s.paths)
		s.byPath[path] = n
		switch path.root {
		case filter.RootLatest:
			s.byKey[path.name] = n
		case filter.RootUpdated:
			s.updated = n
		default:
		}
		s.paths = append(s.paths, path)
	}
	return n
}

// key returns the slot of a key, 0 for one that no rule reads.
func (s *slots) key(name string) int { return s.byKey[name] }

// hasLeaf reports whether rules read an attribute or an object that encloses it.
func (s *slots) hasLeaf(a entity.AttributeEdit) bool {
	for path := a.Path; ; {
		for _, root := range [...]filter.Root{filter.RootAttributes, filter.RootDesired, filter.RootReported} {
			if section, _ := entityview.Section(root); section == a.Section && s.byPath[slotPath{root, path}] != 0 {
				return true
			}
		}
		if path == "" {
			return false
		}
		path = path[:max(0, strings.LastIndexByte(path, '/'))]
	}
}

func (f *frame) find(slot int) (int, bool) {
	for i := range f.values {
		if n := f.values[i].slot; n >= slot {
			return i, n == slot
		}
	}
	return len(f.values), false
}

// put sets the value of a slot, before conditions are evaluated.
func (f *frame) put(slot int, ts int64, v value.Value) {
	i, ok := f.find(slot)
	if !ok {
		f.values = slices.Insert(f.values, i, slotValue{})
	}
	f.values[i] = slotValue{slot: slot, ts: ts, v: v}
}

// ts returns the time of a slot's value, and false for none.
func (f *frame) ts(slot int) (int64, bool) {
	i, ok := f.find(slot)
	if !ok || f.values[i].v.IsZero() {
		return 0, false
	}
	return f.values[i].ts, true
}

// newest returns the newest time of the keys of a rule, and false where there is none.
func (f *frame) newest(r *rule) (newest int64, ok bool) {
	for _, slot := range r.keys {
		if ts, there := f.ts(slot); there && (!ok || ts > newest) {
			newest, ok = ts, true
		}
	}
	return newest, ok
}

// ahead reports whether a rule reads a value later than horizon.
func (f *frame) ahead(r *rule, horizon int64) bool {
	if r.updated != 0 {
		if ts, ok := f.ts(r.updated); ok && ts > horizon {
			return true
		}
	}
	newest, ok := f.newest(r)
	return ok && newest > horizon
}

// Lookup is for package filter.
func (f *frame) Lookup(p *filter.Path) (value.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return value.String(f.id), true
	case filter.RootType:
		return value.String(f.typ), f.typ != ""
	case filter.RootCreated:
		return value.Time(f.created), true
	case filter.RootPresence:
		return entityview.Presence(f.presence, p.Name)
	default:
		i, ok := f.find(p.Slot)
		if !ok {
			return value.Value{}, false
		}
		return f.values[i].v, !f.values[i].v.IsZero()
	}
}

// Time is for package filter.
func (f *frame) Time(p *filter.Path) (int64, bool) {
	ts, ok := f.ts(p.Slot)
	return ts, ok && ts != noTime
}

// Is is for package filter.
func (f *frame) Is(typeID string) bool { return f.isA(f.typ, typeID) }

// Related is for package filter. Conditions of rules cannot use relations.
func (f *frame) Related(*filter.Relation, *filter.Env) bool { return false }

// load fills the frame from an entity, as it is now.
func (f *frame) load(v entity.View, s *slots) {
	f.typ, f.created, f.presence, f.values = v.Type(), v.Created(), v.Presence(), f.values[:0]
	for n, p := range s.paths {
		if n == 0 {
			continue
		}
		if p.root == filter.RootLatest {
			if l, ok := v.Latest(p.name); ok {
				f.values = append(f.values, slotValue{slot: n, ts: l.TS, v: l.Value})
			}
			continue
		}
		if p.root == filter.RootUpdated {
			if ts := v.Updated(); ts != 0 {
				f.values = append(f.values, slotValue{slot: n, ts: ts, v: value.Time(ts)})
			}
			continue
		}
		section, _ := entityview.Section(p.root)
		if a, ok := v.Attribute(section, p.name); ok {
			f.values = append(f.values, slotValue{slot: n, ts: a.TS, v: a.Value})
		} else if v.Has(section, p.name) {
			f.values = append(f.values, slotValue{slot: n, ts: noTime, v: value.JSON("{}")})
		}
	}
	f.values = slices.Clip(f.values)
	slices.SortFunc(f.values, func(a, b slotValue) int { return cmp.Compare(a.slot, b.slot) })
}

// sample returns the values that the conditions of a rule have used, without the contents of large
// ones.
func (f *frame) sample(r *rule, s *slots) []Value {
	var list []Value
	for _, slot := range r.keys {
		if i, ok := f.find(slot); ok && !f.values[i].v.IsZero() {
			v := f.values[i].v
			if len(v.Text()) > MaxValueBytes || len(v.AppendJSON(nil)) > MaxValueBytes {
				v = value.Value{}
			}
			list = append(list, Value{Key: s.paths[slot].name, TS: f.values[i].ts, Value: v})
		}
	}
	return list
}

// bytes is about what the frame occupies.
func (f *frame) bytes() int {
	const each = 80
	n := len(f.id) + len(f.typ) + each*len(f.values)
	for i := range f.values {
		n += len(f.values[i].v.Text())
	}
	return n
}
