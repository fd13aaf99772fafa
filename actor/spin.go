package actor

import (
	"math"
	"runtime"
	"sync/atomic"
)

// spin is the lock of one actor, or of one queue: half the size of a sync.Mutex, for
// sections of a few nanoseconds in which nobody waits for anything. A waiter spins for a
// moment and then yields its processor, in case the holder was preempted; it never sleeps,
// so a short section is not followed by a wake-up that costs more than the section.
//
// The zero value is unlocked.
type spin struct{ word atomic.Uint32 }

const spinRounds = 30

// Lock takes the lock.
func (s *spin) Lock() {
	if !s.word.CompareAndSwap(0, 1) {
		s.lockSlow()
		return
	}
	s.acquired()
}

func (s *spin) lockSlow() {
	s.tries(math.MaxInt)
}

// tries is Lock that gives up when it has yielded so many times. It reports whether the
// caller has the lock.
func (s *spin) tries(yields int) bool {
	for range yields {
		for range spinRounds {
			if s.word.Load() == 0 && s.word.CompareAndSwap(0, 1) {
				s.acquired()
				return true
			}
		}
		runtime.Gosched()
	}
	return false
}

// Unlock gives the lock back. REQUIRES: the caller holds it.
func (s *spin) Unlock() {
	s.released()
	s.word.Store(0)
}
