//go:build invariants

package actor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// invariant asserts the table of state.go, in the build with the tag invariants.
type invariant struct{ state atomic.Uint32 }

// waysTo has, for each state, those that an actor may come from.
var waysTo = [...][]state{
	stateIdle:     {stateRunning},
	stateRunnable: {stateIdle, stateBlocked, stateRunning, stateParked},
	stateRunning:  {stateRunnable, stateParked, stateFenced},
	stateParked:   {stateRunning},
	stateBlocked:  {stateRunning},
	stateFenced:   {stateRunning},
	stateStopped:  {stateRunning},
}

func (i *invariant) moved(to state) {
	if from := state(i.state.Swap(uint32(to))); !slices.Contains(waysTo[to], from) {
		panic(fmt.Sprintf("actor: an actor that was %v has become %v: its scheduling is broken", from, to))
	}
}

// requireTurn asserts that somebody runs the actor's turn.
func (i *invariant) requireTurn() {
	if s := state(i.state.Load()); s != stateRunning {
		panic(fmt.Sprintf("actor: what belongs to the turn is touched and the actor is %v", s))
	}
}

// requireOffStack asserts that an actor whose turn ends waits for nothing and has nobody above it: a link that is
// left would be part of the next search for a cycle of waits. REQUIRES: c.mu held.
func (c *core) requireOffStack() {
	if ext := c.ext; ext != nil && (ext.inquiry.stack != nil || ext.inquiry.call != nil || ext.inquiry.before != nil) {
		panic("actor: a turn ends while the actor waits, or has another above it on its stack: " + c.fullPath())
	}
}

// phasesTo has, for each phase, those that may come before it.
var phasesTo = [...][]phase{
	running:    {starting, suspended, restarting},
	suspended:  {starting, running, restarting},
	restarting: {running, suspended, restarting},
	stopping:   {starting, running, suspended, restarting},
	stopped:    {stopping},
}

func (i *invariant) aged(from, to phase) {
	i.requireTurn()
	if !slices.Contains(phasesTo[to], from) {
		panic(fmt.Sprintf("actor: an actor that was %v has become %v", from, to))
	}
}

// held has the locks of actors and of run queues that are held, by the number of the goroutine,
// while trackLocks is set: to ask for that number takes longer than what a lock guards.
var (
	held       sync.Map
	trackLocks atomic.Bool
)

// requireNoLock asserts that the caller holds no such lock.
func (*invariant) requireNoLock() {
	if !trackLocks.Load() {
		return
	}
	if _, holds := held.Load(goroutineID()); holds {
		panic("actor: code of the user's is called with a lock held")
	}
}

func (s *spin) acquired() {
	if !trackLocks.Load() {
		return
	}
	if _, holds := held.Swap(goroutineID(), s); holds {
		panic("actor: a lock is acquired with another one held, which must be a leaf")
	}
}

func (s *spin) released() {
	if trackLocks.Load() {
		held.Delete(goroutineID())
	}
}
