package series

import (
	"math"
	"sort"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Numbers are values in the order of their time, column by column: the kind and bits of each are
// those of [value.Value.Raw]. Values that are not numbers are skipped.
type Numbers struct {
	TS   []int64
	Bits []uint64
	// Kind is the kind of all values, or 0 if they differ; Kinds then has the kind of each.
	Kind  value.Kind
	Kinds []value.Kind
}

// AddNumbers is Add for each of the numbers, at a fraction of the cost. It does not retain n.
func (a *Aggregator) AddNumbers(n Numbers) error {
	for i := 0; i < len(n.TS); {
		if !n.isNumber(i) {
			i++
			continue
		}
		if n.TS[i] < a.query.From {
			if err := a.Add(Point{TS: n.TS[i], Value: value.FromRaw(n.kind(i), n.Bits[i], "")}); err != nil {
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
		a.summary.addColumns(n.slice(i, j))
		a.newest = a.summary.Last.TS
		i = j
	}
	return nil
}

// Cut returns the values before a time, and the others. They share the memory of n.
func (n Numbers) Cut(end int64) (first, rest Numbers) {
	i := sort.Search(len(n.TS), func(i int) bool { return n.TS[i] >= end })
	return n.slice(0, i), n.slice(i, len(n.TS))
}

func (n *Numbers) slice(i, j int) Numbers {
	s := Numbers{TS: n.TS[i:j], Bits: n.Bits[i:j], Kind: n.Kind}
	if n.Kinds != nil {
		s.Kinds = n.Kinds[i:j]
	}
	return s
}

// AddNumbers is Add for each of the numbers, at a fraction of the cost. It does not retain n.
func (s *Summary) AddNumbers(n Numbers) error {
	i := 0
	for i < len(n.TS) && !n.isNumber(i) {
		i++
	}
	if i == len(n.TS) {
		return nil
	}
	if s.Count > 0 {
		if err := checkOrder(s.Last.TS, n.TS[i]); err != nil {
			return err
		}
	}
	s.addColumns(n.slice(i, len(n.TS)))
	return nil
}

// addColumns adds numbers behind the last one. REQUIRES: the first value is a number.
func (s *Summary) addColumns(n Numbers) {
	if n.Kinds == nil {
		s.addRun(n.TS, n.Bits, n.Kind)
	} else {
		s.addMixed(n.TS, n.Bits, n.Kinds)
	}
}

func (n *Numbers) kind(i int) value.Kind {
	if n.Kinds != nil {
		return n.Kinds[i]
	}
	return n.Kind
}

func (n *Numbers) isNumber(i int) bool {
	k := n.kind(i)
	return k == value.KindInt || k == value.KindFloat
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

// addRun adds numbers of one kind behind the last one.
func (s *Summary) addRun(ts []int64, bits []uint64, kind value.Kind) {
	first, last := value.FromRaw(kind, bits[0], ""), value.FromRaw(kind, bits[len(bits)-1], "")
	var low, high value.Value
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
	if s.kept&(keepIncrease|keepPercentiles) != 0 {
		before := s.latest()
		for _, b := range bits {
			before = s.addStep(before, value.FromRaw(kind, b, ""))
		}
	}
	s.addSpan(int64(len(ts)), Point{TS: ts[0], Value: first}, Point{TS: ts[len(ts)-1], Value: last}, low, high)
	if s.kept&keepSum != 0 {
		s.sum.AddRaw(kind, bits)
	}
}

// latest returns the last number, or none.
func (s *Summary) latest() value.Value {
	if s.Count == 0 {
		return value.Value{}
	}
	return s.Last.Value
}

// addStep adds a number, and what it is more than the one before, if there is one, to what is kept
// of each, and returns the number.
func (s *Summary) addStep(before, n value.Value) value.Value {
	if s.kept&keepIncrease != 0 && !before.IsZero() {
		addIncrease(&s.increase, before, n)
	}
	if s.kept&keepPercentiles != 0 {
		s.numbers().add(n)
	}
	return n
}

// addMixed adds the numbers among values of several kinds behind the last one. REQUIRES: the first
// is a number.
func (s *Summary) addMixed(ts []int64, bits []uint64, kinds []value.Kind) {
	at := func(i int) value.Value { return value.FromRaw(kinds[i], bits[i], "") }
	least, most := math.Inf(1), math.Inf(-1)
	low, high, last, n := 0, 0, 0, 0
	before, steps := s.latest(), s.kept&(keepIncrease|keepPercentiles) != 0
	for i, k := range kinds {
		var f float64
		switch k {
		case value.KindFloat:
			f = math.Float64frombits(bits[i])
		case value.KindInt:
			f = float64(int64(bits[i]))
		default:
			continue
		}
		// Larger integers may be rounded to the same float.
		rounded := f >= 1<<53 || f <= -1<<53
		if f < least || rounded && f == least && value.CompareNumbers(at(i), at(low)) < 0 {
			least, low = f, i
		}
		if f > most || rounded && f == most && value.CompareNumbers(at(i), at(high)) > 0 {
			most, high = f, i
		}
		if steps {
			before = s.addStep(before, at(i))
		}
		last = i
		n++
	}
	s.addSpan(int64(n), Point{TS: ts[0], Value: at(0)}, Point{TS: ts[last], Value: at(last)}, at(low), at(high))
	if s.kept&keepSum != 0 {
		s.sum.AddKinds(kinds, bits)
	}
}

// addSpan adds what n numbers span that are behind the last one.
func (s *Summary) addSpan(n int64, first, last Point, low, high value.Value) {
	if s.Count == 0 {
		s.First, s.Min, s.Max = first, low, high
	} else {
		s.span(low, high)
	}
	s.Count += n
	s.Last = last
}

// TakesWhole reports whether [Aggregator.AddWhole] can be given the summary of numbers from first
// to last: all of them lie in one bucket, within the range, and no percentiles are requested.
func (a *Aggregator) TakesWhole(first, last int64) bool {
	if first < a.query.From || a.query.To != 0 && last >= a.query.To || a.need&keepPercentiles != 0 {
		return false
	}
	_, end := a.query.bucket(first)
	return last < end
}

// AddWhole adds the summary of numbers for which TakesWhole reports true, as if each number were
// added. It does not change s. The error wraps ErrOrder, ErrCut and ErrTooManyBuckets.
func (a *Aggregator) AddWhole(s *Summary) error {
	if s.Count == 0 {
		return nil
	}
	return a.AddRow(Row{Start: s.First.TS, End: s.Last.TS + 1, Summary: s})
}
