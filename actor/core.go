package actor

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// lock is mu.Lock for the short ways, of senders and of turns. w is the caller's worker, or nil.
func (c *core) lock(w *worker) {
	if !c.mu.word.CompareAndSwap(0, 1) {
		c.lockSlow(w)
		return
	}
	c.mu.acquired()
}

// lockOnStack is lock for a turn whose actor may have been taken away: then the actor's worker is that of another turn.
func (c *core) lockOnStack() {
	if !c.mu.word.CompareAndSwap(0, 1) {
		c.lockSlowOnStack()
		return
	}
	c.mu.acquired()
}

func (c *core) lockSlowOnStack() {
	w := c.worker.Load()
	if w != nil && (currentG() == 0 || !w.isOnStack()) {
		w = nil
	}
	c.lockSlow(w)
}

// lockPatience is how often a waiter for a lock yields, half a microsecond each, before it
// supposes that the holder is not running.
const lockPatience = 64

// lockSlow waits for mu. When that takes long the operating system has put the holder's thread
// aside, for milliseconds: then another worker takes over from the waiter.
func (c *core) lockSlow(w *worker) {
	if c.mu.tries(lockPatience) {
		return
	}
	if w == nil || !w.s.stepOut(w) {
		c.mu.lockSlow()
		return
	}
	for !c.mu.tries(lockPatience) {
		if w.s.waiting() {
			w.s.wakeIfNeeded()
		}
	}
	w.stepIn()
}

// impl is what the runtime asks of a cell without knowing its message type.
type impl interface {
	turn(w *worker) (again bool)
	crashed(failure error)
	handling() bool
	waitAside(leave func())
	claim(w *worker) (left func(), claimed bool)
	endTurn(w *worker) (again bool)
	hasState() bool
	kindOn(on *scheduler) *kind
	setMailbox(cfg *spawnConfig) (special bool, queue any, err error)
	isFunc() bool
	virtualize(name string, activation any) error
	gateBy(g Gate)
	needMailbox()
	tryStart() error
	dismiss()
	terminate()
	endIncarnation()
	dropState()
	yieldPlace()
	takeRest() (giveAway func(Reason))
	passivate()
	lapsed() bool
	messageType() string
	reclaim()
	currentMessage() messageInfo
	nextMessage() messageInfo
	detail(d *Detail)
	detailOwn(d *Detail)
	record(r *recording, on bool)
	drain()
	mailState() mailState
	nextSent() (msg any, ok bool)
	stashSize() int
	spec(s *Spec)
	typeName() string
	accept(msg, with any) verdict
	acceptRun(next func(scratch any) (FarDelivery, bool), refused func(*FarDelivery, verdict))
}

// extension holds what most actors never need.
type extension struct {
	signals []signal // guarded by mu

	firstChild, lastChild *core // children in order of start, those with StopLast first; guarded by mu
	children              int   // guarded by mu
	significant           int   // children that are, guarded by mu
	oneEnded              bool  // one of these has ended, and not all, guarded by mu
	stopsLater            bool  // the suspended actor is to stop when it is resumed, guarded by mu

	watchers watchers // who watches this actor, guarded by mu

	overloads *overloads // made on first need, guarded by mu

	links map[*core]struct{} // guarded by mu

	inherited any // of a fenced actor: its *mailbox[M], made when it was fenced

	thread *thread // where it runs if not in the pool; set before the first turn

	nesting   atomic.Int32         // of an Inline actor, see nesting; set by whoever gives it a turn, 0 for the pool
	below     atomic.Pointer[core] // of an Inline actor, see below; set by whoever gives it a turn
	goroutine atomic.Uintptr       // of a Pinned or Inline actor, see isHere; set by whoever gives it a turn, 0 for the pool

	reentry *reentry // of a reentrant actor, set before the first turn

	gateway *gateway // of a gated actor, set before the first turn

	passivation *passivation // of an actor that is to be passivated, set before the first turn

	guardian *supervision // by which the parent supervises this actor, nil for its own; set before the first turn

	patience *patience // of an actor that must stop within a time, set before the first turn

	activation any // of a virtual actor's activation: its *activation[M], set before others can see it

	inquiry inquiry    // what the handler waits for, guarded by mu
	stack   *coroutine // the handler's stack while it waits, owned by the turn

	life *lifetime // of the incarnation, guarded by mu

	renewals uint64      // incarnations that have ended and were to be replaced, guarded by mu
	restarts uint64      // those that were, guarded by mu
	budget   []time.Time // recent failures of this actor, owned by the parent's turn
	failures []time.Time // recent failures of its children as a group, owned by the turn

	group      *group // a restart of several children under way, owned by the turn
	regrouping bool   // the same for those who hold mu
	halted     bool   // the parent's group says when to start; owned by the turn
	member     bool   // the parent's group waits for the start; owned by the turn

	escalated []signal // what stops the children whose failure became this actor's own, owned by the turn
	exit      error    // a linked actor's end, for when this one is resumed; owned by the turn
	told      bool     // told to stop: the handler's context has ended, guarded by mu
	cut       bool     // the same, for an incarnation that another one follows; guarded by mu
	killed    bool     // told to end without delay, guarded by mu
	inInit    bool     // the Init of a later incarnation has not returned, guarded by mu

	killedAt time.Duration // when it was first told so, since the system began; guarded by mu

	recent []Failure // the last failures, oldest first, guarded by mu

	failure    error      // the failure that led here, owned by the turn
	end        stopMode   // how to stop, owned by the turn
	endReason  Reason     // what to tell the watchers, Stopped while 0; owned by the turn
	stopChild  *core      // the child that was told to stop, owned by the turn
	backoff    *timerNode // pending start after a backoff, owned by the turn
	backoffFor time.Duration
	ended      bool // the incarnation to be replaced has ended, owned by the turn
}

