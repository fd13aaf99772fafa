package access

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMissing reports that credentials are required and none were given.
	ErrMissing = errors.New("credentials are needed")

	// ErrCredentials reports that credentials are wrong, revoked or expired. It does not
	// tell which, so that guessing does not reveal whether a name exists.
	ErrCredentials = errors.New("the credentials are not valid")

	// ErrSlowed reports too many failed logins from an address or with a name. The error
	// is a SlowedError.
	ErrSlowed = errors.New("too many failed logins")

	// ErrBusy reports that too many passwords are being checked at the moment.
	ErrBusy = errors.New("too many logins at the same time")

	// ErrRate reports that a principal sends more than its rate, see Rates.
	ErrRate = errors.New("more is sent than may be")

	// ErrForbidden reports that a principal lacks a permission.
	ErrForbidden = errors.New("not allowed")

	// ErrInvalid reports an invalid field of a principal; the text says what it must be.
	ErrInvalid = errors.New("not a valid principal")

	// ErrExists reports that the name is taken.
	ErrExists = errors.New("the principal exists")

	// ErrNotFound reports that there is no principal of that name.
	ErrNotFound = errors.New("no such principal")

	// ErrLastAdmin reports that without this principal nobody could manage the others.
	ErrLastAdmin = errors.New("the last admin")
)

// SlowedError is ErrSlowed with the time to wait.
type SlowedError struct{ Wait time.Duration }

// Error includes how long to wait.
func (e *SlowedError) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrSlowed, e.Wait.Round(time.Second))
}

// Unwrap returns ErrSlowed.
func (e *SlowedError) Unwrap() error { return ErrSlowed }
