package series

import (
	"math"
	"math/bits"
)

// total is an exact sum: of integers in 128 bits, of floats as a few floats that
// together are the sum without any rounding (Shewchuk, Adaptive Precision
// Floating-Point Arithmetic, 1997; the rounding at the end as in Python's fsum).
// So it does not matter in which order or in which groups numbers are added, and
// an answer made of rollups is the one made of the points. The zero total is 0.
type total struct {
	high     int64 // of the integers
	low      uint64
	partials []float64 // of the floats: none overlaps another, from small to large
	floats   bool      // whether there was a float
	beyond   bool      // whether the floats left the range of a float64
}

func (t *total) add(n Number) {
	if n.kind == kindInt {
		t.addInt(int64(n.bits))
	} else {
		t.addFloat(n.Float())
	}
}

func (t *total) addInt(i int64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, uint64(i), 0)
	t.high += int64(carry) + i>>63
}

// addUint adds what may be too large for an int64: the difference of two.
func (t *total) addUint(u uint64) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, u, 0)
	t.high += int64(carry)
}

func (t *total) addFloat(x float64) {
	t.floats = true
	if t.beyond {
		return
	}
	kept := 0
	for _, y := range t.partials {
		if math.Abs(x) < math.Abs(y) {
			x, y = y, x
		}
		sum := x + y
		if rest := y - (sum - x); rest != 0 {
			t.partials[kept] = rest
			kept++
		}
		x = sum
	}
	if math.IsInf(x, 0) || math.IsNaN(x) {
		t.beyond, t.partials = true, t.partials[:0]
		return
	}
	if t.partials = t.partials[:kept]; x != 0 {
		t.partials = append(t.partials, x)
	}
}

// merge adds another total.
func (t *total) merge(u *total) {
	var carry uint64
	t.low, carry = bits.Add64(t.low, u.low, 0)
	t.high += u.high + int64(carry)
	t.floats = t.floats || u.floats
	if u.beyond {
		t.beyond, t.partials = true, t.partials[:0]
	}
	for _, x := range u.partials {
		t.addFloat(x)
	}
}

// number returns the sum: an int64 where all were integers and it fits, else the
// float64 nearest to it, none where that is beyond the largest.
func (t *total) number() Number {
	if !t.floats && t.high == int64(t.low)>>63 {
		return Int(int64(t.low))
	}
	return Float(t.float())
}

// float returns the sum as the nearest float64, an infinity beyond the largest.
func (t *total) float() float64 {
	if t.beyond {
		return math.Inf(1)
	}
	if !t.floats {
		return t.integers()
	}
	sum := total{partials: append(make([]float64, 0, len(t.partials)+3), t.partials...)}
	for _, part := range t.parts() {
		sum.addFloat(part)
	}
	return roundPartials(sum.partials)
}

// parts returns the integers as floats that are exact: 32 bits each.
func (t *total) parts() [3]float64 {
	return [...]float64{
		math.Ldexp(float64(t.high), 64), // exact only up to 2^53, which 2^116 integers do not reach
		math.Ldexp(float64(t.low>>32), 32),
		float64(t.low & math.MaxUint32),
	}
}

// integers returns the sum of the integers as the nearest float64.
func (t *total) integers() float64 {
	var sum total
	for _, part := range t.parts() {
		sum.addFloat(part)
	}
	return roundPartials(sum.partials)
}

// roundPartials adds partials up, rounding once: to the nearest, and where the
// sum is half way between two floats, to the one that the rest says.
func roundPartials(p []float64) float64 {
	i := len(p) - 1
	if i < 0 {
		return 0
	}
	high, low := p[i], 0.0
	for i--; i >= 0; i-- {
		sum := high + p[i]
		low = p[i] - (sum - high)
		high = sum
		if low != 0 {
			break
		}
	}
	if i > 0 && (low < 0 && p[i-1] < 0 || low > 0 && p[i-1] > 0) {
		twice := low * 2
		if sum := high + twice; twice == sum-high {
			high = sum
		}
	}
	return high
}
