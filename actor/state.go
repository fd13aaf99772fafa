package actor

import (
	"runtime"
	"sync/atomic"
)

// What an actor can be, who may touch what of it meanwhile, and every way from one state to
// another. Only this file changes scheduled, parked and, but for that of the root at its start,
// phase; the flags say with each who sets and clears it.
//
//	state     stored as                   who owns the fields of the turn
//	idle      not scheduled               whoever holds mu
//	runnable  scheduled                   whoever takes it out of the one queue that it is in
//	running   scheduled                   the goroutine that runs its turn
//	parked    scheduled, parked           the handler whose stack was set aside, once it is resumed
//	blocked   scheduled, reentry.blocked  nobody: so many handlers of a reentrant actor wait that no message may begin
//	fenced    scheduled, fenced           as runnable; the goroutine that was left behind touches nothing any more
//	stopped   phase is stopped            nobody
//
//	from                     to        by             when
//	idle, blocked            runnable  schedule       there is a message, a signal or a handler to resume
//	runnable, fenced         running   beginTurn      a worker, a thread or a sender gives it a turn
//	running                  parked    park           the handler waits and its stack is set aside
//	parked                   runnable  unpark         what it waits for has come
//	runnable, parked         running   resumed        a worker has resumed the stack
//	running                  runnable  requeue        the turn is over and there is more to do
//	running                  idle      rest           the turn is over and nothing is left
//	running                  blocked   block          the same, for a reentrant actor
//	running                  fenced    fence          it is killed, and its handler does not return
//	running                  stopped   rest           it has ended
//
// A runnable actor is in exactly one of: a worker's queue or runnext, the global queue, the shared
// one, the spawn stack, the channel of its thread, the hands of who is about to put it there. runnable
// and running are stored alike, since only who has the actor has to tell them apart. The
// invariants build stores the state as well, and panics at any other way than those above.
//
// Beside that an actor has a phase of life, which only its turn changes, under mu.
//
// # User code
//
// Code of the user's runs in the turn, and so may not return: then Kill takes the actor away
// from it. Whether the turn is in such code must be certain, so it is marked. A plain message
// or request is marked in the mailbox's head, which is written for each message anyway; any
// other callback by inUser. A function of the runtime that such code has called, and that
// touches what the turn owns, says so by inside; one that only reads the current message looks
// whether the actor is fenced. To fence an actor the monitor holds mu, raises fencing, and
// needs the mark and no inside; whoever comes back from user code, or begins with something
// inside, finds fencing raised and waits for the decision, or finds that it was fenced. What
// the call of user code needs is read before the mark is set.
//
// mu is a leaf lock: while holding it, acquire no other lock and call no user code. The
// invariants build asserts both.
type core struct {
	invariant
	mu         spin
	scheduled  bool  // guarded by mu
	phase      phase // written by the turn under mu, read by the turn or under mu
	remembered bool  // guarded by mu: a worker will look whether the mailbox can be reclaimed
	weight     uint8 // set before the first turn, as is traits
	traits     traits
	halting    bool // the handler asked to stop; owned by the turn
	taken      bool // the current ask was promised, forwarded or stashed; owned by the turn
	parked     bool // the handler waits, its stack is in ext.stack; owned by the turn

	prev uint32 // the slot of the sibling started before, 0 for none; guarded by parent.mu

	handled uint64 // messages handled by all incarnations; guarded by mu

	// Set before anybody else can see the actor.
	kind   *kind
	parent *core
	path   *string // nil for an actor without a name
	id     uint64

	worker atomic.Pointer[worker] // who gave it its last turn

	ext *extension // guarded by mu; made on first need

	queueNext *core // the next in a run queue; guarded by the queue's lock

	flags atomic.Uint32 // the turn reads them at each message, so they lie apart from mu, which senders write
	next  uint32        // as prev, of the next sibling
}

// The flags. Above them is the actor's depth, see spawnstack.go.
const (
	signaled    uint32 = 1 << iota // ext.signals is not empty; set under mu, cleared by the turn under mu
	inUser                         // the turn is in a callback that is no plain message; set and cleared by the turn, also where a reentrant handler waits
	inside                         // the runtime is at work for a callback; set and cleared by the turn
	fencing                        // the monitor is about to decide; set and cleared by the monitor
	fenced                         // the actor was taken away from its callback; set by the monitor under mu
	ended                          // the actor is gone; set by its last turn
	gated                          // the actor has a gate; set before others can see it
	virtual                        // the actor is the activation of a virtual one; set before others can see it
	draining                       // the drain mark is in the mailbox, which takes nothing any more; set under mu
	significant                    // the actor's parent may not outlive it; set before others can see it, cleared if TrySpawn fails, under parent.mu
	stopsLast                      // see StopLast; set before others can see it

	depthShift = 11
)

// schedule makes an idle actor runnable. It reports whether it has: then the caller must hand
// the actor to the scheduler. REQUIRES: c.mu held.
func (c *core) schedule() bool {
	if c.scheduled {
		return false
	}
	c.scheduled = true
	c.moved(stateRunnable)
	return true
}

// scheduleTurn is schedule for what does not come with a message.
// REQUIRES: c.mu held.
func (c *core) scheduleTurn() bool {
	if r := c.reentry(); r != nil && r.blocked {
		r.blocked = false
		c.moved(stateRunnable)
		return true
	}
	return c.schedule()
}

