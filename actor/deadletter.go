package actor

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Reason says how an actor ended, and why a message could not be handled.
type Reason uint8

// The reasons of a [Down] and of a [DeadLetter].
const (
	// Stopped: the actor ended normally, by Stop, Drain, ErrStop or with its parent.
	Stopped Reason = iota + 1
	// Failed: the actor failed and its supervisor did not restart it.
	Failed
	// Killed: the actor was ended by Kill.
	Killed
	// NoActor: there was no such actor, or it no longer existed.
	NoActor
	// Overflowed: a bounded mailbox had no room.
	Overflowed
	// Conflated: a newer message of the same key replaced it. Such dead letters are counted, but
	// not kept, logged or published.
	Conflated
	// NoConnection: the actor belongs to another system, which is lost.
	NoConnection
	// NotAccepted: the message came from another system and its type is not accepted by the actor
	// or not known here, or it goes to another system and cannot be encoded.
	NotAccepted
	// Refused: middleware refused it before it was sent, see [BeforeSend].
	Refused
	// Passivated: a virtual actor has given up its state, see [Virtual]; its next message makes
	// another. For a message: it was left in the mailbox then, and nobody can handle it.
	Passivated
	reasons
)

// String returns the reason as one lower-case word, fit for a metric's label.
func (r Reason) String() string {
	switch r {
	case Stopped:
		return "stopped"
	case Failed:
		return "failed"
	case Killed:
		return "killed"
	case NoActor:
		return "no_actor"
	case Overflowed:
		return "overflowed"
	case Conflated:
		return "conflated"
	case NoConnection:
		return "no_connection"
	case NotAccepted:
		return "not_accepted"
	case Refused:
		return "refused"
	case Passivated:
		return "passivated"
	default:
		return "unknown"
	}
}

// DeadLetter is a message that was sent and will not be handled.
type DeadLetter struct {
	Time    time.Time
	To      PID
	From    PID    // zero when it came from outside of any actor
	Type    string // the message's Go type
	Message any    // the message itself, shared with its sender: read it, do not change it
	Reason  Reason
}

// deadLettersKept bounds the memory that dead letters can hold on to.
const deadLettersKept = 256

// deadLetterLogEvery bounds the log lines: one for each interval, with a count.
const deadLetterLogEvery = time.Second

// deadLetterBox counts all dead letters and keeps the latest.
type deadLetterBox struct {
	counts [reasons]atomic.Uint64

	mu     sync.Mutex
	recent []DeadLetter // a ring once it is full
	next   int          // where the ring's next one goes
	logged time.Time    // when the last log line was written

	unsaid atomic.Uint64 // dead letters since then
}

// count notes a dead letter of which nothing else is kept.
func (b *deadLetterBox) count(reason Reason) {
	b.counts[reason].Add(1)
	if reason != Conflated {
		b.unsaid.Add(1)
	}
}

func (s *System) deadLetter(to, from *core, msg any, reason Reason) {
	if reason == Conflated {
		s.dead.count(reason)
		return
	}
	s.bury(DeadLetter{To: to.pid(), From: from.pid(), Message: msg, Reason: reason})
}

// bury counts a dead letter and makes it known. It sets its time, and its type if that is empty.
func (s *System) bury(d DeadLetter) {
	b := &s.dead
	b.count(d.Reason)
	d.Time = time.Now()
	if d.Type == "" {
		d.Type = fmt.Sprintf("%T", d.Message)
	}
	b.mu.Lock()
	if len(b.recent) < deadLettersKept {
		b.recent = append(b.recent, d)
	} else {
		b.recent[b.next] = d
	}
	b.next = (b.next + 1) % deadLettersKept
	say := d.Time.Sub(b.logged) >= deadLetterLogEvery
	var unsaid uint64
	if say {
		b.logged, unsaid = d.Time, b.unsaid.Swap(0)
	}
	b.mu.Unlock()

	s.publish(d)
	if say {
		s.say(slog.LevelWarn, "dead letter",
			slog.String("to", d.To.String()), slog.String("from", d.From.String()),
			slog.String("message_type", d.Type), slog.String("reason", d.Reason.String()),
			slog.Uint64("since_last_line", unsaid))
	}
}

// DeadLetters returns the most recent dead letters, at most 256, newest first. It
// is safe for concurrent use. [Stats] has the counts of all.
func (s *System) DeadLetters() []DeadLetter {
	b := &s.dead
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]DeadLetter, 0, len(b.recent))
	for i := range b.recent {
		out = append(out, b.recent[(b.next-1-i+2*deadLettersKept)%deadLettersKept])
	}
	return out
}
