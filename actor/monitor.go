package actor

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"
)

// The monitor is a goroutine that looks at the workers while one is awake, and sleeps while
// all sleep. It does three things:
//
//   - It marks each worker as due. A worker clears the mark with its next message. One
//     that has not by the next tick has a handler that computes or blocks; its turn ends
//     with that message, and after some time it is reported as stuck.
//   - While actors wait although processors are idle, handlers must be blocking: it lets
//     more workers in, half as many again at each tick. It asks the Go scheduler for that
//     (runtime/metrics, some 100 ns). To look for handlers that take longer than a tick
//     would not do: with handlers that block for a millisecond each, every worker has
//     always just begun one. On a load that keeps the processors busy it lets nobody in,
//     but for handlers that take long: for each of those there is one worker more. No more of
//     them compute than goroutines can run; the others are blocked, and cost no processor. Among
//     those that compute the Go scheduler shares the processors out.
//   - It keeps the coarse clock: time.Now for each message would cost more than the
//     message.
type monitor struct {
	coarse    atomic.Int64 // nanoseconds since the epoch at the last tick, 0 while it sleeps
	sleeping  bool         // it waits for kick; guarded by the scheduler's mu
	kick      chan struct{}
	stopped   chan struct{}
	samples   loadSamples
	stuck     []stuckReport // gathered in this look
	reporting atomic.Bool   // those of an earlier look are on their way
	restUntil atomic.Int64  // nanoseconds since the epoch before which no more are gathered

	computed time.Time       // when it was last found out whether handlers compute
	recheck  time.Duration   // after which that is found out again
	again    chan secondLook // of those on their way, at most one
	looking  bool            // one is on its way
	beside   atomic.Bool     // its goroutine may run
	outdated bool            // since it began, nobody had anything to do
	patience *time.Timer     // with it

	runs lowest // goroutines that can run

	hurry bool // in this look a killed actor was found whose time to finish its message is about to end

	starved time.Time // the first of the ticks in a row in which actors waited and all workers were slow, or zero
}

const (
	tickBusy      = time.Millisecond       // between two looks at busy workers
	tickGrowing   = 200 * time.Microsecond // while workers are let in
	tickSlow      = 100 * time.Millisecond // while nothing changes
	quietTicks    = 25                     // looks at idle workers before the monitor sleeps
	starvedFor    = 5 * time.Millisecond   // then more are let in even on busy processors
	longAfter     = 10 * time.Millisecond  // in a handler that computes: then Go's scheduler makes it take turns
	longMost      = 256                    // workers to which handlers that compute may lead at once
	surplusAfter  = 250 * time.Millisecond // of sleep, a worker over the usual number
	surplusAtOnce = 64                     // such workers with a tick
	recheckAfter  = time.Second            // whether handlers that were found to compute still do
	secondLooks   = 4                      // at processors that seem busy, while actors wait
	secondMost    = 10 * time.Millisecond  // that the monitor waits for them, once
	secondShare   = 50                     // of the time that they take is what passes at least until they are taken again
	crowd         = 128                    // goroutines that can run for each worker wanted, to whom nobody gives way
	lowestLooks   = 8                      // after which the lowest of the numbers noted is taken anew
)

// lowest is the smallest of the numbers noted lately, in lowestLooks and longAfter at least: timers that are due
// together make any number of goroutines runnable for a moment, and those that compute are so always.
type lowest struct {
	since       time.Time
	looks       int // since then
	now, before int // in the span that has begun at since, and in the one before
}

func (l *lowest) note(now time.Time, n int) int {
	if l.looks >= lowestLooks && now.Sub(l.since) >= longAfter {
		*l = lowest{since: now, before: l.now, now: n}
	}
	l.looks++
	l.now = min(l.now, n)
	return min(l.now, l.before)
}

// watched is what the monitor remembers about a worker.
type watched struct {
	actor *core     // that had its turn at the last tick
	out   bool      // and in a wait that the runtime knows of
	since time.Time // the first tick that has seen the handler
	told  int       // how many of stuckAfter have been reported
}

