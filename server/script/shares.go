package script

import (
	"runtime"
	"sync"
	"time"
)

// stepTime is about how long a step takes.
const stepTime = 50 * time.Nanosecond

// shares divide the time that scripts have of the processors, half of it, among the owners whose scripts have
// run in the last second. An owner who has used its share up rests, with all of its scripts.
type shares struct {
	mu     sync.Mutex
	owners map[Owner]*share // that have run since the last second but one began
	active int              // owners in the last second
	began  time.Time        // of the second
}

// share is that of an owner.
type share struct {
	paid time.Time // up to when the share has been used
	last time.Time
}

// spend takes note of the steps of a call, and returns how long the runner is to rest.
func (s *shares) spend(owner Owner, steps int64, now time.Time) time.Duration {
	took := time.Duration(steps) * stepTime
	rest := time.Duration(0)
	if steps > RestSteps {
		rest = 10 * took
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.began) >= time.Second {
		s.began = now
		for o, sh := range s.owners {
			if now.Sub(sh.last) > time.Second {
				delete(s.owners, o)
			}
		}
		s.active = len(s.owners)
	}
	own := s.owners[owner]
	if own == nil {
		own = &share{}
		s.owners[owner] = own
		s.active = max(s.active, len(s.owners))
	}
	own.last = now
	if now.After(own.paid) {
		own.paid = now
	}
	own.paid = own.paid.Add(2 * took * time.Duration(s.active) / time.Duration(runtime.GOMAXPROCS(0)))
	if ahead := own.paid.Sub(now); ahead > MaxAhead {
		rest = max(rest, ahead-MaxAhead)
	}
	return rest
}
