package lua

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/greenroom-go/greenroom/actor"
)

// shape is what has to be known of a type of Go to make tables of its values, and values of tables.
// It is made once, when the runtime is opened, and does not change.
type shape struct {
	t      reflect.Type
	form   form
	elem   *shape // of a pointer, a slice, an array, a map
	fields []field
	byName map[string]int // of the fields
}

// form is what a value is in a script.
type form uint8

const (
	truth    form = iota // a boolean
	whole                // an integer: a number, or an int64 beyond 2⁵³
	natural              // an integer without a sign
	fraction             // a number
	chars                // a string; also for []byte
	textual              // a string, by the methods of encoding
	list                 // a table with a list; for slices
	array                // that, with a fixed length
	mapping              // a table with fields
	record               // a table with the fields of a struct
	pointer              // nil or what it points to
	anything             // an any
)

// field is one of a struct.
type field struct {
	name     string
	index    []int
	shape    *shape
	optional bool
}

var (
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// shapes are those of types that refer to each other.
type shapes map[reflect.Type]*shape

// of returns the shape of a type, or why scripts cannot have its values.
func (ss shapes) of(t reflect.Type) (*shape, error) {
	if known := ss[t]; known != nil {
		return known, nil
	}
	s := &shape{t: t}
	ss[t] = s
	if err := ss.fill(s); err != nil {
		delete(ss, t)
		return nil, err
	}
	return s, nil
}

func (ss shapes) fill(s *shape) (err error) {
	t := s.t
	if t.Kind() != reflect.Pointer && t.Implements(textMarshaler) && reflect.PointerTo(t).Implements(textUnmarshaler) {
		s.form = textual
		return nil
	}
	switch t.Kind() {
	case reflect.Bool:
		s.form = truth
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		s.form = whole
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		s.form = natural
	case reflect.Float32, reflect.Float64:
		s.form = fraction
	case reflect.String:
		s.form = chars
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fmt.Errorf("a %v cannot be made of a table: which type it has is not known", t)
		}
		s.form = anything
	case reflect.Pointer:
		s.form = pointer
		s.elem, err = ss.of(t.Elem())
	case reflect.Slice, reflect.Array, reflect.Map:
		return ss.fillElements(s)
	case reflect.Struct:
		s.form = record
		s.byName = map[string]int{}
		return ss.fillFields(s, t, nil)
	default:
		return fmt.Errorf("a %v is nothing that a script can have", t)
	}
	return err
}

func (ss shapes) fillElements(s *shape) (err error) {
	t := s.t
	switch {
	case t.Kind() == reflect.Array:
		s.form = array
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		s.form = chars
		return nil
	case t.Kind() == reflect.Slice:
		s.form = list
	default:
		s.form = mapping
		key, err := ss.of(t.Key())
		if err != nil {
			return err
		}
		if !key.isKey() {
			return fmt.Errorf("a %v has keys that are neither texts nor integers", t)
		}
	}
	s.elem, err = ss.of(t.Elem())
	return err
}

// isKey reports whether values of the shape can be the keys of a map.
func (s *shape) isKey() bool {
	return s.t.Kind() == reflect.String || s.form == whole || s.form == natural
}

// fillFields adds the fields of a struct, those of embedded structs as its own.
func (ss shapes) fillFields(s *shape, t reflect.Type, index []int) error {
	for f := range t.Fields() {
		at := slices.Concat(index, f.Index)
		name, optional := fieldName(f)
		switch {
		case name == "-":
			continue
		case f.Anonymous && f.Type.Kind() == reflect.Struct && name == "":
			if err := ss.fillFields(s, f.Type, at); err != nil {
				return err
			}
			continue
		case !f.IsExported():
			return fmt.Errorf(`the field %s of %v is not exported: export it, or give it the tag lua:"-"`, f.Name, t)
		case name == "":
			name = snakeCase(f.Name)
		}
		if _, taken := s.byName[name]; taken {
			return fmt.Errorf("%v has two fields with the name %s", s.t, name)
		}
		inner, err := ss.of(f.Type)
		if err != nil {
			return fmt.Errorf("the field %s of %v: %w", f.Name, t, err)
		}
		s.byName[name] = len(s.fields)
		s.fields = append(s.fields, field{name, at, inner, optional || inner.optional()})
	}
	return nil
}

// optional reports whether a field of the shape may be absent: then it is nil in Go.
func (s *shape) optional() bool {
	switch s.t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	default:
		return false
	}
}

// fieldName returns the name that a tag gives a field, "" if none does, and "-" if the field is
// left out; and whether it may be absent.
func fieldName(f reflect.StructField) (name string, optional bool) {
	for _, key := range []string{"lua", "cbor", "json"} {
		tag, ok := f.Tag.Lookup(key)
		if !ok {
			continue
		}
		tagged, options, _ := strings.Cut(tag, ",")
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "optional", "omitempty", "omitzero":
				optional = true
			case "keyasint":
				tagged = ""
			}
		}
		if name = tagged; name != "" {
			return name, optional
		}
	}
	return "", optional
}

// snakeCase returns the name of a field of Go in lower case: OrderID is order_id.
func snakeCase(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		if unicode.IsUpper(r) && i > 0 {
			after := !unicode.IsUpper(letters[i-1])
			before := i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if (after || before) && letters[i-1] != '_' {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// isRequest returns the name of the answer's type of a request, "" for another type of message: the parameter of the
// [actor.Returns] that it embeds.
func isRequest(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return ""
	}
	of := reflect.TypeFor[actor.Returns[int]]()
	for f := range t.Fields() {
		inner, ok := strings.CutPrefix(f.Type.Name(), "Returns[")
		if f.Anonymous && ok && f.Type.PkgPath() == of.PkgPath() {
			return strings.TrimSuffix(inner, "]")
		}
	}
	return ""
}
