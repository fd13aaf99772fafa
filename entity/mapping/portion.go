package mapping

import (
	"math"
	"time"
)

// portion bounds what is done at once, by steps and by time. There is at least one step in it.
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

// start begins the time. What had to be read before the first step is read again for the next
// portion: as it cannot be divided, there is as much time for the steps, so that all portions
// together take no more than twice the time of the steps.
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
