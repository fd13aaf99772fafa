package sqlite

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

const hourMS = 3_600_000

// column is what SQLite stores for a value, beside its kind.
func column(v entity.Value) any {
	switch v.Kind() {
	case entity.KindFloat:
		return v.Float()
	case entity.KindInt:
		return v.Int()
	case entity.KindBool:
		if v.Bool() {
			return int64(1)
		}
		return int64(0)
	default:
		return v.Text()
	}
}

// valueOf is the reverse.
func valueOf(kind int64, col any) (entity.Value, error) {
	k := entity.Kind(kind)
	switch x := col.(type) {
	case float64:
		if k == entity.KindFloat {
			return entity.Float(x), nil
		}
	case int64:
		if k == entity.KindInt {
			return entity.Int(x), nil
		}
		if k == entity.KindBool {
			return entity.Bool(x != 0), nil
		}
	case string:
		if k == entity.KindString {
			return entity.String(x), nil
		}
		if k == entity.KindJSON {
			return entity.JSON([]byte(x)), nil
		}
	}
	return entity.Value{}, fmt.Errorf("stored value of kind %d is a %T: the database is damaged", kind, col)
}
