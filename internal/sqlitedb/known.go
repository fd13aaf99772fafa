package sqlitedb

import (
	"bytes"
	"encoding/binary"
	"os"
)

// knownBytes is the length of the header of a WAL's index.
const knownBytes = 48

// Known is how far the WAL of a database is known to be on the disk: the header of its index (-shm) after a
// commit that was synced, as SQLite has written it, in the order of bytes of the machine. Nothing is known by the zero
// Known, nor by one that is torn.
//
// The form is that of https://www.sqlite.org/walformat.html.
type Known [knownBytes]byte

// ReadKnown reads what a file begins with: the index of a WAL, or a copy of its header.
func ReadKnown(f *os.File) (k Known, err error) {
	_, err = f.ReadAt(k[:], 0)
	return k, err
}

// frames returns how many frames the WAL has at least, 0 if nothing is known.
func (k *Known) frames() uint32 {
	sum := walSum{order: binary.NativeEndian}
	sum.add(k[:40])
	const version = 3007000
	if binary.NativeEndian.Uint32(k[:]) != version || binary.NativeEndian.Uint32(k[40:]) != sum.s0 || binary.NativeEndian.Uint32(k[44:]) != sum.s1 {
		return 0
	}
	return binary.NativeEndian.Uint32(k[16:])
}

// isOf reports whether a WAL with this header may be the one that is known. A WAL that has begun anew has other salts.
func (k *Known) isOf(header []byte) bool { return bytes.Equal(k[32:40], header[16:24]) }

// SameWAL reports whether both know something, of one and the same WAL.
func (k *Known) SameWAL(o *Known) bool {
	return k.frames() > 0 && o.frames() > 0 && bytes.Equal(k[32:40], o[32:40])
}

// ends reports whether the last of the known frames has the checksum that the header of a frame ends with.
func (k *Known) ends(sum *walSum) bool {
	return binary.NativeEndian.Uint32(k[24:]) == sum.s0 && binary.NativeEndian.Uint32(k[28:]) == sum.s1
}
