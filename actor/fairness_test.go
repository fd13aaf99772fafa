package actor

import (
	"sync/atomic"
	"testing"
	"time"
)

// Picks of a worker that always has work of its own, until it takes what came from outside.
func picksUntilTheGlobalQueuesTurn(t *testing.T, refill func(w *worker, own *core)) (picks int) {
	t.Helper()
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	own, guest := new(core), new(core)
	refill(w, own)
	s.global.push(guest)
	for picks = 1; w.next() != guest; picks++ {
		if picks > 1000 {
			t.Fatal("what came from outside is never picked")
		}
		refill(w, own)
	}
	return picks
}

func TestWhatComesFromOutsideIsPickedSoonBesideBusyActors(t *testing.T) {
	for name, refill := range map[string]func(w *worker, own *core){
		"an actor that is told by its own worker": func(w *worker, own *core) { w.runnext.Store(own) },
		"an actor with mail left":                 func(w *worker, own *core) { w.queue.push(own) },
	} {
		if n := picksUntilTheGlobalQueuesTurn(t, refill); n > globalEvery {
			t.Errorf("%s: picked at last the %dth time, want at most %d", name, n, globalEvery)
		}
	}
}

func TestAfterATurnThatUsedUpItsTimeTheGlobalQueueComesFirst(t *testing.T) {
	n := picksUntilTheGlobalQueuesTurn(t, func(w *worker, own *core) {
		w.queue.push(own)
		w.hasty = true
	})
	if n != 1 {
		t.Errorf("picked at last the %dth time", n)
	}
}

// Otherwise what is always told from outside, and takes long each time, would starve what has more to do.
func TestTheGlobalQueueDoesNotComeFirstTwiceInARow(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w, guests := &worker{s: s}, 0
	const own = 20
	for range own {
		s.shared.push(new(core))
	}
	for guests <= 2*own && s.shared.n.Load() > 0 {
		if s.global.n.Load() == 0 {
			s.global.push(new(core))
			guests++
		}
		w.hasty = true
		w.next()
	}
	if guests < own || guests > own+1 {
		t.Errorf("%d came from outside before %d others", guests, own)
	}
}

func TestABusyWorkerLetsOtherGoroutinesRun(t *testing.T) {
	s := newScheduler(bulkhead{weight: 1}, new(atomic.Int64))
	defer s.close()
	w := &worker{s: s}
	for range lookEvery {
		w.queue.push(new(core))
		w.next()
	}
	if w.yieldAt.Before(time.Now()) {
		t.Errorf("it has not yielded for %d picks", lookEvery)
	}
}
