package actor

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

const (
	runnextMost = 3                      // picks in a row from runnext
	globalEvery = 4                      // a pick at which the global queue comes first
	lookEvery   = 16                     // a pick at which the clock is read
	yieldAfter  = 200 * time.Microsecond // and goroutines of others, if the worker has not yielded for so long
	grabMost    = 128
	sharedEvery = 13   // a turn after which an actor with more to do goes to the shared queue: prime, or in a short queue it would always be the same actor's
	oldestEvery = 1024 // a pick at which the oldest of the spawn stack comes first
	searchTimes = 6    // looks before a worker sleeps, with more and more yields in between
	stealLooks  = 8    // workers that every second look tries: there may be thousands while handlers block

	turnMessages = 128                    // messages in a turn
	turnTime     = 200 * time.Microsecond // and how long it may last, looked at every turnLook messages
	turnLook     = 16
	workersMax   = 10_000 // a limit for handlers that all block
	asleepMost   = 1000   // surplus workers that may sleep; others end at once
	rememberMost = 256    // idle actors whose mailboxes a worker may reclaim later
)

// worker is a goroutine that runs actors. What is not atomic belongs to it, whichever
// coroutine it is on, unless said otherwise.
type worker struct {
	s       *scheduler
	leaving leaving
	wake    chan struct{}
	step    Step   // to take next in a driven system
	inTurn  bool   // current has its turn
	done    uint64 // messages handled that are not in handled yet
	streak  int
	picks   uint32
	source  source    // from which this round takes
	round   int       // actors left in this round
	turns   uint32    // after which there was more to do
	long    bool      // messages take long: turns read the clock, see turnBudget
	hasty   bool      // the last turn has used up its time: look around before the next
	outside bool      // the last actor came from the global queue, since that was to come first
	yieldAt time.Time // when the worker next lets other goroutines have its processor
	seeking bool      // it counts in s.searching
	sleptAt int64     // by the coarse clock, guarded by s.mu
	surplus bool      // woken to end, guarded by s.mu

	idled     [rememberMost]*core
	idledNext int

	sampler sampler

	_       [64]byte                  // others look at what follows
	current atomic.Pointer[core]      // the actor that has its turn, or had the last one
	runnext atomic.Pointer[core]      // the actor woken last by this worker's own turn
	away    atomic.Bool               // asleep, stepped out or ended: nobody looks at runnext
	out     atomic.Bool               // its handler is in Blocking: it does not count in s.active, but in a bulkhead
	covered atomic.Int32              // the same while another worker covers for waits of its handler's, so many, maybe on other goroutines
	handled atomic.Uint64             // messages
	co      atomic.Pointer[coroutine] // that it is on
	due     atomic.Bool               // set by the monitor, cleared by the next message: a worker that has not cleared it is slow
	fenced  atomic.Bool               // current was taken away: the worker must not touch it again
	queue   runQueue
	_       [64]byte
	watched watched // owned by the monitor
}

// enter notes that c gets its turn.
func (w *worker) enter(c *core) {
	w.current.Store(c)
	w.inTurn = true
}

// isOnStack reports whether the caller is on the stack that w runs. Where [currentG] does not know it is.
func (w *worker) isOnStack() bool {
	co := w.co.Load()
	return co != nil && co.g == currentG()
}

// isLeft reports whether nobody may look at w's runnext: it is away, or another worker covers for
// it. Its handler then runs beside the wait of a goroutine, and may itself wait in a way that the
// runtime does not know of; and as w does not count, the monitor may sleep.
func (w *worker) isLeft() bool { return w.away.Load() || w.covered.Load() > 0 }

// publish makes what was counted known.
func (w *worker) publish() {
	if w.done > 0 {
		w.handled.Add(w.done)
		w.done = 0
	}
}

// pick sleeps while there is nothing to do.
func (s byWorkers) pick(w *worker) *core {
	for {
		if s.active.Load() > s.allowed.Load() {
			if !w.retire() {
				return nil
			}
			if s.bounded() {
				continue // what its last turn has told is for another
			}
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
			s.step()
			w.seeking = false
			if s.searching.Add(-1) == 0 && s.waiting() {
				s.wakeIfNeeded()
			}
		}
		return c
	}
}

// retire sends a worker to sleep that is one too many. It reports false when the worker is
// to end.
func (w *worker) retire() bool {
	w.publish()
	w.current.Store(nil)
	w.handOver()
	return w.sleep()
}