func newMonitor() monitor {
	return monitor{
		sleeping: true, kick: make(chan struct{}, 1), stopped: make(chan struct{}),
		samples: newLoadSamples(), again: make(chan secondLook, 1), patience: stoppedTimer(),
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// wakeMonitor wakes the monitor if it sleeps.
func (s *scheduler) wakeMonitor() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.monitor.wakeMonitor()
	}
}

// wakeMonitor wakes the monitor. REQUIRES: the scheduler's mu held.
func (m *monitor) wakeMonitor() {
	if m.sleeping {
		m.sleeping = false
		m.coarse.Store(time.Now().UnixNano())
		m.kick <- struct{}{}
	}
}

// watch is the monitor's goroutine.
func (s *scheduler) watch() {
	m := &s.monitor
	alarm := stoppedTimer()
	for {
		select {
		case <-m.kick:
		case <-m.stopped:
			return
		}
		for period, quiet := tickBusy, 0; quiet < quietTicks; {
			alarm.Reset(period)
			select {
			case <-m.kick: // it became busy again
				continue
			case <-alarm.C:
			case <-m.stopped:
				alarm.Stop()
				return
			}
			switch s.look(time.Now()) {
			case poolIdle:
				quiet++
				period = tickBusy
			case poolGrows:
				quiet, period = 0, tickGrowing
			case poolBusy:
				quiet, period = 0, tickBusy
			case poolSame:
				quiet, period = 0, min(period*2, tickSlow)
			}
		}
		m.coarse.Store(0)
		s.mu.Lock()
		m.sleeping = true
		if s.active.Load() > 0 || s.waiting() { // it became busy just now
			m.wakeMonitor()
		}
		s.mu.Unlock()
	}
}

// poolState is what the monitor sees in one look.
type poolState uint8

const (
	poolIdle  poolState = iota // everybody sleeps
	poolBusy                   // messages are handled
	poolGrows                  // actors wait, processors are idle: more workers were let in
	poolSame                   // all who are awake are in the same handlers as before
)

// look is one tick.
func (s *scheduler) look(now time.Time) poolState {
	m := &s.monitor
	m.coarse.Store(now.UnixNano())
	slow, long, moving, dying := s.mark(now)
	s.reportStuck()
	surplus := s.endSurplus(now)
	runs, busy := s.processorLoad(&m.samples, m.beside.Load())
	if dying == 0 && s.active.Load() == 0 && !s.waiting() {
		s.allowed.Store(s.n)
		s.computing.Store(false)
		s.noteCrowd(runs)
		m.outdated = m.looking
		if surplus {
			return poolBusy
		}
		return poolIdle
	}
	waits := s.backlog()
	allowed := s.allowed.Load()
	if !busy || long == 0 {
		s.computing.Store(false)
	}
	if again := busy && waits+long > 0 && (!s.computing.Load() || now.Sub(m.computed) > m.recheck); again || m.looking {
		if second, ok := s.lookAgain(); ok && again {
			runs, busy, waits = second.runs, second.busy, s.backlog()
			m.computed = time.Now()
			m.recheck = max(recheckAfter, secondShare*second.took)
			s.computing.Store(busy && long > 0 && second.took >= starvedFor)
		} else if m.looking && long > 0 { // it gives way, and has not come back for secondMost
			s.computing.Store(busy)
		}
	}
	s.noteCrowd(runs)
	if waits == 0 || moving > 0 {
		m.starved = time.Time{}
	} else if m.starved.IsZero() {
		m.starved = now
	}
	compute := min(long, m.runs.note(now, max(0, runs))) // the others are blocked, however busy the processors are
	starved := !m.starved.IsZero() && now.Sub(m.starved) >= starvedFor
	switch {
	case waits > 0 && !busy && waits <= int(s.searching.Load()): // who was let in has not begun yet
		return poolGrows
	case waits > 0 && (!busy || starved):
		more := min(max(1, int(allowed/2)), waits-int(s.searching.Load()))
		if busy { // and who searches may have no processor for it
			if more, m.starved = 1, now; long > 0 {
				more = max(1, min(waits-int(s.searching.Load()), longMost-compute))
			}
		}
		if s.addWorkers(more) {
			return poolGrows
		}
	case busy:
		s.takeBack(waits, moving, slow, long, compute)
		return poolBusy
	default:
		s.allow(max(s.n+int32(slow), allowed-max(1, allowed/8)))
	}
	if moving > 0 || m.hurry {
		return poolBusy
	}
	return poolSame
}

