// Package wire reads the small binary forms in which this module stores things.
// They are written with [encoding/binary].
package wire

import "encoding/binary"

// Reader reads from the front of Data, which it does not copy. After the first thing
// that is not there it has Failed, Data is empty, and whatever it returns is zero; so
// who reads looks once, at the end. It is not safe for concurrent use.
type Reader struct {
	Data   []byte
	Failed bool
}

// Fail gives up, as for data that ends too early.
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

// Count reads how many things follow, of a byte each at least.
func (r *Reader) Count() int {
	n := r.Uvarint()
	if n > uint64(len(r.Data)) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads a count of bytes and these, which stay those of Data.
func (r *Reader) Bytes() []byte {
	n := r.Count()
	b := r.Data[:n]
	r.Data = r.Data[n:]
	return b
}

// Text reads a count of bytes and these.
func (r *Reader) Text() string { return string(r.Bytes()) }
