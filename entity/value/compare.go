package value

import (
	"cmp"
	"math"
	"strings"
)

// Order is the order of two values, as one bit, so that a set of orders is a number too.
type Order uint8

// The orders.
const (
	Less    Order = 1 << iota // the first is less
	Equal                     // they are equal in value
	Greater                   // the first is greater
	Apart                     // they differ and are in no order: of different kinds, or bools
)

// Reverse returns the order of the two values the other way round.
func (o Order) Reverse() Order {
	switch o {
	case Less:
		return Greater
	case Greater:
		return Less
	default:
		return o
	}
}

// Compare returns the order of a and b. Numbers are compared by value, an int64 with a float64
// exactly. Strings are ordered by their code points. An instant is compared with a number as its
// milliseconds since the epoch, and with a string that is a date or a time. Bools and JSON values
// are Equal or Apart, JSON by its text. Everything else is Apart, and so is a NaN from everything.
func Compare(a, b Value) Order {
	if a.kind == b.kind {
		return compareSame(a, b)
	}
	switch {
	case a.kind == KindInt && b.kind == KindFloat:
		return compareMixed(int64(a.bits), b.Float())
	case a.kind == KindFloat && b.kind == KindInt:
		return compareMixed(int64(b.bits), a.Float()).Reverse()
	case b.kind == KindTime:
		return compareTime(a, int64(b.bits))
	case a.kind == KindTime:
		return compareTime(b, int64(a.bits)).Reverse()
	default:
		return Apart
	}
}

// CompareNumbers returns -1, 0 or 1 as a is less than, equal to or greater than b by value. The
// zero Value is less than all numbers. REQUIRES: both are numbers other than NaN, or the zero
// Value.
func CompareNumbers(a, b Value) int {
	if a.kind == 0 || b.kind == 0 {
		return cmp.Compare(min(a.kind, 1), min(b.kind, 1))
	}
	switch Compare(a, b) {
	case Less:
		return -1
	case Greater:
		return 1
	default:
		return 0
	}
}

func compareSame(a, b Value) Order {
	switch a.kind {
	case KindInt, KindTime, KindDuration:
		return ordered(cmp.Compare(int64(a.bits), int64(b.bits)))
	case KindFloat:
		return compareFloats(a.Float(), b.Float())
	case KindString:
		return ordered(strings.Compare(a.text, b.text))
	default:
		if a == b {
			return Equal
		}
		return Apart
	}
}

func ordered(c int) Order {
	switch {
	case c < 0:
		return Less
	case c > 0:
		return Greater
	default:
		return Equal
	}
}

func compareFloats(a, b float64) Order {
	switch {
	case a < b:
		return Less
	case a > b:
		return Greater
	case a == b:
		return Equal
	default:
		return Apart // a NaN
	}
}

// compareMixed compares without turning the integer into a float64, which would
// make 2^53+1 the same as 2^53.
func compareMixed(i int64, f float64) Order {
	const edge = 1 << 63 // the first float64 that no int64 reaches
	switch {
	case math.IsNaN(f):
		return Apart
	case f >= edge:
		return Less
	case f < -edge:
		return Greater
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return ordered(c)
	}
	return compareFloats(whole, f)
}

// compareTime compares a value that is no instant with an instant.
func compareTime(v Value, ms int64) Order {
	switch v.kind {
	case KindInt:
		return ordered(cmp.Compare(int64(v.bits), ms))
	case KindFloat:
		return compareMixed(ms, v.Float()).Reverse()
	case KindString:
		if t, rest, ok := ScanTime(v.text); ok && rest == "" {
			return ordered(cmp.Compare(t, ms))
		}
		return Apart
	default:
		return Apart
	}
}
