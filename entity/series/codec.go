package series

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch/store"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/value"
)

// A Summary is encoded as a version, its parts as bits, and then, in the order of the fields:
// integers as varints, numbers as their kind and a varint or eight bytes, totals and quantiles as
// below. The encoding is a stored format: a version that was ever written can be read forever.
const encodingVersion = 1

// The kinds of numbers in an encoding.
const (
	encodedInt   = 1
	encodedFloat = 2
)

// The kinds of quantiles in an encoding.
const (
	encodedValues = 1 // their number, then each number
	encodedSketch = 2 // how many are zero, then the bins of the positive and of the negative ones
)

// maxPartials is how many partials a total of float64s can have: none overlaps
// another, and the exponents of float64s span 2098 bits in pieces of 53.
const maxPartials = 2098/53 + 2

// AppendBinary appends the encoded summary to dst, for a store. It implements
// [encoding.BinaryAppender]; the error is always nil. For percentiles it keeps up to 64 numbers
// exactly, and a sketch of more.
func (s *Summary) AppendBinary(dst []byte) ([]byte, error) {
	dst = append(dst, encodingVersion, byte(s.kept))
	dst = binary.AppendVarint(dst, s.Count)
	if s.Count == 0 {
		return dst, nil
	}
	dst = appendPoint(appendPoint(dst, s.First), s.Last)
	dst = appendNumber(appendNumber(dst, s.Min), s.Max)
	if s.kept&keepSum != 0 {
		dst = appendSum(dst, &s.sum)
	}
	if s.kept&keepIncrease != 0 {
		dst = appendSum(dst, &s.increase)
	}
	if s.kept&keepPercentiles != 0 {
		dst = s.quantiles.append(dst)
	}
	return dst, nil
}

// MarshalBinary implements [encoding.BinaryMarshaler] with AppendBinary.
func (s *Summary) MarshalBinary() ([]byte, error) { return s.AppendBinary(nil) }

// UnmarshalBinary sets the summary to the encoded one. It does not retain data. If it returns an
// error, which wraps ErrEncoding, the summary is empty.
func (s *Summary) UnmarshalBinary(data []byte) error {
	d := decoder{wire.Reader{Data: data}}
	*s = Summary{}
	decoded := d.summary()
	if d.Failed || len(d.Data) > 0 {
		return fmt.Errorf("%w: %d bytes", ErrEncoding, len(data))
	}
	*s = decoded
	return nil
}

func appendPoint(dst []byte, p Point) []byte {
	return appendNumber(binary.AppendVarint(dst, p.TS), p.Value)
}

func appendNumber(dst []byte, n value.Value) []byte {
	if n.Kind() == value.KindInt {
		return binary.AppendVarint(append(dst, encodedInt), n.Int())
	}
	return binary.LittleEndian.AppendUint64(append(dst, encodedFloat), math.Float64bits(n.Float()))
}

func appendSum(dst []byte, sum *value.Sum) []byte {
	p := sum.Parts()
	var flags byte
	if p.Floated {
		flags |= 1
	}
	if p.Beyond {
		flags |= 2
	}
	dst = append(dst, flags)
	dst = binary.AppendUvarint(binary.AppendVarint(dst, p.High), p.Low)
	dst = binary.AppendUvarint(dst, uint64(len(p.Floats)))
	for _, f := range p.Floats {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	}
	return dst
}

func (q *quantiles) append(dst []byte) []byte {
	if q.sketch == nil && len(q.values) <= rowPercentiles {
		dst = binary.AppendUvarint(append(dst, encodedValues), uint64(len(q.values)))
		for _, n := range q.values {
			dst = appendNumber(dst, n)
		}
		return dst
	}
	sketch := q.sketch
	if sketch == nil {
		c := quantiles{values: q.values}
		c.condense()
		sketch = c.sketch
	}
	dst = binary.AppendUvarint(append(dst, encodedSketch), uint64(sketch.GetZeroCount()))
	dst = appendBins(dst, sketch.GetPositiveValueStore())
	return appendBins(dst, sketch.GetNegativeValueStore())
}

