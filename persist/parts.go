package persist

import (
	"iter"
	"math/bits"
)

// parts is a set of partitions, one bit each. As a message, it names those in which something has
// been written or has to be read again.
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

// backlog is what an actor that follows the journal has to read, one query at a time.
type backlog struct {
	p       *Persistence
	unread  parts
	reading bool
	erased  map[string]bool // ids erased meanwhile: what is being read may be older
	failing cause
}

// begin records that nothing was read so far, and reports whether to read now; otherwise Open says
// when.
func (b *backlog) begin() bool {
	b.unread, b.erased = allParts, make(map[string]bool)
	return b.p.opened.Load()
}

// take returns the partitions to read now.
func (b *backlog) take() parts {
	from := b.unread
	b.unread, b.reading = 0, true
	return from
}

// endRead records that the result of a read was processed.
func (b *backlog) endRead() {
	b.reading = false
	clear(b.erased)
}
