package actor

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The scheduler: a workers of workers and the actors that have something to do. A worker
// takes an actor, gives it one turn, and puts it back at the end of its queue if more is
// left. `core.scheduled` is set by whoever finds the actor idle and has something for it,
// and cleared by the turn that finds nothing left, both under the actor's lock: so an
// actor is idle, or in exactly one queue or place, or on stage, or on parking (its handler
// waits, off stage), or gone. word_test.go walks through all interleavings of that.
//
// Where the next actor comes from (worker.pick):
//
//   - Each worker has a place for the actor that its own turn has just woken: the message
//     is still in its cache, and two actors that talk to each other stay on one core
//     without waking anybody. At most lifoRun such picks follow each other, so that a pair
//     cannot starve the queue.
//   - Its own queue, first in first out: what its turns have woken before, and what has
//     used up its turn.
//   - The spawnStack, by turns with its own queue, last in first out: those who were spawned in
//     the first turn of their parent and have had none themselves. At each oldestEvery-th
//     pick the oldest of them comes first. What is depthMost deep in a tree is not in it, so
//     that a branch without an end cannot starve the others.
//   - The global: what was woken from outside of any worker. It comes first at each
//     globalEvery-th pick, and after a turn that has used up its time, so that busy workers
//     cannot starve it.
//   - The queues of others, half of what is in one; and last their places.
//
// Who has made work that a sleeping worker could do wakes one, unless one is looking for
// work already (`searching`); a worker that found some wakes the next. So a burst brings
// the workers up one by one, and a lone message in a place nobody. A worker that finds
// nothing looks a few times more, yielding its processor in between, and then sleeps.
//
// A handler may block. Where the runtime knows it, either its stack is set aside (Ask and
// whatever else waits for a message, see coroutine.go), or its worker steps out of the
// workers for that time (Blocking, and asks with a derived context, which may be on any
// goroutine). Where it does not (a mutex, a driver, time.Sleep), the monitor lets more
// workers in while actors wait and processors are idle.
type scheduler struct {
	driver Driver  // nil unless somebody else runs the system
	solo   *worker // the one worker of a driven system

	n       int32 // workers wanted: GOMAXPROCS when the system was made
	global  runQueue
	spawned spawnStack // of all workers

	active    atomic.Int32 // workers that are neither asleep nor away
	allowed   atomic.Int32 // how many may be: n, or more while handlers block
	searching atomic.Int32 // workers that look for work
	workers   atomic.Pointer[[]*worker]
	stacks    stackPool
	parked    atomic.Int64 // handlers that wait off stage

	mu         sync.Mutex
	handled    uint64           // messages that workers have handled who went home
	abandoned  map[*worker]Info // handlers that their actors were taken away from, and that still run
	asleep     []*worker        // waiting for work, the one that came last is woken first
	closed     bool
	monitor    monitor
	goroutines goroutines
}

const (
	lifoRun     = 3                      // picks from a worker's own place in a row
	globalEvery = 4                      // a pick at which the global comes first
	lookEvery   = 16                     // a pick at which the clock is read
	yieldAfter  = 200 * time.Microsecond // and goroutines of others, if the worker has not yielded for so long
	grabMost    = 128
	oldestEvery = 1024 // a pick at which the oldest of the spawnStack comes first
	searchTimes = 6    // looks before a worker sleeps, with more and more yields in between
	stealLooks  = 8    // workers at which each second look tries: a workers may be large while handlers block

	turnMessages = 128                    // messages in a turn
	turnTime     = 200 * time.Microsecond // and how long it may last, looked at every turnLook messages
	turnLook     = 16
	workersMax   = 10_000 // a limit for handlers that all block
	asleepMost   = 1000   // workers over the usual number that sleep before they go home
	rememberMost = 256    // idle actors whose mailboxes a worker remembers to take back
)

// worker is one goroutine of the workers. What is not atomic belongs to it, whichever
// coroutine it is on.
type worker struct {
	s       *scheduler
	co      *coroutine
	order   order
	wake    chan struct{}
	solo    Step   // what to do in a driven system
	playing bool   // current has its turn
	done    uint64 // messages handled that are not in handled yet
	streak  int
	picks   uint32
	young   bool      // it takes from the spawnStack now, and not from its queue,
	round   int       // and so many more before it changes to the other
	hasty   bool      // the last turn has used up its time: look around before the next
	yieldAt time.Time // when the worker next lets other goroutines have its processor
	seeking bool      // it counts in s.searching
	victim  uint32
	sleptAt int64 // by the coarse clock, guarded by s.mu
	surplus bool  // sent home from its sleep, guarded by s.mu

	idled     [rememberMost]*core
	idledNext int

	_         [64]byte             // others look at what follows
	current   atomic.Pointer[core] // the actor on stage, or the last one that was
	runnext   atomic.Pointer[core] // the actor woken last by this worker's own turn
	away      atomic.Bool          // asleep, stepped out or gone home: nobody looks at place
	out       atomic.Bool          // its handler is in Blocking: it does not count in s.active
	covered   atomic.Bool          // the same while a wait of its handler's, maybe on another goroutine, is covered by another worker
	handled   atomic.Uint64        // messages
	goroutine atomic.Uint64        // the number of the coroutine it is on
	due       atomic.Bool          // set by the monitor, cleared by the next message: who has not is slow
	fenced    atomic.Bool          // the actor on stage was taken away: the worker must not touch it again
	queue     runQueue
	_         [64]byte
	watched   watched // owned by the monitor
}

