package series

import (
	"fmt"
	"iter"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Row is a row of a rollup: the summary of the points of a series in [Start, End), in milliseconds
// since the epoch.
type Row struct {
	Start, End int64
	Summary    *Summary
}

// Aggregator makes buckets of the points and rows that it is given in the order of their time, and
// passes on each bucket when it is complete. It holds one bucket at a time. It must not be used
// concurrently. [Query.Aggregate] is the same as an iterator.
type Aggregator struct {
	filler
	need parts
	sink func(start, end int64, s *Summary, before Point) error

	summary    Summary
	start, end int64 // of the bucket that summary is about, if it has points
	before     Point // the last one before summary; no Value if there is none
	newest     int64 // no point may be before this
	any        bool
}

// NewAggregator returns an aggregator that calls emit with each bucket, in the order of time. An
// error of emit ends the work, and the method being called returns it. If the query is not valid,
// the error wraps ErrInvalid.
func NewAggregator(q Query, emit func(Bucket) error) (*Aggregator, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	a := &Aggregator{filler: filler{query: q, emit: emit}, need: needs(q.Funcs)}
	a.summary.kept = a.need
	a.sink = a.emitSummary
	return a, nil
}

// Add adds a point. A point before the range is not counted: the first rate starts from it, and
// FillPrevious begins with it. A point after the range, or without a number, is skipped. The error
// wraps ErrOrder for a point earlier than the last, and ErrTooManyBuckets.
func (a *Aggregator) Add(p Point) error {
	if p.Value.IsZero() || a.query.To != 0 && p.TS >= a.query.To {
		return nil
	}
	if err := a.order(p.TS, p.TS); err != nil {
		return err
	}
	if p.TS < a.query.From {
		a.lookBack(p)
		return nil
	}
	if err := a.turnTo(p.TS); err != nil {
		return err
	}
	return a.summary.Add(p)
}

// AddRow adds a row of a rollup, and does not change it. A row before or after the range is used as
// Add uses such a point. The error wraps ErrCut if the row is not within one bucket or lies across
// an end of the range, ErrNoPercentiles if percentiles are requested and the row has none, ErrOrder
// and ErrTooManyBuckets.
func (a *Aggregator) AddRow(r Row) error {
	s := r.Summary
	if s.Count == 0 || a.query.To != 0 && r.Start >= a.query.To {
		return nil
	}
	if err := a.order(s.First.TS, s.Last.TS); err != nil {
		return err
	}
	if r.End <= a.query.From {
		a.lookBack(s.Last)
		return nil
	}
	_, end := a.query.bucket(r.Start)
	switch {
	case r.Start < a.query.From || a.query.To != 0 && r.End > a.query.To || r.End > end:
		return fmt.Errorf("row of %d to %d: %w: the bucket ends at %d and the range is %d to %d", r.Start, r.End, ErrCut, end, a.query.From, a.query.To)
	case a.need&^s.kept&keepPercentiles != 0:
		return fmt.Errorf("row of %d to %d: %w", r.Start, r.End, ErrNoPercentiles)
	}
	if err := a.turnTo(r.Start); err != nil {
		return err
	}
	return a.summary.Append(s)
}

// order checks that what comes now, from first to last, is not before what came.
func (a *Aggregator) order(first, last int64) error {
	if a.any {
		if err := checkOrder(a.newest, first); err != nil {
			return err
		}
	}
	a.any, a.newest = true, last
	return nil
}

// lookBack keeps the last point before the range.
func (a *Aggregator) lookBack(p Point) {
	a.before = p
	if a.query.Fill.Mode != FillPrevious {
		return
	}
	b := Bucket{Values: make([]value.Value, len(a.query.Funcs))}
	for i, f := range a.query.Funcs {
		switch f {
		case Count, Sum, Rate: // what a point in force comes to is not known
		default:
			b.Values[i] = p.Value
		}
	}
	a.last = &b
}

// turnTo hands out the present bucket if ts is in a later one.
func (a *Aggregator) turnTo(ts int64) error {
	if a.summary.Count > 0 && ts < a.end {
		return nil
	}
	if err := a.flush(); err != nil {
		return err
	}
	a.start, a.end = a.query.bucket(ts)
	return nil
}

func (a *Aggregator) flush() error {
	if a.summary.Count == 0 {
		return nil
	}
	err := a.sink(a.start, a.end, &a.summary, a.before)
	a.before = a.summary.Last
	a.summary.reset(a.need)
	return err
}

func (a *Aggregator) emitSummary(start, end int64, s *Summary, before Point) error {
	b := Bucket{Start: start, End: end, Count: s.Count, Values: make([]value.Value, len(a.query.Funcs))}
	for i, f := range a.query.Funcs {
		b.Values[i] = s.value(f, before)
	}
	return a.bucket(b)
}

// Close emits the last bucket and those that are filled in after it. Nothing can be added
// afterwards.
func (a *Aggregator) Close() error {
	if err := a.flush(); err != nil {
		return err
	}
	return a.close()
}

// addAll adds all points and closes.
func (a *Aggregator) addAll(points iter.Seq2[Point, error]) error {
	for p, err := range points {
		if err != nil {
			return err
		}
		if err := a.Add(p); err != nil {
			return err
		}
	}
	return a.Close()
}
