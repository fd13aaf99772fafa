package actor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// The scheduler: workers, and the actors that have something to do. A worker takes an actor,
// gives it one turn, and puts it back at the end of its queue if more is left. state.go says
// who may make an actor runnable, and how it comes that it is in one queue at most.
//
// Where the next actor comes from (worker.pick):
//
//   - runnext: each worker keeps the actor that its own turn has woken last. The message is
//     still in its cache, and two actors that talk to each other stay on one processor without
//     waking anybody. At most runnextMost such picks follow each other, so that a pair cannot
//     starve the queue.
//   - The worker's own queue, first in first out: what its turns have woken before, and what
//     has more to do after its turn.
//   - The shared queue, in turns with the worker's own: of what has more to do after its turn,
//     what has used up the time of the turn, and at each sharedEvery-th turn what has not. So
//     equal actors get equal shares, whichever workers they begin on.
//   - The spawn stack, in turns with these two, see spawnstack.go.
//   - The global queue: what was woken from outside of any worker. It comes first at each
//     globalEvery-th pick, and after a turn that has used up its time, so that busy workers
//     cannot starve it; but not twice in a row, so that it does not starve the others.
//   - The queues of other workers, half of what is in one; and last their runnext.
//
// Whoever makes an actor runnable wakes a sleeping worker, unless one is searching. A worker
// that finds something while it searches wakes the next: so a burst brings the workers up one
// by one, and a lone message in a runnext wakes nobody. A worker that finds nothing looks a few
// times more, yielding its processor in between, and then sleeps.
//
// A handler may block. Where the runtime knows of it, either the handler's stack is set aside
// (Ask and whatever else waits for a message, see coroutine.go), or its worker steps out and
// does not count for that time (Blocking, and asks with a derived context on another
// goroutine). Where it does not know (a mutex, a driver, time.Sleep), the monitor adds workers
// while actors wait and processors are idle.
type scheduler struct {
	runner

	walk walker // nil outside of the test that takes the workers' steps one at a time

	turnMessages int // messages in a turn of weight 1, 0 for one message in any turn

	profiles atomic.Pointer[profiles] // that are being taken, nil for none

	bulkhead
	n          int32        // workers wanted: those of the bulkhead, or GOMAXPROCS when the system was made
	most       int32        // workers that may be: as many as are wanted in a bulkhead, see bounded
	peers      []*scheduler // those of a system with bulkheads, this one included
	processors int          // GOMAXPROCS when the system was made

	_       [64]byte // what is above is read at each step, what follows is written at each message from outside
	global  runQueue
	shared  runQueue
	spawned spawnStack
	_       [64]byte

	active    atomic.Int32  // workers that are neither asleep nor away
	allowed   atomic.Int32  // how many may be: n, or more while handlers block
	searching atomic.Int32  // workers that look for work
	victim    atomic.Uint32 // the place in workers, modulo their number, at which the next steal begins
	computing atomic.Bool   // handlers compute for long: to yield the processor is to wait for all of them, 10 ms each
	crowded   atomic.Bool   // to yield the processor takes long: handlers compute, or many goroutines can run
	workers   atomic.Pointer[[]*worker]
	stacks    stackPool
	parked    *atomic.Int64 // handlers of the system whose stacks are set aside
	kinds     sync.Map      // of *kind by the type of the messages

	mu         sync.Mutex
	handled    uint64           // messages handled by workers that have ended
	abandoned  map[*worker]Info // workers whose actor was taken away from a handler that still runs
	asleep     []*worker        // waiting for work, the one that came last is woken first
	closed     bool
	monitor    monitor
	goroutines goroutines
}

