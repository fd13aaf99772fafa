package codec

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// pair are two methods of which a type has both or none.
type pair struct {
	write, read         []reflect.Type // any of them
	writeName, readName string
}

var (
	binaryPair = pair{
		write:     []reflect.Type{reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.BinaryAppender]()},
		read:      []reflect.Type{reflect.TypeFor[encoding.BinaryUnmarshaler]()},
		writeName: "MarshalBinary", readName: "UnmarshalBinary",
	}
	// cbor takes a MarshalBinary in a field, and no AppendBinary alone.
	fieldPairs = []pair{
		{
			write:     []reflect.Type{reflect.TypeFor[cbor.Marshaler]()},
			read:      []reflect.Type{reflect.TypeFor[cbor.Unmarshaler]()},
			writeName: "MarshalCBOR", readName: "UnmarshalCBOR",
		},
		{
			write:     []reflect.Type{reflect.TypeFor[encoding.BinaryMarshaler]()},
			read:      []reflect.Type{reflect.TypeFor[encoding.BinaryUnmarshaler]()},
			writeName: "MarshalBinary", readName: "UnmarshalBinary",
		},
		{
			write:     []reflect.Type{reflect.TypeFor[encoding.TextMarshaler]()},
			read:      []reflect.Type{reflect.TypeFor[encoding.TextUnmarshaler]()},
			writeName: "MarshalText", readName: "UnmarshalText",
		},
	}
)

// checkPair reports whether t, or the pointer to it, has both methods. Having only one of them is
// an error, and so is having them from an embedded field: they would encode that field and leave
// out the rest.
func checkPair(t reflect.Type, p pair) (bool, error) {
	write, read := implementsAny(t, p.write), implementsAny(t, p.read)
	switch {
	case write && !read:
		return false, fmt.Errorf("has %s and no %s", p.writeName, p.readName)
	case read && !write:
		return false, fmt.Errorf("has %s and no %s", p.readName, p.writeName)
	case !write:
		return false, nil
	}
	if t.Kind() == reflect.Struct && t.NumField() > 1 {
		for f := range t.Fields() {
			if f.Anonymous && implementsAny(f.Type, p.write) {
				return false, fmt.Errorf("embeds %v, whose %s would encode it in place of the whole: give the field a name", f.Type, p.writeName)
			}
		}
	}
	return true, nil
}

// encodesItself reports whether methods of t encode it in place of its fields.
func encodesItself(t reflect.Type) bool {
	return slices.ContainsFunc(fieldPairs, func(p pair) bool { return implementsAny(t, p.write) })
}

func implementsAny(t reflect.Type, interfaces []reflect.Type) bool {
	for _, i := range interfaces {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}

// checkPlain returns an error if a part of t would not survive a round trip through CBOR.
func checkPlain(t reflect.Type) error {
	c := plainChecker{seen: map[reflect.Type]bool{}}
	if err := c.check(t); err != nil {
		if path := strings.TrimPrefix(c.path(), "."); path != "" {
			return fmt.Errorf("field %s %w", path, err)
		}
		return err
	}
	return nil
}

// plainChecker walks through a type. After an error, at is the path to it.
type plainChecker struct {
	seen map[reflect.Type]bool
	at   []string
}

func (c *plainChecker) path() string { return strings.Join(c.at, "") }

// enter checks a part of a type.
func (c *plainChecker) enter(part string, t reflect.Type) error {
	c.at = append(c.at, part)
	if err := c.check(t); err != nil {
		return err
	}
	c.at = c.at[:len(c.at)-1]
	return nil
}

func (c *plainChecker) check(t reflect.Type) error {
	if c.seen[t] || t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[big.Int]() {
		return nil
	}
	c.seen[t] = true
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		for _, p := range fieldPairs {
			if ok, err := checkPair(t, p); ok || err != nil {
				return err
			}
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Pointer {
			return errors.New("is a pointer to a pointer, of which nil is written once")
		}
		return c.check(t.Elem())
	case reflect.Slice, reflect.Array:
		return c.enter("[]", t.Elem())
	case reflect.Map:
		return c.checkMap(t)
	case reflect.Struct:
		return c.checkStruct(t)
	case reflect.Interface:
		return fmt.Errorf("is of the interface type %v, whose cases the bytes do not name", t)
	case reflect.Chan, reflect.Func, reflect.UnsafePointer, reflect.Uintptr, reflect.Complex64, reflect.Complex128, reflect.Invalid:
		return fmt.Errorf("is of kind %v, which cannot be encoded", t.Kind())
	default: // bools, numbers and strings
		return nil
	}
}

func (c *plainChecker) checkMap(t reflect.Type) error {
	switch k := t.Key(); k.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Array, reflect.Chan:
		return fmt.Errorf("has keys of type %v: they must be numbers, strings or bools", k)
	default: // its kind is checked as that of a field
	}
	if err := c.enter("[key]", t.Key()); err != nil {
		return err
	}
	return c.enter("[]", t.Elem())
}

func (c *plainChecker) checkStruct(t reflect.Type) error {
	keys := map[string]string{}
	for f := range t.Fields() {
		if leftOut(f) {
			continue
		}
		err := checkField(f)
		if err == nil {
			err = c.enter("."+f.Name, f.Type)
		} else {
			c.at = append(c.at, "."+f.Name)
		}
		if err != nil {
			return err
		}
		for _, key := range keysOf(f) {
			if other, ok := keys[key]; ok {
				return fmt.Errorf("has the fields %s and %s, which are both written as %q", other, f.Name, key)
			}
			keys[key] = f.Name
		}
	}
	return nil
}

// leftOut reports whether the author of a struct wants a field left out.
func leftOut(f reflect.StructField) bool { return f.Name == "_" || f.Tag.Get("cbor") == "-" }

// checkField returns an error if the field of a struct would be left out or not be read.
func checkField(f reflect.StructField) error {
	_, tagged := f.Tag.Lookup("cbor")
	switch {
	case f.Anonymous && f.Type.Kind() == reflect.Pointer:
		return errors.New("is an embedded pointer: give the field a name")
	case f.Anonymous && !tagged && encodesItself(f.Type):
		return errors.New("is embedded and has methods that encode it: give the field a name")
	case !f.IsExported() && (!f.Anonymous || f.Type.Kind() != reflect.Struct):
		return errors.New(`is not exported and would be left out: export it, or give it the tag cbor:"-"`)
	case f.Tag.Get("json") == "-" && !tagged:
		return errors.New(`has the tag json:"-" and would be left out: give it a cbor tag`)
	}
	return nil
}

// tagName returns the name that the tag of a field gives it, or "".
func tagName(f reflect.StructField) string {
	tag, tagged := f.Tag.Lookup("cbor")
	if !tagged {
		tag = f.Tag.Get("json")
	}
	name, _, _ := strings.Cut(tag, ",")
	return name
}

// isFlat reports whether the fields of an embedded struct are written as those of the outer one.
func isFlat(f reflect.StructField) bool {
	return f.Anonymous && f.Type.Kind() == reflect.Struct && tagName(f) == ""
}

// keysOf returns what a field is written as: its name, or the names of an embedded struct's fields.
func keysOf(f reflect.StructField) []string {
	if !isFlat(f) {
		return []string{cmp.Or(tagName(f), f.Name)}
	}
	var keys []string
	for inner := range f.Type.Fields() {
		if !leftOut(inner) {
			keys = append(keys, keysOf(inner)...)
		}
	}
	return keys
}
