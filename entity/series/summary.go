package series

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Summary is what consecutive points amount to. Consecutive summaries can be merged, with the same
// answers as if the points had been added one by one: a row of a rollup is a Summary.
//
// A Summary must not be used concurrently, or copied once it has points. The zero Summary is empty
// and keeps no sum, no increase and no percentiles: use NewSummary for one that does.
type Summary struct {
	// Count is the number of points; the other fields have no meaning while it is 0.
	Count int64
	// First and Last are the points with the least and the greatest TS.
	First, Last Point
	// Min and Max are the least and the greatest number.
	Min, Max value.Value

	kept      parts
	sum       value.Sum
	increase  value.Sum // from point to point; see Rate
	quantiles *quantiles
}

// NewSummary returns an empty summary for a row of a rollup. With percentiles it keeps what they
// need, some hundred bytes.
func NewSummary(percentiles bool) *Summary {
	kept := keepSum | keepIncrease
	if percentiles {
		kept |= keepPercentiles
	}
	return &Summary{kept: kept}
}

// HasPercentiles reports whether the summary has percentiles.
func (s *Summary) HasPercentiles() bool { return s.kept&keepPercentiles != 0 }

// IsExact reports whether an encoding of the summary keeps all of it. A sum beyond the float64s
// loses its digits, so that what is added to it later counts for nothing. Percentiles are not
// considered.
func (s *Summary) IsExact() bool { return !s.sum.Parts().Beyond && !s.increase.Parts().Beyond }

// reset makes the summary an empty one that keeps these parts, with the memory it
// has.
func (s *Summary) reset(kept parts) {
	s.sum.Reset()
	s.increase.Reset()
	*s = Summary{kept: kept, quantiles: s.quantiles, sum: s.sum, increase: s.increase}
	if s.quantiles != nil {
		s.quantiles.clear()
	}
}

// Add adds a point, which must not be before the last one; if it is, nothing changes and the error
// wraps ErrOrder. A point without a number is skipped.
func (s *Summary) Add(p Point) error {
	if p.Value.IsZero() {
		return nil
	}
	if s.Count == 0 {
		s.First, s.Min, s.Max = p, p.Value, p.Value
	} else if err := checkOrder(s.Last.TS, p.TS); err != nil {
		return err
	} else if s.kept&keepIncrease != 0 {
		addIncrease(&s.increase, s.Last.Value, p.Value)
	}
	s.Count++
	s.Last = p
	s.span(p.Value, p.Value)
	if s.kept&keepSum != 0 {
		s.sum.Add(p.Value)
	}
	if s.kept&keepPercentiles != 0 {
		s.numbers().add(p.Value)
	}
	return nil
}

func checkOrder(before, after int64) error {
	if after < before {
		return fmt.Errorf("%w: %d after %d", ErrOrder, after, before)
	}
	return nil
}

func (s *Summary) numbers() *quantiles {
	if s.quantiles == nil {
		s.quantiles = &quantiles{}
	}
	return s.quantiles
}

// span widens the range of the numbers. Of equal ones the first stays.
func (s *Summary) span(low, high value.Value) {
	if value.CompareNumbers(low, s.Min) < 0 {
		s.Min = low
	}
	if value.CompareNumbers(high, s.Max) > 0 {
		s.Max = high
	}
}

// addIncrease adds what a counter went up from one point to the next.
func addIncrease(sum *value.Sum, before, after value.Value) {
	switch {
	case value.CompareNumbers(after, before) >= 0:
		if before.Kind() == value.KindInt && after.Kind() == value.KindInt {
			sum.AddUint(uint64(after.Int()) - uint64(before.Int()))
			return
		}
		sum.Add(value.Float(float(after) - float(before)))
	case value.CompareNumbers(after, value.Int(0)) > 0: // it began again
		sum.Add(after)
	}
}

// Append adds a summary of a later time, and does not change next. The error wraps ErrOrder if it
// is not later. What next does not keep, the merged summary does not keep either.
func (s *Summary) Append(next *Summary) error {
	switch {
	case next.Count == 0:
		return nil
	case s.Count == 0:
		s.First, s.Min, s.Max = next.First, next.Min, next.Max
	default:
		if err := checkOrder(s.Last.TS, next.First.TS); err != nil {
			return err
		}
		if s.kept&next.kept&keepIncrease != 0 {
			addIncrease(&s.increase, s.Last.Value, next.First.Value)
		}
	}
	s.Last = next.Last
	s.join(next)
	return nil
}

// pool adds a summary of another series at the same time. The increases of both
// together are the sum of the two.
func (s *Summary) pool(other *Summary) {
	switch {
	case other.Count == 0:
		return
	case s.Count == 0:
		s.First, s.Last, s.Min, s.Max = other.First, other.Last, other.Min, other.Max
	default:
		if other.First.TS < s.First.TS {
			s.First = other.First
		}
		if other.Last.TS > s.Last.TS {
			s.Last = other.Last
		}
	}
	s.join(other)
}

// join adds what does not depend on the order.
func (s *Summary) join(other *Summary) {
	s.Count += other.Count
	s.span(other.Min, other.Max)
	s.kept &= other.kept
	if s.kept&keepSum != 0 {
		s.sum.Merge(&other.sum)
	}
	if s.kept&keepIncrease != 0 {
		s.increase.Merge(&other.increase)
	}
	if s.kept&keepPercentiles != 0 {
		s.numbers().merge(other.quantiles)
	}
}

// Value returns the result of a function, or none if the summary is empty, does not keep what the
// function needs, or has no finite answer. The rate is that between the points of the summary.
func (s *Summary) Value(f Func) value.Value { return s.value(f, Point{}) }

// value is Value with the point before the first one, if that is known.
func (s *Summary) value(f Func, before Point) value.Value {
	if s.Count == 0 && f != Count {
		return value.Value{}
	}
	switch f {
	case Count:
		return value.Int(s.Count)
	case Min:
		return s.Min
	case Max:
		return s.Max
	case First:
		return s.First.Value
	case Last:
		return s.Last.Value
	case Rate:
		return s.rate(before)
	case Sum, Avg:
		return s.sumOrAvg(f)
	}
	if p, ok := f.percentile(); ok && s.quantiles != nil && s.kept&keepPercentiles != 0 {
		return s.quantiles.at(p, s.Count, s.Min, s.Max)
	}
	return value.Value{}
}

func (s *Summary) sumOrAvg(f Func) value.Value {
	switch {
	case s.kept&keepSum == 0:
		return value.Value{}
	case f == Sum:
		return sum(&s.sum)
	default:
		return finite(s.sum.Float() / float64(s.Count))
	}
}

func (s *Summary) rate(before Point) value.Value {
	if s.kept&keepIncrease == 0 {
		return value.Value{}
	}
	var sum value.Sum
	sum.Merge(&s.increase)
	start := s.First.TS
	if !before.Value.IsZero() {
		addIncrease(&sum, before.Value, s.First.Value)
		start = before.TS
	}
	if s.Last.TS <= start {
		return value.Value{}
	}
	return finite(sum.Float() / (float64(s.Last.TS-start) / 1000))
}