func newScheduler(driver Driver) *scheduler {
	s := &scheduler{n: int32(runtime.GOMAXPROCS(0)), driver: driver}
	s.allowed.Store(s.n)
	s.workers.Store(new([]*worker))
	if driver != nil {
		s.solo = &worker{s: s}
		s.workers.Store(&[]*worker{s.solo})
		s.closed = true // there is nobody to send home
		return s
	}
	s.monitor = monitor{sleeping: true, kick: make(chan struct{}, 1), stopped: make(chan struct{})}
	s.goroutines.start(s.watch)
	return s
}

// ready puts an actor that has just become runnable where it will be picked.
// w is the worker whose turn woke it, nil from outside.
func (s *scheduler) ready(c *core, w *worker) {
	if s.driver != nil {
		s.driver.Ready(Step{who: c})
		return
	}
	if c.traits.runsOn() == onThread && !c.parked {
		c.ext.thread.wake <- struct{}{}
		return
	}
	if w != nil && w.s == s && !w.away.Load() { // w may belong to the system of the sender
		if c = w.runnext.Swap(c); c != nil {
			w.put(c)
			s.wakeIfNeeded()
		}
		// A lone actor in the waker's place wakes nobody. But the waker may have gone
		// away since, if a handler's context is used outside of its turn: away and place
		// are written in the opposite order there, so one of the two sees the other.
		if !w.away.Load() {
			return
		}
		if c = w.runnext.Swap(nil); c == nil {
			return
		}
	}
	s.global.push(c)
	s.wakeIfNeeded()
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
		s.goroutines.start(w.work)
	}
}

// enter puts c on stage.
func (w *worker) enter(c *core) {
	w.current.Store(c)
	w.playing = true
}

// publish makes what was counted known.
func (w *worker) publish() {
	if w.done > 0 {
		w.handled.Add(w.done)
		w.done = 0
	}
}

// pick returns the next actor, and nil when the worker is to go home. It sleeps
// while there is none.
func (w *worker) pick() *core {
	if w.s.driver != nil {
		w.publish()
		return w.solo.next()
	}
	for {
		if s := w.s; s.active.Load() > s.allowed.Load() && !w.retire() {
			return nil
		}
		c := w.next()
		if c == nil {
			w.publish()
			w.current.Store(nil)
			if c = w.search(); c == nil {
				if w.sleep() {
					continue
				}
				return nil
			}
		}
		if w.seeking {
			w.seeking = false
			if w.s.searching.Add(-1) == 0 && w.s.waiting() {
				w.s.wakeIfNeeded()
			}
		}
		return c
	}
}

// retire sends a worker to sleep that is one too many. It reports false when the worker is
// to go home.
func (w *worker) retire() bool {
	w.publish()
	w.current.Store(nil)
	w.handOver()
	return w.sleep()
}

// next looks where a busy worker looks.
func (w *worker) next() *core {
	s := w.s
	if w.picks++; w.hasty || w.picks%globalEvery == 0 {
		if w.hasty || w.picks%lookEvery == 0 {
			w.lookAround()
		}
		if w.picks%oldestEvery == 0 {
			if c := s.spawned.oldest(); c != nil {
				return c
			}
		}
		if c := s.global.pop(); c != nil {
			return c
		}
	}
	if w.runnext.Load() != nil {
		if c := w.runnext.Swap(nil); c != nil {
			if w.streak++; w.streak <= lifoRun || w.waits() == 0 && s.global.n.Load() == 0 {
				return c // nobody else waits, or not for long
			}
			w.put(c)
			if w.waits() == 1 { // it would come first again
				w.streak = 0
				if c := s.global.pop(); c != nil {
					return c
				}
			}
		}
	}
	w.streak = 0
	if c := w.take(); c != nil {
		return c
	}
	return s.global.grab(&w.queue, min(int(s.global.n.Load()/s.n), grabMost))
}

