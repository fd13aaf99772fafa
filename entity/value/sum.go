package value

import (
	"math"
	"math/bits"
)

// Sum is an exact sum of numbers, from which numbers can be taken away again and
// which does not depend on their order.
//
// A running float sum drifts: each addition rounds, and what an addition has
// rounded off a subtraction does not bring back. Compensated sums drift less, but
// still depend on the order. Here nothing is rounded: the sum is a fixed-point
// number as wide as the range of a float64, from 2^-1074 to beyond 2^1024, in
// pieces of 32 bits with a signed 64-bit accumulator each (the small
// superaccumulator of R. Neal, "Fast exact summation using small and large
// superaccumulators", 2015). An addition touches three pieces; carries wait until
// an accumulator could overflow. Only the result is rounded, once, to the nearest
// float64. Of the pieces a sum keeps those that its numbers have touched: numbers
// of one magnitude take some 40 bytes.
//
// The zero Sum is empty. A Sum is used by one goroutine at a time and must not be
// copied once it has numbers.
type Sum struct {
	pieces  []int64 // of floats
	base    int     // the place of the first of pieces
	pending int     // additions since the carries were passed on
	floats  int     // how many floats are in it
	beyond  bool    // it was read from an encoding that had lost its digits
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
	pieceBits  = 32
	pieceMask  = 1<<pieceBits - 1
)

// Add adds a number. Other values change nothing.
func (s *Sum) Add(v Value) { s.change(v, 1) }

// AddRaw adds numbers of one kind, given as their bits: see [Value.Raw]. Values of other kinds
// change nothing. There must be less than 2^30.
func (s *Sum) AddRaw(kind Kind, bits []uint64) {
	switch kind {
	case KindInt:
		for _, b := range bits {
			s.addInt(int64(b), 1)
		}
	case KindFloat:
		s.addFloats(nil, bits)
	default: // no numbers
	}
}

// AddKinds adds numbers among values of several kinds, each given as its kind and its bits: see
// [Value.Raw]. Values of other kinds change nothing. There must be less than 2^30.
func (s *Sum) AddKinds(kinds []Kind, bits []uint64) {
	for i, kind := range kinds {
		if kind == KindInt {
			s.addInt(int64(bits[i]), 1)
		}
	}
	s.addFloats(kinds, bits)
}

// addFloats adds the floats among values; all are floats where kinds is nil. Numbers of one
// magnitude touch the same three pieces, which are added to in registers meanwhile.
func (s *Sum) addFloats(kinds []Kind, bits []uint64) {
	place, n := -1, 0
	var p0, p1, p2 int64
	for i, b := range bits {
		if kinds != nil && kinds[i] != KindFloat {
			continue
		}
		n++
		exponent, mantissa := int(b>>52)&0x7ff, b&(1<<52-1)
		if exponent > 0 {
			mantissa |= 1 << 52
			exponent--
		}
		if at := exponent / pieceBits; at != place {
			s.addPieces(place, p0, p1, p2)
			place, p0, p1, p2 = at, 0, 0, 0
		}
		shift := uint(exponent % pieceBits)
		low := mantissa << shift
		sign := int64(b) >> 63 // -1 or 0: x^sign - sign is -x or x
		p0 += int64(low&pieceMask) ^ sign - sign
		p1 += int64(low>>pieceBits) ^ sign - sign
		p2 += int64(mantissa>>(64-shift)) ^ sign - sign
	}
	s.addPieces(place, p0, p1, p2)
	s.floats += n
	if s.pending += n; s.pending >= sumPending {
		s.carry()
	}
}

// addPieces adds to the three pieces from a place on; to none if it is negative.
func (s *Sum) addPieces(place int, p0, p1, p2 int64) {
	if place < 0 {
		return
	}
	if place < s.base || place+3 > s.base+len(s.pieces) {
		s.grow(place, place+3)
	}
	p := s.pieces[place-s.base:][:3]
	p[0] += p0
	p[1] += p1
	p[2] += p2
}

// Remove takes a number away that was added.
func (s *Sum) Remove(v Value) { s.change(v, -1) }

func (s *Sum) change(v Value, sign int64) {
	switch v.kind {
	case KindInt:
		s.addInt(int64(v.bits), sign)
	case KindFloat:
		s.floats += int(sign)
		s.addFloat(math.Float64frombits(v.bits), sign)
	default: // no number
	}
}

