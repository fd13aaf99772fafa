package mapping

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// budget bounds the memory that the mappings of an engine use for their sources: values in windows,
// the latest readings, texts, and the members that patterns and relations give to groups. A value
// for which there is no room is not kept, and computations that would need it fail: they give no
// value rather than a wrong one.
type budget struct {
	most, used int    // bytes
	dropped    uint64 // values for which there was no room, since last published
}

// account is the share of a budget used by one mapping, or by one computation over the history (see
// passing). A nil account has no bound.
type account struct {
	of     *budget
	used   int
	beyond bool // its use is counted, but never refused
	out    bool // its use is not counted either, see leave
}

// account returns an account that has taken nothing.
func (b *budget) account() *account { return &account{of: b} }

// passing returns the account of one computation over the history, which ends before anything else
// is taken. It may exceed the budget by the windows of a field, because values that it left out
// would stay wrong in the history.
func (b *budget) passing() *account { return &account{of: b, beyond: true} }

// take takes n bytes, or gives them back if n is negative. It reports whether there was room, and takes
// nothing if there was not.
func (a *account) take(n int) bool {
	if a == nil {
		return true
	}
	if a.out {
		a.used += n
		return true
	}
	if n > 0 && !a.beyond && a.of.used+n > a.of.most {
		return false
	}
	a.used += n
	a.of.used += n
	return true
}

// drop counts a value for which there was no room.
func (a *account) drop() { a.of.dropped++ }

// leave excludes everything that the account uses, now and later, from the budget.
func (a *account) leave() {
	if !a.out {
		a.of.used -= a.used
	}
	a.out = true
}

// enter includes it again, whether there is room or not.
func (a *account) enter() {
	if a.out {
		a.of.used += a.used
	}
	a.out = false
}

// noRoomError says that there is no value because there was no room.
type noRoomError struct {
	what string
	most int
}

func (e *noRoomError) Error() string {
	return fmt.Sprintf("there was no room for %s: what all mappings keep of their sources takes at most %d bytes", e.what, e.most)
}

func (a *account) noRoom(what string) error { return &noRoomError{what, a.of.most} }

// textBytes returns what a value takes besides its Value.
func textBytes(v value.Value) int { return len(v.Text()) }

// Memory of what is kept of sources, in bytes: a test compares it with the heap.
const (
	slotSize   = 120 // of a reading in a window
	pointSize  = 48  // of one of the latest readings of a source
	joinedSize = 80 + entitySize
)