// put queues an actor that w's turns have made ready, and that nobody has a hand on.
func (w *worker) put(c *core) {
	if c.goesFirst() {
		w.s.spawned.push(c)
	} else {
		w.queue.push(c)
	}
}

// handOver leaves to others who waits in w's queue.
func (w *worker) handOver() {
	for c := w.queue.pop(); c != nil; c = w.queue.pop() {
		w.s.global.push(c)
	}
}

// take returns the next of those that put has queued. Queue and spawnStack are served by turns,
// each time as many as wait there: so neither overtakes the other for long, and who spawns
// without an end waits for those whom it has spawned, as it would in one queue for all.
func (w *worker) take() *core {
	spawnStack := &w.s.spawned
	if spawnStack.n.Load() == 0 {
		return w.queue.pop()
	}
	for range 3 { // what is left of this one's round, the other's, and this one's again
		if w.round > 0 {
			w.round--
			if w.young {
				if c := spawnStack.youngest(); c != nil {
					return c
				}
			} else if c := w.queue.pop(); c != nil {
				return c
			}
		}
		if w.young = !w.young; w.young {
			w.round = int((spawnStack.n.Load() + w.s.n - 1) / w.s.n)
		} else {
			w.round = int(w.queue.n.Load())
		}
	}
	return nil
}

// waits returns how many of those that put has queued wait.
func (w *worker) waits() int { return int(w.queue.n.Load()) + int(w.s.spawned.n.Load()) }

// lookAround lets other goroutines run from time to time. Go would take the processor
// away from a busy worker only after 10 ms, and sees to timers and sockets when a
// goroutine yields: without that, whoever tells, and the monitor, would be that late. Where
// one has then computed for long, up to those 10 ms, the worker takes as long for itself.
func (w *worker) lookAround() {
	w.hasty = false
	if w.s.driver != nil {
		return
	}
	now := time.Now()
	if now.Before(w.yieldAt) {
		return
	}
	runtime.Gosched()
	back := time.Now()
	w.yieldAt = back.Add(max(yieldAfter, back.Sub(now)))
}

// search looks everywhere, more than once.
func (w *worker) search() *core {
	s := w.s
	if !w.seeking {
		if s.searching.Add(1) > max(1, s.n/2) {
			s.searching.Add(-1)
			return w.steal(true, true)
		}
		w.seeking = true
	}
	for i := range searchTimes {
		for range i * i {
			runtime.Gosched()
		}
		if c := w.next(); c != nil {
			return c
		}
		if c := w.steal(i%2 == 0, i == searchTimes-1); c != nil {
			return c
		}
	}
	return nil
}

// steal takes from another worker: half of what waits in its queue, or, as a last resort,
// the actor in its place. A look that is not thorough tries a few workers only.
func (w *worker) steal(thorough, places bool) *core {
	workers := *w.s.workers.Load()
	looks := len(workers)
	if !thorough && !places {
		looks = min(looks, stealLooks)
	}
	w.victim++
	for i := range looks {
		v := workers[(w.victim+uint32(i))%uint32(len(workers))]
		if v == w {
			continue
		}
		if c := v.queue.grab(&w.queue, min(int(v.queue.n.Load())/2, grabMost)); c != nil {
			return c
		}
		if places && v.runnext.Load() != nil && v.due.Load() {
			if c := v.runnext.Swap(nil); c != nil {
				return c
			}
		}
	}
	return nil
}

// waiting reports whether an actor waits in a queue.
func (s *scheduler) waiting() bool {
	if s.global.n.Load() > 0 || s.spawned.n.Load() > 0 {
		return true
	}
	for _, w := range *s.workers.Load() {
		if w.queue.n.Load() > 0 {
			return true
		}
	}
	return false
}

// sleep parks the worker until there is work. It reports false when the worker is to go
// home instead.
func (w *worker) sleep() bool {
	s := w.s
	w.away.Store(true)
	if c := w.runnext.Swap(nil); c != nil {
		w.away.Store(false)
		w.queue.push(c)
		return true
	}
	s.mu.Lock()
	if s.closed || len(s.asleep) >= int(s.n)+asleepMost {
		s.mu.Unlock()
		return false
	}
	w.sleptAt = s.monitor.coarse.Load()
	s.asleep = append(s.asleep, w)
	s.active.Add(-1)
	if w.seeking {
		w.seeking = false
		s.searching.Add(-1)
	}
	s.mu.Unlock()
	// Whoever queued something just now may have found this worker searching and relied
	// on it: having said that it sleeps, it looks once more.
	if s.waiting() {
		s.wakeIfNeeded()
	}
	<-w.wake
	if w.surplus {
		return false
	}
	w.away.Store(false)
	w.seeking = true
	return true
}

