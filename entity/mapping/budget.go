package mapping

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// budget bounds the memory of what the mappings of an engine keep of their sources: values in windows,
// the latest readings, texts, and the members that patterns and relations give to groups. A value for
// which there is no room is not kept, and what is computed from it fails as long as it would count: it
// has no value rather than a wrong one.
type budget struct {
	most, used int    // bytes
	dropped    uint64 // what there was no room for, since it was published
}

// account is what one mapping, or one computation over the history (see passing), takes of a budget. A nil account
// has no bound.
type account struct {
	of     *budget
	used   int
	beyond bool // what it takes is counted, and not refused
	out    bool // what it takes is neither, see leave
}

// account returns an account that has taken nothing.
func (b *budget) account() *account { return &account{of: b} }

// passing returns the account of one computation over the history, which is over before anything else is
// taken: it may exceed the budget, by the windows of a field. What it left out would stay in the history as it
// was before.
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

// drop notes something for which there was no room.
func (a *account) drop() { a.of.dropped++ }

// leave takes what is kept, and will be, out of the budget.
func (a *account) leave() {
	if !a.out {
		a.of.used -= a.used
	}
	a.out = true
}

// enter takes it in again, whether there is room or not.
func (a *account) enter() {
	if a.out {
		a.of.used += a.used
	}
	a.out = false
}

// noRoomError is why what there was no room for has no value.
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
