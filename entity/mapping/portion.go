package mapping

import (
	"math"
	"time"
)

// portion bounds the work done at once, by steps and by time. It has at least one step.
type portion struct {
	most   int
	now    func() time.Time // nil for no bound in time
	made   time.Time
	end    time.Time
	within bool // a step was asked for
}

// whole is a portion without a bound.
func whole() *portion { return &portion{most: math.MaxInt} }

// portion returns one of so many steps at most, and of the time of a slice.
func (s *Service) portion(most int) *portion {
	return &portion{most: most, now: s.now, made: s.now()}
}

// start starts the clock. Whatever had to be read before the first step has to be read again for
// the next portion and cannot be divided. So the steps get as much time as that took, and all
// portions together take at most twice the time of the steps.
func (p *portion) start() {
	if p.now != nil {
		now := p.now()
		p.end = now.Add(max(sliceTime, now.Sub(p.made)))
	}
}

// done counts a step, and reports whether it belongs to the next portion.
func (p *portion) done() bool {
	first := !p.within
	p.within = true
	if p.most--; p.most < 0 {
		return true
	}
	return !first && p.now != nil && !p.now().Before(p.end)
}
