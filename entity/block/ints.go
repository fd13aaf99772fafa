package block

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// How a column of integers is packed.
const (
	intsConst  = 0 // the value
	intsLine   = 1 // the first and the difference
	intsPacked = 2 // differences, in groups of as many bits as they need
	intsPlanes = 3 // differences, grouping the bytes of the same weight, compressed
	intsTable  = 4 // the sorted table of distinct values, and their places in it
	intsBytes  = 5 // differences as varints, compressed
)

// group is how many differences of intsPacked have the same number of bits.
const group = 128

// maxOrder is the highest order of the differences.
const maxOrder = 2

func zigzag(i int64) uint64   { return uint64(i<<1) ^ uint64(i>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// ints appends a column of integers.
func (e *Encoder) ints(dst []byte, v []int64) []byte {
	if dst, ok := appendLine(dst, v); ok {
		return dst
	}
	best := e.differences(nil, v, 0, maxOrder)
	if packed := e.table(v); packed != nil && len(packed) < len(best) {
		best = packed
	}
	return append(dst, best...)
}

// appendLine appends the column if it is constant or a line.
func appendLine(dst []byte, v []int64) ([]byte, bool) {
	if len(v) == 0 {
		return binary.AppendVarint(append(dst, intsConst), 0), true
	}
	step := int64(0)
	if len(v) > 1 {
		step = v[1] - v[0]
	}
	for i := 2; i < len(v); i++ {
		if v[i]-v[i-1] != step {
			return dst, false
		}
	}
	if step == 0 {
		return binary.AppendVarint(append(dst, intsConst), v[0]), true
	}
	return binary.AppendVarint(binary.AppendVarint(append(dst, intsLine), v[0]), step), true
}

// differences appends the differences of the order from least to most that needs the fewest
// bits: packed, in planes or as varints, whichever is shortest. Planes are best for noise, and varints where
// the same differences of many digits come again.
func (e *Encoder) differences(dst []byte, v []int64, least, most int) []byte {
	e.diff = append(e.diff[:0], v...)
	diff := e.diff
	order, fewest := 0, packedBits(diff)
	for o := 1; o <= most && o < len(v); o++ {
		subtract(diff, o)
		if n := packedBits(diff); n < fewest || o <= least {
			order, fewest = o, n
		}
	}
	copy(diff, v)
	for o := 1; o <= order; o++ {
		subtract(diff, o)
	}
	planes, varints := e.planes(diff), e.varints(diff)
	switch packed := fewest/8 + len(v)/group; {
	case packed <= min(len(planes), len(varints)):
		return appendPacked(append(dst, intsPacked, byte(order)), diff)
	case len(planes) <= len(varints):
		return append(append(dst, intsPlanes, byte(order)), planes...)
	default:
		return append(append(dst, intsBytes, byte(order)), varints...)
	}
}

// subtract makes differences of the order from those of the one before.
func subtract(d []int64, order int) {
	for i := len(d) - 1; i >= order; i-- {
		d[i] -= d[i-1]
	}
}

// sum reverses subtract.
func sum(d []int64, order int) {
	for i := order; i < len(d); i++ {
		d[i] += d[i-1]
	}
}

// packedBits is how many bits appendPacked needs for the groups.
func packedBits(d []int64) (n int) {
	for g := range slices.Chunk(d, group) {
		n += width(g) * len(g)
	}
	return n
}

func width(d []int64) int {
	var all uint64
	for _, x := range d {
		all |= zigzag(x)
	}
	return bits.Len64(all)
}

func appendPacked(dst []byte, d []int64) []byte {
	for g := range slices.Chunk(d, group) {
		w := width(g)
		dst = append(dst, byte(w))
		var acc uint64
		have := 0
		for _, x := range g {
			u := zigzag(x)
			acc |= u << have
			if have+w >= 64 {
				dst = binary.LittleEndian.AppendUint64(dst, acc)
				acc = 0
				if have > 0 {
					acc = u >> (64 - have)
				}
				have -= 64
			}
			have += w
		}
		for ; have > 0; have -= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
		}
	}
	return dst
}

// planes returns the number of planes, then the planes, the least bytes first.
func (e *Encoder) planes(d []int64) []byte {
	n := (width(d) + 7) / 8
	plain := e.plain[:0]
	for p := range n {
		for _, x := range d {
			plain = append(plain, byte(zigzag(x)>>(8*p)))
		}
	}
	e.plain = plain
	e.packed = e.compress(append(e.packed[:0], byte(n)), plain)
	return e.packed
}

// varints returns the length of the varints, then the varints.
func (e *Encoder) varints(d []int64) []byte {
	plain := e.plain[:0]
	for _, x := range d {
		plain = binary.AppendVarint(plain, x)
	}
	e.plain = plain
	e.bytes = e.compress(binary.AppendUvarint(e.bytes[:0], uint64(len(plain))), plain)
	return e.bytes
}

// table packs a column of few distinct values; it returns nil if there are many.
func (e *Encoder) table(v []int64) []byte {
	e.sorted = append(e.sorted[:0], v...)
	slices.Sort(e.sorted)
	table := slices.Compact(e.sorted)
	if len(table) > len(v)/2 {
		return nil
	}
	places := e.places[:0]
	for _, x := range v {
		place, _ := slices.BinarySearch(table, x)
		places = append(places, int64(place))
	}
	e.places = places
	dst := binary.AppendUvarint([]byte{intsTable}, uint64(len(table)))
	if line, ok := appendLine(dst, table); ok {
		dst = line
	} else {
		dst = e.differences(dst, table, 1, 1)
	}
	return e.differences(dst, places, 0, 1)
}

// ints reads a column of n integers into v, which has this length.
func (d *reader) ints(v []int64, nested bool) {
	switch mode := d.Byte(); {
	case mode == intsConst:
		x := d.Varint()
		for i := range v {
			v[i] = x
		}
	case mode == intsLine:
		x, step := d.Varint(), d.Varint()
		for i := range v {
			v[i] = x
			x += step
		}
	case mode == intsPacked || mode == intsPlanes || mode == intsBytes:
		order := int(d.Byte())
		if order > maxOrder || order > 0 && order >= len(v) {
			d.Fail()
			return
		}
		switch mode {
		case intsPacked:
			d.packed(v)
		case intsPlanes:
			d.planes(v)
		default:
			d.varints(v)
		}
		for ; order > 0; order-- {
			sum(v, order)
		}
	case mode == intsTable && !nested:
		d.table(v)
	default:
		d.Fail()
	}
}

func (d *reader) packed(v []int64) {
	for len(v) > 0 {
		g := v[:min(group, len(v))]
		v = v[len(g):]
		w := int(d.Byte())
		size := (w*len(g) + 7) / 8
		if w > 64 || size > len(d.Data) {
			d.Fail()
			return
		}
		unpack(g, d.Data[:size], w)
		d.Data = d.Data[size:]
	}
}

// unpack reads numbers of w bits.
func unpack(g []int64, data []byte, w int) {
	if w == 0 {
		clear(g)
		return
	}
	mask := ^uint64(0) >> (64 - w)
	at := 0
	for i := range g {
		byteAt, shift := at>>3, uint(at&7)
		var u uint64
		if byteAt+8 <= len(data) {
			u = binary.LittleEndian.Uint64(data[byteAt:]) >> shift
			if shift > 0 && int(shift)+w > 64 {
				u |= uint64(data[byteAt+8]) << (64 - shift)
			}
		} else {
			for j, b := range data[byteAt:] {
				u |= uint64(b) << (8 * j)
			}
			u >>= shift
		}
		g[i] = unzigzag(u & mask)
		at += w
	}
}

func (d *reader) planes(v []int64) {
	n := int(d.Byte())
	if n > 8 {
		d.Fail()
		return
	}
	plain := d.decompress(n * len(v))
	if d.Failed {
		return
	}
	switch n {
	case 1:
		for i, b := range plain {
			v[i] = unzigzag(uint64(b))
		}
	case 2:
		low, high := plain[:len(v)], plain[len(v):]
		for i := range v {
			v[i] = unzigzag(uint64(low[i]) | uint64(high[i])<<8)
		}
	default:
		clear(v)
		for p := range n {
			plane := plain[p*len(v):][:len(v)]
			for i, b := range plane {
				v[i] |= int64(uint64(b) << (8 * p))
			}
		}
		for i, u := range v {
			v[i] = unzigzag(uint64(u))
		}
	}
}

func (d *reader) varints(v []int64) {
	size := d.Uvarint()
	if size > uint64(len(v)*binary.MaxVarintLen64) {
		d.Fail()
		return
	}
	plain := d.decompress(int(size))
	for i := range v {
		if len(plain) > 0 && plain[0] < 0x80 { // most have one byte
			v[i], plain = unzigzag(uint64(plain[0])), plain[1:]
			continue
		}
		x, n := binary.Varint(plain)
		if n <= 0 {
			d.Fail()
			return
		}
		v[i], plain = x, plain[n:]
	}
	if len(plain) > 0 {
		d.Fail()
	}
}

func (d *reader) table(v []int64) {
	n := d.Uvarint()
	if n > uint64(len(v)) {
		d.Fail()
		return
	}
	table := resize(&d.d.sorted, int(n))
	d.ints(table, true)
	d.ints(v, true)
	if d.Failed {
		return
	}
	for i, place := range v {
		if uint64(place) >= n {
			d.Fail()
			return
		}
		v[i] = table[place]
	}
}

// resize returns a buffer of a length, with any content.
func resize[T any](buffer *[]T, n int) []T {
	*buffer = slices.Grow((*buffer)[:0], n)[:n]
	return *buffer
}
