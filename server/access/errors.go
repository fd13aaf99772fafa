package access

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrMissing says that there are no credentials where some are needed.
	ErrMissing = errors.New("credentials are needed")

	// ErrCredentials says that credentials are wrong, revoked or expired. It does not
	// say which: who guesses must not be told that a name exists.
	ErrCredentials = errors.New("the credentials are not valid")

	// ErrSlowed says that there were too many failed logins from an address or with
	// a name. It is a SlowedError.
	ErrSlowed = errors.New("too many failed logins")

	// ErrBusy says that too many passwords are being checked at the moment.
	ErrBusy = errors.New("too many logins at the same time")

	// ErrForbidden says that a principal may not do something.
	ErrForbidden = errors.New("not allowed")

	// ErrInvalid says that a principal cannot be as it was asked for. The text says
	// what it must be.
	ErrInvalid = errors.New("not a valid principal")

	// ErrExists says that there is a principal of that name.
	ErrExists = errors.New("the principal exists")

	// ErrNotFound says that there is no principal of that name.
	ErrNotFound = errors.New("no such principal")

	// ErrLastAdmin says that without a principal nobody could manage the others.
	ErrLastAdmin = errors.New("the last admin")
)

// SlowedError is ErrSlowed with the time to wait.
type SlowedError struct{ Wait time.Duration }

// Error says how long to wait.
func (e *SlowedError) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrSlowed, e.Wait.Round(time.Second))
}

// Unwrap returns ErrSlowed.
func (e *SlowedError) Unwrap() error { return ErrSlowed }
