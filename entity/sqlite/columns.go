package sqlite

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

const hourMS = 3_600_000

// column returns the form in which SQLite stores a value, besides its kind.
func column(v value.Value) any {
	switch v.Kind() {
	case value.KindFloat:
		return v.Float()
	case value.KindInt:
		return v.Int()
	case value.KindBool:
		if v.Bool() {
			return int64(1)
		}
		return int64(0)
	default:
		return v.Text()
	}
}

// valueOf is the inverse of column.
func valueOf(kind int64, col any) (value.Value, error) {
	k := value.Kind(kind)
	switch x := col.(type) {
	case float64:
		if k == value.KindFloat {
			return value.Float(x), nil
		}
	case int64:
		if k == value.KindInt {
			return value.Int(x), nil
		}
		if k == value.KindBool {
			return value.Bool(x != 0), nil
		}
	case string:
		if k == value.KindString {
			return value.String(x), nil
		}
		if k == value.KindJSON {
			return entity.ParseJSON([]byte(x)), nil
		}
	}
	return value.Value{}, fmt.Errorf("stored value of kind %d is a %T: the database is damaged", kind, col)
}