// appendBins writes the bins of a store: how many, then of each in ascending
// order how far its index is from the one before, and its count. The library's
// own decoder cannot be used: it panics on bytes that are not its own.
func appendBins(dst []byte, bins store.Store) []byte {
	counts := make(map[int]float64)
	bins.ForEach(func(index int, count float64) bool {
		counts[index] += count
		return false
	})
	dst = binary.AppendUvarint(dst, uint64(len(counts)))
	before := 0
	for _, index := range slices.Sorted(maps.Keys(counts)) {
		dst = binary.AppendVarint(dst, int64(index-before))
		dst = binary.AppendUvarint(dst, uint64(counts[index]))
		before = index
	}
	return dst
}

// decoder reads an encoding. After the first error it has failed, and what it returns is
// meaningless.
type decoder struct{ wire.Reader }

// float reads a float64 that is finite.
func (d *decoder) float() float64 {
	f := math.Float64frombits(d.Uint64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.Fail()
		return 0
	}
	return f
}

func (d *decoder) number() value.Value {
	switch d.Byte() {
	case encodedInt:
		return value.Int(d.Varint())
	case encodedFloat:
		return finite(d.float())
	default:
		d.Fail()
		return value.Value{}
	}
}

func (d *decoder) point() Point { return Point{TS: d.Varint(), Value: d.number()} }

func (d *decoder) summary() Summary {
	version, kept := d.Byte(), parts(d.Byte())
	s := Summary{kept: kept, Count: d.Varint()}
	if version != encodingVersion || kept&^(keepSum|keepIncrease|keepPercentiles) != 0 || s.Count < 0 || s.Count > maxCount {
		d.Fail()
	}
	if s.Count == 0 || d.Failed {
		return s
	}
	s.First, s.Last = d.point(), d.point()
	s.Min, s.Max = d.number(), d.number()
	if kept&keepSum != 0 {
		s.sum = d.sum()
	}
	if kept&keepIncrease != 0 {
		s.increase = d.sum()
	}
	if kept&keepPercentiles != 0 {
		s.quantiles = d.quantiles(s.Count)
	}
	if s.First.TS > s.Last.TS || value.CompareNumbers(s.Min, s.Max) > 0 {
		d.Fail()
	}
	return s
}

// maxCount is up to where the counts of a sketch, which are floats, are exact.
const maxCount = 1 << 53

func (d *decoder) sum() value.Sum {
	flags := d.Byte()
	p := value.Parts{High: d.Varint(), Low: d.Uvarint(), Floated: flags&1 != 0, Beyond: flags&2 != 0}
	n := d.Uvarint()
	if flags > 3 || n > maxPartials || n > 0 && (!p.Floated || p.Beyond) {
		d.Fail()
		return value.Sum{}
	}
	for range n {
		p.Floats = append(p.Floats, d.float())
	}
	return value.SumOf(p)
}

func (d *decoder) quantiles(count int64) *quantiles {
	q := &quantiles{}
	switch d.Byte() {
	case encodedValues:
		if n := d.Uvarint(); n != uint64(count) || n > rowPercentiles {
			d.Fail()
			return q
		}
		for range count {
			q.values = append(q.values, d.number())
		}
	case encodedSketch:
		q.sketch = newSketch()
		zeros := d.Uvarint()
		left := d.bins(q.sketch.GetPositiveValueStore(), uint64(count)-zeros)
		left = d.bins(q.sketch.GetNegativeValueStore(), left)
		if zeros > uint64(count) || left != 0 || q.sketch.AddWithCount(0, float64(zeros)) != nil {
			d.Fail()
		}
	default:
		d.Fail()
	}
	return q
}

// bins reads the bins of a store, whose counts are most together, and returns
// what is left of most.
func (d *decoder) bins(bins store.Store, most uint64) (left uint64) {
	index := int64(0)
	for range d.Uvarint() {
		step, count := d.Varint(), d.Uvarint()
		index += step
		if d.Failed || count == 0 || count > most || step < -maxBin || step > maxBin || index < -maxBin || index > maxBin {
			d.Fail()
			return 0
		}
		bins.AddWithCount(int(index), float64(count))
		most -= count
	}
	return most
}

// maxBin is the index of the bin of the greatest float64; the least has about
// the same with a minus.
var maxBin = int64(sketchMapping.Index(sketchMapping.MaxIndexableValue()))
