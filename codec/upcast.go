package codec

import (
	"fmt"
	"reflect"
)

// Was says that a type had another name, with the same shape.
func Was(name string) Option { return Option{name: name} }

// From says that what is written under an old name has the shape Old, of which upcast makes
// today's value. Old need not be registered; it should be kept in the code as it was.
// upcast must depend on its argument alone. An error of it makes the bytes unreadable.
func From[Old, New any](name string, upcast func(Old) (New, error)) Option {
	s, err := shapeOf(func(v Old) ([]any, error) {
		today, err := upcast(v)
		if err != nil {
			return nil, err
		}
		return []any{today}, nil
	})
	if err != nil {
		panic("codec: " + err.Error())
	}
	return Option{name: name, shape: &s, result: reflect.TypeFor[New]()}
}

// Split says that what is written under an old name has the shape Old and has become
// several values today, in this order, or none. Their types must be registered. Otherwise
// it is [From].
func Split[Old any](name string, upcast func(Old) ([]any, error)) Registration {
	return Registration{func(ts *Types) error {
		s, err := shapeOf(upcast)
		if err != nil {
			return err
		}
		return ts.add(name, reflect.TypeFor[Old](), s)
	}}
}

// shapeOf returns the shape of an old type.
func shapeOf[Old any](upcast func(Old) ([]any, error)) (shape, error) {
	form, err := formOf[Old]()
	if err != nil {
		return shape{}, fmt.Errorf("old %w", err)
	}
	return shape{form: form, upcast: func(v any) ([]any, error) { return upcast(v.(Old)) }}, nil
}
