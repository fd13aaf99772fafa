package alarm

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

var (
	// ErrNotFound says that there is no such alarm, rule or webhook. It is also an
	// [entity.ErrNotFound].
	ErrNotFound = fmt.Errorf("no such alarm, rule or webhook: %w", entity.ErrNotFound)

	// ErrLimit says that there are too many rules or webhooks.
	ErrLimit = errors.New("too many of these")

	// ErrInUse says that a webhook cannot be deleted, because rules name it.
	ErrInUse = errors.New("the webhook is in use")

	// ErrCleared says that an alarm has already cleared.
	ErrCleared = errors.New("the alarm has cleared")

	// ErrHolds says that an alarm cannot be cleared by hand: its condition holds, and it
	// would be raised again at once. Shelve it, or change the rule.
	ErrHolds = errors.New("the condition of the alarm holds")

	// ErrClosed says that the service has been closed.
	ErrClosed = errors.New("alarms closed")
)

// ConditionError says what is wrong with a condition of a rule, and where. It wraps
// [entity.ErrInvalid] and a [*filter.Error].
type ConditionError struct {
	// In is the condition: raise, clear or where.
	In  string
	Err *filter.Error
}

// Error names the condition, the column and what is expected there.
func (e *ConditionError) Error() string { return e.In + ": " + e.Err.Error() }

// Unwrap returns [entity.ErrInvalid] and the error of package filter.
func (e *ConditionError) Unwrap() []error { return []error{entity.ErrInvalid, e.Err} }
