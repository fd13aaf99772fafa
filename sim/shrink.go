package sim

import (
	"maps"
	"slices"
)

// shrinker looks for the shortest schedule that still fails in the same way. It leaves
// choices out, which then fall back to "what became ready first", and faults, in chunks
// that get smaller: delta debugging (Zeller and Hildebrandt, 2002) for both.
type shrinker struct {
	e       *explorer
	failure *Failure
	runs    int
	steps   int
}

const (
	shrinkRuns  = 400
	shrinkSteps = 2_000_000
)

// shrink returns the best schedule and its run, nil when the one that was made does not
// fail again.
func (s *shrinker) shrink(made *schedule) (best *schedule, last outcome) {
	last, ok := s.fails(made)
	if !ok {
		return nil, last
	}
	best = made
	for {
		before := len(best.picks) + len(best.faults)
		best = s.less(best)
		if len(best.picks)+len(best.faults) == before || s.spent() {
			break
		}
	}
	last, _ = s.fails(best)
	return best, last
}

func (s *shrinker) spent() bool { return s.runs >= shrinkRuns || s.steps >= shrinkSteps }

// fails reports whether the schedule fails as the one that was found.
func (s *shrinker) fails(try *schedule) (outcome, bool) {
	out := s.e.once(s.failure.Seed, try, true)
	s.runs++
	s.steps += out.steps
	return out, out.failure != nil && out.failure.about == s.failure.about
}

// less leaves out what it can, once from large chunks to single items.
func (s *shrinker) less(best *schedule) *schedule {
	best = s.prefix(best)
	for chunk := max(1, (len(best.picks)+len(best.faults))/2); ; chunk /= 2 {
		for from := 0; !s.spent(); {
			try := best.without(from, from+chunk)
			if try == nil {
				break
			}
			if _, ok := s.fails(try); ok {
				best = try
			} else {
				from += chunk
			}
		}
		if chunk == 1 {
			return best
		}
	}
}

// prefix leaves out the end: what was chosen after the run had gone wrong.
func (s *shrinker) prefix(best *schedule) *schedule {
	steps := slices.Sorted(maps.Keys(best.picks))
	low, high := 0, len(steps)
	for low < high && !s.spent() {
		middle := (low + high) / 2
		try := best.until(steps[middle])
		if _, ok := s.fails(try); ok {
			high = middle
			best = try
		} else {
			low = middle + 1
		}
	}
	return best
}

// until returns the schedule with the choices before a step.
func (s *schedule) until(step int) *schedule {
	short := &schedule{picks: maps.Clone(s.picks), faults: slices.Clone(s.faults)}
	maps.DeleteFunc(short.picks, func(at, _ int) bool { return at >= step })
	return short
}

// without returns the schedule without some of its items, faults first; nil when there
// are none in that range.
func (s *schedule) without(from, to int) *schedule {
	n := len(s.faults)
	if from >= n+len(s.picks) {
		return nil
	}
	short := &schedule{picks: maps.Clone(s.picks)}
	for i, f := range s.faults {
		if i < from || i >= to {
			short.faults = append(short.faults, f)
		}
	}
	for i, at := range slices.Sorted(maps.Keys(s.picks)) {
		if n+i >= from && n+i < to {
			delete(short.picks, at)
		}
	}
	return short
}
