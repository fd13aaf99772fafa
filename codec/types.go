package codec

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/greenroom-go/greenroom/actor"
)

// MaxNameBytes is the length of the longest name of a type.
const MaxNameBytes = 128

var (
	// ErrUnknownType is returned for a value whose type is not registered.
	ErrUnknownType = errors.New("type is not registered")
	// ErrUnknownName is returned for a name that no type has or had.
	ErrUnknownName = errors.New("name is not registered")
	// ErrSplit is returned by [Types.Decode] for bytes that do not stand for exactly one value.
	ErrSplit = errors.New("not one value")
)

// Types knows the registered types. Make one with [NewTypes]: the zero value knows none. It does
// not change and is safe for concurrent use.
type Types struct {
	written map[reflect.Type]written
	read    map[string]shape
	dropped map[string][]string // by name: see Dropped

	sentinels []sentinel
	plain     *sync.Map     // of what is known of a type that is not registered, a valueType; by type
	strict    bool          // see Strict
	sys       *actor.System // see Bind; nil: none
}

// written is how the values of a registered type are written.
type written struct {
	name string
	form form
}

// shape says how the bytes under a name are read, and what is made of them.
type shape struct {
	form   form
	upcast func(v any) ([]any, error) // nil where it is today's shape
}

// Registration is a part of a [Types]. [Of], [Split] and [Sentinel] return one.
type Registration struct{ register func(ts *Types) error }

// Option is an option of [Of].
type Option struct {
	name    string
	shape   *shape       // nil: that of the type itself
	result  reflect.Type // of shape
	dropped []string
}

// NewTypes returns a Types with the given registrations. It panics if a name or a type is
// given twice, or if a type cannot be encoded and decoded without loss.
func NewTypes(registrations ...Registration) *Types {
	ts := &Types{written: map[reflect.Type]written{}, read: map[string]shape{}, dropped: map[string][]string{}, plain: new(sync.Map)}
	for _, r := range registrations {
		if err := r.register(ts); err != nil {
			panic("codec: " + err.Error())
		}
	}
	return ts
}

// With returns a Types that has these registrations as well. It panics as [NewTypes] does.
func (ts *Types) With(registrations ...Registration) *Types {
	more := *ts
	more.written, more.read, more.dropped = maps.Clone(ts.written), maps.Clone(ts.read), maps.Clone(ts.dropped)
	more.sentinels = slices.Clone(ts.sentinels)
	more.plain = new(sync.Map)
	for _, r := range registrations {
		if err := r.register(&more); err != nil {
			panic("codec: " + err.Error())
		}
	}
	return &more
}

// Of registers T under a name of 1 to [MaxNameBytes] bytes of visible ASCII, which must not change
// as long as bytes with it exist. For a T that is a [proto.Message], "" stands for the full name of
// the message. For an interface, register each of its concrete types.
func Of[T any](name string, options ...Option) Registration {
	return Registration{func(ts *Types) error {
		t := reflect.TypeFor[T]()
		form, err := formOf[T]()
		if err != nil {
			return err
		}
		name := name // a Registration may be used again
		if name == "" {
			name = protoName[T]()
		}
		if had, ok := ts.written[t]; ok {
			return fmt.Errorf("type %v is registered twice, as %q and as %q", t, had.name, name)
		}
		if err := ts.add(name, t, shape{form: form}); err != nil {
			return err
		}
		ts.written[t] = written{name, form}
		for _, o := range options {
			if err := ts.apply(o, t, name); err != nil {
				return err
			}
		}
		return nil
	}}
}

// apply does what an option of the type t says, which is written under name.
func (ts *Types) apply(o Option, t reflect.Type, name string) error {
	switch {
	case o.dropped != nil:
		ts.dropped[name] = append(ts.dropped[name], o.dropped...)
		return nil
	case o.shape == nil:
		return ts.add(o.name, t, ts.read[name])
	case o.result != t:
		return fmt.Errorf("type %v: the upcast from %q makes %v", t, o.name, o.result)
	}
	return ts.add(o.name, t, *o.shape)
}

// protoName returns the full name of the message T, or "" if T is none.
func protoName[T any]() string {
	var v T
	if m, ok := any(v).(proto.Message); ok {
		return string(m.ProtoReflect().Descriptor().FullName())
	}
	return ""
}

func (ts *Types) add(name string, t reflect.Type, s shape) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("type %v: %w", t, err)
	}
	if _, ok := ts.read[name]; ok {
		return fmt.Errorf("type %v: name %q is registered twice", t, name)
	}
	ts.read[name] = s
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("name must have 1 to %d bytes, not %d", MaxNameBytes, len(name))
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' {
			return fmt.Errorf("name must be visible ASCII, not %q", name)
		}
	}
	return nil
}

