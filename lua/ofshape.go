package lua

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// reader makes values of Go of what a script has sent.
type reader struct{ sys *actor.System }

// value sets into to what v, a value of Go as [Call] returns it, is in a shape.
func (r reader) value(s *shape, v any, into reflect.Value) *ValueError {
	if v == nil {
		if !s.optional() {
			return refuse("it must be given: %s", s.wants())
		}
		into.SetZero()
		return nil
	}
	switch s.form {
	case truth:
		if b, ok := v.(bool); ok {
			into.SetBool(b)
			return nil
		}
	case whole, natural:
		return readInteger(s, v, into)
	case fraction:
		return readNumber(s, v, into)
	case chars:
		return readBytes(s, v, into)
	case textual:
		return r.text(s, v, into)
	case pointer:
		into.Set(reflect.New(s.t.Elem()))
		return r.value(s.elem, v, into.Elem())
	case anything:
		into.Set(reflect.ValueOf(v))
		return nil
	default:
		if t, ok := v.(*Table); ok {
			return r.table(s, t, into)
		}
	}
	return s.unlike(v)
}

// wants says what a value of the shape is in a script.
func (s *shape) wants() string {
	switch s.form {
	case truth:
		return "a boolean"
	case whole, natural:
		return "an integer"
	case fraction:
		return "a number"
	case chars, textual:
		return "a string"
	case pointer:
		return s.elem.wants()
	case anything:
		return "a value"
	default:
		return "a table"
	}
}

func (s *shape) unlike(v any) *ValueError {
	return refuse("it must be %s, not %s", s.wants(), goTypeName(v))
}

// goTypeName returns what the type of a value is called in Lua.
func goTypeName(v any) string {
	switch v.(type) {
	case nil:
		return "nil"
	case bool:
		return "a boolean"
	case float64:
		return "a number"
	case int64:
		return "an int64"
	case string:
		return "a string"
	}
	return "a table"
}

func readInteger(s *shape, v any, into reflect.Value) *ValueError {
	var n int64
	switch v := v.(type) {
	case int64:
		n = v
	case float64:
		switch {
		case v != math.Trunc(v): // also NaN
			return refuse("it must be an integer, not %s", strconv.FormatFloat(v, 'g', -1, 64))
		case math.Abs(v) > exact:
			return refuse("%s may have been rounded: an integer beyond 2^53 must be an int64", strconv.FormatFloat(v, 'g', -1, 64))
		}
		n = int64(v)
	default:
		return s.unlike(v)
	}
	switch {
	case s.form == whole && !into.OverflowInt(n):
		into.SetInt(n)
	case s.form == natural && n >= 0 && !into.OverflowUint(uint64(n)):
		into.SetUint(uint64(n))
	default:
		return refuse("%d is no %s", n, s.t.Kind())
	}
	return nil
}

func readNumber(s *shape, v any, into reflect.Value) *ValueError {
	switch v := v.(type) {
	case float64:
		if !math.IsInf(v, 0) && into.OverflowFloat(v) {
			return refuse("%s is no %s", strconv.FormatFloat(v, 'g', -1, 64), s.t.Kind())
		}
		into.SetFloat(v)
		return nil
	case int64:
		return refuse("%d would be rounded: the field is a %s", v, s.t.Kind())
	}
	return s.unlike(v)
}

func readBytes(s *shape, v any, into reflect.Value) *ValueError {
	text, ok := v.(string)
	switch {
	case !ok:
		return s.unlike(v)
	case s.t.Kind() == reflect.String:
		into.SetString(text)
	default:
		into.SetBytes([]byte(text))
	}
	return nil
}

// text reads a value that reads itself. A reference is one of the system then.
func (r reader) text(s *shape, v any, into reflect.Value) *ValueError {
	text, ok := v.(string)
	if !ok {
		return s.unlike(v)
	}
	if err := into.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)); err != nil {
		return refuse("it is no %v: %s", s.t, err)
	}
	if ref, ok := reflect.TypeAssert[interface{ Bind(*actor.System) }](into.Addr()); ok {
		ref.Bind(r.sys)
	}
	return nil
}

func (r reader) table(s *shape, t *Table, into reflect.Value) *ValueError {
	switch s.form {
	case record:
		return r.record(s, t, into)
	case mapping:
		return r.mapping(s, t, into)
	default: // a list or an array
	}
	if len(t.Fields) > 0 {
		return refuse("it must be a list, and has the field %.100v", t.Fields[0].Key)
	}
	if s.form == array && len(t.List) != s.t.Len() {
		return refuse("it must be a list of %d values, not of %d", s.t.Len(), len(t.List))
	}
	if s.form == list {
		into.Set(reflect.MakeSlice(s.t, 0, min(len(t.List), maxHint)))
	}
	for i, v := range t.List {
		item := reflect.New(s.t.Elem()).Elem()
		if err := r.value(s.elem, v, item); err != nil {
			return err.within(i + 1)
		}
		if s.form == array {
			into.Index(i).Set(item)
		} else {
			into.Set(reflect.Append(into, item))
		}
	}
	return nil
}

func (r reader) record(s *shape, t *Table, into reflect.Value) *ValueError {
	if len(t.List) > 0 {
		return refuse("there is no field 1: %s", s.fieldNames())
	}
	given := make([]bool, len(s.fields))
	for _, f := range t.Fields {
		name, _ := f.Key.(string)
		i, ok := s.byName[name]
		if !ok {
			return refuse("there is no field %.100v: %s", f.Key, s.fieldNames())
		}
		given[i] = true
		if err := r.value(s.fields[i].shape, f.Value, into.FieldByIndex(s.fields[i].index)); err != nil {
			return err.within(name)
		}
	}
	for i, f := range s.fields {
		if !given[i] && !f.optional {
			return refuse("it must be given: %s", f.shape.wants()).within(f.name)
		}
	}
	return nil
}

