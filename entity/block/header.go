package block

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/series"
)

// Header says what a block has.
type Header struct {
	// Count is how many points there are, Numbers how many of them are numbers.
	Count, Numbers int
	// First and Last, with their sequences, are the places of the first and the last point.
	First, Last       int64
	FirstSeq, LastSeq uint64
	// Summary is what the numbers come to, with their exact sum and increase, and without
	// percentiles. It is nil where that cannot be said exactly: the sum is beyond the
	// float64s.
	Summary *series.Summary
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// prefix is the version and the checksum.
const prefix = 1 + 4

// seal puts the version and the checksum into the first bytes of the values.
func seal(values, times []byte) {
	values[0] = version
	binary.LittleEndian.PutUint32(values[1:], checksum(values, times))
}

func checksum(values, times []byte) uint32 {
	return crc32.Update(crc32.Checksum(values[prefix:], castagnoli), castagnoli, times)
}

// appendHeader appends the header of a block.
func appendHeader(dst []byte, h *Header) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(h.Count)), uint64(h.Numbers))
	dst = binary.AppendUvarint(binary.AppendVarint(dst, h.First), h.FirstSeq)
	dst = binary.AppendUvarint(binary.AppendVarint(dst, h.Last), h.LastSeq)
	if h.Summary == nil {
		return binary.AppendUvarint(dst, 0)
	}
	summary, _ := h.Summary.AppendBinary(nil) // its error is always nil
	return append(binary.AppendUvarint(dst, uint64(len(summary))), summary...)
}

// open checks the version and the checksum of a block and reads its header. What follows
// is left in the reader.
func (d *Decoder) open(b Block) (h Header, r reader, err error) {
	switch {
	case len(b.Values) < prefix:
		return h, r, fmt.Errorf("%w: it has %d bytes", ErrDamaged, len(b.Values))
	case b.Values[0] > version:
		return h, r, fmt.Errorf("%w: %d, and this program knows %d; use a newer greenroom", ErrVersion, b.Values[0], version)
	case b.Values[0] != version:
		return h, r, fmt.Errorf("%w: its version is %d", ErrDamaged, b.Values[0])
	case binary.LittleEndian.Uint32(b.Values[1:]) != checksum(b.Values, b.Times):
		return h, r, fmt.Errorf("%w: its checksum is wrong", ErrDamaged)
	}
	r = reader{Reader: wire.Reader{Data: b.Values[prefix:]}, d: d}
	count, numbers := r.Uvarint(), r.Uvarint()
	h.First, h.FirstSeq = r.Varint(), r.Uvarint()
	h.Last, h.LastSeq = r.Varint(), r.Uvarint()
	if count == 0 || count > MaxRows || numbers > count {
		r.Fail()
	}
	h.Count, h.Numbers = int(count), int(numbers)
	if summary := r.Bytes(); len(summary) > 0 {
		h.Summary = new(series.Summary)
		if h.Summary.UnmarshalBinary(summary) != nil || h.Summary.Count != int64(numbers) {
			r.Fail()
		}
	}
	if r.Failed {
		return Header{}, r, fmt.Errorf("%w: its header", ErrDamaged)
	}
	return h, r, nil
}

// Header reads the header of a block. The error wraps ErrVersion or ErrDamaged.
func (d *Decoder) Header(b Block) (Header, error) {
	h, _, err := d.open(b)
	return h, err
}