// AddUint adds an integer that may be too large for an int64: the difference of
// two.
func (s *Sum) AddUint(u uint64) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, u, 0)
	s.high += int64(carry)
}

func (s *Sum) addInt(i, sign int64) {
	var carry uint64
	if sign > 0 {
		s.low, carry = bits.Add64(s.low, uint64(i), 0)
		s.high += i>>63 + int64(carry)
	} else {
		s.low, carry = bits.Sub64(s.low, uint64(i), 0)
		s.high -= i>>63 + int64(carry)
	}
}

func (s *Sum) addFloat(f float64, sign int64) {
	b := math.Float64bits(f)
	sign *= 1 - 2*int64(b>>63)
	exponent, mantissa := int(b>>52)&0x7ff, b&(1<<52-1)
	if exponent > 0 {
		mantissa |= 1 << 52
		exponent--
	}
	at, shift := exponent/pieceBits-s.base, uint(exponent%pieceBits)
	if at < 0 || at+3 > len(s.pieces) {
		s.grow(at+s.base, at+s.base+3)
		at = exponent/pieceBits - s.base
	}
	low := mantissa << shift
	p := s.pieces[at : at+3]
	p[0] += sign * int64(low&pieceMask)
	p[1] += sign * int64(low>>pieceBits)
	p[2] += sign * int64(mantissa>>(64-shift)) // nothing for a shift of 0
	if s.pending++; s.pending >= sumPending {
		s.carry()
	}
}

// grow makes room for the pieces from a place up to another.
func (s *Sum) grow(from, to int) {
	if len(s.pieces) == 0 {
		s.base = from
	}
	end := max(to, s.base+len(s.pieces))
	if from >= s.base {
		for s.base+len(s.pieces) < end {
			s.pieces = append(s.pieces, 0)
		}
		return
	}
	pieces := make([]int64, end-from)
	copy(pieces[s.base-from:], s.pieces)
	s.pieces, s.base = pieces, from
}

// carry brings all pieces but the very last into [0, 2^32).
func (s *Sum) carry() {
	s.pending = 0
	for i := 0; i < len(s.pieces) && s.base+i < sumPieces-1; i++ {
		over := s.pieces[i] >> pieceBits
		if over == 0 {
			continue
		}
		if i+1 == len(s.pieces) {
			s.pieces = append(s.pieces, 0)
		}
		s.pieces[i+1] += over
		s.pieces[i] &= pieceMask
	}
}

// Merge adds the numbers of another sum.
func (s *Sum) Merge(o *Sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, o.low, 0)
	s.high += o.high + int64(carry)
	s.floats += o.floats
	s.beyond = s.beyond || o.beyond
	if len(o.pieces) == 0 {
		return
	}
	s.grow(o.base, o.base+len(o.pieces))
	for i, p := range o.pieces {
		s.pieces[o.base+i-s.base] += p
	}
	if s.pending += o.pending + 1; s.pending >= sumPending {
		s.carry()
	}
}

// Reset makes the sum an empty one that keeps its memory.
func (s *Sum) Reset() {
	clear(s.pieces)
	*s = Sum{pieces: s.pieces, base: s.base}
}

// Value returns the sum: an int64 where all numbers are integers and it fits, else
// the nearest float64. It reports false where the sum is beyond what a float64
// holds.
func (s *Sum) Value() (Value, bool) {
	if s.floats == 0 && !s.beyond && s.high == int64(s.low)>>63 {
		return Int(int64(s.low)), true
	}
	f := s.Float()
	return Float(f), !math.IsInf(f, 0)
}

// Float returns the sum as the nearest float64, an infinity where that is beyond
// what one holds.
func (s *Sum) Float() float64 {
	if s.beyond {
		return math.Inf(1)
	}
	var w wide
	w.set(s)
	return w.float()
}

// wide is a sum with all of its pieces.
type wide [sumPieces]int64

// unit is the place of the bit that is worth 1.
const unit = 1074

// set makes w the sum of all numbers.
func (w *wide) set(s *Sum) {
	copy(w[min(s.base, sumPieces):], s.pieces)
	from, to := s.base, s.base+len(s.pieces)
	if s.high != 0 || s.low != 0 {
		for i, piece := range [...]int64{int64(s.low & pieceMask), int64(s.low >> pieceBits), s.high & pieceMask, s.high >> pieceBits} {
			bit := unit + pieceBits*i
			at, shift := bit/pieceBits, uint(bit%pieceBits)
			w[at] += (piece << shift) & pieceMask
			w[at+1] += piece >> (pieceBits - shift)
		}
		from, to = min(from, unit/pieceBits), max(to, unit/pieceBits+5)
	}
	w.carry(from, to)
}

