package mapping

import (
	"math"
	"math/bits"

	"github.com/greenroom-go/greenroom/entity/value"
)

// exactSum is a sum of numbers from which numbers can be taken away again, and
// which does not depend on their order.
//
// A running float sum drifts: each addition rounds, and what an addition has
// rounded off a subtraction does not bring back. Compensated sums drift less,
// but still depend on the order, and then live and recomputed values differ in
// their last bits. Here nothing is rounded: the sum is a fixed-point number as
// wide as the range of a float64, from 2^-1074 to beyond 2^1024, in pieces of 32
// bits with a signed 64-bit accumulator each (the small superaccumulator of R.
// Neal, "Fast exact summation using small and large superaccumulators", 2015).
// An addition touches three pieces; carries wait until an accumulator could
// overflow. Only the result is rounded, once, to the nearest float64.
//
// The zero value is an empty sum.
type exactSum struct {
	wide     *[sumPieces]int64 // of floats; nil while there were none
	from, to int               // the pieces that were ever touched, to excluded
	pending  int               // additions since the carries were passed on
	floats   int               // how many floats are in it
	// Integers are summed in 128 bits of their own, so that a sum of integers is
	// one.
	high int64
	low  uint64
}

const (
	// sumPieces covers the 2098 bits of a float64's range and 46 more, so that
	// 2^40 numbers of any size fit.
	sumPieces = 67
	// sumPending bounds the additions between carries: each adds less than 2^32
	// to an accumulator of 63 bits.
	sumPending = 1 << 30
	pieceMask  = 1<<32 - 1
)

// add puts a number in, and remove takes it out. Other values are ignored.
func (s *exactSum) add(v value.Value)    { s.change(v, 1) }
func (s *exactSum) remove(v value.Value) { s.change(v, -1) }

func (s *exactSum) change(v value.Value, sign int64) {
	switch v.Kind() {
	case value.KindInt:
		s.addInt(v.Int(), sign)
	case value.KindFloat:
		s.floats += int(sign)
		s.addFloat(v.Float(), sign)
	default: // no number
	}
}

func (s *exactSum) addInt(i, sign int64) {
	var carry uint64
	if sign > 0 {
		s.low, carry = bits.Add64(s.low, uint64(i), 0)
		s.high += i>>63 + int64(carry)
	} else {
		s.low, carry = bits.Sub64(s.low, uint64(i), 0)
		s.high -= i>>63 + int64(carry)
	}
}

func (s *exactSum) addFloat(f float64, sign int64) {
	if s.wide == nil {
		s.wide, s.from = new([sumPieces]int64), sumPieces
	}
	if math.Signbit(f) {
		sign = -sign
	}
	b := math.Float64bits(f)
	exponent, mantissa := int(b>>52)&0x7ff, b&(1<<52-1)
	if exponent > 0 {
		mantissa |= 1 << 52
		exponent--
	}
	at, shift := exponent/32, uint(exponent%32)
	low := mantissa << shift
	s.wide[at] += sign * int64(low&pieceMask)
	s.wide[at+1] += sign * int64(low>>32)
	s.wide[at+2] += sign * int64(mantissa>>(64-shift)) // nothing for a shift of 0
	s.from, s.to = min(s.from, at), max(s.to, at+3)
	if s.pending++; s.pending >= sumPending {
		s.to = carry(s.wide, s.from, s.to)
		s.pending = 0
	}
}

// carry brings the pieces, but the very last, into [0, 2^32). Those from a place
// up to another may be outside. It returns the end of those that are not 0.
func carry(wide *[sumPieces]int64, from, to int) int {
	for i := from; i < sumPieces-1 && (i < to || wide[i] != 0); i++ {
		wide[i+1] += wide[i] >> 32
		wide[i] &= pieceMask
		to = max(to, i+1)
	}
	if wide[sumPieces-1] != 0 {
		return sumPieces
	}
	return to
}

// value returns the sum: an integer when all numbers are integers and it fits,
// otherwise a float, the nearest to the exact sum. It reports false when the
// sum is beyond what a float64 holds.
func (s *exactSum) value() (value.Value, bool) {
	if s.floats == 0 && s.high == int64(s.low)>>63 {
		return value.Int(int64(s.low)), true
	}
	f := s.float()
	return value.Float(f), !math.IsInf(f, 0)
}

// float returns the sum as the nearest float64.
func (s *exactSum) float() float64 {
	var wide [sumPieces]int64
	from, to := s.from, s.to
	if s.wide == nil {
		from = sumPieces
	} else {
		copy(wide[from:to], s.wide[from:to])
	}
	const one = 1074 // the place of 2^0
	if s.high != 0 || s.low != 0 {
		for i, piece := range [...]int64{int64(s.low & pieceMask), int64(s.low >> 32), s.high & pieceMask, s.high >> 32} {
			bit := one + 32*i
			at, shift := bit/32, uint(bit%32)
			wide[at] += (piece << shift) & pieceMask
			wide[at+1] += piece >> (32 - shift)
		}
		from, to = min(from, one/32), max(to, one/32+5)
	}
	to = carry(&wide, from, to)
	if wide[sumPieces-1] >= 0 {
		return toFloat(&wide, to)
	}
	for i := range wide {
		wide[i] = -wide[i]
	}
	return -toFloat(&wide, carry(&wide, from, sumPieces))
}

// toFloat rounds a number that is not negative, to the nearest and among equals
// to the even one. Beyond to all pieces are 0.
func toFloat(wide *[sumPieces]int64, to int) float64 {
	top := max(to-1, 0)
	for top > 0 && wide[top] == 0 {
		top--
	}
	place := 32*top + bits.Len64(uint64(wide[top])) - 1 // of the highest bit
	if place < 53 {
		return math.Float64frombits(uint64(wide[0]) + uint64(wide[1])<<32) // exact
	}
	drop := place - 52 // bits below the mantissa
	mantissa := window(wide, drop)
	half := window(wide, drop-1)&1 == 1
	if half && (mantissa&1 == 1 || rest(wide, drop-1)) {
		if mantissa++; mantissa == 1<<53 {
			mantissa >>= 1
			drop++
		}
	}
	if drop+1 >= 0x7ff {
		return math.Inf(1)
	}
	return math.Float64frombits(uint64(drop+1)<<52 | mantissa&(1<<52-1))
}

// window returns the bits from a place upward, 64 of them at most.
func window(wide *[sumPieces]int64, place int) uint64 {
	at, shift := place/32, uint(place%32)
	v := uint64(wide[at]) >> shift
	for i := 1; i <= 2 && at+i < sumPieces; i++ {
		v |= uint64(wide[at+i]) << (32*uint(i) - shift)
	}
	return v
}

// rest reports whether any bit below a place is set.
func rest(wide *[sumPieces]int64, place int) bool {
	at, shift := place/32, uint(place%32)
	for i := range at {
		if wide[i] != 0 {
			return true
		}
	}
	return uint64(wide[at])&(1<<shift-1) != 0
}