// Name returns the name of the type of v, and whether it is registered.
func (ts *Types) Name(v any) (name string, ok bool) {
	w, ok := ts.written[reflect.TypeOf(v)]
	return w.name, ok
}

// TypeOf returns the type that is written under a name, and whether there is one. It does not know
// the names of [Types.OldNames].
func (ts *Types) TypeOf(name string) (t reflect.Type, ok bool) {
	for t, w := range ts.written {
		if w.name == name {
			return t, true
		}
	}
	return nil, false
}

// Refers reports whether values of the registered type of v may contain references to actors. Those
// are neither written nor read without a system, see [Types.Bind].
func (ts *Types) Refers(v any) bool {
	return ts.written[reflect.TypeOf(v)].form.plan.hasRefs()
}

// Names returns the names under which values are written, sorted.
func (ts *Types) Names() []string {
	names := make([]string, 0, len(ts.written))
	for _, w := range ts.written {
		names = append(names, w.name)
	}
	slices.Sort(names)
	return names
}

// OldNames returns the names that are only read, sorted: those of [Was], [From] and [Split].
func (ts *Types) OldNames() []string {
	old := maps.Clone(ts.read)
	for _, w := range ts.written {
		delete(old, w.name)
	}
	return slices.Sorted(maps.Keys(old))
}

// Append appends the bytes of v to dst and returns them with the name of its type. The error wraps
// [ErrUnknownType] if the type is not registered. A panic in a method of v is returned as an error,
// too. On an error dst is returned as it was.
func (ts *Types) Append(dst []byte, v any) (name string, data []byte, err error) {
	w, ok := ts.written[reflect.TypeOf(v)]
	if !ok {
		return "", dst, fmt.Errorf("codec: encode: %w: %T", ErrUnknownType, v)
	}
	data, err = guard(func() ([]byte, error) {
		if w.form.plan.hasRefs() && ts.sys == nil {
			return nil, errUnbound
		}
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.IsNil() {
			return nil, errNil
		}
		return w.form.append(dst, v)
	})
	if err != nil {
		return "", dst, fmt.Errorf("codec: encode %q: %w", w.name, err)
	}
	return w.name, data, nil
}

// Decode returns the value for which the bytes under a name stand today. It keeps no part of data.
// The error wraps [ErrUnknownName] if there is no such name, and [ErrSplit] if the bytes are of a
// [Split] and do not stand for exactly one value.
func (ts *Types) Decode(name string, data []byte) (any, error) {
	var one [1]any
	values, err := ts.AppendDecoded(one[:0], name, data)
	switch {
	case err != nil:
		return nil, err
	case len(values) != 1:
		return nil, fmt.Errorf("codec: decode %q: %w: it has become %d", name, ErrSplit, len(values))
	}
	return values[0], nil
}

// AppendDecoded appends the values for which the bytes under a name stand today: one, or as many as
// a [Split] makes of them. It keeps no part of data. The error wraps [ErrUnknownName] if there is
// no such name. A panic in a method or an upcast is returned as an error, too. On an error dst is
// returned as it was.
func (ts *Types) AppendDecoded(dst []any, name string, data []byte) ([]any, error) {
	s, v, err := ts.decodeShape(name, data)
	if err != nil {
		return dst, err
	}
	if s.upcast == nil {
		return append(dst, v), nil
	}
	values, err := guard(func() ([]any, error) { return s.upcast(v) })
	if err != nil {
		return dst, fmt.Errorf("codec: upcast %q: %w", name, err)
	}
	for i, v := range values {
		if _, ok := ts.Name(v); !ok {
			return dst, fmt.Errorf("codec: upcast %q: value %d: %w: %T", name, i, ErrUnknownType, v)
		}
	}
	return append(dst, values...), nil
}

// decodeShape returns the shape that a name stands for, and what the bytes are in it.
func (ts *Types) decodeShape(name string, data []byte) (s shape, v any, err error) {
	s, ok := ts.read[name]
	if !ok {
		return s, nil, fmt.Errorf("codec: decode %q: %w", name, ErrUnknownName)
	}
	if v, err = guard(func() (any, error) { return s.form.decode(ts, data) }); err != nil {
		return s, nil, fmt.Errorf("codec: decode %q: %w", name, err)
	}
	return s, v, nil
}

// guard calls the user's code and returns a panic as an error, so that a record that cannot be read
// affects only its reader.
func guard[T any](f func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