// carry brings all pieces but the very last into [0, 2^32). Those from a place up to
// another may be outside.
func (w *wide) carry(from, to int) {
	for i := from; i < sumPieces-1 && (i < to || w[i] != 0); i++ {
		w[i+1] += w[i] >> pieceBits
		w[i] &= pieceMask
	}
}

// float returns the nearest float64.
func (w *wide) float() float64 {
	if w[sumPieces-1] >= 0 {
		return w.round()
	}
	w.negate()
	return -w.round()
}

func (w *wide) negate() {
	for i := range w {
		w[i] = -w[i]
	}
	w.carry(0, sumPieces)
}

// highest returns the place of the highest bit that is set, -1 for none. REQUIRES:
// the number is not negative.
func (w *wide) highest() int {
	for i := sumPieces - 1; i >= 0; i-- {
		if w[i] != 0 {
			return pieceBits*i + bits.Len64(uint64(w[i])) - 1
		}
	}
	return -1
}

// round rounds a number that is not negative to the nearest float64, and among
// equals to the even one.
func (w *wide) round() float64 {
	place := w.highest()
	if place < 53 {
		return math.Float64frombits(uint64(w[0]) + uint64(w[1])<<pieceBits) // exact
	}
	drop := place - 52 // bits below the mantissa
	mantissa := w.window(drop)
	half := w.window(drop-1)&1 == 1
	if half && (mantissa&1 == 1 || w.anyBelow(drop-1)) {
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
func (w *wide) window(place int) uint64 {
	at, shift := place/pieceBits, uint(place%pieceBits)
	v := uint64(w[at]) >> shift
	for i := 1; i <= 2 && at+i < sumPieces; i++ {
		v |= uint64(w[at+i]) << (pieceBits*uint(i) - shift)
	}
	return v
}

// anyBelow reports whether any bit below a place is set.
func (w *wide) anyBelow(place int) bool {
	at, shift := place/pieceBits, uint(place%pieceBits)
	for i := range at {
		if w[i] != 0 {
			return true
		}
	}
	return uint64(w[at])&(1<<shift-1) != 0
}

// Parts is a sum in a form for an encoding: the integers in 128 bits, and floats
// from small to large that together are the sum of the floats without rounding.
type Parts struct {
	High   int64
	Low    uint64
	Floats []float64
	// Floated says that a float was added, so that the sum is one.
	Floated bool
	// Beyond says that the sum is beyond what a float64 holds, and that Floats has
	// lost its digits.
	Beyond bool
}

// Parts returns the parts of the sum.
func (s *Sum) Parts() Parts {
	p := Parts{High: s.high, Low: s.low, Floated: s.floats > 0, Beyond: s.beyond}
	if len(s.pieces) == 0 || s.beyond {
		return p
	}
	var w wide
	w.set(&Sum{pieces: s.pieces, base: s.base})
	sign := 1.0
	if w[sumPieces-1] < 0 {
		w.negate()
		sign = -1
	}
	for {
		place := w.highest()
		if place < 0 {
			break
		}
		if place-52 >= 0x7fe {
			return Parts{High: s.high, Low: s.low, Floated: true, Beyond: true}
		}
		p.Floats = append(p.Floats, sign*w.take(max(place-52, 0)))
	}
	for i, j := 0, len(p.Floats)-1; i < j; i, j = i+1, j-1 {
		p.Floats[i], p.Floats[j] = p.Floats[j], p.Floats[i]
	}
	return p
}

// take returns the worth of the bits from a place upward, 53 at most, and clears
// them.
func (w *wide) take(from int) float64 {
	mantissa := w.window(from)
	at, shift := from/pieceBits, uint(from%pieceBits)
	w[at] &= 1<<shift - 1
	clear(w[at+1:])
	if mantissa < 1<<52 {
		return math.Float64frombits(mantissa) // subnormal
	}
	return math.Float64frombits(uint64(from+1)<<52 | mantissa&(1<<52-1))
}

// SumOf returns the sum of these parts.
func SumOf(p Parts) Sum {
	s := Sum{high: p.High, low: p.Low, beyond: p.Beyond}
	if p.Floated {
		s.floats = 1
	}
	for _, f := range p.Floats {
		s.addFloat(f, 1)
	}
	return s
}
