package series

import (
	"cmp"
	"math"
	"strconv"
)

// Number is an int64 or a float64. It is immutable; the zero Number is none, for
// an answer that there is not.
type Number struct {
	bits uint64
	kind uint8
}

const (
	kindInt   = 1
	kindFloat = 2
)

// Int returns the number of an int64.
func Int(i int64) Number { return Number{bits: uint64(i), kind: kindInt} }

// Float returns the number of a float64. What is not finite has no place in a
// series, and gives the zero Number.
func Float(f float64) Number {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return Number{}
	}
	return Number{bits: math.Float64bits(f), kind: kindFloat}
}

// IsZero reports whether it is the zero Number, none. 0 is a number.
func (n Number) IsZero() bool { return n.kind == 0 }

// IsInt reports whether it is an int64.
func (n Number) IsInt() bool { return n.kind == kindInt }

// Int returns the int64, and 0 for a float64 and for none.
func (n Number) Int() int64 {
	if n.kind != kindInt {
		return 0
	}
	return int64(n.bits)
}

// Float returns the number as a float64, an int64 rounded to the nearest one,
// and NaN for none.
func (n Number) Float() float64 {
	switch n.kind {
	case kindInt:
		return float64(int64(n.bits))
	case kindFloat:
		return math.Float64frombits(n.bits)
	default:
		return math.NaN()
	}
}

// Compare returns -1, 0 or 1 as n is less than, equal to or greater than m, by
// what they are worth: an int64 and a float64 are compared exactly. None is less
// than all others.
func (n Number) Compare(m Number) int {
	switch {
	case n.kind == 0 || m.kind == 0:
		return cmp.Compare(min(n.kind, 1), min(m.kind, 1))
	case n.kind == kindInt && m.kind == kindInt:
		return cmp.Compare(int64(n.bits), int64(m.bits))
	case n.kind == kindFloat && m.kind == kindFloat:
		return compareFloats(n.Float(), m.Float())
	case n.kind == kindInt:
		return compareMixed(int64(n.bits), m.Float())
	default:
		return -compareMixed(int64(m.bits), n.Float())
	}
}

// compareFloats has -0 and 0 equal, as arithmetic does.
func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

func compareMixed(i int64, f float64) int {
	const edge = 1 << 63 // the first float64 that no int64 reaches
	switch {
	case f >= edge:
		return -1
	case f < -edge:
		return 1
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c
	}
	return compareFloats(whole, f)
}

// AppendJSON appends the number as JSON to dst, null for none. A float64 has the
// fewest digits that read back as the same one.
func (n Number) AppendJSON(dst []byte) []byte {
	switch n.kind {
	case kindInt:
		return strconv.AppendInt(dst, int64(n.bits), 10)
	case kindFloat:
		f := math.Float64frombits(n.bits)
		format := byte('f')
		if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
			format = 'e'
		}
		return strconv.AppendFloat(dst, f, format, -1, 64)
	default:
		return append(dst, "null"...)
	}
}

// MarshalJSON implements [encoding/json.Marshaler] with [Number.AppendJSON].
func (n Number) MarshalJSON() ([]byte, error) { return n.AppendJSON(nil), nil }

// String returns the number as JSON.
func (n Number) String() string { return string(n.AppendJSON(nil)) }

// Point is one number at one time.
type Point struct {
	TS    int64 // milliseconds since the epoch
	Value Number
}