// noteCrowd notes whether workers are to keep their processors. runs does not count those who search.
func (s *scheduler) noteCrowd(runs int) {
	s.crowded.Store(s.computing.Load() || runs+int(s.searching.Load()) > crowd*int(s.n))
}

// secondLook is what the processors do after all who could run have run.
type secondLook struct {
	runs int
	busy bool
	took time.Duration
}

// lookAgain finds out whether those who keep the processors busy compute. On idle processors Go's
// timers are due together, by the millisecond: handlers that slept have just become runnable, each
// time the monitor looks. Those that compute are so still when all have gone first, or take long
// about it: a round of all takes 10 ms for each. Behind handlers that go from one system call
// to the next it takes as long. So another goroutine gives way to them, for which the monitor waits a
// while, and it reports false as long as that is on its way, and for what one that began before all were
// idle has found: who waits is looked after meanwhile. One that is on its way for longer has found that handlers
// compute already.
func (s *scheduler) lookAgain() (secondLook, bool) {
	m := &s.monitor
	if m.looking {
		select {
		case l := <-m.again:
			return m.looked(l)
		default:
			return secondLook{}, false
		}
	}
	m.looking = true
	m.beside.Store(true)
	s.goroutines.start(s.giveWay)
	m.patience.Reset(secondMost)
	defer m.patience.Stop()
	select {
	case l := <-m.again:
		return m.looked(l)
	case <-m.patience.C:
		return secondLook{}, false
	}
}

// giveWay is the goroutine of a second look.
func (s *scheduler) giveWay() {
	samples, began := newLoadSamples(), time.Now()
	var l secondLook
	for i := 0; i < secondLooks && l.took < starvedFor && (i == 0 || l.busy); i++ {
		runtime.Gosched()
		l.runs, l.busy = s.processorLoad(&samples, false)
		l.took = time.Since(began)
	}
	s.monitor.beside.Store(false)
	s.monitor.again <- l
}

// looked ends a second look. It reports false if what that found is out of date.
func (m *monitor) looked(l secondLook) (secondLook, bool) {
	fresh := !m.outdated
	m.looking, m.outdated = false, false
	return l, fresh
}

// takeBack lowers the number of workers that may be on busy processors. Those in long handlers do not come
// back by that. While nobody waits there is room beside them, so that the next who does finds it at
// once. While actors wait the room is what lets them in, and is taken back only where it goes to ever
// more handlers that compute, or to workers that all get on.
func (s *scheduler) takeBack(waits, moving, slow, long, compute int) {
	allowed := s.allowed.Load()
	switch {
	case waits == 0:
		s.allow(max(s.n+int32(slow), allowed-max(1, allowed/16)))
	case moving > int(s.n) || compute >= longMost:
		s.allow(max(s.n+int32(long-compute+min(compute, longMost)), allowed-max(1, allowed/16)))
	default: // as many as now
	}
}

