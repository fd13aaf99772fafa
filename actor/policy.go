package actor

import (
	"errors"
	"fmt"
)

// ErrMailboxFull says that a bounded mailbox did not take the message.
var ErrMailboxFull = errors.New("mailbox full")

// Overflow says what a bounded mailbox does with a message for which it has no room.
type Overflow uint8

const (
	// Reject refuses the new message: TryTell and Ask fail with ErrMailboxFull, the
	// message of a Tell becomes a dead letter.
	Reject Overflow = iota
	// DropNewest turns the new message into a dead letter. TryTell does not fail.
	DropNewest
	// DropOldest turns the message that has waited longest into a dead letter, and takes
	// the new one. In a [Priority] mailbox it is the oldest of the lowest rank, which may be
	// the new one itself.
	DropOldest
	// Block makes TryTell and Ask wait for room as long as their context allows; whoever has waited
	// longest is next. Tell never waits: its message becomes a dead letter. Nobody waits for room
	// in their own mailbox, or behind a [Routed] reference, which would have to choose again: that
	// fails as with Reject. A sender that is stopped or killed while it waits gives up its place; a
	// message that was accepted before stays sent.
	Block
)

// Bounded makes a mailbox that holds at most n messages besides the one that is being handled.
// Events of the system, see [Subscribe], are among them. What an actor has requested itself always
// finds room: timers, a receive timeout, the Down of a watch, the outcome of a Pipe or an AskThen;
// and so does the order to drain. Bounded panics if n is less than 1.
func Bounded(n int, overflow Overflow) SpawnOption {
	required(n > 0, fmt.Sprintf("Bounded(%d): a mailbox needs room for at least one message", n))
	required(overflow <= Block, fmt.Sprintf("Bounded: there is no policy %d: it is Reject, DropNewest, DropOldest or Block", overflow))
	return spawnOption(func(c *spawnConfig) { c.bound, c.overflow = n, overflow })
}

// evicts reports whether a full mailbox drops a message that waits in it: its queue must then know
// which, see [rankQueue].
func (o Overflow) evicts() bool { return o == DropOldest }
