package codec

import (
	"reflect"
	"slices"

	"github.com/greenroom-go/greenroom/actor"
)

// plan describes a type that CBOR encodes: where its values take memory for each element, and where
// they have references. A nil plan has neither.
type plan struct {
	t      reflect.Type
	size   uint64           // of an element of a slice, a pair of a map, or of what a pointer points to
	key    *plan            // of a map
	elem   *plan            // of a slice, an array, a map, a pointer
	fields map[string]*plan // of a struct, by what they are written as; those without a plan are not there
	order  []*plan          // of a struct, as far as it may be written as an array
	bound  []part           // of a struct: the fields with references
	ref    bool             // it is a reference
	grows  bool             // it has slices, maps or pointers
	refs   bool             // it has references
}

// part is a field of a struct.
type part struct {
	index []int
	plan  *plan
}

// binder is a reference, see [actor.Ref.Bind].
type binder interface{ Bind(sys *actor.System) }

func isRef(t reflect.Type) bool { return reflect.PointerTo(t).Implements(reflect.TypeFor[binder]()) }

// planOf returns the plan of a type that checkPlain has accepted.
func planOf(t reflect.Type) *plan { return planner{}.plan(t) }

// planner makes the plans of types that refer to each other.
type planner map[reflect.Type]*plan

func (ps planner) plan(t reflect.Type) *plan {
	grows, refs := has(t, grows, nil), has(t, isRef, nil)
	if !grows && !refs {
		return nil
	}
	if p := ps[t]; p != nil {
		return p
	}
	p := &plan{t: t, grows: grows, refs: refs, ref: isRef(t)}
	ps[t] = p
	switch t.Kind() {
	case reflect.Slice, reflect.Array, reflect.Pointer:
		p.size, p.elem = uint64(t.Elem().Size()), ps.plan(t.Elem())
	case reflect.Map:
		p.size = uint64(t.Key().Size() + t.Elem().Size())
		p.key, p.elem = ps.plan(t.Key()), ps.plan(t.Elem())
	case reflect.Struct:
		if !p.ref {
			ps.addFields(p, t)
		}
	default:
	}
	return p
}

func (ps planner) addFields(p *plan, t reflect.Type) {
	p.fields = map[string]*plan{}
	for _, f := range flattened(nil, t, nil) {
		inner := ps.plan(f.Type)
		p.order = append(p.order, inner)
		if inner != nil {
			p.fields[keysOf(f)[0]] = inner
			if inner.refs {
				p.bound = append(p.bound, part{f.Index, inner})
			}
		}
	}
}

// flattened appends the fields of a struct as they are written, those of embedded structs in between.
func flattened(fields []reflect.StructField, t reflect.Type, index []int) []reflect.StructField {
	for f := range t.Fields() {
		f.Index = append(slices.Clip(index), f.Index...)
		switch {
		case leftOut(f):
		case isFlat(f):
			fields = flattened(fields, f.Type, f.Index)
		default:
			fields = append(fields, f)
		}
	}
	return fields
}

// encodedWhole reports whether a type is written by its own methods, as a text or as bytes.
func encodedWhole(t reflect.Type) bool { return t.Kind() != reflect.Pointer && encodesItself(t) }

// grows reports whether a type takes memory for each element.
func grows(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map, reflect.Pointer:
		return !encodedWhole(t)
	default:
		return false
	}
}

// has reports whether is returns true for a type or a part of it.
func has(t reflect.Type, is func(reflect.Type) bool, seen map[reflect.Type]bool) bool {
	if is(t) {
		return true
	}
	if seen[t] || encodedWhole(t) {
		return false
	}
	if seen == nil {
		seen = map[reflect.Type]bool{}
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Map:
		return has(t.Key(), is, seen) || has(t.Elem(), is, seen)
	case reflect.Slice, reflect.Array, reflect.Pointer:
		return has(t.Elem(), is, seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if !leftOut(f) && has(f.Type, is, seen) {
				return true
			}
		}
	default:
	}
	return false
}

// bind binds the references in a value, which can be set, to a system.
func (p *plan) bind(v reflect.Value, sys *actor.System) {
	if p == nil || !p.refs {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			p.elem.bind(v.Elem(), sys)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			p.elem.bind(v.Index(i), sys)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			elem := reflect.New(v.Type().Elem()).Elem()
			elem.Set(it.Value())
			p.elem.bind(elem, sys)
			v.SetMapIndex(it.Key(), elem)
		}
	case reflect.Struct:
		if p.ref {
			v.Addr().Interface().(binder).Bind(sys)
		}
		for _, f := range p.bound {
			f.plan.bind(v.FieldByIndex(f.index), sys)
		}
	default:
	}
}
