package series

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Range is [From, To) in milliseconds since the epoch.
type Range struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Kept says which values and rollups exist of what a rule covers: of one key of one entity, or of
// all of them if they are processed together. It is plain data for a store to keep. The zero Kept
// is that of a rule that was never applied: all values, and no rollup.
type Kept struct {
	// Raw is the time from which values exist: earlier ones have been deleted.
	Raw int64 `json:"raw,omitempty"`
	// Tiers are the existing rollups, including those that the rule no longer has.
	Tiers []KeptTier `json:"tiers,omitempty"`
}

// KeptTier is an existing rollup.
type KeptTier struct {
	Step        Span `json:"step"`
	Percentiles bool `json:"percentiles,omitempty"`
	// Range is the time that its rows cover. A time without points has no row.
	Range
}

// Tier returns what exists of a rollup.
func (k *Kept) Tier(step Span) KeptTier {
	for _, t := range k.Tiers {
		if t.Step == step {
			return t
		}
	}
	return KeptTier{Step: step}
}

// Done updates Kept to the state after a task.
func (k *Kept) Done(t Task) {
	if t.Step == 0 {
		k.Raw = max(k.Raw, t.To)
		return
	}
	kept := k.Tier(t.Step)
	switch {
	case t.Action == Delete:
		kept.From = max(kept.From, t.To)
		kept.To = max(kept.To, t.To)
	case kept.To == kept.From: // the first rows
		kept.Range, kept.Percentiles = t.Range, t.Percentiles
	default:
		kept.To = max(kept.To, t.To)
		kept.Percentiles = kept.Percentiles && t.Percentiles
	}
	tiers := slices.DeleteFunc(slices.Clone(k.Tiers), func(o KeptTier) bool { return o.Step == t.Step })
	tiers = append(tiers, kept)
	slices.SortFunc(tiers, func(a, b KeptTier) int { return cmp.Compare(a.Step, b.Step) })
	k.Tiers = tiers
}

// Source says where to read one part of the range of a query.
type Source struct {
	// Step is the step of the rollup whose rows are read, 0 for the values.
	Step Span
	Range
}

// Sources returns what to read for a query, in the order of time: for each part of the range the
// longest rows that fit into the buckets of the grid, so that as little as possible is read, and
// otherwise the values. Add their contents to one [Aggregator], one after the other. If percentiles
// are requested, rows without them are skipped.
//
// Where there are only rows, and they lie across an end of the range, the first source begins
// before from, or the last ends after to: the range of the query has to be widened to them. A from
// or to of 0 means no end. A part of the range in which nothing is kept has no source.
//
// The error wraps ErrTooFine if a part of the range is kept only in rows that are too long for the
// grid, and ErrNoPercentiles if it is kept only without percentiles.
func (k *Kept) Sources(g Grid, from, to int64, percentiles bool) ([]Source, error) {
	if to == 0 {
		to = math.MaxInt64
	}
	f := finder{Kept: k, to: to}
	for _, t := range slices.Backward(k.Tiers) {
		inside := Range{max(t.From, from), min(t.To, to)}
		if t.From < t.To && (t.Percentiles || !percentiles) && g.aligned(int64(t.Step), inside.From, inside.To) {
			f.tiers = append(f.tiers, t)
		}
	}
	for at := from; at < to; {
		s, ok := f.next(at)
		if !ok {
			if err := k.whyNot(at, percentiles); err != nil {
				return nil, err
			}
			if at = f.beginning(at); at == math.MaxInt64 {
				break
			}
			continue
		}
		if !f.add(s) {
			return nil, k.tooFine(at)
		}
		at = s.To
	}
	return f.found, nil
}

// finder finds the source for one part of a range after the other.
type finder struct {
	*Kept
	tiers []KeptTier // those that fit, from long to short steps
	to    int64
	found []Source
}

// add adds a source, and reports false if a part of it was in the one before.
func (f *finder) add(s Source) bool {
	n := len(f.found)
	switch {
	case n > 0 && s.From < f.found[n-1].To:
		return false
	case n > 0 && s.From == f.found[n-1].To && s.Step == f.found[n-1].Step:
		f.found[n-1].To = s.To
	default:
		f.found = append(f.found, s)
	}
	return true
}

// next returns the source for the time at and what follows.
func (f *finder) next(at int64) (Source, bool) {
	for i, t := range f.tiers {
		step := int64(t.Step)
		end := min(f.to, t.To)
		end -= floorMod(end, step)
		if t.From <= at && floorMod(at, step) == 0 && at < end {
			return Source{t.Step, Range{at, min(end, f.takeover(at, f.tiers[:i]))}}, true
		}
	}
	if at >= f.Raw {
		return Source{0, Range{at, f.takeover(at, f.tiers)}}, true
	}
	for _, t := range slices.Backward(f.tiers) { // the shortest widens the range least
		step := int64(t.Step)
		if start := at - floorMod(at, step); t.From <= start && start+step <= t.To {
			return Source{t.Step, Range{start, start + step}}, true
		}
	}
	return Source{}, false
}

// takeover returns when one of the tiers can take the place of what is shorter,
// the end of the range if none can.
func (f *finder) takeover(at int64, tiers []KeptTier) int64 {
	until := f.to
	for _, t := range tiers {
		step := int64(t.Step)
		if start := max(ceil(at+1, step), t.From); start+step <= min(f.to, t.To) {
			until = min(until, start)
		}
	}
	return until
}

// beginning returns from when on there is something again.
func (f *finder) beginning(at int64) int64 {
	least := int64(math.MaxInt64)
	if f.Raw > at {
		least = f.Raw
	}
	for _, t := range f.tiers {
		if t.From > at {
			least = min(least, t.From)
		}
	}
	return least
}

// whyNot returns an error if there are rows of the time at, none of which fit.
func (k *Kept) whyNot(at int64, percentiles bool) error {
	without := false
	for _, t := range k.Tiers {
		if at < t.From || at >= t.To {
			continue
		}
		if t.Percentiles || !percentiles {
			return k.tooFine(at)
		}
		without = true
	}
	if without {
		return fmt.Errorf("values before %d: %w", k.Raw, ErrNoPercentiles)
	}
	return nil
}

func (k *Kept) tooFine(at int64) error {
	var steps []Span
	for _, t := range k.Tiers {
		if at >= t.From && at < t.To {
			steps = append(steps, t.Step)
		}
	}
	return fmt.Errorf("values before %d: %w: the step must be a multiple of %v, which rows have there", k.Raw, ErrTooFine, steps)
}
