package actor

import (
	"fmt"
	"runtime"
	"sync/atomic"
)

// pause is one wait for something that others will say: of a handler, whose stack is set
// aside so that its worker can go on, or of a goroutine.
//
// A handler's own context says that the caller is that handler: its stack is set aside. A
// derived context may be on any goroutine, so it is looked whose that is, see located; and so may a
// handler's own one after Blocking. If it is not the handler's, the goroutine waits, and another worker
// may take the worker's place meanwhile.
type pause struct {
	parking parking // parking.who is set for a handler whose stack is set aside
	waiter  *waiter // for a goroutine
	from    *core   // the goroutine may be that of a worker which runs this actor
}

// begin says who is going to wait: the caller, in a turn of the actor from on w if they are
// not nil; here says that it is the handler. It fails when so many handlers wait already that this one
// may not, and when the caller is another goroutine that has the handler's own context.
func (p *pause) begin(sys *System, from *core, w *worker, here bool) error {
	if w == nil || w.current.Load() != from || w.out.Load() {
		p.waiter, p.from, p.parking.here = sys.waiters.get(), from, here
		return nil
	}
	if !w.isOnStack() { // whose stack would be set aside, and not the handler's
		if from.flags.Load()&(fenced|ended) != 0 { // w runs the actor that was taken away from the caller
			return ErrStopped
		}
		return ErrWrongGoroutine
	}
	if n := from.sys().maxWaiting; w.s.parked.Load() >= n {
		return fmt.Errorf("%w: %d", ErrTooManyWaiting, n)
	}
	p.parking.who, p.parking.aside = from, from.setsAside()
	return nil
}

// parked reports whether the wait is that of a handler whose stack is set aside.
func (p *pause) parked() bool { return p.parking.who != nil }

// await waits for end, or for done, which may be nil. It reports false for done. A handler
// whose stack is set aside waits for end only.
func (p *pause) await(sys *System, done <-chan struct{}) bool {
	if p.parked() {
		p.parking.await()
		return true
	}
	if c := p.from; c != nil {
		defer c.cover(p.parking.here).uncover()
	}
	return sys.sched.waitFor(p.waiter.told, done)
}

// isClosed reports whether something can be received, and receives it.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// end ends the wait. w is the worker of the turn that does, or nil.
func (p *pause) end(w *worker) {
	if p.parked() {
		p.parking.end(w)
		return
	}
	select {
	case p.waiter.told <- struct{}{}:
	default: // it knows already
	}
}

// again makes p ready for another wait.
func (p *pause) again() {
	if p.parked() {
		p.parking.state.Store(parkLeaving)
	}
}

// free gives back what the wait has used. Nobody may call end any more.
func (p *pause) free(sys *System) {
	if p.waiter != nil {
		sys.waiters.put(p.waiter)
		p.waiter = nil
	}
}

// waiter is what a goroutine waits at.
type waiter struct{ told chan struct{} }

// parking is the wait of a handler whose stack is set aside.
type parking struct {
	who   *core
	co    *coroutine // the stack, if the actor goes on meanwhile
	state atomic.Uint32
	aside bool // the actor handles other messages meanwhile: it is reentrant
	here  bool // of a pause, where it has room: the wait is that of the handler of from, or of its Init
}

const (
	parkLeaving uint32 = iota // the stack is not off yet
	parkParked                // it is
	parkOver                  // what the handler waits for has come
)

// await sets the stack aside until end is called. REQUIRES: the caller is the handler of
// h.who, on a coroutine.
func (h *parking) await() {
	c := h.who
	w := c.worker.Load()
	if w.s.over(h) {
		return
	}
	if !c.enterRuntime() {
		runtime.Goexit() // the actor was taken away from the handler
	}
	if h.co = nil; h.aside {
		h.co = w.co.Load()
		c.impl().waitAside(func() { h.leave(w) })
	} else {
		c.park(w.co.Load())
		h.leave(w)
		c.resumed()
	}
	c.exitRuntime()
}

// leave gives the stack away. It returns when somebody has taken it up.
func (h *parking) leave(w *worker) {
	co := w.co.Load()
	w.s.parked.Add(1)
	w.current.Store(nil)
	w.inTurn = false
	w.leaving = leaving{kind: leavePark, wait: h}
	timed := w.sampler.now
	timed.pause()
	w.sampler.now = nil
	co.yield(struct{}{})
	timed.resume(co.w)
	co.w.s.parked.Add(-1)
	if h.who.worker.Load() != co.w {
		h.who.worker.Store(co.w)
	}
	if !h.aside {
		h.who.resumedBy(co.w)
	}
}

// commit is the word of the worker that the stack is off. It reports false when the wait
// is over already.
func (h *parking) commit() bool { return h.state.CompareAndSwap(parkLeaving, parkParked) }

func (byWorkers) over(h *parking) bool { return h.state.Load() == parkOver }

func (s byWorkers) park(w *worker, h *parking) *coroutine {
	co := w.co.Load()
	if w.setAside(h) {
		return s.stacks.get()
	}
	w.enter(h.who)
	return co
}

// end lets the handler go on.
func (h *parking) end(w *worker) {
	if h.state.Swap(parkOver) != parkParked {
		return
	}
	if h.co != nil {
		h.who.stackReady(h.co, w)
		return
	}
	h.who.unpark()
	h.who.sched().ready(h.who, w)
}
