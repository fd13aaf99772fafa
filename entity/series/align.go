package series

import (
	"fmt"
	"iter"
	"math"
)

// Line has the buckets of several series at one time.
type Line struct {
	Start, End int64
	// Buckets has one bucket for each series, in their order. A series without a bucket here has
	// the zero Bucket, whose Values are nil.
	Buckets []Bucket
}

// Align puts the buckets of several series side by side, in the order of time. They must come from
// queries with the same grid. It reads the series as it is read; an error of one of them ends it.
func Align(series ...iter.Seq2[Bucket, error]) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		heads := make([]head, len(series))
		for i, s := range series {
			next, stop := iter.Pull2(s)
			defer stop()
			heads[i].next = next
			if err := heads[i].advance(); err != nil {
				yield(Line{}, err)
				return
			}
		}
		for {
			line, err := nextLine(heads)
			if err != nil {
				yield(Line{}, err)
				return
			}
			if line.Buckets == nil || !yield(line, nil) {
				return
			}
		}
	}
}

// head is a series with the next bucket of it.
type head struct {
	next   func() (Bucket, error, bool)
	bucket Bucket
	ok     bool
}

func (h *head) advance() (err error) {
	h.bucket, err, h.ok = h.next()
	return err
}

// nextLine takes the buckets with the least start, no buckets at the end.
func nextLine(heads []head) (Line, error) {
	line := Line{Start: math.MaxInt64}
	for i := range heads {
		if heads[i].ok && heads[i].bucket.Start < line.Start {
			line.Start, line.End = heads[i].bucket.Start, heads[i].bucket.End
		}
	}
	for i := range heads {
		h := &heads[i]
		if !h.ok || h.bucket.Start != line.Start {
			continue
		}
		if h.bucket.End != line.End {
			return Line{}, fmt.Errorf("series %d: %w: a bucket from %d ends at %d and one of another series at %d: their grids differ", i, ErrInvalid, line.Start, h.bucket.End, line.End)
		}
		if line.Buckets == nil {
			line.Buckets = make([]Bucket, len(heads))
		}
		line.Buckets[i] = h.bucket
		if err := h.advance(); err != nil {
			return Line{}, err
		}
	}
	return line, nil
}

// Across makes one bucket of each line: for each function of the series, the minimum, maximum, sum,
// average, count or a percentile of what the series have there. So Across(Sum, …) of the rates of
// meters is their total rate, and Across(Avg, …) of averages gives each series the same weight,
// however often it reports. The Count of a bucket is how many series have points in it. The error
// wraps ErrInvalid for any other function.
func Across(f Func, lines iter.Seq2[Line, error]) iter.Seq2[Bucket, error] {
	return stream(func(emit func(Bucket) error) error {
		if err := f.check(); err != nil {
			return err
		}
		if f == First || f == Last || f == Rate {
			return fmt.Errorf("%s across series: %w: must be min, max, sum, avg, count or a percentile: series are in no order", f, ErrInvalid)
		}
		for line, err := range lines {
			if err != nil {
				return err
			}
			if err := emit(line.across(f)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Line) across(f Func) Bucket {
	sum := Bucket{Start: l.Start, End: l.End}
	var columns []Summary
	for _, b := range l.Buckets {
		if b.Count > 0 {
			sum.Count++
		}
		if columns == nil && b.Values != nil {
			columns = make([]Summary, len(b.Values))
		}
		for i, n := range b.Values {
			columns[i].kept = needs([]Func{f})
			_ = columns[i].Add(Point{Value: n}) // all at the same time, so in order
		}
	}
	for i := range columns {
		sum.Values = append(sum.Values, columns[i].Value(f))
	}
	return sum
}