// beginTurn says that the caller runs the actor now.
func (c *core) beginTurn() { c.moved(stateRunning) }

// requeue ends a turn after which there is more to do; the actor is the caller's to queue.
func (c *core) requeue() { c.moved(stateRunnable) }

// rest ends a turn after which nothing is left to do.
// REQUIRES: the caller has the turn, c.mu held.
func (c *core) rest() {
	if c.phase == stopped {
		c.moved(stateStopped)
	} else {
		c.moved(stateIdle)
	}
	c.scheduled = false
}

// block ends a turn after which no message may begin until a handler is resumed.
// REQUIRES: the caller has the turn, c.mu held, c is reentrant.
func (c *core) block() {
	c.moved(stateBlocked)
	c.ext.reentry.blocked = true
}

// park says that the caller's stack is about to be set aside.
// REQUIRES: the caller is the actor's handler, and c.ext exists, which never changes any more.
func (c *core) park(stack *coroutine) {
	c.ext.stack = stack
	c.parked = true
	c.moved(stateParked)
}

// unpark says that the wait of a parked handler is over; the actor is the caller's to queue.
func (c *core) unpark() { c.moved(stateRunnable) }

// resumed ends what park began, on the same stack.
func (c *core) resumed() {
	c.parked = false
	c.moved(stateRunning)
}

// hasSignals reports whether signals wait.
func (c *core) hasSignals() bool { return c.flags.Load()&signaled != 0 }

// takesNothing reports whether no message that comes now would be handled.
// REQUIRES: c.mu held.
func (c *core) takesNothing() bool { return c.phase >= stopping || c.flags.Load()&draining != 0 }

// isFenced reports whether c was taken away from a callback that has not returned: what that
// does must have no effect any more. c may be nil.
func (c *core) isFenced() bool { return c != nil && c.flags.Load()&fenced != 0 }

// enterUser marks the call of a callback. REQUIRES: the caller has the turn.
func (c *core) enterUser() {
	c.requireNoLock()
	c.flags.Or(inUser)
}

// leaveUser ends what enterUser began. It does not return when the actor was fenced.
func (c *core) leaveUser() {
	if !c.leftUser() {
		runtime.Goexit()
	}
}

// leftUser is leaveUser; it reports false when the actor was fenced.
func (c *core) leftUser() bool {
	c.flags.And(^inUser) // and read again: to ask And for the old value takes twice as long
	return c.flags.Load()&(fencing|fenced) == 0 || !c.leftBehind()
}

// enterRuntime keeps the actor from being fenced while a function that a callback has called
// touches what the turn owns. It reports false when the actor is fenced already: then the
// caller must touch nothing, and not call exitRuntime. It does not nest.
func (c *core) enterRuntime() bool {
	c.flags.Or(inside)
	return c.flags.Load()&(fencing|fenced) == 0 || !c.leftBehind()
}

// exitRuntime ends what enterRuntime began.
func (c *core) exitRuntime() { c.flags.And(^inside) }

// leftBehind waits until the monitor has decided, and reports whether the actor was taken away
// from the caller.
func (c *core) leftBehind() bool {
	for c.flags.Load()&fencing != 0 {
		runtime.Gosched()
	}
	return c.isFenced()
}

// state is a row of the table above; only the invariants build stores it.
type state uint8

const (
	stateIdle state = iota
	stateRunnable
	stateRunning
	stateParked
	stateBlocked
	stateFenced
	stateStopped
)

func (s state) String() string {
	return [...]string{"idle", "runnable", "running", "parked", "blocked", "fenced", "stopped"}[s]
}

// phase is the state of an actor's life.
type phase uint8

const (
	starting   phase = iota // Init has not returned yet
	running                 // handles messages, or is passivated and has no state until one comes
	suspended               // has failed; waits for its supervisor's directive
	restarting              // waits for children to stop, or for the backoff to pass
	stopping                // waits for children to stop, then terminates
	stopped                 // gone
)

func (p phase) String() string {
	return [...]string{"starting", "running", "suspended", "restarting", "stopping", "stopped"}[p]
}

// setPhase changes the phase. REQUIRES: the caller has the turn.
func (c *core) setPhase(p phase) {
	c.mu.Lock()
	c.setPhaseLocked(p)
	c.mu.Unlock()
}

// setPhaseLocked is setPhase. REQUIRES: c.mu held.
func (c *core) setPhaseLocked(p phase) {
	c.aged(c.phase, p)
	c.phase = p
}

// traits is what is settled when an actor is spawned: its lifetime, where it runs, and whether
// it is reentrant and is to be passivated.
type traits uint8

func newTraits(l Lifetime, at runsOn) traits { return traits(l) | traits(at)<<4 }

const (
	keepsTrait     traits = 1 << 2
	passivateTrait traits = 1 << 3
	reentrantTrait traits = 1 << 7
)

func (n traits) lifetime() Lifetime { return Lifetime(n & 0x3) }
func (n traits) keeps() bool        { return n&keepsTrait != 0 }
func (n traits) passivates() bool   { return n&passivateTrait != 0 }
func (n traits) runsOn() runsOn     { return runsOn(n >> 4 & 0x7) }
func (n traits) reentrant() bool    { return n&reentrantTrait != 0 }
