package entity

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind tells what a [Value] is. The numbers are part of the stored format:
// they never change their meaning.
type Kind uint8

// The kinds of a value. The zero Kind is none of them: it marks the zero
// Value, which is no value at all.
const (
	KindFloat  Kind = 1 // a float64, never NaN and never infinite
	KindInt    Kind = 2 // an int64
	KindBool   Kind = 3 // true or false
	KindString Kind = 4 // UTF-8 text
	KindJSON   Kind = 5 // a JSON object or array, as text without insignificant white space
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
	default:
		return "none"
	}
}

// Value is one measured value: a number, a bool, a text or a piece of JSON.
//
// A Value is immutable and may be copied and shared between goroutines. The
// zero Value is no value: its Kind is 0, it encodes as null, and [Runtime.Ingest]
// refuses it.
type Value struct {
	text string // KindString and KindJSON
	bits uint64 // KindFloat: the IEEE bits; KindInt: the integer; KindBool: 0 or 1
	kind Kind
}

// Float returns the value of a float64. NaN and the infinities have no place in
// JSON or in an aggregate; [Runtime.Ingest] refuses them.
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

// JSON returns the value of a JSON object or array, keeping nothing of raw. What
// is neither, or is nested deeper than MaxDepth, or is larger than MaxTextBytes,
// gives the zero Value.
func JSON(raw []byte) Value {
	p := parser{s: string(raw)}
	if c := p.peek(); (c != '{' && c != '[') || !utf8.ValidString(p.s) {
		return Value{}
	}
	v, err := p.readJSON()
	if p.peek(); err != nil || p.i < len(p.s) {
		return Value{}
	}
	return v
}

// jsonText is JSON for text that is known to be valid and without white space.
func jsonText(raw string) Value { return Value{kind: KindJSON, text: raw} }

// Kind returns the kind of the value, 0 for the zero Value.
func (v Value) Kind() Kind { return v.kind }

// Number returns the value as a float64 and whether it is a number, that is of
// KindFloat or KindInt. An integer beyond 2^53 loses its last digits.
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

// Int returns the int64 of a KindInt value and 0 for any other.
func (v Value) Int() int64 {
	if v.kind != KindInt {
		return 0
	}
	return int64(v.bits)
}

// Bool returns the bool of a KindBool value and false for any other.
func (v Value) Bool() bool { return v.kind == KindBool && v.bits == 1 }

// Text returns the text of a KindString value, the JSON of a KindJSON value,
// and "" for any other.
func (v Value) Text() string { return v.text }

// Clone returns the value with a text of its own: that of a value which was parsed is
// part of the payload, and keeps all of it in memory.
func (v Value) Clone() Value {
	v.text = strings.Clone(v.text)
	return v
}

// Equal reports whether two values have the same kind and content. Floats are
// compared by their bits, so that -0 differs from 0.
func (v Value) Equal(w Value) bool { return v == w }

// AppendJSON appends the value as JSON to dst. A float is written with the
// fewest digits that read back as the same float64, so 21.0 appears as 21. The
// zero Value appears as null, and so does a float that JSON cannot express.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case KindFloat:
		return appendFloat(dst, math.Float64frombits(v.bits))
	case KindInt:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case KindBool:
		return strconv.AppendBool(dst, v.bits == 1)
	case KindString:
		return appendQuoted(dst, v.text)
	case KindJSON:
		return append(dst, v.text...)
	default:
		return append(dst, "null"...)
	}
}

// MarshalJSON implements [encoding/json.Marshaler] with [Value.AppendJSON].
func (v Value) MarshalJSON() ([]byte, error) { return v.AppendJSON(nil), nil }

// String returns the value as JSON, for messages and logs.
func (v Value) String() string { return string(v.AppendJSON(nil)) }

// appendFloat writes a float the way encoding/json does: plain digits where they
// stay short, an exponent beyond.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if f == 0 && math.Signbit(f) {
		return append(dst, "-0.0"...) // -0 would read back as the integer 0
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

const hexDigits = "0123456789abcdef"

// appendQuoted writes a JSON string. U+2028 and U+2029 are escaped because
// JavaScript once took them for line ends; what is not UTF-8 becomes U+FFFD.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&0xf])
		default:
			i += size
			continue
		}
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}
