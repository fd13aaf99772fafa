package persist

import (
	"iter"
	"math/bits"
)

// parts are partitions, one bit each: as a message, those in which something has been written, or
// is to be read again.
type parts uint64

const allParts = ^parts(0)

// each returns the partitions.
func (p parts) each() iter.Seq[int] {
	return func(yield func(part int) bool) {
		for ; p != 0; p &= p - 1 {
			if !yield(bits.TrailingZeros64(uint64(p))) {
				return
			}
		}
	}
}

// backlog is what an actor that follows the journal has to read, one question at a time.
type backlog struct {
	p       *Persistence
	unread  parts
	reading bool
	erased  map[string]bool // ids that were erased meanwhile: what is being read may be of before
	failing cause
}

// begin says that nothing was read so far, and reports whether to read now: else Open says when.
func (b *backlog) begin() bool {
	b.unread, b.erased = allParts, make(map[string]bool)
	return b.p.opened.Load()
}

// take returns what is to be read now.
func (b *backlog) take() parts {
	from := b.unread
	b.unread, b.reading = 0, true
	return from
}

// endRead says that what was read has been looked at.
func (b *backlog) endRead() {
	b.reading = false
	clear(b.erased)
}
