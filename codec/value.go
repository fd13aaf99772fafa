package codec

import (
	"errors"
	"fmt"
	"reflect"
)

// Sentinel registers an error under a name, so that [errors.Is] finds it in the error that another
// program makes of it, see [Types.SentinelName]. The name has the form of a type's name.
// Registering an error or a name twice panics.
func Sentinel(name string, err error) Registration {
	return Registration{func(ts *Types) error {
		if err == nil {
			return fmt.Errorf("sentinel %q: the error is nil", name)
		}
		if problem := checkName(name); problem != nil {
			return fmt.Errorf("sentinel %q: %w", err.Error(), problem)
		}
		for _, s := range ts.sentinels {
			if s.name == name || s.err == err { //nolint:errorlint // one that wraps it is another one
				return fmt.Errorf("sentinel %q, with the error %q, is registered twice", name, err.Error())
			}
		}
		ts.sentinels = append(ts.sentinels, sentinel{name, err})
		return nil
	}}
}

type sentinel struct {
	name string
	err  error
}

// SentinelName returns the name of the first registered sentinel that err is or wraps, or "" if
// there is none.
func (ts *Types) SentinelName(err error) string {
	for _, s := range ts.sentinels {
		if errors.Is(err, s.err) {
			return s.name
		}
	}
	return ""
}

// SentinelOf returns the error that is registered under a name, or nil if there is none.
func (ts *Types) SentinelOf(name string) error {
	for _, s := range ts.sentinels {
		if s.name == name {
			return s.err
		}
	}
	return nil
}

// AppendValue appends a value for [Types.DecodeValue]: under the name of its type if that is
// registered, and otherwise as CBOR, which needs no name if both ends know the type. The error
// wraps [ErrUnknownType] if CBOR could not reproduce the value. On an error dst is returned as it
// was.
func (ts *Types) AppendValue(dst []byte, v any) ([]byte, error) {
	if name, ok := ts.Name(v); ok {
		_, data, err := ts.Append(append(append(dst, byte(len(name))), name...), v)
		if err != nil {
			return dst, err
		}
		return data, nil
	}
	if v != nil {
		t := ts.valueType(reflect.TypeOf(v))
		if t.err == nil && t.plan.hasRefs() && ts.sys == nil {
			t.err = errUnbound
		}
		if t.err != nil {
			return dst, fmt.Errorf("codec: encode: %w: %T: %w", ErrUnknownType, v, t.err)
		}
	}
	data, err := guard(func() ([]byte, error) { return appendPlain(append(dst, 0), v) })
	if err != nil {
		return dst, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	return data, nil
}

// DecodeValue reads what [Types.AppendValue] has written into the variable to which into points. It
// keeps no part of data. The error wraps [ErrUnknownName] if there is no such name, and
// [ErrUnknownType] if the value is not of the type to which into points.
func (ts *Types) DecodeValue(data []byte, into any) error {
	target := reflect.ValueOf(into).Elem()
	if len(data) == 0 || len(data) <= int(data[0]) {
		return fmt.Errorf("codec: decode: a value has at least %d bytes, not %d", 2, len(data))
	}
	name, data := string(data[1:1+data[0]]), data[1+data[0]:]
	if name == "" {
		return ts.decodePlain(data, target)
	}
	v, err := ts.Decode(name, data)
	if err != nil {
		return err
	}
	if !reflect.TypeOf(v).AssignableTo(target.Type()) {
		return fmt.Errorf("codec: decode %q: %w: it is a %T and not a %v", name, ErrUnknownType, v, target.Type())
	}
	target.Set(reflect.ValueOf(v))
	return nil
}

// decodePlain reads a value without a name.
func (ts *Types) decodePlain(data []byte, target reflect.Value) error {
	if len(data) == 1 && data[0] == cborNull && (target.Kind() == reflect.Interface || target.Kind() == reflect.Pointer) {
		target.SetZero()
		return nil
	}
	t := ts.valueType(target.Type())
	if t.err != nil {
		return fmt.Errorf("codec: decode: %w: %v: %w", ErrUnknownType, target.Type(), t.err)
	}
	if _, err := guard(func() (struct{}, error) {
		return struct{}{}, ts.unmarshal(data, target.Addr().Interface(), t.plan)
	}); err != nil {
		return fmt.Errorf("codec: decode %v: %w", target.Type(), err)
	}
	return nil
}

// cborNull is nil in CBOR.
const cborNull = 0xf6

// valueType is what is known of a type that is not registered.
type valueType struct {
	plan *plan
	err  error // why CBOR would not give it back
}

// valueType returns what is known of a type, and remembers it.
func (ts *Types) valueType(t reflect.Type) valueType {
	if known, ok := ts.plain.Load(t); ok {
		return known.(valueType)
	}
	known := valueType{err: checkPlain(t)}
	if known.err == nil {
		known.plan = planOf(t)
	}
	ts.plain.Store(t, known)
	return known
}
