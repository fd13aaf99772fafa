package block

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/series"
)

// Header summarizes a block.
type Header struct {
	// Count is the number of points, and Numbers how many of them are numbers.
	Count, Numbers int
	// First and Last, with their sequences, are the places of the first and the last point.
	First, Last       int64
	FirstSeq, LastSeq uint64
	// Summary is the summary of the numbers, with their exact sum and increase, and without
	// percentiles. It is nil if it cannot be exact, because the sum is beyond the range of float64.
	Summary *series.Summary
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The values begin with the version, the checksum of the header and the checksum of the
// columns. The checksum of the header covers the version, the checksum of the columns, and
// the header with its length. Later versions begin in the same way, so that a damaged
// version is not taken for a later one.
const (
	headerSum  = 1
	columnsSum = headerSum + 4
	prefix     = columnsSum + 4
)

// seal fills in the version and checksums before a header that ends at end.
func seal(values, times []byte, end int) {
	values[0] = version
	binary.LittleEndian.PutUint32(values[columnsSum:], checksumOfColumns(values[end:], times))
	binary.LittleEndian.PutUint32(values[headerSum:], checksumOfHeader(values[:end]))
}

func checksumOfHeader(values []byte) uint32 {
	return crc32.Update(crc32.Checksum(values[:headerSum], castagnoli), castagnoli, values[columnsSum:])
}

func checksumOfColumns(columns, times []byte) uint32 {
	return crc32.Update(crc32.Checksum(columns, castagnoli), castagnoli, times)
}

// headerEnd returns where the header ends, and false where the values are too short for it.
func headerEnd(values []byte) (int, bool) {
	if len(values) < prefix {
		return 0, false
	}
	n, size := binary.Uvarint(values[prefix:])
	if size <= 0 || n > uint64(len(values)-prefix-size) {
		return 0, false
	}
	return prefix + size + int(n), true
}

// appendHeader appends the header of a block with its length.
func appendHeader(dst []byte, h *Header) []byte {
	fields := appendFields(nil, h)
	return append(binary.AppendUvarint(dst, uint64(len(fields))), fields...)
}

func appendFields(dst []byte, h *Header) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(h.Count)), uint64(h.Numbers))
	dst = binary.AppendUvarint(binary.AppendVarint(dst, h.First), h.FirstSeq)
	dst = binary.AppendUvarint(binary.AppendVarint(dst, h.Last), h.LastSeq)
	if h.Summary == nil {
		return binary.AppendUvarint(dst, 0)
	}
	summary, _ := h.Summary.AppendBinary(nil) // its error is always nil
	return append(binary.AppendUvarint(dst, uint64(len(summary))), summary...)
}

// ReadHeader reads the header of a block. The beginning of its values is enough, as long as
// the header is in it. The error wraps ErrVersion or ErrDamaged.
func ReadHeader(values []byte) (Header, error) {
	h, _, err := readHeader(values)
	return h, err
}

// readHeader reads the header of a block and returns where it ends.
func readHeader(values []byte) (h Header, end int, err error) {
	end, whole := headerEnd(values)
	switch {
	case !whole:
		return h, 0, fmt.Errorf("%w: its %d bytes have no header", ErrDamaged, len(values))
	case binary.LittleEndian.Uint32(values[headerSum:]) != checksumOfHeader(values[:end]):
		return h, 0, fmt.Errorf("%w: the checksum of its header is wrong", ErrDamaged)
	case values[0] > version:
		return h, 0, fmt.Errorf("%w: %d, and this program knows %d; use a newer greenroom", ErrVersion, values[0], version)
	case values[0] != version:
		return h, 0, fmt.Errorf("%w: its version is %d", ErrDamaged, values[0])
	}
	r := wire.Reader{Data: values[prefix:end]}
	r.Uvarint() // the length
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
	if r.Failed || len(r.Data) > 0 {
		return Header{}, 0, fmt.Errorf("%w: its header", ErrDamaged)
	}
	return h, end, nil
}

// open reads the header of a block and checks its columns, which are left in the reader.
func (d *Decoder) open(b Block) (h Header, r reader, err error) {
	h, end, err := readHeader(b.Values)
	if err != nil {
		return h, r, err
	}
	columns := b.Values[end:]
	if binary.LittleEndian.Uint32(b.Values[columnsSum:]) != checksumOfColumns(columns, b.Times) {
		return Header{}, r, fmt.Errorf("%w: the checksum of its columns is wrong", ErrDamaged)
	}
	return h, reader{Reader: wire.Reader{Data: columns}, d: d}, nil
}
