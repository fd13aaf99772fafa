package actor

import (
	"cmp"
	"fmt"
	"iter"
	"time"
)

// Stats are the system's counters at one moment.
type Stats struct {
	Started     time.Time // when the system was made
	Actors      int       // living actors
	Handled     uint64    // messages handled, by all actors there ever were
	Failures    uint64    // each with an ActorFailed
	Restarts    uint64    // whose Init has returned, as ActorRestarted says
	Queued      int       // actors that have mail and wait for a worker
	Workers     int       // goroutines that run actors and have not stepped out for a Blocking
	Waiting     int       // handlers that wait with their stacks set aside, for an answer for example
	Timers      int       // pending timers
	DeadLetters uint64
	EventsLost  uint64 // events for which the bounded mailbox of a listener had no room, see Subscribe
	// DeadLettersByReason has an entry for each reason that occurred.
	DeadLettersByReason map[string]uint64
	// Bulkheads are counted above as well, in the order in which WithBulkhead gave them.
	Bulkheads []BulkheadStats
}

// Stats returns the counters. It costs messages nothing; a turn adds its messages when it ends.
func (s *System) Stats() Stats {
	queued, workers, handled := 0, 0, s.handled.Load()
	for _, sched := range s.scheds {
		q, w := sched.counts()
		queued, workers, handled = queued+q, workers+w, handled+sched.handledMessages()
	}
	st := Stats{
		Started: s.began, Actors: max(0, int(s.living.Load())-1), Handled: handled, Failures: s.failures.Load(),
		Restarts: s.restarts.Load(), Queued: queued, Workers: workers, Waiting: int(s.parked.Load()), Timers: s.clock.len(), DeadLettersByReason: map[string]uint64{},
		EventsLost: s.listeners.missed.Load(), Bulkheads: s.bulkheadStats(),
	}
	for r := range reasons {
		if n := s.dead.counts[r].Load(); n > 0 {
			st.DeadLettersByReason[r.String()] = n
			st.DeadLetters += n
		}
	}
	return st
}

// lostMessages returns the number of dead letters, except those that a newer message has replaced.
func (s *System) lostMessages() (n uint64) {
	for r := range reasons {
		if r != Conflated {
			n += s.dead.counts[r].Load()
		}
	}
	return n
}

// Info describes one actor at one moment.
type Info struct {
	Path     string
	PID      string
	Type     string // of its state, or of its message if it is a function
	State    string // starting, running, passive, suspended, restarting, stopping or stopped
	Activity string // idle, runnable, running, or waiting: a handler waits with its stack set aside
	Attached bool   // it has a mailbox; an actor that has been idle for a while has released it
	Mailbox  int    // messages that wait; during a turn those of the turn are included
	Handled  uint64 // messages handled by all its incarnations
	Restarts uint64 // see ActorRestarted
	Children int
	Bulkhead string // whose workers run it, see WithBulkhead; empty for the system's own
	Waits    PID    // whom an ask in the handler waits for, the first of them if several handlers wait
}

// Tree is an actor and its first children.
type Tree struct {
	Info
	Children []Info // children in the order of their start, those with StopLast first
	More     bool   // there are more than those
}

// Inspect describes the actor at the path, "/" for the root, and at most limit of its children,
// oldest first. Only named actors have such a path. It fails with [ErrStopped] if there is no such
// actor. Children are looked up one by one, while others start and stop: if the search has reached
// a child that ends, the rest is left out, and More says so.
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
	var children []*core
	children, t.More = c.firstChildren(limit)
	for _, child := range children {
		t.Children = append(t.Children, child.info())
	}
	return t, nil
}

// firstChildren returns at most limit children, oldest first, and whether there are more. It does
// not hold the lock for long.
func (c *core) firstChildren(limit int) (list []*core, more bool) {
	for {
		part, more, ok := c.childrenAfter(list, min(limit-len(list), detailMost))
		list = append(list, part...)
		if !ok || !more || len(list) == limit {
			return list, more
		}
	}
}

// childrenAfter returns at most n of the children that come after those, and whether there are
// more. It reports false when the last of those is no child any more.
func (c *core) childrenAfter(those []*core, n int) (part []*core, more, ok bool) {
	part = make([]*core, 0, n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return nil, false, true
	}
	child := c.ext.firstChild
	if len(those) > 0 {
		last := those[len(those)-1]
		if last.prev == 0 && c.ext.firstChild != last {
			return nil, true, false // see removeChild
		}
		child = c.sibling(last.next)
	}
	for ; child != nil && len(part) < n; child = c.sibling(child.next) {
		part = append(part, child)
	}
	return part, child != nil, true
}

func (c *core) info() Info {
	pid := c.pid()
	mail := c.impl().mailState()
	i := Info{
		Path: pid.Path(), PID: pid.String(), Type: c.impl().typeName(), Mailbox: mail.waiting, Attached: mail.attached,
		Bulkhead: c.sched().name,
	}
	var waits *core
	func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		i.State, i.Handled, i.Activity = c.phase.String(), c.handled, c.activity(mail.handling)
		if ext := c.ext; ext != nil {
			i.Restarts, i.Children = ext.restarts, ext.children
			if p := ext.passivation; p != nil && p.passive && c.phase == running {
				i.State = "passive"
			}
			waits = ext.inquiry.target()
			for _, q := range c.waitingHandlers() {
				waits = cmp.Or(waits, q.target())
			}
		}
	}()
	i.Waits = waits.pid()
	return i
}

// activity says what the actor does. handling says that it was in a handler just now. REQUIRES: c.mu held.
func (c *core) activity(handling bool) string {
	handling = handling || c.flags.Load()&inUser != 0
	w := c.worker.Load()
	switch {
	case len(c.waitingHandlers()) > 0:
		return "waiting"
	case !c.scheduled: // its last message may still be marked, see unmark
		return stateIdle.String()
	case handling && c.traits.runsOn() == onPool && w != nil && w.current.Load() != c:
		return "waiting"
	case handling:
		return stateRunning.String()
	default:
		return stateRunnable.String()
	}
}

// Actors returns the living actors except the root, in no particular order: for tools. It reads one
// after the other while they run, so one that starts or ends meanwhile may be missing. It takes
// about a microsecond an actor, and holds the lock of at most one of them at a time.
func (s *System) Actors() iter.Seq[Info] {
	return func(yield func(Info) bool) {
		for c := range s.actors.all() {
			if c.parent != nil && !yield(c.info()) {
				return
			}
		}
	}
}

// childList returns the children, oldest first.
func (c *core) childList() []*core {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ext == nil {
		return nil
	}
	var list []*core
	for child := c.ext.firstChild; child != nil; child = c.sibling(child.next) {
		list = append(list, child)
	}
	return list
}
