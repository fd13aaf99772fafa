package codec

import (
	"fmt"
	"reflect"
)

// Was gives a type an earlier name, with the same shape.
func Was(name string) Option { return Option{name: name} }

// From says that values written under an old name have the shape Old, which upcast converts to
// today's value. Old need not be registered; keep it in the code as it was. upcast must depend on
// its argument alone. If it returns an error, the bytes cannot be read.
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

// Split says that values written under an old name have the shape Old and today stand for several
// values, in this order, or none. Their types must be registered. Otherwise it is like [From].
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
