package actor

import (
	"errors"
	"fmt"
)

// The errors that callers can distinguish with [errors.Is].
var (
	// ErrStopped says that the target has stopped, is stopping or never existed.
	// A message sent to it is in the dead letters; it was not handled.
	ErrStopped = errors.New("actor stopped")

	// ErrNameTaken says that a living actor has the name under the same parent.
	// Nothing was started.
	ErrNameTaken = errors.New("name taken")

	// ErrBadName says that a name cannot be part of a path. Nothing was started.
	ErrBadName = errors.New("bad name")

	// ErrUnhandled says that the handler returned without an answer, without an
	// error and without having taken a [Promise].
	ErrUnhandled = errors.New("request not answered by its handler: it must reply, return an error, or take a Promise")

	// ErrNotAccepted says that the target's message type does not include the
	// request. Nothing was sent.
	ErrNotAccepted = errors.New("message type not accepted by the target")

	// ErrDeadlock says that an ask, a Forward, or a wait for room or for the end of an actor would
	// have closed a cycle of actors that wait for each other, so that none of them could ever
	// continue. Nothing was sent, unless the cycle closed later, because an actor in it failed or was
	// about to stop; a forwarded request no longer has an asker.
	ErrDeadlock = errors.New("wait would close a cycle of waiting actors; tell, AskThen and Reentrant actors do not")

	// ErrTooManyWaiting says that so many handlers of the system are waiting, each with its stack
	// set aside, that one more is refused: see [WithMaxWaiting]. Nothing was sent. Use [AskThen]
	// for answers for which the handler need not wait.
	ErrTooManyWaiting = errors.New("too many handlers wait; see WithMaxWaiting and AskThen")

	// ErrWrongGoroutine says that the handler's own context was used to wait on a goroutine other
	// than the handler's, for example in a function that the handler gives to a sync.WaitGroup.
	// Nothing was sent. A context derived from it in the handler, for example by
	// context.WithCancel, may be used anywhere; [Gather] asks several at once.
	ErrWrongGoroutine = errors.New("the handler's own context was used to wait on another goroutine: derive a context from it, or use Gather")

	// ErrStop is not a failure: Receive returns it to stop its actor normally,
	// after the current message.
	ErrStop = errors.New("stop requested by the handler")

	// ErrRestartBudget says that an actor failed more often than its supervisor restarts it, and
	// was stopped. It wraps the last failure.
	ErrRestartBudget = errors.New("restart budget exhausted")

	// ErrBadPID says that a text is not the printed form of a [PID].
	ErrBadPID = errors.New("not a PID")

	errGoexit = errors.New("handler ended its goroutine with runtime.Goexit; return an error instead")
)

// PanicError is a panic in Init, Receive or in the function that makes an actor,
// recovered and treated as a failure.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // the stack of the panicking goroutine, as [runtime/debug.Stack] prints it
}

// Error returns the panic's value; the stack is a field of its own.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the panic's value if it was an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
