package series

import (
	"fmt"
	"iter"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// DefaultMaxBuckets is the MaxBuckets of a query that sets none.
const DefaultMaxBuckets = 100_000

// Query says what to compute from a series.
type Query struct {
	// From and To are the range [From, To) in milliseconds since the epoch. 0 means no end.
	From, To int64
	// Grid divides the range into buckets. The zero Grid has one bucket, the
	// whole range.
	Grid Grid
	// Funcs are the functions to compute for each bucket, at least one.
	Funcs []Func
	// Fill says what to do with buckets without points.
	Fill Fill
	// MaxBuckets bounds the buckets of the answer; 0 means DefaultMaxBuckets.
	MaxBuckets int
}

// Bucket has the results for the points of one bucket.
type Bucket struct {
	// Start and End are [Start, End) in milliseconds since the epoch, as in the grid, even if the
	// range of the query cuts the bucket: it then contains only what lies inside the range. For the
	// zero Grid they are the ends of the range, or of int64 if it has none.
	Start, End int64
	// Count is the number of points, 0 for a bucket that was filled in.
	Count int64
	// Values has one number for each of the query's functions, in their order, and the zero Value
	// where there is no answer.
	Values []value.Value
}

// Check returns an error if the query is not valid. It wraps ErrInvalid.
func (q *Query) Check() error {
	if len(q.Funcs) == 0 {
		return fmt.Errorf("functions: %w: at least one is needed", ErrInvalid)
	}
	for _, f := range q.Funcs {
		if err := f.check(); err != nil {
			return err
		}
	}
	switch {
	case q.To != 0 && q.From > q.To:
		return fmt.Errorf("range: %w: it ends at %d, before its start %d", ErrInvalid, q.To, q.From)
	case q.MaxBuckets < 0:
		return fmt.Errorf("buckets: %w: at most %d are asked for", ErrInvalid, q.MaxBuckets)
	}
	return q.Fill.check()
}

// Aggregate returns the buckets of points, which must be in the order of their time. It reads
// points as it is read, and holds one bucket at a time. An invalid query, an error of points, or
// one of [Aggregator.Add] ends it.
func (q Query) Aggregate(points iter.Seq2[Point, error]) iter.Seq2[Bucket, error] {
	return stream(func(emit func(Bucket) error) error {
		a, err := NewAggregator(q, emit)
		if err != nil {
			return err
		}
		return a.addAll(points)
	})
}

// errStopped ends the work for somebody who wants no more buckets.
var errStopped = fmt.Errorf("no more buckets are wanted")

// stream makes an iterator of something that emits buckets.
func stream(run func(emit func(Bucket) error) error) iter.Seq2[Bucket, error] {
	return func(yield func(Bucket, error) bool) {
		stopped := false
		err := run(func(b Bucket) error {
			if stopped = !yield(b, nil); stopped {
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(Bucket{}, err)
		}
	}
}

// bucket returns the bucket that a time within the range is in.
func (q *Query) bucket(ts int64) (start, end int64) {
	start, end = q.Grid.Bucket(ts)
	if !q.Grid.IsZero() {
		return start, end
	}
	if q.From != 0 {
		start = q.From
	}
	if q.To != 0 {
		end = q.To
	}
	return start, end
}

// Each returns points as an iterator.
func Each(points []Point) iter.Seq2[Point, error] {
	return func(yield func(Point, error) bool) {
		for _, p := range points {
			if !yield(p, nil) {
				return
			}
		}
	}
}

// filler hands out the buckets that have points, and those in between.
type filler struct {
	query   Query
	emit    func(Bucket) error
	next    int64 // the start of the first bucket that was not handed out
	started bool  // whether next is known
	last    *Bucket
	emitted int
}

func (f *filler) put(b Bucket) error {
	most := f.query.MaxBuckets
	if most == 0 {
		most = DefaultMaxBuckets
	}
	if f.emitted++; f.emitted > most {
		return fmt.Errorf("%w: more than %d; ask for a longer step or a shorter range", ErrTooManyBuckets, most)
	}
	return f.emit(b)
}

// bucket hands out a bucket that has points, after those missing before it.
func (f *filler) bucket(b Bucket) error {
	if err := f.missing(b.Start, &b); err != nil {
		return err
	}
	if f.query.Fill.Mode != FillNone {
		kept := b
		kept.Values = slices.Clone(b.Values) // b is its receiver's
		f.last = &kept
	}
	f.next, f.started = b.End, true
	return f.put(b)
}

// missing hands out the empty buckets up to a time.
func (f *filler) missing(until int64, after *Bucket) error {
	if f.query.Fill.Mode == FillNone {
		return nil
	}
	if !f.started {
		if f.query.From == 0 {
			return nil
		}
		f.next, _ = f.query.bucket(f.query.From)
		f.started = true
	}
	for f.next < until {
		start, end := f.query.bucket(f.next)
		b := Bucket{Start: start, End: end, Values: f.query.Fill.missing(f.query.Funcs, start, f.last, after)}
		f.next = end
		if err := f.put(b); err != nil {
			return err
		}
	}
	return nil
}

// close hands out the empty buckets up to the end of the range.
func (f *filler) close() error {
	if f.query.To == 0 {
		return nil
	}
	return f.missing(f.query.To, nil)
}
