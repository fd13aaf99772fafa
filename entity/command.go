package entity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// CommandState says how far a command has come. The numbers are part of the stored format. A
// command only advances to states of greater numbers, with one exception: a command that was sent
// and not acknowledged is queued again when its receiver is gone.
type CommandState uint8

// The states of a command. From CommandDone on it has ended.
const (
	CommandQueued    CommandState = 1 // it waits for the device
	CommandSent      CommandState = 2 // a transport that reaches the device was given it
	CommandDelivered CommandState = 3 // the device has acknowledged that it has it
	CommandDone      CommandState = 4 // the device has carried it out
	CommandFailed    CommandState = 5 // the device could not carry it out
	CommandTimedOut  CommandState = 6 // it was delivered, and there was no answer in time
	CommandExpired   CommandState = 7 // it could not be delivered in time
	CommandCanceled  CommandState = 8 // it was withdrawn
)

var commandStates = [...]string{
	CommandQueued: "queued", CommandSent: "sent", CommandDelivered: "delivered", CommandDone: "done",
	CommandFailed: "failed", CommandTimedOut: "timed_out", CommandExpired: "expired", CommandCanceled: "canceled",
}

// String returns the name of the state in lower case, timed_out for example.
func (s CommandState) String() string {
	if s < CommandQueued || int(s) >= len(commandStates) {
		return "none"
	}
	return commandStates[s]
}

// Ended reports whether this state is final.
func (s CommandState) Ended() bool { return s >= CommandDone }

// ParseCommandState reads the name of a state.
func ParseCommandState(name string) (CommandState, error) {
	if i := slices.Index(commandStates[1:], name); i >= 0 {
		return CommandState(i + 1), nil
	}
	return 0, fmt.Errorf("state %q: %w: must be one of %s", brief(name), ErrInvalid, strings.Join(commandStates[1:], ", "))
}

// Command is a message to a device and its state. Times are in milliseconds since the epoch, 0 for
// what has not happened.
type Command struct {
	// ID identifies the command within its entity. IDs have equal length, and sort in the order in
	// which the commands came.
	ID     string
	Entity string
	Name   string
	// Request is what to send to the device with the name, the zero Value for nothing.
	Request value.Value
	// Key is the idempotency key, "" for none, and By who sent the command.
	Key, By string
	// Parallel says that the command does not wait for others, nor they for it.
	Parallel bool
	State    CommandState
	Created  int64
	// Expires is the deadline for delivery, and Timeout how long the device may take from delivery
	// to its answer, in milliseconds.
	Expires, Timeout int64
	// Sent is when it was last sent, and Attempts how often.
	Sent     int64
	Attempts int
	// Delivered is when the device acknowledged it, and Ended when it ended.
	Delivered, Ended int64
	// Progress is the last progress that the device has reported, and Result its answer; the zero
	// Value for nothing. Error is why the command failed.
	Progress, Result value.Value
	Error            string
}

// NewCommand is a command to be sent by Runtime.Command.
type NewCommand struct {
	// Name is the name of a command that the entity's type declares or, if the type is not strict,
	// any other: 1 to MaxKeyBytes bytes.
	Name string
	// Request is what to send to the device with the name, at most MaxTextBytes. The zero Value is
	// nothing.
	Request value.Value
	// Key, if it is not "", identifies the command when By sends it a second time: at most
	// MaxCommandKeyBytes bytes. Each sender has keys of its own, so that nobody can use up somebody
	// else's.
	Key string
	// Expires is the deadline for delivery, in milliseconds since the epoch, at most
	// MaxCommandExpiry from now. 0 means DefaultCommandExpiry from now.
	Expires int64
	// Timeout is how long the device may take from delivery to its answer, at most
	// MaxCommandTimeout. 0 means DefaultCommandTimeout.
	Timeout time.Duration
	// Parallel lets the command be sent while others are under way. Otherwise commands of an entity
	// are sent one at a time, in the order in which they came, each when the one before has ended.
	// A type can also declare a command as parallel. Parallel commands neither wait for the others
	// nor make them wait.
	Parallel bool
	// By is who sends it, at most MaxCommandByBytes bytes.
	By string
	// Of, if it is not 0, is the creation time of the entity that the command is for. If that
	// entity was deleted, the error is ErrNotFound, even if there is a new entity with the same id.
	Of int64
}

