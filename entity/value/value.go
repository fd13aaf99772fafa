package value

import (
	"math"
	"strings"
)

// Kind says what a [Value] is. The numbers up to KindJSON are part of the stored
// format and never change their meaning.
type Kind uint8

// The kinds of a value. The zero Kind is that of the zero Value, which is no
// value at all.
const (
	KindFloat  Kind = 1 // a float64
	KindInt    Kind = 2 // an int64
	KindBool   Kind = 3 // true or false
	KindString Kind = 4 // UTF-8 text
	KindJSON   Kind = 5 // a JSON object or array, as text without insignificant white space

	// Instants and spans of time occur in filters only: nothing measures or
	// stores one.
	KindTime     Kind = 6 // an instant, in milliseconds since the epoch
	KindDuration Kind = 7 // a span of time, in milliseconds
)

// String returns the name of the kind in lower case, for messages and labels.
func (k Kind) String() string {
	switch k {
	case KindFloat:
		return "float"
	case KindInt:
		return "int"
	case KindBool:
		return "bool"
	case KindString:
		return "string"
	case KindJSON:
		return "json"
	case KindTime:
		return "time"
	case KindDuration:
		return "duration"
	default:
		return "none"
	}
}

// Value is a number, a bool, a text or a piece of JSON. It is immutable, may be copied and shared
// between goroutines, and can be compared with ==, by which -0 differs from 0 and 1 from 1.0;
// [Compare] compares numbers by value. The zero Value is no value: its Kind is 0, and it encodes as
// null.
type Value struct {
	text string // KindString and KindJSON
	bits uint64 // KindFloat: the IEEE bits; KindBool: 0 or 1; else the integer
	kind Kind
}

// Float returns the value of a float64. NaN and the infinities have no place in
// JSON or in a reading, where they are refused; in a comparison a NaN equals
// nothing and is in no order with anything.
func Float(f float64) Value { return Value{kind: KindFloat, bits: math.Float64bits(f)} }

// Int returns the value of an int64.
func Int(i int64) Value { return Value{kind: KindInt, bits: uint64(i)} }

// Bool returns the value of a bool.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.bits = 1
	}
	return v
}

// String returns the value of a text, which must be valid UTF-8.
func String(s string) Value { return Value{kind: KindString, text: s} }

// JSON returns the value of an object or an array, whose text must be valid JSON
// without insignificant white space. It is not checked.
func JSON(text string) Value { return Value{kind: KindJSON, text: text} }

// Time returns the value of an instant in milliseconds since the epoch.
func Time(ms int64) Value { return Value{kind: KindTime, bits: uint64(ms)} }

// Duration returns the value of a span of time in milliseconds.
func Duration(ms int64) Value { return Value{kind: KindDuration, bits: uint64(ms)} }

// Kind returns the kind of the value, 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// IsZero reports whether it is the zero Value, which is none. 0 is a value.
func (v Value) IsZero() bool { return v.kind == 0 }

// IsNumber reports whether the value is an int64 or a float64.
func (v Value) IsNumber() bool { return v.kind == KindFloat || v.kind == KindInt }

// Number returns the value as a float64 and whether it is a number. An integer
// beyond 2^53 is rounded to the nearest float64.
func (v Value) Number() (float64, bool) {
	switch v.kind {
	case KindFloat:
		return math.Float64frombits(v.bits), true
	case KindInt:
		return float64(int64(v.bits)), true
	default:
		return 0, false
	}
}

// Float returns the float64 of a KindFloat value and 0 for any other.
func (v Value) Float() float64 {
	if v.kind != KindFloat {
		return 0
	}
	return math.Float64frombits(v.bits)
}

// Int returns the integer of a KindInt value, the milliseconds of a KindTime or
// KindDuration value, and 0 for any other.
func (v Value) Int() int64 {
	switch v.kind {
	case KindInt, KindTime, KindDuration:
		return int64(v.bits)
	default:
		return 0
	}
}

// Bool returns the bool of a KindBool value and false for any other.
func (v Value) Bool() bool { return v.kind == KindBool && v.bits == 1 }

// Text returns the text of a KindString value, the JSON of a KindJSON value, and
// "" for any other.
func (v Value) Text() string { return v.text }

// Clone returns the value with a copy of its text: the text of a parsed value is
// part of its payload and keeps all of it in memory.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	return v
}

// MarshalJSON implements [encoding/json.Marshaler] with [Value.AppendJSON].
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// String returns the value as JSON, for messages and logs.
func (v Value) String() string { return string(v.AppendJSON(nil)) }

// Raw returns the parts of the value, for packing values more tightly. bits is the IEEE form of a
// float, 0 or 1 for a bool, and else the integer.
func (v Value) Raw() (kind Kind, bits uint64, text string) { return v.kind, v.bits, v.text }

// FromRaw returns the value with the parts that [Value.Raw] returned.
func FromRaw(kind Kind, bits uint64, text string) Value {
	return Value{kind: kind, bits: bits, text: text}
}
