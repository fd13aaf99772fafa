package actor

import (
	"iter"
	"runtime"
	"sync/atomic"
)

// coroutine is a stack on which a worker runs: it picks actors and gives them their
// turns. When a handler waits for something that the runtime knows of, the whole stack is
// set aside with the handler on it, and the worker goes on with another one; when the wait
// is over some worker takes the stack up again. The switch is a fifth of what two
// goroutines and a channel cost, and iter.Pull is the only way in Go to have it.
//
// Nobody may take up a stack that is not off yet: so the handler only leaves word what it
// waits for, and the worker's own goroutine, back on its feet, makes the wait known
// (worker.work). The race detector found that in the prototype.
type coroutine struct {
	id     uint64  // of its goroutine
	g      uintptr // the same, see currentG
	w      *worker // who runs it; set before it is resumed
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// newCoroutine returns one that, resumed, runs the loop of the worker that resumes it.
func newCoroutine(alive *atomic.Int64) *coroutine {
	alive.Add(1)
	co := new(coroutine)
	co.resume, co.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer alive.Add(-1)
		co.id, co.g = goroutineID(), currentG()
		label(co.id)
		co.yield = yield
		if yield(struct{}{}) {
			co.loop()
		}
	})
	co.resume() // it has a number now
	return co
}

// loop gives turns until it is stopped. It leaves the stack with word of why for the worker.
func (co *coroutine) loop() {
	for co.shift() {
	}
}

// shift is loop until a handler panics; then there is another shift. The one deferred
// function for many turns, and not one for each, saves 9 ns a turn.
func (co *coroutine) shift() (more bool) {
	ended := false
	defer func() {
		if !ended {
			co.crashed(recovered(recover()))
			more = true
		}
	}()
	for {
		w := co.w
		c := w.s.pick(w)
		switch {
		case c == nil:
			w.leaving = leaving{kind: leaveIdle}
		case c.parked:
			w.leaving = leaving{kind: leaveSwitch, to: c.ext.stack, who: c}
		default:
			if c.traits.reentrant() {
				if back := c.nextResumable(); back != nil {
					w.leaving = leaving{kind: leaveSwitch, to: back, who: c}
					break
				}
			}
			co.run(c)
			continue
		}
		if !co.yield(struct{}{}) {
			ended = true
			return false
		}
	}
}

// run gives c a turn. The turn may end on another worker than it began on.
func (co *coroutine) run(c *core) {
	co.w.enter(c)
	again := c.impl().turn(co.w)
	co.w.ran(c, again)
}

// ran goes on after a turn.
func (w *worker) ran(c *core, again bool) {
	w.inTurn = false
	if again {
		w.s.again(c, w)
	}
}

// crashed goes on after a turn that ended with a panic. If it has ended its goroutine, the
// worker is going down with it, and does the rest when it leaves.
func (co *coroutine) crashed(failure error) {
	if co.w.lost() {
		runtime.Goexit()
	}
	co.w.sampler.now = nil
	c := co.w.current.Load()
	c.impl().crashed(failure)
	if failure != errGoexit { //nolint:errorlint // it is recovered's own and never wrapped
		co.w.ran(c, c.impl().endTurn(co.w))
	}
}

// leaving says why a coroutine gives its stack back.
type leaving struct {
	kind leaveKind
	to   *coroutine // leaveSwitch: which stack to go on with
	who  *core      // leaveSwitch: whose it is
	wait *parking   // leavePark: what the handler waits for
}

type leaveKind uint8

const (
	leaveIdle   leaveKind = iota // there is nothing to do any more
	leaveSwitch                  // an actor's wait is over: go on with its stack
	leavePark                    // the handler on this stack waits
	leaveAside                   // the driver has set this stack aside
)

// work is the worker's own goroutine.
func (w *worker) work() {
	defer w.leave()
	if w.s.walk != nil {
		w.s.walk.arrived(w)
	}
	w.drive(w.s.stacks.get())
}

// drive runs one coroutine after the other until there is nothing to do.
func (w *worker) drive(co *coroutine) {
	for {
		co.w = w
		w.co.Store(co)
		if _, ok := co.resume(); !ok {
			return
		}
		o := w.leaving
		w.leaving = leaving{}
		switch o.kind {
		case leaveAside:
			return
		case leaveIdle:
			w.s.stacks.put(co)
			return
		case leaveSwitch:
			w.s.stacks.put(co)
			co = o.to
			w.enter(o.who)
		case leavePark:
			if co = w.s.park(w, o.wait); co == nil {
				return
			}
		}
	}
}

// setAside makes the wait known of a handler whose stack is off now. It reports false when what
// it waits for has come meanwhile: then the stack goes on.
func (w *worker) setAside(h *parking) bool {
	c, co := h.who, h.co // once the wait is known, h belongs to the handler, which another worker may run
	committed := h.commit()
	if co == nil {
		return committed
	}
	if !committed { // the wait ends the turn of a reentrant actor
		c.stackReady(co, nil)
	}
	w.ran(c, c.impl().endTurn(w))
	return true
}

// stackPool keeps coroutines that nobody needs at the moment.
type stackPool struct {
	mu     spin
	idle   []*coroutine
	closed bool
	made   atomic.Int64 // coroutines that are alive, idle or not
}

// keepStacks is how many idle coroutines a system keeps.
const keepStacks = 256

func (p *stackPool) get() *coroutine {
	p.mu.Lock()
	n := len(p.idle)
	if n == 0 {
		p.mu.Unlock()
		return newCoroutine(&p.made)
	}
	co := p.idle[n-1]
	p.idle = p.idle[:n-1]
	p.mu.Unlock()
	return co
}

// put takes back a coroutine whose loop is between two turns.
func (p *stackPool) put(co *coroutine) {
	co.w = nil
	p.mu.Lock()
	keep := !p.closed && len(p.idle) < keepStacks
	if keep {
		p.idle = append(p.idle, co)
	}
	p.mu.Unlock()
	if !keep {
		co.stop()
	}
}

// count returns how many coroutines there are.
func (p *stackPool) count() int { return int(p.made.Load()) }

// close ends the idle coroutines and those that come back.
func (p *stackPool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, co := range idle {
		co.stop()
	}
}
