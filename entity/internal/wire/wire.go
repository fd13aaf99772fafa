// Package wire reads the small binary formats in which this module stores data. They are written
// with [encoding/binary].
package wire

import "encoding/binary"

// Reader reads from the front of Data, which it does not copy. After the first value that is
// missing, Failed is set, Data is empty, and whatever it returns is zero, so a caller need check
// only once, at the end. It is not safe for concurrent use.
type Reader struct {
	Data   []byte
	Failed bool
}

// Fail sets Failed, as for data that ends too early.
func (r *Reader) Fail() { r.Data, r.Failed = nil, true }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.Data) == 0 {
		r.Fail()
		return 0
	}
	b := r.Data[0]
	r.Data = r.Data[1:]
	return b
}

// Uvarint reads what [binary.AppendUvarint] has written.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.Data)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Data = r.Data[n:]
	return v
}

// Varint reads what [binary.AppendVarint] has written.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.Data)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.Data = r.Data[n:]
	return v
}

// Uint64 reads eight bytes, the lowest first.
func (r *Reader) Uint64() uint64 {
	if len(r.Data) < 8 {
		r.Fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.Data)
	r.Data = r.Data[8:]
	return v
}

// Count reads the number of the following elements, each of at least a byte.
func (r *Reader) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.Data)) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads a length and that many bytes. The result shares the memory of Data.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

// Text reads a length and that many bytes as a string.
func (r *Reader) Text() string { return string(r.Bytes()) }
