package entity

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity/model"
)

var (
	// ErrNotFound says that there is no such entity, because none was created and no reading of it
	// was ever accepted, or that there is no such document, type or command.
	ErrNotFound = errors.New("not found")

	// ErrConflict says that the condition of a write does not hold: the current version differs, or
	// something exists where nothing should. Read it again, and decide again.
	ErrConflict = errors.New("conflict")

	// ErrTestFailed says that a test operation of a JSON patch does not hold: the patch has changed
	// nothing. It wraps ErrConflict. A condition that does not hold (Edits.If) gives ErrConflict
	// alone.
	ErrTestFailed = fmt.Errorf("test of the patch failed: %w", ErrConflict)

	// ErrFull says that the store has no room on its disk. A reading or an edit refused with it has
	// not been kept, unless the text says that the outcome is unknown. Existing data can be read.
	ErrFull = errors.New("no room on the disk of the store")

	// ErrBusy says that too much from the same sender is already waiting for its commit, see
	// Once.By. What is refused with it has not been kept, and may be sent again when some of the
	// rest is committed.
	ErrBusy = errors.New("too much waits for its commit")

	// ErrClosed says that the runtime has been closed or that its actor system
	// was shut down. A reading refused with it has not been kept.
	ErrClosed = errors.New("entity runtime closed")

	// ErrStopped says that the actor of the entity ended before it handled the reading. The reading
	// has not been kept and may be sent again.
	ErrStopped = errors.New("entity stopped before it came to the reading")

	// ErrFailed says that the actor of the entity failed while it worked on the
	// reading. The reading has not been kept; the actor restarts from the store.
	ErrFailed = errors.New("entity failed on the reading")

	// ErrInvalid is wrapped by every error about what the caller passed: an id, a reading, a limit,
	// a range. The text says what it must be.
	ErrInvalid = errors.New("invalid")

	// ErrMismatch says that a reading, an attribute, a relation or a command does not agree with
	// the type of the entity. The text says what it must be. It is the error of package model.
	ErrMismatch = model.ErrMismatch

	// ErrTypeInUse says that a type cannot be deleted, because entities of it exist, or types need
	// it.
	ErrTypeInUse = errors.New("type in use")

	// ErrTooManyKeys says that a reading would give its entity more than
	// MaxEntityKeys keys, or the whole system more than Config.Keys, or its sender more than its share.
	ErrTooManyKeys = errors.New("too many keys")

	// ErrTooManyCommands says that a command would give its entity more than
	// MaxOpenCommands commands that have not ended, or more than MaxOpenCommandBytes of
	// them.
	ErrTooManyCommands = errors.New("too many open commands")

	// ErrOtherCommand says that the idempotency key of a command belongs to another command, with
	// another name or request.
	ErrOtherCommand = errors.New("idempotency key of another command")

	// ErrCommandEnded says that a command cannot be canceled, because it has ended.
	ErrCommandEnded = errors.New("command has ended")

	// ErrCursorInvalid says that a cursor was not handed out by this runtime.
	ErrCursorInvalid = errors.New("cursor is not one that was handed out")

	// ErrCursorExpired says that the changes after the cursor are no longer
	// kept. Read the present state, then subscribe from now.
	ErrCursorExpired = errors.New("cursor is older than the changes that are kept")

	// ErrCursorForeign says that the cursor's change is not in this store: the cursor is of another
	// store, or the store was restored from a backup made before the change. For errors.Is it is
	// also an ErrCursorExpired.
	ErrCursorForeign error = foreignCursorError{}

	// ErrLagged says that a subscription's reader was too slow and its buffer filled up. Nothing is
	// lost yet: subscribe again with the cursor of the last change that was read.
	ErrLagged = errors.New("subscription fell behind")
)

type foreignCursorError struct{}

func (foreignCursorError) Error() string {
	return "cursor is of another store, or of changes made after the backup that this one was restored from"
}

func (foreignCursorError) Is(target error) bool { return target == ErrCursorExpired }
