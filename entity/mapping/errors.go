package mapping

import (
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

var (
	// ErrNotFound says that there is no mapping of this name.
	ErrNotFound = errors.New("no such mapping")

	// ErrCycle says that a mapping would make a value depend on itself, through
	// whatever number of mappings. The error is a [*CycleError].
	ErrCycle = errors.New("cycle")

	// ErrTaken says that another mapping writes the same key of the same entity: a value has at
	// most one mapping.
	ErrTaken = errors.New("written by another mapping")

	// ErrLimit says that there are MaxMappings already, or that all mappings would take more than
	// MaxAllBytes of memory.
	ErrLimit = errors.New("too many mappings")

	// ErrClosed says that the service has been closed.
	ErrClosed = errors.New("mappings closed")
)

// SyntaxError says what is wrong with a statement, and where. It wraps
// [entity.ErrInvalid].
type SyntaxError struct {
	// Line and Column count from 1, the column in characters.
	Line, Column int
	// Offset is the place in bytes, from 0.
	Offset int
	// In names the member of a mapping in JSON that the place lies in, such as
	// select[1].value, and is "" for a statement.
	In string
	// Detail says what was wrong and what must be there.
	Detail string
}

// Error returns the place and the detail.
func (e *SyntaxError) Error() string {
	if e.In != "" {
		return fmt.Sprintf("%s: %d:%d: %s", e.In, e.Line, e.Column, e.Detail)
	}
	return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Detail)
}

// Unwrap returns [entity.ErrInvalid].
func (e *SyntaxError) Unwrap() error { return entity.ErrInvalid }

// CycleError names a cycle: each value is computed from the one before it, and
// the first from the last. It wraps [ErrCycle].
type CycleError struct {
	// Mappings are the names in the order in which the data would flow, the first
	// one again at the end.
	Mappings []string
	// Values are what they write, as entity.key, in the same order.
	Values []string
}

// Error names the cycle.
func (e *CycleError) Error() string {
	return fmt.Sprintf("cycle: %s (%s)", strings.Join(e.Mappings, " -> "), strings.Join(e.Values, " -> "))
}

// Unwrap returns [ErrCycle].
func (e *CycleError) Unwrap() error { return ErrCycle }