// signal is an order of the runtime. Signals overtake messages.
type signal struct {
	kind  signalKind
	mode  stopMode
	child *core // who failed or ended
	err   error // the failure
	bare  bool  // the failure has left no state: it was that of Init

	undecided bool          // the decider has ended its goroutine
	after     time.Duration // backoff before a restart
	backoff   *timerNode    // the timer of a backoff that has passed
	look      func()        // what to do in the actor's turn
}

type signalKind uint8

const (
	sigStop      signalKind = iota // stop in the given mode
	sigFailed                      // a child failed with err
	sigEnded                       // a child is gone
	sigRestart                     // the supervisor's word: restart after a backoff
	sigGiveUp                      // the supervisor's word: stop, because of err
	sigStart                       // the backoff has passed, or the group's turn has come
	sigResume                      // the supervisor's word: go on
	sigHalt                        // the supervisor's word: end the incarnation and wait for sigStart
	sigHalted                      // a child has been halted
	sigStarted                     // a child that had been halted runs again
	sigRegroup                     // the group's backoff has passed
	sigExit                        // a linked actor has ended
	sigLook                        // a tool wants to look at what belongs to the turn
	sigRelease                     // the group restart that halted it is given up
	sigRenew                       // a tool's word: restart, whatever it waits for
	sigPassivate                   // it may have had nothing to do for long
	sigActivate                    // it is to have a state, if it has none
	sigYield                       // a virtual actor's activation is to end when no handler is under way
	sigQuit                        // a handler has asked to stop while others were under way
)

// stopMode says how to stop, and how to stop the children before.
type stopMode uint8

const (
	stopNow   stopMode = iota // after the current message
	stopDrain                 // after what lies in the mailboxes
	stopKill                  // after the current message and without Terminate
)

// reason returns the reason of an actor that was stopped so.
func (m stopMode) reason() Reason {
	if m == stopKill {
		return Killed
	}
	return Stopped
}

// needExtLocked returns c.ext, made if need be. REQUIRES: c.mu held.
func (c *core) needExtLocked() *extension {
	if c.ext == nil {
		c.ext = new(extension)
	}
	return c.ext
}

// needExt returns c.ext, made if need be, for fields owned by the turn.
func (c *core) needExt() *extension {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.needExtLocked()
}

// ends says how c stops and why. Without an extension nobody has said anything else: it
// stops normally, after the current message. REQUIRES: the turn owns c.
func (x *extension) ends() (mode stopMode, reason Reason, why error) {
	if x == nil {
		return stopNow, Stopped, nil
	}
	return x.end, max(x.endReason, Stopped), x.failure
}

// signal sends c a signal; one to an actor that is gone is dropped.
func (c *core) signal(s signal) {
	if p := proxyOf(c); p != nil {
		p.order(s)
		return
	}
	c.mu.Lock()
	if c.phase == stopped {
		c.mu.Unlock()
		return
	}
	ext := c.needExtLocked()
	ext.signals = append(ext.signals, s)
	c.flags.Or(signaled)
	wake := c.scheduleTurn()
	var x cut
	switch {
	case s.kind == sigStop && (s.mode == stopKill || s.mode == stopNow && c.phase < stopping):
		ext.told = true
		if s.mode == stopKill && !ext.killed {
			ext.killed, ext.killedAt = true, time.Since(c.sys().began)
		}
		x = c.cutShort() // a handler that waits, or watches its context, need not finish
	case c.isCutShortBy(s):
		ext.cut = true
		x = c.cutShort()
	}
	c.mu.Unlock()
	x.end(c)
	if wake {
		c.sched().ready(c, nil)
	} else if s.mode == stopKill {
		c.sched().wakeMonitor() // somebody has to see that the handler ends
	}
}

