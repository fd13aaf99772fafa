package actor

import "fmt"

// verdict is what a mailbox did with a message. The order of the constants counts: from verdictReplaced on
// the mailbox hands another message back, and see full.
type verdict uint8

const (
	verdictTaken    verdict = iota
	verdictGone             // the actor takes nothing any more
	verdictFull             // no room: refused
	verdictDropped          // no room: the new one is dropped
	verdictWait             // no room yet: whoever may wait, waits
	verdictReplaced         // taken, in place of an older one of its key, which is handed back
	verdictEvicted          // taken, and the oldest is handed back

	verdictAlien       // between systems: the type has no bytes, or is none that the actor accepts
	verdictUnreachable // the actor's node is lost
)

// full reports whether a message has found no room.
func (v verdict) full() bool {
	return v >= verdictFull && v <= verdictWait || v == verdictEvicted
}

// reason returns what to write on the dead letter of a message that was not taken.
func (v verdict) reason() Reason {
	switch v {
	case verdictGone:
		return NoActor
	case verdictAlien:
		return NotAccepted
	case verdictUnreachable:
		return NoConnection
	default:
		return Overflowed
	}
}

// err returns the error for whoever wants one.
func (v verdict) err() error {
	switch v {
	case verdictGone:
		return ErrStopped
	case verdictAlien:
		return errAlien
	case verdictUnreachable:
		return ErrUnreachable
	default:
		return ErrMailboxFull
	}
}

// far returns v as a carrier knows it.
func (v verdict) far() FarVerdict {
	switch v {
	case verdictTaken:
		return FarTaken
	case verdictGone:
		return FarGone
	case verdictAlien:
		return FarNotAccepted
	case verdictUnreachable:
		return FarUnreachable
	default:
		return FarFull
	}
}

// errAlien says why a message between systems was not taken.
var errAlien = fmt.Errorf("%w: another system gets only messages of registered types, and its actor those that it accepts", ErrNotAccepted)
