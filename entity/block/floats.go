package block

import (
	"encoding/binary"
	"math"
)

// How a column of floats is packed: as integers and the power of ten by which they are divided, or,
// with floatBits, as integers of the same bits. Devices measure decimals: 23.18 is 2318/100, and
// because both are exact the quotient is the float64 that the text 23.18 parses to. Floats for
// which that is not true are exceptions.
const (
	maxPower  = 18 // 10^22 is the last one that a float64 has exactly; a mantissa has 16 digits
	floatBits = 0xff

	// mostExceptions is the share of floats that may be exceptions, as a divisor: each takes ten
	// bytes.
	mostExceptions = 32
	maxMantissa    = 1 << 53
)

var powers = [maxPower + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18}

// decimal returns f as an integer that is f if it is divided by 10^power.
func decimal(f float64, power int) (i int64, ok bool) {
	x := math.RoundToEven(f * powers[power])
	if !(math.Abs(x) < maxMantissa) {
		return 0, false
	}
	i = int64(x)
	return i, math.Float64bits(float64(i)/powers[power]) == math.Float64bits(f)
}

// floats appends a column of floats, given as their bits.
func (e *Encoder) floats(dst []byte, v []uint64) []byte {
	power := commonPower(v)
	if power < 0 {
		return e.bits(dst, v)
	}
	e.exceptions = e.exceptions[:0]
	whole := e.whole[:0]
	last := int64(0)
	for i, b := range v {
		x, ok := decimal(math.Float64frombits(b), power)
		if ok {
			last = x
		} else {
			e.exceptions = append(e.exceptions, i)
		}
		whole = append(whole, last)
	}
	e.whole = whole
	start := len(dst)
	dst = binary.AppendUvarint(append(dst, byte(power)), uint64(len(e.exceptions)))
	before := 0
	for _, i := range e.exceptions {
		dst = binary.AppendUvarint(dst, uint64(i-before))
		dst = binary.LittleEndian.AppendUint64(dst, v[i])
		before = i
	}
	dst = e.ints(dst, whole)
	if len(e.exceptions) == 0 {
		return dst
	}
	if other := e.bits(nil, v); len(other) < len(dst)-start {
		dst = append(dst[:start], other...)
	}
	return dst
}

// bits appends floats as integers of the same bits.
func (e *Encoder) bits(dst []byte, v []uint64) []byte {
	whole := e.whole[:0]
	for _, b := range v {
		whole = append(whole, int64(b))
	}
	e.whole = whole
	return e.ints(append(dst, floatBits), whole)
}

// commonPower returns the least power of ten by which nearly all of the floats are
// decimals, -1 for none.
func commonPower(v []uint64) int {
	var least [maxPower + 1]int // how many need which power
	failed, most := 0, len(v)/mostExceptions
	last := 0
	for _, b := range v {
		f := math.Float64frombits(b)
		power := leastPower(f, last)
		if power < 0 {
			if failed++; failed > most {
				return -1
			}
			continue
		}
		least[power]++
		last = power
	}
	left := len(v)
	for power, n := range least {
		if left -= n; left <= most {
			return power
		}
	}
	return -1
}

// leastPower returns the least power of ten by which a float is a decimal, -1 for none. It
// looks first where the last one was.
func leastPower(f float64, last int) int {
	if _, ok := decimal(f, last); ok {
		for last > 0 {
			if _, ok := decimal(f, last-1); !ok {
				break
			}
			last--
		}
		return last
	}
	for power := range powers {
		if _, ok := decimal(f, power); ok {
			return power
		}
	}
	return -1
}

// floats reads a column of floats as their bits.
func (d *reader) floats(v []uint64) {
	power := int(d.Byte())
	if power != floatBits && power > maxPower {
		d.Fail()
		return
	}
	type exception struct {
		at   int
		bits uint64
	}
	var exceptions []exception
	if power != floatBits {
		at := -1
		for range d.Count() {
			last := at
			at = max(at, 0) + int(min(d.Uvarint(), MaxRows))
			if at <= last || at >= len(v) {
				d.Fail()
				return
			}
			exceptions = append(exceptions, exception{at, d.Uint64()})
		}
	}
	whole := resize(&d.d.whole, len(v))
	d.ints(whole, false)
	if power == floatBits {
		for i, x := range whole {
			v[i] = uint64(x)
		}
		return
	}
	divisor := powers[power]
	for i, x := range whole {
		v[i] = math.Float64bits(float64(x) / divisor)
	}
	for _, x := range exceptions {
		v[x.at] = x.bits
	}
}
