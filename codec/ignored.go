package codec

import (
	"fmt"
	"math/big"
	"reflect"
	"slices"
)

// Dropped lists fields that a type no longer has, on purpose: [Types.Ignored] skips them. A field
// of a field is written with a dot, and a field of an element with brackets: "Address.Fax",
// "Items[].Color".
func Dropped(fields ...string) Option { return Option{dropped: append([]string{}, fields...)} }

// Ignored returns the fields in the bytes of a name that reading them loses today, because the
// shape has no field of that name, or one with another kind of value. It examines CBOR only;
// protobuf keeps what it does not know. It is for tests, see package codectest.
func (ts *Types) Ignored(name string, data []byte) ([]string, error) {
	s, v, err := ts.decodeShape(name, data)
	if err != nil {
		return nil, err
	}
	if !s.form.cbor {
		return nil, nil
	}
	again, err := guard(func() ([]byte, error) { return s.form.append(nil, v) })
	if err != nil {
		return nil, fmt.Errorf("codec: encode %q: %w", name, err)
	}
	var before, after any
	for _, tree := range []struct {
		data []byte
		into *any
	}{{data, &before}, {again, &after}} {
		if err := cborDecoder.Unmarshal(tree.data, tree.into); err != nil {
			return nil, fmt.Errorf("codec: decode %q: %w", name, err)
		}
	}
	fields := lost(nil, "", before, after)
	fields = slices.DeleteFunc(fields, func(f string) bool { return slices.Contains(ts.dropped[name], f) })
	slices.Sort(fields)
	return slices.Compact(fields), nil
}

// lost appends the paths of fields that are in before and not in after.
func lost(found []string, path string, before, after any) []string {
	switch b := before.(type) {
	case map[any]any:
		a, _ := after.(map[any]any)
		for key, value := range b {
			inner := fmt.Sprint(key)
			if path != "" {
				inner = path + "." + inner
			}
			if other, ok := a[key]; ok {
				found = lost(found, inner, value, other)
			} else if !isZero(value) {
				found = append(found, inner)
			}
		}
		return found
	case []any:
		a, ok := after.([]any)
		if !ok || len(a) != len(b) {
			return append(found, path)
		}
		for i := range b {
			found = lost(found, path+"[]", b[i], a[i])
		}
		return found
	}
	if !same(before, after) {
		found = append(found, path)
	}
	return found
}

// isZero reports whether a field that is absent has the value that v has.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []byte:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case map[any]any:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

// same reports whether two values of CBOR that have no parts are the same. A number that
// has become another kind of number is.
func same(a, b any) bool {
	x, y := number(a), number(b)
	if x != nil && y != nil {
		return x.Cmp(y) == 0
	}
	return reflect.DeepEqual(a, b)
}

// number returns a number as a fraction, or nil for what is none.
func number(v any) *big.Rat {
	switch v := v.(type) {
	case uint64:
		return new(big.Rat).SetInt(new(big.Int).SetUint64(v))
	case int64:
		return new(big.Rat).SetInt64(v)
	case float64:
		return new(big.Rat).SetFloat64(v) // nil if it is not finite
	}
	return nil
}