// mark marks all workers as due. It returns how many have not handled a message since the
// last tick, how many of these for longAfter, how many have, and how many more run an actor
// that is to be killed.
func (s *scheduler) mark(now time.Time) (slow, long, moving, dying int) {
	s.monitor.hurry = false
	full := s.bounded() && s.waiting()
	for _, w := range *s.workers.Load() {
		c, out := w.current.Load(), w.out.Load() || w.covered.Load() > 0
		since, killed := time.Duration(0), false // a Kill
		if c != nil && out {
			if since, killed = c.toBeKilled(now); killed {
				dying++
			}
		}
		if c == nil || w.watched.actor != c || w.watched.out != out || !out && !w.due.Load() {
			idle := w.watched.actor == nil // at the last tick
			w.watched = watched{actor: c, out: out, since: now}
			s.monitor.hurry = s.monitor.hurry || killed
			if c != nil && !w.out.Load() {
				w.due.Store(true)
				if !idle {
					moving++
				}
			}
			continue
		}
		if out {
			if killed {
				s.fenceInTime(now, w, c, since)
			} else if full {
				s.killWithAncestor(now, w, c)
			}
			continue
		}
		slow++
		if now.Sub(w.watched.since) >= longAfter {
			long++
		}
		if since, killed = c.toBeKilled(now); killed && s.fenceInTime(now, w, c, since) {
			continue
		}
		if full && !killed {
			s.killWithAncestor(now, w, c)
		}
		if n := w.watched.told; n < len(stuckAfter) {
			if lasted := now.Sub(w.watched.since); lasted >= stuckAfter[n] {
				if s.monitor.noteStuck(w, c, lasted) {
					w.watched.told++
				}
			}
		}
	}
	return slow, long, moving, dying
}

// backlog returns how many actors wait. Those in the runnext of slow workers are put where
// everybody looks.
func (s *scheduler) backlog() int {
	n := s.inCommon()
	for _, w := range *s.workers.Load() {
		if w.due.Load() && w.runnext.Load() != nil {
			if c := w.runnext.Swap(nil); c != nil {
				s.global.push(c)
				n++
			}
		}
		n += int(w.queue.n.Load())
	}
	return n
}

// allow says how many workers there may be. Of a bulkhead there are never more than wanted.
func (s *scheduler) allow(n int32) { s.allowed.Store(min(n, s.most)) }

// addWorkers brings n more workers in, over the usual number. It reports false when there are as many
// as there may be.
func (s *scheduler) addWorkers(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	active := s.active.Load()
	if active >= s.most {
		return false
	}
	more := min(int32(n), s.most-active)
	if s.closed || more <= 0 {
		return true
	}
	s.allow(max(s.allowed.Load(), active+more))
	s.searching.Add(more)
	s.wakeOrStart(int(more))
	return true
}

// endSurplus ends workers over the usual number that have slept for a while: where handlers
// block in bursts, the next burst finds those of the last. It reports whether any are left.
func (s *scheduler) endSurplus(now time.Time) (left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	n := 0 // who sleeps longest comes first
	for n < surplusAtOnce && len(s.asleep)-n > int(s.n) && now.UnixNano()-s.asleep[n].sleptAt >= int64(surplusAfter) {
		w := s.asleep[n]
		w.surplus = true
		w.wake <- struct{}{}
		n++
	}
	s.asleep = slices.Delete(s.asleep, 0, n)
	return len(s.asleep) > int(s.n)
}

// loadSamples is what Go's scheduler is asked for.
type loadSamples [2]metrics.Sample

func newLoadSamples() loadSamples {
	return loadSamples{{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"}}
}

// processorLoad returns how many goroutines run or could run, besides the monitor itself and workers that
// only look for something to do, and whether that is as much as the processors can do. beside says that
// the goroutine of lookAgain may run, and is not the caller.
func (s *scheduler) processorLoad(samples *loadSamples, beside bool) (runs int, busy bool) {
	metrics.Read(samples[:])
	runs = -1 - int(s.searching.Load())
	if beside {
		runs--
	}
	for _, m := range samples {
		if m.Value.Kind() == metrics.KindUint64 {
			runs += int(m.Value.Uint64())
		}
	}
	return runs, runs >= runtime.GOMAXPROCS(0)
}
