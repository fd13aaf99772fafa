package series

import (
	"fmt"
	"math"
	"math/big"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"

	"github.com/greenroom-go/greenroom/entity/value"
)

const (
	// ExactPercentiles is the number of numbers up to which a bucket has exact percentiles. With
	// more it has a DDSketch (Masson, Rim, Lee: DDSketch: A Fast and Fully-Mergeable Quantile
	// Sketch with Relative-Error Guarantees, VLDB 2019).
	ExactPercentiles = 2048

	// PercentileError is the greatest relative error of a percentile from a sketch: |answer-exact|
	// <= PercentileError*|exact|. It holds if the numbers on both sides of the percentile have the
	// same sign, and as long as the absolute values, except 0, are within a factor of 10^17; beyond
	// that the smallest of them lose it.
	PercentileError = 0.005

	// sketchBins bounds the memory of a sketch: 32 KB for each sign.
	sketchBins = 4096

	// rowPercentiles is how many numbers the encoded row of a rollup keeps as
	// they are; with more it has a sketch, which is smaller then.
	rowPercentiles = 64
)

// sketchMapping is shared by all sketches; it has no state.
var sketchMapping = func() mapping.IndexMapping {
	m, err := mapping.NewLogarithmicMapping(PercentileError)
	if err != nil {
		panic(fmt.Sprintf("series: the accuracy of percentiles is no accuracy: %v", err))
	}
	return m
}()

func newSketch() *ddsketch.DDSketch {
	return ddsketch.NewDDSketchFromStoreProvider(sketchMapping, newSketchStore)
}

func newSketchStore() store.Store { return store.NewCollapsingLowestDenseStore(sketchBins) }

// quantiles has the numbers of a bucket for its percentiles: all of them or, if there are many, a
// sketch.
type quantiles struct {
	values []value.Value
	sorted bool
	sketch *ddsketch.DDSketch
}

func (q *quantiles) add(n value.Value) {
	if q.sketch != nil {
		addToSketch(q.sketch, float(n))
		return
	}
	q.values = append(q.values, n)
	q.sorted = false
	if len(q.values) > ExactPercentiles {
		q.condense()
	}
}

// condense replaces the numbers by a sketch.
func (q *quantiles) condense() {
	if q.sketch != nil {
		return
	}
	q.sketch = newSketch()
	for _, n := range q.values {
		addToSketch(q.sketch, float(n))
	}
	q.values = q.values[:0]
}

// clear makes it empty, and keeps its memory.
func (q *quantiles) clear() { *q = quantiles{values: q.values[:0]} }

// addToSketch adds a number, which is finite: the sketch refuses only those at
// the very end of the range, and they count as the greatest that it takes.
func addToSketch(s *ddsketch.DDSketch, f float64) {
	limit := s.MaxIndexableValue()
	_ = s.Add(max(-limit, min(f, limit)))
}

func (q *quantiles) merge(r *quantiles) {
	if r.sketch == nil {
		for _, n := range r.values {
			q.add(n)
		}
		return
	}
	q.condense()
	_ = q.sketch.MergeWith(r.sketch) // an error is for another mapping, and there is one
}

// at returns the percentile p of 0 to 100 by linear interpolation between the
// closest ranks (definition 7 of Hyndman and Fan, Sample Quantiles in
// Statistical Packages, 1996; percentile_cont of SQL). low and high are the
// least and the greatest number, which a sketch does not know exactly.
func (q *quantiles) at(p float64, count int64, low, high value.Value) value.Value {
	// Of 95 % of 309 the part between two ranks is 55/100; 293.55-293 is not.
	hundredfold := p * float64(count-1)
	rest := math.Mod(hundredfold, 100)
	below, part := math.Round((hundredfold-rest)/100), rest/100
	a := q.ranked(below, count, low, high)
	if part == 0 {
		return a
	}
	b := q.ranked(below+1, count, low, high)
	if value.CompareNumbers(a, b) == 0 {
		return a
	}
	if a.Kind() == value.KindInt && b.Kind() == value.KindInt && (large(a.Int()) || large(b.Int())) {
		return finite(betweenIntegers(a.Int(), b.Int(), rest))
	}
	x, y := float(a), float(b)
	if between := x + (y-x)*part; !math.IsInf(between, 0) {
		return finite(between)
	}
	return finite(x*(1-part) + y*part) // y-x is beyond the floats
}

// large reports whether there may be no float for an integer.
func large(n int64) bool { return n > 1<<53 || n < -1<<53 }

// betweenIntegers returns a + (b-a)*part/100, rounded once: as floats, a and b may each be off by
// more than lies between them and the answer.
func betweenIntegers(a, b int64, part float64) float64 {
	const bits = 200 // 64 for a and b, 53 for part, 7 for 100, and some for the quotient
	number := func() *big.Float { return new(big.Float).SetPrec(bits) }
	weighted := number().Mul(number().SetInt64(a), number().Sub(number().SetInt64(100), number().SetFloat64(part)))
	weighted.Add(weighted, number().Mul(number().SetInt64(b), number().SetFloat64(part)))
	f, _ := weighted.Quo(weighted, number().SetInt64(100)).Float64()
	return f
}

// ranked returns the number of a rank, from 0 to count-1.
func (q *quantiles) ranked(rank float64, count int64, low, high value.Value) value.Value {
	if q.sketch == nil {
		if !q.sorted {
			slices.SortFunc(q.values, value.CompareNumbers)
			q.sorted = true
		}
		return q.values[int(rank)]
	}
	switch {
	case rank <= 0:
		return low
	case rank >= float64(count-1):
		return high
	}
	// The sketch multiplies the quantile by the number of values again; a
	// quarter of a rank keeps the rounding from leading to the one before. It
	// counts the ranks of negative numbers from the other end.
	if rank < q.sketch.GetNegativeValueStore().TotalCount() {
		rank -= 0.25
	} else {
		rank += 0.25
	}
	f, err := q.sketch.GetValueAtQuantile(rank / float64(count-1))
	if err != nil {
		return value.Value{}
	}
	return finite(max(float(low), min(f, float(high))))
}
