package block

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Block is packed points.
type Block struct {
	// Values are the header and the values, and Times the places. Neither can be read without the
	// other.
	Values, Times []byte
}

// Encoder packs points. The zero Encoder is ready. It keeps buffers from one block to the
// next, and is used by one goroutine at a time.
type Encoder struct {
	zstd *zstd.Encoder

	diff, sorted, places, whole []int64
	exceptions                  []int
	plain, packed, bytes        []byte
	column                      []uint64
	texts                       map[string]int64
}

// window bounds the memory of the compression. Nearly all columns are smaller.
const window = 256 << 10

func (e *Encoder) compress(dst, plain []byte) []byte {
	if e.zstd == nil {
		var err error
		e.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithSingleSegment(true), zstd.WithWindowSize(window), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(fmt.Sprintf("block: make a compressor: %v", err)) // the options are constants
		}
	}
	start := len(dst)
	// Its length goes before it, which is known afterwards: three bytes are enough for MaxTextBytes.
	dst = e.zstd.EncodeAll(plain, append(dst, 0, 0, 0))
	n := len(dst) - start - 3
	dst[start], dst[start+1], dst[start+2] = byte(n), byte(n>>8), byte(n>>16)
	return dst
}

// Encode packs points, and summarizes them in a header. The block belongs to the caller, and c is
// not changed. The error wraps ErrLimit if there are no points or more than MaxRows, if the points
// are not in order, if one has no value, or if the distinct texts have more than MaxTextBytes.
func (e *Encoder) Encode(c *Columns) (Block, error) {
	if err := c.check(); err != nil {
		return Block{}, err
	}
	h, err := headerOf(c)
	if err != nil {
		return Block{}, err
	}
	var b Block
	b.Times = e.times(c)
	b.Values = appendHeader(make([]byte, prefix, 256), &h)
	end := len(b.Values)
	b.Values = e.kinds(b.Values, c)
	for _, kind := range kinds {
		if b.Values, err = e.values(b.Values, c, kind); err != nil {
			return Block{}, err
		}
	}
	seal(b.Values, b.Times, end)
	return b, nil
}

// headerOf makes the header of points.
func headerOf(c *Columns) (Header, error) {
	n := c.Len()
	h := Header{Count: n, First: c.TS[0], FirstSeq: c.SeqAt(0), Last: c.TS[n-1], LastSeq: c.SeqAt(n - 1), Summary: series.NewSummary(false)}
	for i := range n {
		if k := c.KindAt(i); k == value.KindInt || k == value.KindFloat {
			h.Numbers++
			if err := h.Summary.Add(series.Point{TS: c.TS[i], Value: value.FromRaw(k, c.Bits[i], "")}); err != nil {
				return h, err
			}
		}
	}
	if !h.Summary.IsExact() {
		h.Summary = nil
	}
	return h, nil
}

// times packs the places.
func (e *Encoder) times(c *Columns) []byte {
	dst := e.ints(nil, c.TS)
	// Equal times are packed into equal bytes, so that a store can keep them once.
	if !slices.ContainsFunc(c.Seq, func(seq uint64) bool { return seq != 0 }) {
		return append(dst, 0)
	}
	return e.ints(append(dst, 1), signed(&e.whole, c.Seq))
}

// signed returns integers with the bits of others.
func signed(buffer *[]int64, v []uint64) []int64 {
	list := resize(buffer, len(v))
	for i, u := range v {
		list[i] = int64(u)
	}
	return list
}

// kinds are those that values have, in the order of their columns.
var kinds = [...]value.Kind{value.KindFloat, value.KindInt, value.KindBool, value.KindString, value.KindJSON}

// kinds appends the kind of all values, or 0 and the column of the kinds.
func (e *Encoder) kinds(dst []byte, c *Columns) []byte {
	dst = append(dst, byte(c.Kind))
	if c.Kinds == nil {
		return dst
	}
	list := resize(&e.whole, len(c.Kinds))
	for i, k := range c.Kinds {
		list[i] = int64(k)
	}
	return e.ints(dst, list)
}

// values appends the column of a kind, if there are values of it.
func (e *Encoder) values(dst []byte, c *Columns, kind value.Kind) ([]byte, error) {
	if c.Kinds == nil && c.Kind != kind {
		return dst, nil
	}
	if isText(kind) {
		return e.text(dst, c, kind)
	}
	column := c.Bits
	if c.Kinds != nil {
		column = e.column[:0]
		for i, k := range c.Kinds {
			if k == kind {
				column = append(column, c.Bits[i])
			}
		}
		e.column = column
	}
	switch {
	case len(column) == 0:
		return dst, nil
	case kind == value.KindFloat:
		return e.floats(dst, column), nil
	default:
		return e.ints(dst, signed(&e.whole, column)), nil
	}
}

// text appends the distinct texts of a kind and the places of all in them.
func (e *Encoder) text(dst []byte, c *Columns, kind value.Kind) ([]byte, error) {
	if e.texts == nil {
		e.texts = make(map[string]int64)
	}
	clear(e.texts)
	var places, lengths []int64
	var all []byte
	for i, text := range c.Texts {
		if c.KindAt(i) != kind {
			continue
		}
		place, ok := e.texts[text]
		if !ok {
			place = int64(len(lengths))
			e.texts[text] = place
			lengths = append(lengths, int64(len(text)))
			if all = append(all, text...); len(all) > MaxTextBytes {
				return dst, fmt.Errorf("%w: their distinct texts have more than %d bytes", ErrLimit, MaxTextBytes)
			}
		}
		places = append(places, place)
	}
	if len(places) == 0 {
		return dst, nil
	}
	dst = binary.AppendUvarint(dst, uint64(len(lengths)))
	dst = e.ints(dst, lengths)
	dst = e.compress(dst, all)
	return e.ints(dst, places), nil
}
