package actor

import (
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// WithBulkhead gives the system separate workers for the actors that are spawned with [OnBulkhead] and that
// name. At most that many of their handlers run at once, blocking ones included: so they hold no more
// connections, files or memory than that, and they neither take workers from other actors nor wait for
// them. A handler that waits with its own context, or one derived from it, for an answer or the end of an
// actor for example, or in [Context.Sleep], does not count while it waits. One that waits in any other way
// counts, as does one that computes, or is in [Blocking]. When all workers wait in this way for actors of
// their own bulkhead, nothing proceeds there until one of the waits times out. A handler that was killed
// and has not returned no longer counts. An actor exceeds the number until its turn ends if a handler has
// waited for room in a full mailbox, or with a derived context in a [Reentrant] actor, or if an [Inline]
// actor or the Init of a child has waited in it.
//
// The processors are shared. While there is more to do than they can handle, each worker gets as
// much of their time as any other, and a worker of a bulkhead gets weight times as much as one of
// the system's own, of which there are as many as processors, see [runtime.GOMAXPROCS]. Handlers
// that compute for more than 10 ms get equal shares, since Go's scheduler then decides.
//
// The name must not be empty or given twice, workers must be from 1 to 10 000, and weight from 1 to
// 255; otherwise WithBulkhead panics. In a simulated system a bulkhead changes nothing: there is
// one worker.
func WithBulkhead(name string, workers, weight int) SystemOption {
	required(name != "" && utf8.ValidString(name), fmt.Sprintf("WithBulkhead: the name %q must be UTF-8 and not empty: OnBulkhead asks for it", name))
	required(workers >= 1 && workers <= workersMax, fmt.Sprintf("WithBulkhead(%q): workers must be from 1 to %d, not %d", name, workersMax, workers))
	required(weight >= 1 && weight <= 255, fmt.Sprintf("WithBulkhead(%q): weight must be from 1 to 255, not %d", name, weight))
	return systemOption(func(c *systemConfig) {
		required(!slices.ContainsFunc(c.bulkheads, func(b bulkhead) bool { return b.name == name }), fmt.Sprintf("WithBulkhead(%q): the system has that bulkhead already", name))
		c.bulkheads = append(c.bulkheads, bulkhead{name, int32(workers), time.Duration(weight)})
	})
}

// bulkhead says which workers there are for some actors.
type bulkhead struct {
	name    string // empty for the system's own
	workers int32  // at most so many; 0 for the system's own, of which there are as many as are needed
	weight  time.Duration
}

// bounded reports whether there are never more workers than wanted.
func (b *bulkhead) bounded() bool { return b.workers > 0 }

// OnBulkhead spawns the actor on the workers of that bulkhead of its system, see [WithBulkhead], or
// with an empty name on the system's own. Without this option an actor runs where its parent does.
// Spawning fails if the system has no bulkhead of that name. Pinned and Inline actors do not run on
// workers: for them it says only where their children run.
func OnBulkhead(name string) SpawnOption {
	return spawnOption(func(c *spawnConfig) { c.bulkhead = &name })
}

// BulkheadStats are the counters of a bulkhead at one moment.
type BulkheadStats struct {
	Name    string
	Workers int    // handlers that may run at once
	Weight  int    // see WithBulkhead
	Busy    int    // handlers that run, or block
	Queued  int    // actors that have mail and wait for a worker
	Handled uint64 // messages
}

// bulkheadStats returns the counters of all bulkheads, in the order in which they were given.
func (s *System) bulkheadStats() []BulkheadStats {
	var all []BulkheadStats
	for _, b := range s.scheds[1:] {
		queued, _ := b.counts()
		all = append(all, BulkheadStats{
			Name: b.name, Workers: int(b.n), Weight: int(b.weight), Busy: b.busy(), Queued: queued, Handled: b.handledMessages(),
		})
	}
	return all
}

// startSchedulers starts the system's own workers and those of its bulkheads.
func (s *System) startSchedulers(bulkheads []bulkhead) {
	s.sched = newScheduler(bulkhead{weight: 1}, &s.parked)
	s.scheds, s.bulkheads = []*scheduler{s.sched}, map[string]*scheduler{"": s.sched}
	for _, b := range bulkheads {
		sched := newScheduler(b, &s.parked)
		s.scheds, s.bulkheads[b.name] = append(s.scheds, sched), sched
	}
	if len(s.scheds) > 1 {
		for _, sched := range s.scheds {
			sched.peers = s.scheds
		}
	}
}

// busy returns how many workers give an actor its turn.
func (s *scheduler) busy() (n int) {
	for _, w := range *s.workers.Load() {
		if w.current.Load() != nil && w.covered.Load() == 0 {
			n++
		}
	}
	return n
}

// bulkhead returns the scheduler of that name.
func (s *System) bulkhead(name string) (*scheduler, error) {
	if b := s.bulkheads[name]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("the system has no bulkhead %q, it has %q", name, slices.Sorted(maps.Keys(s.bulkheads)))
}

// shareMost is the longest time for which a worker keeps its processor before it lets others run. Go
// takes it away after 10 ms, whatever the worker's weight.
const shareMost = 8 * time.Millisecond

// share returns for how long a worker may keep its processor that has just been without it for so
// long: so that over time it gets its weight among all workers of the system that have something
// to do. What others take for themselves, outside of the process too, lengthens all shares: their
// limits are in the proportion of the weights as well.
func (s *scheduler) share(without time.Duration) time.Duration {
	if len(s.peers) == 0 {
		return max(yieldAfter, without)
	}
	all, heaviest := time.Duration(0), s.weight
	for _, r := range s.peers {
		all += time.Duration(r.active.Load()) * r.weight
		heaviest = max(heaviest, r.weight)
	}
	others := max(all/time.Duration(s.processors)-s.weight, 1)
	most := shareMost * s.weight / heaviest
	return min(max(yieldAfter*s.weight, without*s.weight/others), most)
}
