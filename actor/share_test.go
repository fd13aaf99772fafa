package actor

import (
	"math"
	"testing"
	"time"
)

// Workers that always have something to do take turns on their processors, in the order in which
// they have let go of them, as Go's scheduler has them. Over time each gets its weight.
func TestWorkersOfBulkheadsShareProcessorsByWeight(t *testing.T) {
	for name, test := range map[string]struct {
		opts    []SystemOption
		outside time.Duration // what other processes take between two turns
	}{
		"one and four":            {opts: []SystemOption{WithBulkhead("a", 2, 1), WithBulkhead("b", 2, 4)}},
		"beside other processes":  {opts: []SystemOption{WithBulkhead("a", 2, 1), WithBulkhead("b", 2, 4)}, outside: 3 * time.Millisecond},
		"two, three and a lot":    {opts: []SystemOption{WithBulkhead("a", 3, 2), WithBulkhead("b", 1, 3), WithBulkhead("c", 2, 255)}},
		"of all the same":         {opts: []SystemOption{WithBulkhead("a", 4, 7), WithBulkhead("b", 1, 7)}},
		"the lightest and others": {opts: []SystemOption{WithBulkhead("a", 1, 1), WithBulkhead("b", 1, 100), WithBulkhead("c", 1, 100)}, outside: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			sys := NewSystem("x", test.opts...)
			defer sys.Shutdown(t.Context()) //nolint:errcheck // nothing runs
			type worker struct {
				s         *scheduler
				let, used time.Duration // when it let go of its processor, and how long it has had one
			}
			var waits []*worker
			for _, s := range sys.scheds[1:] {
				s.processors = 2
				s.active.Store(s.n)
				for range s.n {
					waits = append(waits, &worker{s: s})
				}
			}
			all := waits
			free := make([]time.Duration, 2) // when each processor is free
			for range 100_000 {
				p := 0
				if free[1] < free[0] {
					p = 1
				}
				w := waits[0]
				took := w.s.share(free[p] - w.let)
				w.used += took
				free[p] += took
				w.let = free[p]
				free[p] += test.outside
				waits = append(waits[1:], w)
			}
			least, most := math.Inf(1), 0.0
			for _, w := range all {
				part := float64(w.used) / float64(w.s.weight)
				least, most = min(least, part), max(most, part)
			}
			if most/least > 1.3 {
				t.Errorf("by weight, one has %.1f times what another has", most/least)
			}
			for _, s := range sys.scheds {
				s.active.Store(0)
			}
		})
	}
}

func TestWorkerAloneKeepsItsProcessorAsLongAsItWasWithoutIt(t *testing.T) {
	sys := NewSystem("x")
	defer sys.Shutdown(t.Context()) //nolint:errcheck // nothing runs
	for without, want := range map[time.Duration]time.Duration{0: yieldAfter, time.Second: time.Second} {
		if got := sys.sched.share(without); got != want {
			t.Errorf("%v after %v", got, without)
		}
	}
}
