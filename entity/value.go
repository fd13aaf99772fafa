package entity

import (
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// These names are those of package value. They are here until the last user has
// gone over to it.

// Kind is [value.Kind].
//
//go:fix inline
type Kind = value.Kind

// The kinds of package value.
const (
	//go:fix inline
	KindFloat = value.KindFloat
	//go:fix inline
	KindInt = value.KindInt
	//go:fix inline
	KindBool = value.KindBool
	//go:fix inline
	KindString = value.KindString
	//go:fix inline
	KindJSON = value.KindJSON
)

// Value is [value.Value].
//
//go:fix inline
type Value = value.Value

// Float is [value.Float].
//
//go:fix inline
func Float(f float64) value.Value { return value.Float(f) }

// Int is [value.Int].
//
//go:fix inline
func Int(i int64) value.Value { return value.Int(i) }

// Bool is [value.Bool].
//
//go:fix inline
func Bool(b bool) value.Value { return value.Bool(b) }

// String is [value.String].
//
//go:fix inline
func String(s string) value.Value { return value.String(s) }

// JSON is [ParseJSON].
//
//go:fix inline
func JSON(raw []byte) value.Value { return ParseJSON(raw) }

// ParseJSON returns the value of a JSON object or array, keeping nothing of raw. What
// is neither, or is nested deeper than MaxDepth, or is larger than MaxTextBytes,
// gives the zero Value.
func ParseJSON(raw []byte) value.Value {
	p := parser{s: string(raw)}
	if c := p.peek(); (c != '{' && c != '[') || !utf8.ValidString(p.s) {
		return value.Value{}
	}
	v, err := p.readJSON()
	if p.peek(); err != nil || p.i < len(p.s) {
		return value.Value{}
	}
	return v
}
