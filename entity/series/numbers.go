package series

import (
	"math"
	"sort"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Numbers are values in the order of their time, column by column: what [value.Value.Raw] says of
// each is its kind and bits. What is no number is passed over.
type Numbers struct {
	TS   []int64
	Bits []uint64
	// Kind is the kind of all values, or 0 where they differ: then Kinds has them.
	Kind  value.Kind
	Kinds []value.Kind
}

// AddNumbers is Add for each of the numbers, at a fraction of the cost. It keeps nothing of n.
func (a *Aggregator) AddNumbers(n Numbers) error {
	uniform := n.Kinds == nil && (n.Kind == value.KindInt || n.Kind == value.KindFloat)
	for i := 0; i < len(n.TS); {
		if !uniform || n.TS[i] < a.query.From || a.need&^keepSum != 0 {
			if err := a.addNumber(&n, i); err != nil {
				return err
			}
			i++
			continue
		}
		if a.query.To != 0 && n.TS[i] >= a.query.To {
			return nil
		}
		if err := a.order(n.TS[i], n.TS[i]); err != nil {
			return err
		}
		if err := a.turnTo(n.TS[i]); err != nil {
			return err
		}
		end := a.end
		if a.query.To != 0 {
			end = min(end, a.query.To)
		}
		j := i + before(n.TS[i:], end)
		a.newest = n.TS[j-1]
		a.summary.addRun(n.TS[i:j], n.Bits[i:j], n.Kind)
		i = j
	}
	return nil
}

// before returns how many of the times, which are in order, lie before end: 1 at least.
func before(ts []int64, end int64) int {
	high := 1
	for high < len(ts) && ts[high] < end { // the end is near in most cases
		high *= 2
	}
	low := high / 2
	high = min(high, len(ts))
	return low + sort.Search(high-low, func(i int) bool { return ts[low+i] >= end })
}

func (a *Aggregator) addNumber(n *Numbers, i int) error {
	kind := n.Kind
	if n.Kinds != nil {
		kind = n.Kinds[i]
	}
	if kind != value.KindInt && kind != value.KindFloat {
		return nil
	}
	return a.Add(Point{TS: n.TS[i], Value: value.FromRaw(kind, n.Bits[i], "")})
}

// addRun adds numbers of one kind behind the last one. REQUIRES: s keeps nothing but sums.
func (s *Summary) addRun(ts []int64, bits []uint64, kind value.Kind) {
	first, last := value.FromRaw(kind, bits[0], ""), value.FromRaw(kind, bits[len(bits)-1], "")
	low, high := first, first
	if kind == value.KindFloat {
		least, most := math.Float64frombits(bits[0]), math.Float64frombits(bits[0])
		for _, b := range bits[1:] {
			f := math.Float64frombits(b)
			if f < least { // of equal ones the first stays, also of 0 and -0
				least = f
			}
			if f > most {
				most = f
			}
		}
		low, high = value.Float(least), value.Float(most)
	} else {
		least, most := int64(bits[0]), int64(bits[0])
		for _, b := range bits[1:] {
			least, most = min(least, int64(b)), max(most, int64(b))
		}
		low, high = value.Int(least), value.Int(most)
	}
	if s.Count == 0 {
		s.First, s.Min, s.Max = Point{TS: ts[0], Value: first}, low, high
	} else {
		s.span(low, high)
	}
	s.Count += int64(len(ts))
	s.Last = Point{TS: ts[len(ts)-1], Value: last}
	if s.kept&keepSum != 0 {
		s.sum.AddRaw(kind, bits)
	}
}

// TakesWhole reports whether [Aggregator.AddWhole] can be given what numbers from first to last
// come to: all of them lie in one bucket, within the range, and no percentiles are asked for.
func (a *Aggregator) TakesWhole(first, last int64) bool {
	if first < a.query.From || a.query.To != 0 && last >= a.query.To || a.need&keepPercentiles != 0 {
		return false
	}
	_, end := a.query.bucket(first)
	return last < end
}

// AddWhole adds what numbers come to, for which TakesWhole reports true, as if each were added. It
// leaves s as it is. The error wraps ErrOrder, ErrCut and ErrTooManyBuckets.
func (a *Aggregator) AddWhole(s *Summary) error {
	if s.Count == 0 {
		return nil
	}
	return a.AddRow(Row{Start: s.First.TS, End: s.Last.TS + 1, Summary: s})
}