// next looks where a busy worker looks.
func (w *worker) next() *core {
	s := w.s
	outside := w.outside
	w.outside = false
	if w.picks++; w.hasty || w.picks%globalEvery == 0 {
		if w.hasty || w.picks%lookEvery == 0 {
			w.lookAround()
		}
		if w.picks%oldestEvery == 0 {
			if c := s.spawned.oldest(); c != nil {
				return c
			}
		}
		if !outside {
			if c := s.global.pop(); c != nil {
				w.outside = true
				return c
			}
		}
	}
	if w.runnext.Load() != nil {
		s.step()
		if c := w.runnext.Swap(nil); c != nil {
			if w.streak++; w.streak <= runnextMost || w.waits() == 0 && s.global.n.Load() == 0 {
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

// lookAround lets other goroutines run from time to time. Go would take the processor
// away from a busy worker only after 10 ms, and sees to timers and sockets when a
// goroutine yields: without that, whoever tells, and the monitor, would be that late. Where
// one has then computed for long, up to those 10 ms, the worker takes as long for itself.
func (w *worker) lookAround() {
	w.hasty = false
	if w.s.computing.Load() || w.seeking && w.s.crowded.Load() {
		return // Go takes the processor away from all who run for long; and who searches is relied on
	}
	now := time.Now()
	if now.Before(w.yieldAt) {
		return
	}
	runtime.Gosched()
	back := time.Now()
	w.yieldAt = back.Add(w.s.share(back.Sub(now)))
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
		last := i == searchTimes-1 || s.crowded.Load()
		for range i * i {
			if s.crowded.Load() {
				break
			}
			runtime.Gosched()
		}
		if c := w.next(); c != nil {
			return c
		}
		if c := w.steal(i%2 == 0 || last, last); c != nil {
			return c
		}
		if last {
			break
		}
	}
	return nil
}

// steal takes from another worker: half of what waits in its queue, or, as a last resort,
// the actor in its runnext. A look that is not thorough tries a few workers only. It begins where
// the last one has found something: while handlers block there may be thousands of workers, and
// those that have something are close together.
func (w *worker) steal(thorough, runnexts bool) *core {
	s := w.s
	s.step()
	workers := *s.workers.Load()
	looks := len(workers)
	if !thorough && !runnexts {
		looks = min(looks, stealLooks)
	}
	from := s.victim.Load()
	for range looks {
		v := workers[from%uint32(len(workers))]
		if v != w {
			if c := w.stealFrom(v, runnexts); c != nil {
				s.victim.Store(from)
				return c
			}
		}
		from++
	}
	s.victim.Store(from)
	return nil
}

func (w *worker) stealFrom(v *worker, runnexts bool) *core {
	if c := v.queue.grab(&w.queue, min(int(v.queue.n.Load())/2, grabMost)); c != nil {
		return c
	}
	if runnexts && v.runnext.Load() != nil && v.due.Load() {
		return v.runnext.Swap(nil)
	}
	return nil
}

// sleep parks the worker until there is work. It reports false when the worker is to end
// instead.
func (w *worker) sleep() bool {
	s := w.s
	s.step()
	w.away.Store(true)
	s.step()
	if c := w.runnext.Swap(nil); c != nil {
		w.away.Store(false)
		w.queue.push(c)
		return true
	}
	s.step()
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
	s.step()
	// Whoever queued something just now may have found this worker searching and relied
	// on it: having said that it sleeps, it looks once more.
	if s.waiting() {
		s.wakeIfNeeded()
	}
	if s.walk != nil {
		s.walk.sleeps(w)
	}
	<-w.wake
	if s.walk != nil {
		s.walk.arrived(w)
	}
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
	if s.walk != nil {
		defer s.walk.gone()
	}
	if w.inTurn && w.lost() { // the monitor has seen to nearly all of it
		s.mu.Lock()
		delete(s.abandoned, w)
		s.mu.Unlock()
		return
	}
	w.away.Store(true)
	if c := w.current.Swap(nil); w.inTurn && c.impl().endTurn(w) {
		s.global.push(c)
	}
	w.away.Store(true) // again: waiting for the actor's lock may have made the worker step out and in
	w.publish()
	if c := w.runnext.Swap(nil); c != nil {
		s.global.push(c)
	}
	w.reclaimAll()
	s.mu.Lock()
	workers := slices.DeleteFunc(slices.Clone(*s.workers.Load()), func(o *worker) bool { return o == w })
	s.workers.Store(&workers)
	if !w.surplus { // a surplus worker has not been counted since it fell asleep
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

func (s byWorkers) stepOut(w *worker) bool {
	if !w.out.CompareAndSwap(false, true) {
		return false
	}
	if w.fenced.Load() && w.out.CompareAndSwap(true, false) { // it is no worker of the system any more
		return false
	}
	w.away.Store(true)
	if c := w.runnext.Swap(nil); c != nil {
		s.global.push(c) // and not into the worker's own queue, at which nobody looks once it is fenced
	}
	if !s.bounded() {
		s.active.Add(-1)
	}
	if s.waiting() {
		s.wakeIfNeeded()
	}
	return true
}

// stepIn ends what stepOut began, unless the worker was fenced meanwhile. There may be
// one worker too many until somebody finds nothing to do.
func (w *worker) stepIn() {
	if w.out.Swap(false) {
		w.away.Store(false)
		if !w.s.bounded() {
			w.s.active.Add(1)
		}
		w.s.wakeMonitor()
	}
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
	return w.runnext.Load() == nil && w.waits() == 0 && w.s.global.n.Load() == 0
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
