package actor

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// The scheduler: a crew of workers and a queue of actors that have something to
// do. A worker takes an actor, gives it one turn, and puts it back at the tail if
// more is left. An actor is in the queue, in a worker's place, running, or idle;
// never in two of them: `core.scheduled` is set by whoever queues it and cleared
// by the turn that finds nothing left.
//
// Each worker has a place for the actor that its own turn has just woken: the
// message is still in its cache, and two actors that talk to each other stay on
// one core without waking anybody. At most lifoRun such picks follow each other,
// so that a pair cannot starve the queue.
//
// A handler may block. Where the runtime knows it (Ask in a handler), the worker
// leaves the crew for that time and another takes its place. Where it does not (a
// mutex, a driver, time.Sleep), the monitor sees that actors wait and nobody picks
// them while processors are idle, and adds workers, doubling, until they do; the
// surplus goes home when the queue is empty. On a load that keeps all processors
// busy it adds none, since more workers would not help.
type scheduler struct {
	n int // workers wanted: GOMAXPROCS when the system was made

	mu      sync.Mutex
	head    *core // the queue, linked by core.runNext
	tail    *core
	queued  int
	parked  []*worker // waiting for work, the one that parked last is woken first
	live    int       // workers in the crew, parked ones included, blocked ones not
	crew    map[*worker]struct{}
	closed  bool
	asleep  bool // the monitor waits for kick
	kick    chan struct{}
	stopped chan struct{}
	wg      sync.WaitGroup

	picks   atomic.Uint64 // how many turns have begun; the monitor compares
	running atomic.Int64  // turns under way
}

const (
	lifoRun       = 3                      // picks from a worker's own place in a row
	turnMessages  = 128                    // messages in a turn
	turnTime      = 200 * time.Microsecond // and how long it may last, looked at every turnLook messages
	turnLook      = 16
	monitorTick   = 2 * time.Millisecond
	monitorLinger = 25   // quiet ticks before the monitor goes to sleep
	workersMax    = 4096 // a limit for handlers that all block
	overdueTicks  = 10   // add a worker even on busy processors after this long without a pick
)

// worker is one goroutine of the crew.
type worker struct {
	s       *scheduler
	place   atomic.Pointer[core] // the actor woken last by this worker's own turn
	streak  int
	away    atomic.Bool // parked, stepped out or gone home: nobody looks at place
	wake    chan struct{}
	current *core // the actor on stage, for the goroutine's deferred clean-up
}

