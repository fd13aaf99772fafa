package script

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/lua"
)

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// members calls f with the members of a table, in the order in which they were added. It fails if a
// key is not a string.
func members(t *lua.Table, f func(key string, v any) error) error {
	if len(t.List) > 0 {
		return errors.New("the table must have names as keys, not 1, 2, 3")
	}
	for _, m := range t.Fields {
		key, ok := m.Key.(string)
		if !ok {
			return fmt.Errorf("the table must have names as keys, not %v", m.Key)
		}
		if err := f(key, m.Value); err != nil {
			return err
		}
	}
	return nil
}

// fromScript converts a value of a script to one of an entity. Whole numbers become integers.
func fromScript(v any) (value.Value, error) {
	switch v := v.(type) {
	case bool:
		return value.Bool(v), nil
	case int64:
		return value.Int(v), nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) <= 1<<53 {
			return value.Int(int64(v)), nil
		}
		return value.Float(v), nil
	case string:
		return value.String(v), nil
	case *lua.Table:
		text, err := appendJSON(nil, v, false)
		return value.JSON(string(text)), err
	default:
		return value.Value{}, fmt.Errorf("must be a number, a string, a boolean or a table, not %T", v)
	}
}

// appendJSON appends a value of a script as JSON: lists as arrays, other tables as objects. An
// empty table is an array, or an object if object is set.
func appendJSON(dst []byte, v any, object bool) ([]byte, error) {
	t, ok := v.(*lua.Table)
	if !ok {
		if v == nil {
			return append(dst, "null"...), nil
		}
		x, err := fromScript(v)
		if err != nil {
			return dst, err
		}
		if x.Kind() == value.KindFloat && (math.IsNaN(x.Float()) || math.IsInf(x.Float(), 0)) {
			return dst, fmt.Errorf("%v cannot be expressed in JSON", x.Float())
		}
		return x.AppendJSON(dst), nil
	}
	var err error
	if len(t.Fields) == 0 && (len(t.List) > 0 || !object) {
		dst = append(dst, '[')
		for i, x := range t.List {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, x, true); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
	dst = append(dst, '{')
	first := true
	err = members(t, func(key string, x any) error {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(value.AppendQuoted(dst, key), ':')
		dst, err = appendJSON(dst, x, true)
		return err
	})
	return append(dst, '}'), err
}
