package filter

import (
	"cmp"
	"math"
	"strings"
)

// Kind tells what a [Value] is.
type Kind uint8

// The kinds of a value. The zero Kind is that of the zero Value, which is none.
const (
	KindBool     Kind = iota + 1
	KindInt           // an int64
	KindFloat         // a float64
	KindString        // UTF-8 text
	KindTime          // an instant, in milliseconds since the epoch
	KindDuration      // a span of time, in milliseconds
	KindJSON          // an array or an object, as text without insignificant white space
)

// String returns what the kind is called in messages.
func (k Kind) String() string {
	switch k {
	case KindBool:
		return "bool"
	case KindInt:
		return "integer"
	case KindFloat:
		return "number"
	case KindString:
		return "string"
	case KindTime:
		return "time"
	case KindDuration:
		return "duration"
	case KindJSON:
		return "JSON"
	default:
		return "none"
	}
}

func (k Kind) withArticle() string {
	if k == KindInt {
		return "an " + k.String()
	}
	return "a " + k.String()
}

// Value is what a [View] finds at a path, and what a literal in a filter stands
// for. It is immutable, may be copied and shared between goroutines, and making
// one allocates nothing. The zero Value is no value.
type Value struct {
	text string // KindString, KindJSON
	bits uint64 // the others
	kind Kind
}

// Bool returns the value of a bool.
func Bool(b bool) Value {
	v := Value{kind: KindBool}
	if b {
		v.bits = 1
	}
	return v
}

// Int returns the value of an int64.
func Int(i int64) Value { return Value{kind: KindInt, bits: uint64(i)} }

// Float returns the value of a float64. A NaN equals nothing and is in no order
// with anything.
func Float(f float64) Value { return Value{kind: KindFloat, bits: math.Float64bits(f)} }

// String returns the value of a text.
func String(s string) Value { return Value{kind: KindString, text: s} }

// Time returns the value of an instant, given in milliseconds since the epoch.
func Time(ms int64) Value { return Value{kind: KindTime, bits: uint64(ms)} }

// Duration returns the value of a span of time, given in milliseconds.
func Duration(ms int64) Value { return Value{kind: KindDuration, bits: uint64(ms)} }

// JSON returns the value of an array or an object, given as JSON without
// insignificant white space. For an object that is known to exist but whose text
// is not at hand "{}" will do: objects can only be tested for existence, and for
// being the same text as another.
func JSON(text string) Value { return Value{kind: KindJSON, text: text} }

// Kind returns the kind of the value, 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Bool returns the bool of a KindBool value and false for any other.
func (v Value) Bool() bool { return v.kind == KindBool && v.bits == 1 }

// Int returns the integer of a KindInt value, the milliseconds of a KindTime and
// a KindDuration value, and 0 for any other.
func (v Value) Int() int64 {
	switch v.kind {
	case KindInt, KindTime, KindDuration:
		return int64(v.bits)
	default:
		return 0
	}
}

// Float returns the number of a KindFloat value and 0 for any other.
func (v Value) Float() float64 {
	if v.kind != KindFloat {
		return 0
	}
	return math.Float64frombits(v.bits)
}

// Text returns the text of a KindString or KindJSON value and "" for any other.
func (v Value) Text() string { return v.text }

// String returns the value as a filter would have it as a literal, and JSON as
// it is.
func (v Value) String() string {
	if v.kind == KindJSON {
		return v.text
	}
	return string(appendLiteral(nil, v))
}

// relation is how two values stand to each other, as one bit.
type relation uint8

const (
	less    relation = 1 << iota
	equal            // the same
	greater          // the first is greater
	apart            // different, and in no order: of different kinds, or bools
)

// relate tells how a stands to b. Numbers are compared by what they are worth,
// an int64 with a float64 exactly. An instant is compared with a number as its
// milliseconds since the epoch, and with a string that is a date or a time. All
// else is apart.
func relate(a, b Value) relation {
	if a.kind == b.kind {
		return relateSame(a, b)
	}
	switch {
	case a.kind == KindInt && b.kind == KindFloat:
		return relateNumbers(int64(a.bits), b.Float())
	case a.kind == KindFloat && b.kind == KindInt:
		return relateNumbers(int64(b.bits), a.Float()).turned()
	case b.kind == KindTime:
		return relateTime(a, int64(b.bits))
	case a.kind == KindTime:
		return relateTime(b, int64(a.bits)).turned()
	default:
		return apart
	}
}

func relateSame(a, b Value) relation {
	switch a.kind {
	case KindInt, KindTime, KindDuration:
		return ordered(cmp.Compare(int64(a.bits), int64(b.bits)))
	case KindFloat:
		return relateFloats(a.Float(), b.Float())
	case KindString:
		return ordered(strings.Compare(a.text, b.text))
	default:
		if a == b {
			return equal
		}
		return apart
	}
}

func ordered(c int) relation {
	switch {
	case c < 0:
		return less
	case c > 0:
		return greater
	default:
		return equal
	}
}

func relateFloats(a, b float64) relation {
	switch {
	case a < b:
		return less
	case a > b:
		return greater
	case a == b:
		return equal
	default:
		return apart // a NaN
	}
}

// relateNumbers compares without turning the integer into a float64, which
// would make 2^53+1 the same as 2^53.
func relateNumbers(i int64, f float64) relation {
	const edge = 1 << 63 // the first float64 that no int64 reaches
	switch {
	case math.IsNaN(f):
		return apart
	case f >= edge:
		return less
	case f < -edge:
		return greater
	}
	whole := math.Trunc(f)
	if r := ordered(cmp.Compare(i, int64(whole))); r != equal {
		return r
	}
	return relateFloats(whole, f)
}

// relateTime compares a value that is no instant with an instant.
func relateTime(v Value, ms int64) relation {
	switch v.kind {
	case KindInt:
		return ordered(cmp.Compare(int64(v.bits), ms))
	case KindFloat:
		return relateNumbers(ms, v.Float()).turned()
	case KindString:
		if t, rest, ok := scanTime(v.text); ok && rest == "" {
			return ordered(cmp.Compare(t, ms))
		}
		return apart
	default:
		return apart
	}
}

// turned is the relation with its sides changed.
func (r relation) turned() relation {
	switch r {
	case less:
		return greater
	case greater:
		return less
	default:
		return r
	}
}
