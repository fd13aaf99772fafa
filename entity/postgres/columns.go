package postgres

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// columns is a value in a row, in one of four columns. See steps.
type columns struct {
	number pgtype.Float8
	whole  pgtype.Int8
	text   pgtype.Text
	json   pgtype.Text
}

func columnsOf(v value.Value) (c columns) {
	switch v.Kind() {
	case value.KindFloat:
		c.number = pgtype.Float8{Float64: v.Float(), Valid: true}
	case value.KindInt:
		c.whole = pgtype.Int8{Int64: v.Int(), Valid: true}
	case value.KindString:
		if strings.IndexByte(v.Text(), 0) < 0 {
			c.text = pgtype.Text{String: v.Text(), Valid: true}
			break
		}
		c.json = pgtype.Text{String: string(v.AppendJSON(nil)), Valid: true}
	case value.KindJSON:
		c.json = pgtype.Text{String: v.Text(), Valid: true}
	case value.KindBool:
		c.json = pgtype.Text{String: "false", Valid: true}
		if v.Bool() {
			c.json.String = "true"
		}
	default: // the zero Value, which the runtime refuses
	}
	return c
}

// value is the inverse of columnsOf.
func (c *columns) value() (value.Value, error) {
	switch {
	case c.number.Valid:
		return value.Float(c.number.Float64), nil
	case c.whole.Valid:
		return value.Int(c.whole.Int64), nil
	case c.text.Valid:
		return value.String(c.text.String), nil
	case c.json.Valid:
		if v, ok := fromJSON(c.json.String); ok {
			return v, nil
		}
	}
	return value.Value{}, fmt.Errorf("a value in the database is damaged: %+.40v", *c)
}

func fromJSON(text string) (value.Value, bool) {
	switch {
	case text == "true" || text == "false":
		return value.Bool(text == "true"), true
	case strings.HasPrefix(text, `"`):
		var s string
		err := json.Unmarshal([]byte(text), &s)
		return value.String(s), err == nil
	default:
		v := entity.ParseJSON([]byte(text))
		return v, v.Kind() == value.KindJSON
	}
}

// columnArrays holds the columns of many rows, for unnest.
type columnArrays struct {
	number []pgtype.Float8
	whole  []pgtype.Int8
	text   []pgtype.Text
	json   []pgtype.Text
}

func newColumnArrays(n int) columnArrays {
	return columnArrays{make([]pgtype.Float8, 0, n), make([]pgtype.Int8, 0, n), make([]pgtype.Text, 0, n), make([]pgtype.Text, 0, n)}
}

func (a *columnArrays) add(c columns) {
	a.number, a.whole = append(a.number, c.number), append(a.whole, c.whole)
	a.text, a.json = append(a.text, c.text), append(a.json, c.json)
}

// packOrigin returns the column origin: nil, which is NULL, for a device.
func packOrigin(o entity.Origin) []byte {
	if o.IsZero() {
		return nil
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(o.Source)), o.Seq), o.Source...)
}

func unpackOrigin(data []byte) (entity.Origin, error) {
	switch {
	case data == nil:
		return entity.Origin{}, nil
	case len(data) < 9:
		return entity.Origin{}, fmt.Errorf("an origin in the database is damaged: %d bytes", len(data))
	}
	return entity.Origin{Source: string(data[8:]), Seq: binary.BigEndian.Uint64(data)}, nil
}