// runner runs the actors of a scheduler that have something to do: its workers, or a [Driver]. It is
// all in which a driven system differs from others, apart from how it is started.
type runner interface {
	// ready takes an actor that has just become runnable. w is the worker whose turn woke it, nil
	// from outside.
	ready(c *core, w *worker)
	// again takes an actor whose turn on w has ended and left something to do.
	again(c *core, w *worker)
	// pick returns the actor whose turn is next, nil when w is to end.
	pick(w *worker) *core
	// over reports whether a handler goes on at once: what it waits for has come already.
	over(h *parking) bool
	// park makes the wait known of a handler whose stack w has left. It returns the stack with
	// which w goes on, nil for none.
	park(w *worker, h *parking) *coroutine
	// stepOut says that the handler on w is about to block for something that the runtime knows of:
	// nobody may miss the worker, but in a bulkhead. It reports false when the worker is out already;
	// otherwise worker.stepIn ends it.
	stepOut(w *worker) bool
	// waitFor waits for told, or for done, which may be nil, on the caller's goroutine. It reports
	// false for done, and what has been told counts also when both have come.
	waitFor(told, done <-chan struct{}) bool
	// background runs work of an actor that is not in its turn.
	background(c *core, work func())
	// settle is called when a context has ended that others may watch.
	settle()
	// place returns where the turns of an actor run that is to run there.
	place(at runsOn) runsOn
}

// byWorkers is the runner that every system has, except those of package sim.
type byWorkers struct{ *scheduler }

func newScheduler(b bulkhead, parked *atomic.Int64) *scheduler {
	s := &scheduler{turnMessages: turnMessages, bulkhead: b, parked: parked, processors: runtime.GOMAXPROCS(0)}
	s.runner = byWorkers{s}
	if s.n, s.most = b.workers, b.workers; !s.bounded() {
		s.n, s.most = int32(s.processors), workersMax
	}
	s.allowed.Store(s.n)
	s.workers.Store(new([]*worker))
	s.monitor = newMonitor()
	s.goroutines.start(s.watch)
	return s
}

func (s byWorkers) ready(c *core, w *worker) {
	if c.traits.runsOn() == onThread && !c.parked {
		c.ext.thread.wake <- struct{}{}
		return
	}
	s.step()
	if w != nil && w.s == s.scheduler && !w.isLeft() { // w may belong to the system of the sender
		if c = w.runnext.Swap(c); c != nil {
			w.put(c)
			s.wakeIfNeeded()
		}
		// A lone actor in runnext wakes nobody. But the worker may have gone away since, if a
		// handler's context is used outside of its turn: there away, or covered, and runnext are written in
		// the opposite order, so one of the two sees the other.
		s.step()
		if !w.isLeft() {
			return
		}
		if c = w.runnext.Swap(nil); c == nil {
			return
		}
	}
	s.global.push(c)
	s.step()
	s.wakeIfNeeded()
}

func (s byWorkers) again(c *core, w *worker) {
	if w.turns++; w.hasty || w.turns%sharedEvery == 0 {
		s.shared.push(c)
	} else {
		w.queue.push(c)
	}
	s.wakeIfNeeded()
}

// walker takes the steps of the workers, and of whoever uses the system, one at a time: only one
// goroutine runs, and at each step the walker chooses who goes on. A step is whatever others can
// see of the queues and of who sleeps.
type walker interface {
	step()           // the caller is about to take a step
	arrives(*worker) // the worker's goroutine is about to begin, or to wake up
	arrived(*worker) // it has
	sleeps(*worker)  // the worker is about to sleep until it is woken
	gone()           // the caller is about to end
}

func (s *scheduler) step() {
	if s.walk != nil {
		s.walk.step()
	}
}

// wakeIfNeeded sees to it that somebody looks for the work that has just been queued.
func (s *scheduler) wakeIfNeeded() {
	for s.searching.Load() == 0 && s.active.Load() < s.allowed.Load() {
		if s.searching.CompareAndSwap(0, 1) && s.wakeOne() {
			return
		}
	}
}

// call wakes a worker, or hires one, that takes over the caller's count of searching. It
// reports false, and the count is taken back, when there are enough; whoever relied on the
// count meanwhile is why the caller looks again.
func (s *scheduler) wakeOne() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active.Load() >= s.allowed.Load() {
		s.searching.Add(-1)
		return false
	}
	if s.closed && !s.waiting() { // whoever has made something ready is late: it was done, and all have left
		s.searching.Add(-1)
		return true
	}
	s.wakeOrStart(1)
	return true
}

// wakeOrStart brings n more workers in, which count as searching already.
// REQUIRES: s.mu held.
func (s *scheduler) wakeOrStart(n int) {
	s.active.Add(int32(n))
	for ; n > 0 && len(s.asleep) > 0; n-- {
		last := len(s.asleep) - 1
		if s.walk != nil {
			s.walk.arrives(s.asleep[last])
		}
		s.asleep[last].wake <- struct{}{}
		s.asleep = s.asleep[:last]
	}
	s.startWorkers(n)
	s.monitor.wakeMonitor()
}

