package actor

import (
	"fmt"
	"time"
)

// Stats are the system's counters at one moment.
type Stats struct {
	Started     time.Time // when the system was made
	Actors      int       // living actors
	Handled     uint64    // messages handled, by all actors there ever were
	Failures    uint64
	Restarts    uint64
	Queued      int // actors that have mail and wait for a worker
	Workers     int // goroutines of the pool that have not stepped out of it for a Blocking
	Waiting     int // handlers that wait with their stacks set aside, for an answer for example
	Timers      int // pending timers
	DeadLetters uint64
	// DeadLettersByReason has an entry for each reason that occurred.
	DeadLettersByReason map[string]uint64
}

// Stats returns the counters. It costs nothing on the way of a message; a turn adds
// its messages when it ends.
func (s *System) Stats() Stats {
	queued, workers := s.sched.counts()
	st := Stats{
		Started: s.began, Actors: max(0, int(s.living.Load())-1), Handled: s.handled.Load() + s.sched.handledMessages(), Failures: s.failures.Load(),
		Restarts: s.restarts.Load(), Queued: queued, Workers: workers, Waiting: int(s.sched.parked.Load()), Timers: s.clock.len(), DeadLettersByReason: map[string]uint64{},
	}
	for r := range reasons {
		if n := s.dead.counts[r].Load(); n > 0 {
			st.DeadLettersByReason[r.String()] = n
			st.DeadLetters += n
		}
	}
	return st
}

func (s *System) deadLetterCount() (n uint64) {
	for r := range reasons {
		n += s.dead.counts[r].Load()
	}
	return n
}

// Info describes one actor at one moment.
type Info struct {
	Path     string
	PID      string
	Type     string // of its state, or of its message if it is a function
	State    string // starting, running, suspended, restarting, stopping or stopped
	Mailbox  int    // messages that wait; during a turn those of the turn are included
	Handled  uint64 // messages handled by all its incarnations
	Restarts uint64
	Children int
}

// Tree is an actor and its first children.
type Tree struct {
	Info
	Children []Info // children in the order of their start
	More     bool   // there are more than those
}

// Inspect describes the actor at the path, "/" for the root, and at most limit of
// its children, oldest first. Only actors with a name have a path to ask for. It fails
// with [ErrStopped] when there is no such actor.
func (s *System) Inspect(path string, limit int) (Tree, error) {
	c := s.names.find(path)
	if c == nil {
		return Tree{}, fmt.Errorf("inspect: %w", nobody(path))
	}
	t := Tree{Info: c.info()}
	if limit <= 0 {
		t.More = t.Info.Children > 0
		return t, nil
	}
	for _, child := range c.childList(limit + 1) {
		if len(t.Children) == limit {
			t.More = true
			break
		}
		t.Children = append(t.Children, child.info())
	}
	return t, nil
}

func (c *core) info() Info {
	pid := c.pid()
	i := Info{Path: pid.Path(), PID: pid.String(), Type: c.impl().typeName(), Mailbox: c.impl().mailboxLen()}
	c.mu.Lock()
	defer c.mu.Unlock()
	i.State, i.Handled = c.phase.String(), c.handled
	if c.ext != nil {
		i.Restarts, i.Children = c.ext.restarts, c.ext.children
	}
	return i
}

// childList returns at most limit children, oldest first, all of them for 0.
func (c *core) childList(limit int) []*core {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return nil
	}
	var list []*core
	for child := c.ext.firstChild; child != nil && (limit == 0 || len(list) < limit); child = c.sibling(child.next) {
		list = append(list, child)
	}
	return list
}