// isCutShortBy reports whether callbacks that are under way end early because of that word of the supervisor: they may
// wait for a sibling that waits for the group's restart. A reentrant actor may have some after one of them has failed.
// REQUIRES: c.mu held.
func (c *core) isCutShortBy(s signal) bool {
	switch s.kind {
	case sigHalt, sigGiveUp:
		return c.phase <= running || c.ext.inInit || c.phase == suspended && c.traits.reentrant()
	case sigRestart:
		return c.phase == suspended && c.traits.reentrant()
	default:
		return false
	}
}

// ending reports whether a signal has come that ends the incarnation without waiting for
// answers.
func (c *core) ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ext != nil && c.ext.ending()
}

// ending is core.ending. REQUIRES: the actor's mu held.
func (x *extension) ending() bool { return x.told || x.cut }

// takeSignals returns the pending signals. REQUIRES: the turn owns c, c.mu held.
func (c *core) takeSignals() []signal {
	c.flags.And(^signaled)
	if c.ext == nil {
		return nil
	}
	s := c.ext.signals
	c.ext.signals = nil
	return s
}

// putBackSignals puts signals back that were not carried out, before newer ones.
// REQUIRES: the turn owns c.
func (c *core) putBackSignals(s []signal) {
	if len(s) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ext.signals = append(s, c.ext.signals...)
	c.flags.Or(signaled)
}

// adopt adds child to c's children. It reports false when c takes none any more.
func (c *core) adopt(child *core) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase >= stopping || c.phase == restarting && c.ext.ended && !c.traits.keeps() { // in Terminate: nobody would end it
		return false
	}
	ext := c.needExtLocked()
	switch {
	case ext.lastChild == nil:
		ext.firstChild, ext.lastChild = child, child
	case child.flags.Load()&stopsLast != 0:
		child.next, ext.firstChild.prev = ext.firstChild.slot(), child.slot()
		ext.firstChild = child
	default:
		child.prev, ext.lastChild.next = ext.lastChild.slot(), child.slot()
		ext.lastChild = child
	}
	ext.children++
	if child.isSignificant() {
		ext.significant++
	}
	if c.parent != nil && c.handled == 0 { // has handled no message yet: most often in its first turn
		child.flags.Or(min(c.depth()+1, depthMost) << depthShift)
	}
	return true
}

// removeChild removes child from c's children and reports whether c waits for that.
func (c *core) removeChild(child *core) (awaited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ext := c.ext
	prev, next := c.sibling(child.prev), c.sibling(child.next)
	if prev == nil {
		ext.firstChild = next
	} else {
		prev.next = child.next
	}
	if next == nil {
		ext.lastChild = prev
	} else {
		next.prev = child.prev
	}
	child.prev, child.next = 0, 0 // nobody's sibling: who was at it sees that
	ext.children--
	if child.isSignificant() {
		ext.significant--
		ext.oneEnded = ext.significant > 0
	}
	return c.needs(child) || c.phase == stopping || c.phase == restarting || ext.regrouping || c.traits.passivates()
}

// slot returns where the directory has c.
func (c *core) slot() uint32 { return uint32(c.id) }

// sibling returns the child of c in that slot, nil for 0, which is the root's. Siblings know
// each other by their slots, where pointers would be two more for the garbage collector to
// follow, and twice as large. REQUIRES: c.mu held.
func (c *core) sibling(slot uint32) *core {
	if slot == 0 {
		return nil
	}
	return c.sys().actors.at(slot).actor.Load()
}

// lastChild returns the child that is to stop first, and c.ext, nil when there are none.
func (c *core) lastChild() (child *core, ext *extension) {
	c.mu.Lock()
	if ext = c.ext; ext != nil {
		child = ext.lastChild
	}
	c.mu.Unlock()
	return child, ext
}

// fullPath returns the printed path, which for an actor without a name is made of
// its number.
func (c *core) fullPath() string {
	var under []*core // without a name, the lowest first
	for ; c.path == nil; c = c.parent {
		under = append(under, c)
	}
	if len(under) == 0 {
		return *c.path
	}
	path := []byte(*c.path)
	for _, c := range slices.Backward(under) {
		if len(path) > 1 {
			path = append(path, '/')
		}
		path = strconv.AppendUint(append(path, '$'), c.id, 36)
	}
	return string(path)
}

// join appends a part to a path.
func join(parent, name string) string {
	if parent == "/" {
		return "/" + name
	}
	return parent + "/" + name
}

// pid returns the address, the zero PID for nobody.
func (c *core) pid() PID {
	if c == nil {
		return PID{}
	}
	if c.kind.node == virtualNode { // it has the same address wherever it is
		return PID{node: virtualNode, path: c.fullPath()}
	}
	return PID{node: c.kind.node, path: c.fullPath(), id: c.id, inc: c.kind.inc}
}

// ownPID returns the address of the actor itself, also of one that is the activation of a virtual one.
func (c *core) ownPID() PID {
	if c.isVirtual() {
		sys := c.sys()
		return PID{node: sys.name, path: c.fullPath(), id: c.id, inc: sys.inc}
	}
	return c.pid()
}