// start starts n workers that look for work. REQUIRES: s.mu held.
func (s *scheduler) startWorkers(n int) {
	if n == 0 {
		return
	}
	workers := slices.Grow(slices.Clone(*s.workers.Load()), n)
	hired := len(workers)
	for range n {
		workers = append(workers, &worker{s: s, wake: make(chan struct{}, 1), seeking: true})
	}
	s.workers.Store(&workers)
	for _, w := range workers[hired:] {
		if s.walk != nil {
			s.walk.arrives(w)
		}
		s.goroutines.start(w.work)
	}
}

// inCommon returns how many actors wait where any worker may take them.
func (s *scheduler) inCommon() int {
	return int(s.global.n.Load()) + int(s.shared.n.Load()) + int(s.spawned.n.Load())
}

// waiting reports whether an actor waits in a queue.
func (s *scheduler) waiting() bool {
	if s.inCommon() > 0 {
		return true
	}
	for _, w := range *s.workers.Load() {
		if w.queue.n.Load() > 0 {
			return true
		}
	}
	return false
}

// cover is stepOut for a wait that may be on any goroutine: at worst one worker too many
// is added for each that runs an actor. It returns the worker that is covered for,
// nil if none is. In a bulkhead only one is on whose stack the wait is, which here says: the caller
// goes on as soon as its wait is over, and is one too many from then until its handler returns.
func (c *core) cover(here bool) *worker {
	c = c.bottom()
	w := c.worker.Load()
	if w == nil || w.current.Load() != c || w.s.bounded() && !here || w.out.Load() || c.sys().isDriven() {
		return nil
	}
	n := w.covered.Add(1)
	if n <= 0 { // it is no worker of the system any more, see discount
		return nil
	}
	s := w.s
	if next := w.runnext.Swap(nil); next != nil { // which the handler may have woken since another wait of its began
		s.global.push(next)
	}
	if n == 1 {
		s.active.Add(-1)
	}
	if s.waiting() {
		s.wakeIfNeeded()
	}
	return w
}

// uncover ends what cover began. w may be nil.
func (w *worker) uncover() {
	if w == nil {
		return
	}
	for {
		n := w.covered.Load()
		if n <= 0 { // it was fenced meanwhile
			return
		}
		if w.covered.CompareAndSwap(n, n-1) {
			if n == 1 {
				w.s.active.Add(1)
				w.s.wakeMonitor()
			}
			return
		}
	}
}

func (byWorkers) waitFor(told, done <-chan struct{}) bool {
	if done == nil { // a select costs 100 ns more
		<-told
		return true
	}
	select {
	case <-told:
		return true
	case <-done:
		return isClosed(told)
	}
}

func (s byWorkers) background(_ *core, work func()) { s.goroutines.start(work) }

func (byWorkers) settle() {} // whoever watches the context has a goroutine

func (byWorkers) place(at runsOn) runsOn { return at }

// close ends the workers once the queues are empty. goroutines knows when all have ended.
func (s *scheduler) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	for _, w := range s.asleep {
		s.active.Add(1)
		s.searching.Add(1)
		w.wake <- struct{}{}
	}
	s.asleep = nil
	s.mu.Unlock()
	close(s.monitor.stopped)
	s.closeStacks()
}

// closeStacks ends the idle stacks. Not on the caller's goroutine: that may be locked to its
// thread, and Go ends the process when a coroutine finds that different from its beginning.
func (s *scheduler) closeStacks() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.stacks.close()
	}()
	<-done
}

// counts returns how many actors wait for a worker, and how many workers are not away.
func (s *scheduler) counts() (runnable, workers int) {
	all := *s.workers.Load()
	for _, w := range all {
		runnable += int(w.queue.n.Load())
		if w.runnext.Load() != nil {
			runnable++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return runnable + s.inCommon(), int(s.active.Load()) + len(s.asleep)
}

// handledMessages returns how many messages the workers have handled.
func (s *scheduler) handledMessages() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.handled
	for _, w := range *s.workers.Load() {
		n += w.handled.Load()
	}
	return n
}
