package block

import (
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Decoder unpacks blocks. The zero Decoder is ready. It keeps buffers from one block to
// the next, and is used by one goroutine at a time.
type Decoder struct {
	zstd *zstd.Decoder

	plain         []byte
	sorted, whole []int64
	column        []uint64
}

// reader reads the columns of one block.
type reader struct {
	wire.Reader
	d *Decoder
}

// decompress reads compressed bytes and returns the n bytes that they unpack to. These are valid
// until the next call.
func (d *reader) decompress(n int) []byte {
	size := int(d.Byte()) | int(d.Byte())<<8 | int(d.Byte())<<16
	if d.Failed || size > len(d.Data) {
		d.Fail()
		return nil
	}
	packed := d.Data[:size]
	d.Data = d.Data[size:]
	if d.d.zstd == nil {
		var err error
		d.d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
		if err != nil {
			panic(fmt.Sprintf("block: make a decompressor: %v", err)) // the options are constants
		}
	}
	if cap(d.d.plain) < n {
		d.d.plain = make([]byte, n)
	}
	plain, err := d.d.zstd.DecodeAll(packed, d.d.plain[:0:n])
	if err != nil || len(plain) != n {
		d.Fail()
		return nil
	}
	return plain
}

// Decode unpacks a block into c, reusing the memory of c, and returns the header. It does not
// change or retain the block, and texts do not share its memory; but a text keeps all distinct
// texts of its kind in the block in memory. The error wraps ErrVersion or ErrDamaged; c has no
// points then.
func (d *Decoder) Decode(b Block, c *Columns) (Header, error) {
	c.Reset()
	h, r, err := d.open(b)
	if err != nil {
		return h, err
	}
	c.TS, c.Bits = slices.Grow(c.TS, h.Count)[:h.Count], slices.Grow(c.Bits, h.Count)[:h.Count]
	times := reader{Reader: wire.Reader{Data: b.Times}, d: d}
	times.times(c)
	r.values(c)
	if r.Failed || times.Failed || len(r.Data)+len(times.Data) > 0 || c.check() != nil || !h.matches(c) {
		c.Reset()
		return Header{}, fmt.Errorf("%w: its columns", ErrDamaged)
	}
	return h, nil
}

// matches reports whether the header can be that of these points.
func (h *Header) matches(c *Columns) bool {
	n, numbers := c.Len(), 0
	for i := range n {
		if k := c.KindAt(i); k == value.KindInt || k == value.KindFloat {
			numbers++
		}
	}
	return h.Numbers == numbers && h.First == c.TS[0] && h.FirstSeq == c.SeqAt(0) && h.Last == c.TS[n-1] && h.LastSeq == c.SeqAt(n-1)
}

func (d *reader) times(c *Columns) {
	d.ints(c.TS, false)
	switch d.Byte() {
	case 0:
	case 1:
		seq := resize(&d.d.whole, len(c.TS))
		d.ints(seq, false)
		c.Seq = make([]uint64, len(seq))
		for i, s := range seq {
			c.Seq[i] = uint64(s)
		}
	default:
		d.Fail()
	}
}

// values reads the kinds and the columns of each kind.
func (d *reader) values(c *Columns) {
	n := len(c.TS)
	c.Kind = value.Kind(d.Byte())
	if c.Kind > value.KindJSON {
		d.Fail()
		return
	}
	var counts [value.KindJSON + 1]int
	counts[c.Kind] = n
	if c.Kind == 0 {
		list := resize(&d.d.whole, n)
		d.ints(list, false)
		c.Kinds = make([]value.Kind, n)
		counts[0] = 0
		for i, k := range list {
			if k < int64(value.KindFloat) || k > int64(value.KindJSON) {
				d.Fail()
				return
			}
			c.Kinds[i] = value.Kind(k)
			counts[k]++
		}
	}
	if counts[value.KindString]+counts[value.KindJSON] > 0 {
		c.Texts = make([]string, n)
		clear(c.Bits)
	}
	for _, kind := range kinds {
		if counts[kind] > 0 && !d.Failed {
			d.column(c, kind, counts[kind])
		}
	}
}

// column reads the n values of a kind and puts them in their places.
func (d *reader) column(c *Columns, kind value.Kind, n int) {
	if isText(kind) {
		d.text(c, kind, n)
		return
	}
	column := c.Bits
	if c.Kinds != nil {
		column = resize(&d.d.column, n)
	}
	if kind == value.KindFloat {
		d.floats(column)
	} else {
		whole := resize(&d.d.whole, n)
		d.ints(whole, false)
		for i, x := range whole {
			column[i] = uint64(x)
		}
	}
	if c.Kinds == nil {
		return
	}
	for i, k := range c.Kinds {
		if k == kind {
			c.Bits[i] = column[0]
			column = column[1:]
		}
	}
}

func (d *reader) text(c *Columns, kind value.Kind, n int) {
	distinct := d.Uvarint()
	if distinct == 0 || distinct > uint64(n) {
		d.Fail()
		return
	}
	lengths := resize(&d.d.whole, int(distinct))
	d.ints(lengths, false)
	size := int64(0)
	for _, l := range lengths {
		if l < 0 || l > MaxTextBytes {
			d.Fail()
			return
		}
		if size += l; size > MaxTextBytes {
			d.Fail()
			return
		}
	}
	all := string(d.decompress(int(size)))
	if d.Failed {
		return
	}
	texts := make([]string, distinct)
	for i, l := range lengths {
		texts[i], all = all[:l], all[l:]
	}
	places := resize(&d.d.whole, n)
	d.ints(places, false)
	for i := range c.Texts {
		if c.KindAt(i) != kind {
			continue
		}
		if uint64(places[0]) >= distinct {
			d.Fail()
			return
		}
		c.Texts[i], places = texts[places[0]], places[1:]
	}
}