// leave runs when the worker's goroutine ends: because nobody needs it, or because a
// handler called runtime.Goexit. In the latter case the turn is finished here and another
// worker takes over.
func (w *worker) leave() {
	s := w.s
	if w.playing && w.lost() { // the monitor has seen to nearly all of it
		s.mu.Lock()
		delete(s.abandoned, w)
		s.mu.Unlock()
		w.current.Swap(nil).impl().forget()
		return
	}
	w.away.Store(true)
	if c := w.current.Swap(nil); w.playing && c.impl().endTurn(w) {
		s.global.push(c)
	}
	w.away.Store(true) // again: who has waited long for the actor's lock has stepped out and in
	w.publish()
	if c := w.runnext.Swap(nil); c != nil {
		s.global.push(c)
	}
	w.reclaimAll()
	s.mu.Lock()
	workers := slices.DeleteFunc(slices.Clone(*s.workers.Load()), func(o *worker) bool { return o == w })
	s.workers.Store(&workers)
	if !w.surplus { // who is sent home has not been counted since it fell asleep
		s.active.Add(-1)
	}
	s.handled += w.handled.Load()
	s.mu.Unlock()
	w.handOver()
	if w.seeking {
		s.searching.Add(-1)
	}
	if s.waiting() {
		s.wakeIfNeeded()
	}
}

// stepOut: the handler on w is about to block for something that the runtime knows of,
// and nobody may miss the worker. It reports false when the worker is out already.
func (w *worker) stepOut() bool {
	s := w.s
	if s.driver != nil || !w.out.CompareAndSwap(false, true) {
		return false
	}
	if w.fenced.Load() && w.out.CompareAndSwap(true, false) { // it is in no workers any more
		return false
	}
	w.away.Store(true)
	if c := w.runnext.Swap(nil); c != nil {
		w.queue.push(c)
	}
	s.active.Add(-1)
	if s.waiting() {
		s.wakeIfNeeded()
	}
	return true
}

// stepIn ends what stepOut began, unless the worker was fenced meanwhile. The workers may be
// one too large until somebody finds nothing to do.
func (w *worker) stepIn() {
	if w.out.Swap(false) {
		w.away.Store(false)
		w.s.active.Add(1)
		w.s.wakeMonitor()
	}
}

// cover is stepOut for a wait that may be on any goroutine: at worst one worker too many
// is let in for each that has an actor on stage. It returns the worker that is covered for,
// nil if none is.
func (s *scheduler) cover(c *core) *worker {
	w := c.worker.Load()
	if w == nil || s.driver != nil || w.current.Load() != c || w.out.Load() || !w.covered.CompareAndSwap(false, true) {
		return nil
	}
	if next := w.runnext.Swap(nil); next != nil {
		s.global.push(next)
	}
	s.active.Add(-1)
	if s.waiting() {
		s.wakeIfNeeded()
	}
	return w
}

// uncover ends what cover began, with what it returned.
func (s *scheduler) uncover(w *worker) {
	if w != nil && w.covered.Swap(false) {
		s.active.Add(1)
		s.wakeMonitor()
	}
}

// background runs work of an actor that is not in its turn.
func (s *scheduler) background(c *core, work func()) {
	if s.driver != nil {
		s.driver.Ready(Step{who: c, run: work})
		return
	}
	s.goroutines.start(work)
}

// close sends the workers home once the queues are empty. crowd tells when they all left.
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
	return runnable + int(s.global.n.Load()) + int(s.spawned.n.Load()), int(s.active.Load()) + len(s.asleep)
}

// handledMessages returns how many messages the workers has handled.
func (s *scheduler) handledMessages() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.handled
	for _, w := range *s.workers.Load() {
		n += w.handled.Load()
	}
	return n
}

// remember notes an actor that has gone idle with its mailbox: unless it has become busy
// again when rememberMost others have done the same, the mailbox is taken back.
func (w *worker) remember(c *core) {
	i := w.idledNext
	w.idledNext = (i + 1) % rememberMost
	cold := w.idled[i]
	w.idled[i] = c
	if cold != nil {
		cold.impl().reclaim()
	}
}

// alone reports whether nobody else waits for the worker.
func (w *worker) alone() bool {
	return w.s.driver == nil && w.runnext.Load() == nil && w.waits() == 0 && w.s.global.n.Load() == 0
}

// reclaimAll takes all remembered mailboxes back.
func (w *worker) reclaimAll() {
	for i, c := range w.idled {
		if c != nil {
			w.idled[i] = nil
			c.impl().reclaim()
		}
	}
}
