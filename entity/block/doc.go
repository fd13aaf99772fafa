// Package block packs a part of the history of one key into columns: times, kinds and values, each
// compressed separately. It does no I/O, starts no goroutine and knows nothing about entities and
// stores.
//
// A [Block] has up to [MaxRows] points in the order of their places, (TS, Seq), each place once.
// Unpacking restores every bit: an int64 stays one, a float64 keeps its bits, including -0 and
// subnormal numbers, and texts and JSON keep their bytes.
//
// Values and times are two pieces. The keys of one message share its time, so the times of several
// blocks are often equal, byte for byte, and a store keeps them once. The values begin with a
// [Header], which summarizes the numbers of the block and can be read without the rest
// ([ReadHeader]), so that a query about a whole block need not open it.
//
// # Format
//
// The values are a version, two checksums (CRC-32C), the header with its length, and the
// columns. The first checksum covers the header and all else that stands before the
// columns; the second covers the columns and the times. The times are the columns of TS and,
// where one is not 0, of Seq. A column of integers is constant, a line, or the zigzag differences of the
// order 0, 1 or 2, packed into as many bits as they need in groups of 128, or in planes of
// their bytes that zstd compresses; or numbers of entries in a sorted table, and the table
// itself. A column of float64s is integers and a power of ten that they are divided by, and
// exceptions beside them; or the bits of the floats as integers. Texts are a table of
// distinct ones, which zstd compresses, and their numbers.
//
// The format is stored: a version that was ever written can be read forever. A block of a later
// version is an error, [ErrVersion]; a damaged block is another, [ErrDamaged]. The decoder gets
// bytes from a disk and does not trust them: it fails, and does not panic, loop or take more memory
// than the limits of a block allow.
package block

import "errors"

var (
	// ErrVersion says that a block was packed by a later version.
	ErrVersion = errors.New("block of a later version")
	// ErrDamaged says that a block is not as it was packed.
	ErrDamaged = errors.New("block is damaged")
	// ErrLimit says that rows do not fit into a block, or are not in order.
	ErrLimit = errors.New("rows cannot be a block")
)

const (
	// MaxRows bounds the points of a block.
	MaxRows = 4096
	// MaxTextBytes bounds the bytes of the distinct strings of a block, and those of its
	// distinct JSON texts.
	MaxTextBytes = 1 << 20

	version = 1
)