// fieldNames says which fields there are.
func (s *shape) fieldNames() string {
	if len(s.fields) == 0 {
		return "it has none"
	}
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return "it has " + strings.Join(names, ", ")
}

// mapping reads a map. Keys that are integers may be texts, and are so in what scripts are given: a
// table whose keys are large integers is a list with holes to the interpreter.
func (r reader) mapping(s *shape, t *Table, into reflect.Value) *ValueError {
	into.Set(reflect.MakeMap(s.t))
	for i, v := range t.List {
		if v == nil {
			continue
		}
		if err := r.entry(s, float64(i+1), v, into); err != nil {
			return err.within(i + 1)
		}
	}
	for _, f := range t.Fields {
		if err := r.entry(s, f.Key, f.Value, into); err != nil {
			return err.within(f.Key)
		}
	}
	return nil
}

func (r reader) entry(s *shape, k, v any, into reflect.Value) *ValueError {
	key := reflect.New(s.t.Key()).Elem()
	if err := r.key(key, k); err != nil {
		return err
	}
	if into.MapIndex(key).IsValid() {
		return refuse("the key is there twice")
	}
	value := reflect.New(s.t.Elem()).Elem()
	if err := r.value(s.elem, v, value); err != nil {
		return err
	}
	into.SetMapIndex(key, value)
	return nil
}

func (r reader) key(into reflect.Value, k any) *ValueError {
	text, isText := k.(string)
	if into.Kind() == reflect.String {
		if !isText {
			return refuse("a key must be a string, not %s", goTypeName(k))
		}
		into.SetString(text)
		return nil
	}
	if isText {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return refuse("a key must be an integer, not %.100q", text)
		}
		k = n
	}
	s := shape{t: into.Type(), form: natural}
	if into.CanInt() {
		s.form = whole
	}
	return readInteger(&s, k, into)
}

// goValue packs a value of Go by its shape.
func (p *packer) goValue(s *shape, v reflect.Value, depth int) *ValueError {
	switch s.form {
	case truth:
		p.truth(v.Bool())
	case whole:
		p.integer(v.Int())
	case natural:
		return p.unsigned(v.Uint())
	case fraction:
		p.number(v.Float())
	case chars:
		if v.Kind() == reflect.Slice {
			return p.value(v.Bytes(), depth)
		}
		return p.value(v.String(), depth)
	case textual:
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			return refuse("%s", err)
		}
		return p.value(string(text), depth)
	case pointer:
		if v.IsNil() {
			p.buf = append(p.buf, tagNil)
			return nil
		}
		return p.goValue(s.elem, v.Elem(), depth)
	case anything:
		return p.value(v.Interface(), depth)
	default:
		return p.goShaped(s, v, depth)
	}
	return p.room(0)
}

// goShaped packs a value that is a table in a script.
func (p *packer) goShaped(s *shape, v reflect.Value, depth int) *ValueError {
	if depth == maxDepth {
		return refuse("tables are at most %d deep", maxDepth)
	}
	switch s.form {
	case list, array:
		p.table(v.Len(), 0)
		for i := range v.Len() {
			if err := p.goValue(s.elem, v.Index(i), depth+1); err != nil {
				return err.within(i + 1)
			}
		}
	case mapping:
		return p.goMap(s, v, depth)
	default:
		return p.goRecord(s, v, depth)
	}
	return p.room(0)
}

func (p *packer) goRecord(s *shape, v reflect.Value, depth int) *ValueError {
	fields := make([]reflect.Value, len(s.fields))
	n := 0
	for i, f := range s.fields {
		if field := v.FieldByIndex(f.index); !f.shape.isNil(field) {
			fields[i] = field
			n++
		}
	}
	p.table(0, n)
	for i, f := range s.fields {
		if !fields[i].IsValid() {
			continue
		}
		p.text(f.name)
		if err := p.goValue(f.shape, fields[i], depth+1); err != nil {
			return err.within(f.name)
		}
	}
	return p.room(0)
}

func (p *packer) goMap(s *shape, v reflect.Value, depth int) *ValueError {
	type entry struct {
		key string
		v   reflect.Value
	}
	entries := make([]entry, 0, v.Len())
	for k, value := range v.Seq2() {
		if s.elem.isNil(value) {
			continue
		}
		entries = append(entries, entry{fmt.Sprint(keyOf(k)), value})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	p.table(0, len(entries))
	for _, e := range entries {
		if err := p.room(len(e.key)); err != nil {
			return err
		}
		p.text(e.key)
		if err := p.goValue(s.elem, e.v, depth+1); err != nil {
			return err.within(e.key)
		}
	}
	return p.room(0)
}

// isNil reports whether a value is nil in a script. Slices and maps never are: without elements
// they are an empty table.
func (s *shape) isNil(v reflect.Value) bool {
	switch s.form {
	case pointer:
		return v.IsNil() || s.elem.isNil(v.Elem())
	case anything:
		return v.IsNil() || isNil(v.Interface())
	default:
		return false
	}
}

// keyOf returns a key without the methods of its type.
func keyOf(k reflect.Value) any {
	switch {
	case k.CanInt():
		return k.Int()
	case k.CanUint():
		return k.Uint()
	}
	return k.String()
}