// CommandsQuery asks for commands of an entity, newest first.
type CommandsQuery struct {
	// Before keeps the commands with a lower ID. It is the ID of the last command on the previous
	// page, "" for the first page.
	Before string
	// Limit is how many commands to return at most, up to MaxPageLimit. Defaults to 50.
	Limit int
	// States keeps the commands in one of these states. Empty keeps all.
	States []CommandState
	// ID keeps only the command with that id, and Key only those with that idempotency key. Empty
	// keeps all.
	ID, Key string
}

// OpenCommands says that an entity has commands that have not ended.
type OpenCommands struct {
	Entity string
	// Due is when the first of them is to expire or to time out.
	Due int64
}

// Due returns when an open command expires or times out, and 0 for one that has ended.
func (c *Command) Due() int64 {
	switch {
	case c.State.Ended():
		return 0
	case c.State == CommandDelivered:
		return c.Delivered + c.Timeout
	default:
		return c.Expires
	}
}

// Keeps reports whether the command matches the query, ignoring Before and Limit.
func (q *CommandsQuery) Keeps(c *Command) bool {
	return (q.ID == "" || c.ID == q.ID) && (q.Key == "" || c.Key == q.Key) && (len(q.States) == 0 || slices.Contains(q.States, c.State))
}

// bytes is what a command occupies in addition to its struct.
func (c *Command) bytes() int {
	return len(c.Name) + len(c.Key) + len(c.By) + len(c.Error) + len(c.Request.Text()) + len(c.Progress.Text()) + len(c.Result.Text())
}

// same reports whether n repeats the command.
func (c *Command) same(n *NewCommand) bool {
	return c.Name == n.Name && sameValue(c.Request, n.Request)
}

// commandIDBytes is the length of an ID: base 36 of a number below 2^53, so that there are 1024 for
// each millisecond.
const (
	commandIDBytes = 11
	commandsPerMS  = 1024
)

// commandID returns the ID for a number.
func commandID(number int64) string {
	digits := strconv.FormatInt(number, 36)
	return strings.Repeat("0", max(0, commandIDBytes-len(digits))) + digits
}

// commandNumber returns the number of an ID, 0 if it is not an ID.
func commandNumber(id string) int64 {
	n, err := strconv.ParseInt(id, 36, 64)
	if err != nil || len(id) != commandIDBytes {
		return 0
	}
	return n
}

// check reports what is wrong with a new command, independent of the time.
func (n *NewCommand) check() error {
	if err := checkName("command", n.Name, MaxKeyBytes); err != nil {
		return err
	}
	if err := checkCommandValue("request", n.Request); err != nil {
		return err
	}
	if n.Key != "" {
		if err := checkName("idempotency key", n.Key, MaxCommandKeyBytes); err != nil {
			return err
		}
	}
	if len(n.By) > MaxCommandByBytes {
		return fmt.Errorf("by: %w: must have at most %d bytes, not %d", ErrInvalid, MaxCommandByBytes, len(n.By))
	}
	if n.Timeout == 0 {
		n.Timeout = DefaultCommandTimeout
	}
	if n.Timeout < time.Millisecond || n.Timeout > MaxCommandTimeout {
		return fmt.Errorf("timeout: %w: must be from 1ms to %v, not %v", ErrInvalid, MaxCommandTimeout, n.Timeout)
	}
	return nil
}

// expiry returns the deadline for delivery of a command that is made now. It is not part of check:
// a command may be repeated by its key after the deadline.
func (n *NewCommand) expiry(now int64) (int64, error) {
	if n.Expires == 0 {
		return now + DefaultCommandExpiry.Milliseconds(), nil
	}
	if n.Expires <= now || n.Expires > now+MaxCommandExpiry.Milliseconds() {
		return 0, fmt.Errorf("expires: %w: must be after now, %d, and at most %v later, not %d", ErrInvalid, now, MaxCommandExpiry, n.Expires)
	}
	return n.Expires, nil
}

func checkCommandValue(what string, v value.Value) error {
	if k := v.Kind(); k > value.KindJSON {
		return fmt.Errorf("%s: %w: must be a JSON value, not a %v", what, ErrInvalid, k)
	}
	if n := len(v.Text()); n > MaxTextBytes {
		return fmt.Errorf("%s: %w: must have at most %d bytes, not %d", what, ErrInvalid, MaxTextBytes, n)
	}
	return nil
}