func newScheduler() *scheduler {
	s := &scheduler{
		n: runtime.GOMAXPROCS(0), crew: make(map[*worker]struct{}), asleep: true,
		kick: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
	s.wg.Go(s.monitor)
	return s
}

// ready puts an actor that has just become runnable where it will be picked.
// w is the worker whose turn woke it, nil from outside.
func (s *scheduler) ready(c *core, w *worker) {
	if h := c.home; h != nil && h.kind == homePinned {
		h.wake <- struct{}{}
		return
	}
	if w != nil && !w.away.Load() {
		if c = w.place.Swap(c); c != nil {
			s.push(c)
		}
		// A lone actor in the waker's place wakes nobody. But the waker may have gone
		// away since, if a handler's context is used outside of its turn: away and place
		// are written in the opposite order there, so one of the two sees the other.
		if !w.away.Load() {
			return
		}
		if c = w.place.Swap(nil); c == nil {
			return
		}
	}
	s.push(c)
}

// push appends to the queue and sees to it that somebody will look.
func (s *scheduler) push(c *core) {
	s.mu.Lock()
	s.enqueue(c)
	s.callWorker()
	s.mu.Unlock()
}

// enqueue appends to the queue. REQUIRES: s.mu held.
func (s *scheduler) enqueue(c *core) {
	c.runNext = nil
	if s.tail == nil {
		s.head = c
	} else {
		s.tail.runNext = c
	}
	s.tail = c
	s.queued++
}

// callWorker wakes a parked worker or starts one. REQUIRES: s.mu held.
func (s *scheduler) callWorker() {
	if !s.unpark() && s.live < s.n {
		s.hire()
	}
	if s.asleep && !s.closed {
		s.asleep = false
		s.kick <- struct{}{}
	}
}

// unpark wakes the worker that parked last, if there is one. REQUIRES: s.mu held.
func (s *scheduler) unpark() bool {
	n := len(s.parked)
	if n == 0 {
		return false
	}
	w := s.parked[n-1]
	s.parked = s.parked[:n-1]
	w.wake <- struct{}{}
	return true
}

// hire starts a worker. REQUIRES: s.mu held.
func (s *scheduler) hire() {
	w := &worker{s: s, wake: make(chan struct{}, 1)}
	s.live++
	s.crew[w] = struct{}{}
	s.wg.Go(w.work)
}

func (w *worker) work() {
	defer w.leave()
	for {
		c := w.pick()
		if c == nil {
			return
		}
		w.turn(c)
	}
}

func (w *worker) turn(c *core) {
	s := w.s
	w.current = c
	s.picks.Add(1)
	s.running.Add(1)
	again := c.impl.turn(w)
	s.running.Add(-1)
	w.current = nil
	if again {
		s.push(c)
	}
}

// leave runs when the worker's goroutine ends: because the crew is too large or
// the system has shut down, or because a handler called runtime.Goexit. In the
// latter case the turn is finished here and another worker takes over.
func (w *worker) leave() {
	s := w.s
	if c := w.current; c != nil {
		s.running.Add(-1)
		if c.impl.endTurn() {
			s.push(c)
		}
	}
	w.away.Store(true)
	if c := w.place.Swap(nil); c != nil {
		s.push(c)
	}
	s.mu.Lock()
	delete(s.crew, w)
	if w.current != nil {
		s.live--
		if s.queued > 0 {
			s.callWorker()
		}
	}
	s.mu.Unlock()
}

// pick returns the next actor, and nil when the worker is to go home. It waits
// while there is none.
func (w *worker) pick() *core {
	s := w.s
	if c := w.place.Swap(nil); c != nil {
		if w.streak++; w.streak <= lifoRun {
			return c
		}
		s.push(c)
	}
	w.streak = 0
	s.mu.Lock()
	for {
		if c := s.head; c != nil {
			if s.head = c.runNext; s.head == nil {
				s.tail = nil
			}
			c.runNext = nil
			s.queued--
			s.mu.Unlock()
			return c
		}
		if s.closed || s.live > s.n {
			s.live--
			s.mu.Unlock()
			return nil
		}
		w.away.Store(true)
		if c := w.place.Swap(nil); c != nil {
			w.away.Store(false)
			s.mu.Unlock()
			return c
		}
		s.parked = append(s.parked, w)
		s.mu.Unlock()
		<-w.wake
		s.mu.Lock()
		w.away.Store(false)
	}
}

// stepOut: the handler on w is about to wait for something that other actors do.
func (w *worker) stepOut() {
	s := w.s
	s.running.Add(-1)
	w.away.Store(true)
	if c := w.place.Swap(nil); c != nil {
		s.push(c)
	}
	s.mu.Lock()
	s.live--
	if s.queued > 0 {
		s.callWorker()
	}
	s.mu.Unlock()
}

// stepIn: the wait is over. The crew may be one too large until somebody finds
// nothing to do.
func (w *worker) stepIn() {
	s := w.s
	w.away.Store(false)
	s.running.Add(1)
	s.mu.Lock()
	s.live++
	s.mu.Unlock()
}

// monitor looks after actors that wait although nobody seems to be busy. It sleeps
// while the system is idle.
func (s *scheduler) monitor() {
	samples := []metrics.Sample{{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"}}
	ticker := time.NewTicker(monitorTick)
	defer ticker.Stop()
	for {
		ticker.Stop() // nothing ticks while the system is idle
		select {
		case <-s.kick:
		case <-s.stopped:
			return
		}
		ticker.Reset(monitorTick)
		last, stuck, quiet, more := s.picks.Load(), 0, 0, 1
		for quiet < monitorLinger {
			select {
			case <-ticker.C:
			case <-s.stopped:
				return
			}
			picks := s.picks.Load()
			switch {
			case picks != last:
				last, stuck, quiet, more = picks, 0, 0, 1
			case s.running.Load() == 0:
				quiet++
			default:
				quiet = 0
				if stuck++; s.help(stuck, more, samples) {
					more *= 2
				}
			}
		}
		s.mu.Lock()
		s.asleep = true
		if s.queued > 0 || len(s.parked) < s.live { // it became busy just now
			s.asleep = false
			s.kick <- struct{}{}
		}
		s.mu.Unlock()
	}
}

// help adds up to more workers when actors wait, nobody has picked one for a tick,
// and processors are free. It reports whether it did.
func (s *scheduler) help(stuck, more int, samples []metrics.Sample) bool {
	s.mu.Lock()
	for w := range s.crew { // an actor in the place of a stuck worker waits as well
		if c := w.place.Swap(nil); c != nil {
			s.enqueue(c)
		}
	}
	waiting := s.queued
	s.mu.Unlock()
	if waiting == 0 {
		return false
	}
	if stuck < overdueTicks && processorsBusy(samples) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	added := false
	for range min(more, s.queued) {
		if s.live >= workersMax || s.closed {
			break
		}
		if !s.unpark() {
			s.hire()
		}
		added = true
	}
	return added
}

// processorsBusy reports whether the Go scheduler has as much to run as it can.
func processorsBusy(samples []metrics.Sample) bool {
	metrics.Read(samples)
	busy := uint64(0)
	for _, m := range samples {
		if m.Value.Kind() == metrics.KindUint64 {
			busy += m.Value.Uint64()
		}
	}
	return busy > uint64(runtime.GOMAXPROCS(0)) // the monitor itself is one of them
}

// close sends the crew home once the queue is empty. wg tells when they all left.
func (s *scheduler) close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	for _, w := range s.parked {
		w.wake <- struct{}{}
	}
	s.parked = nil
	s.mu.Unlock()
	close(s.stopped)
}

func (s *scheduler) counts() (runnable, workers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.crew {
		if w.place.Load() != nil {
			runnable++
		}
	}
	return runnable + s.queued, s.live
}
