//go:build invariants

package actor

import "sync/atomic"

// invariant asserts, in the build with the tag invariants, that an actor has one turn at a
// time; a handler that waits off stage has its turn still.
type invariant struct{ turns atomic.Int32 }

func (i *invariant) beginTurn() {
	if n := i.turns.Add(1); n != 1 {
		panic("actor: an actor has two turns at once: its scheduling is broken")
	}
}

func (i *invariant) endedTurn() {
	if n := i.turns.Add(-1); n != 0 {
		panic("actor: a turn has ended that had not begun: its scheduling is broken")
	}
}
