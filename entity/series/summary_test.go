package series

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// walk makes points at random times and of random values.
func walk(r *rand.Rand, n int) []Point {
	points := make([]Point, n)
	ts := int64(r.IntN(1000))
	for i := range points {
		points[i] = Point{TS: ts, Value: randomNumber(r)}
		ts += 1 + int64(r.IntN(5000))
		if r.IntN(20) == 0 {
			ts += int64(r.IntN(200_000))
		}
	}
	return points
}

// naive answers for points the obvious way; before has no value where there is no
// point before them.
func naive(f Func, points []Point, before Point) value.Value {
	if len(points) == 0 && f != Count {
		return value.Value{}
	}
	var list []value.Value
	for _, p := range points {
		list = append(list, p.Value)
	}
	sorted := slices.Clone(list)
	slices.SortStableFunc(sorted, func(a, b value.Value) int { return rat(a).Cmp(rat(b)) })
	switch f {
	case Count:
		return value.Int(int64(len(points)))
	case First:
		return list[0]
	case Last:
		return list[len(list)-1]
	case Min:
		return sorted[0]
	case Max:
		return naiveMax(list)
	case Sum, Avg:
		return naiveSum(f, list)
	case Rate:
		return naiveRate(points, before)
	}
	return naivePercentile(f, sorted)
}

func naivePercentile(f Func, sorted []value.Value) value.Value {
	rank, _ := new(big.Rat).SetString(string(f[1:]))
	rank.Mul(rank, big.NewRat(int64(len(sorted)-1), 100))
	below := new(big.Int).Div(rank.Num(), rank.Denom()).Int64()
	rest := rank.Sub(rank, new(big.Rat).SetInt64(below))
	low := sorted[below]
	if rest.Sign() == 0 || rat(low).Cmp(rat(sorted[below+1])) == 0 {
		return low
	}
	high := sorted[below+1]
	if low.Kind() == value.KindInt && high.Kind() == value.KindInt && (large(low.Int()) || large(high.Int())) {
		between := new(big.Rat).Sub(rat(high), rat(low))
		f, _ := between.Mul(between, rest).Add(between, rat(low)).Float64()
		return finite(f)
	}
	part, _ := rest.Float64()
	return finite(float(low) + (float(high)-float(low))*part)
}

func naiveMax(list []value.Value) value.Value {
	best := list[0]
	for _, n := range list {
		if rat(n).Cmp(rat(best)) > 0 {
			best = n
		}
	}
	return best
}

func naiveSum(f Func, list []value.Value) value.Value {
	sum := exactSum(list)
	float, _ := sum.Float64()
	switch {
	case f == Avg:
		return finite(float / float64(len(list)))
	case !slices.ContainsFunc(list, func(n value.Value) bool { return n.Kind() != value.KindInt }) && sum.Num().IsInt64():
		return value.Int(sum.Num().Int64())
	default:
		return finite(float)
	}
}

func naiveRate(points []Point, before Point) value.Value {
	if !before.Value.IsZero() {
		points = slices.Insert(slices.Clone(points), 0, before)
	}
	sum := new(big.Rat)
	for i := 1; i < len(points); i++ {
		a, b := points[i-1].Value, points[i].Value
		up := new(big.Rat).Sub(rat(b), rat(a))
		if a.Kind() != value.KindInt || b.Kind() != value.KindInt {
			up.SetFloat64(float(b) - float(a))
		}
		if rat(b).Cmp(rat(a)) < 0 {
			up = rat(b) // began again
		}
		if up.Sign() > 0 {
			sum.Add(sum, up)
		}
	}
	elapsed := points[len(points)-1].TS - points[0].TS
	if elapsed <= 0 {
		return value.Value{}
	}
	float, _ := sum.Float64()
	return finite(float / (float64(elapsed) / 1000))
}

// everyFunc has only percentiles that are exact in floats.
var everyFunc = []Func{Count, Min, Max, First, Last, Sum, Avg, Rate, "p0", "p12.5", "p25", "p50", "p100"}

// same reports whether two answers are equal: the same to the bit, or for the
// extremes and percentiles worth the same.
func same(f Func, a, b value.Value) bool {
	if _, percentile := f.percentile(); percentile || f == Min || f == Max {
		return value.CompareNumbers(a, b) == 0
	}
	return a == b
}

// tame leaves out what would leave the floats.
func tame(points []Point) []Point {
	return slices.DeleteFunc(points, func(p Point) bool { return math.Abs(float(p.Value)) > 1e290 })
}

func TestSummaryAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(250) {
		r := rand.New(rand.NewPCG(seed, 3))
		points := tame(walk(r, r.IntN(40)))
		s := NewSummary(true)
		for _, p := range points {
			if err := s.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range everyFunc {
			if got, want := s.Value(f), naive(f, points, Point{}); !same(f, got, want) {
				t.Fatalf("seed %d: %s of %v is %v, want %v", seed, f, points, got, want)
			}
		}
	}
}

func TestSummariesOfPartsAreThatOfTheWhole(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 4))
		points := tame(walk(r, 1+r.IntN(200)))
		whole, parts := NewSummary(true), NewSummary(true)
		part := NewSummary(true)
		flush := func() {
			data, err := part.MarshalBinary() // as a store would have it
			var stored Summary
			if err != nil || stored.UnmarshalBinary(data) != nil {
				t.Fatal(err)
			}
			if err := parts.Append(&stored); err != nil {
				t.Fatal(err)
			}
			part = NewSummary(true)
		}
		for _, p := range points {
			_ = whole.Add(p)
			_ = part.Add(p)
			if r.IntN(10) == 0 || part.Count == rowPercentiles { // with more they are not exact
				flush()
			}
		}
		flush()
		for _, f := range everyFunc {
			if got, want := parts.Value(f), whole.Value(f); !same(f, got, want) {
				t.Fatalf("seed %d: %s is %v of the parts, %v of the whole", seed, f, got, want)
			}
		}
	}
}

func TestSummaryRefusesWhatIsNotInOrder(t *testing.T) {
	s := NewSummary(false)
	_ = s.Add(Point{TS: 10, Value: value.Int(1)})
	if err := s.Add(Point{TS: 9, Value: value.Int(5)}); !errors.Is(err, ErrOrder) || s.Count != 1 || s.Max != value.Int(1) {
		t.Errorf("error %v, and it has %d points", err, s.Count)
	}
	before := NewSummary(false)
	_ = before.Add(Point{TS: 9, Value: value.Int(5)})
	if err := s.Append(before); !errors.Is(err, ErrOrder) || s.Count != 1 {
		t.Errorf("error %v, and it has %d points", err, s.Count)
	}
	if err := s.Add(Point{TS: 1}); err != nil || s.Count != 1 {
		t.Errorf("a point without a number: %v, %d points", err, s.Count)
	}
}

func TestSummaryTellsNothingThatItDoesNotKeep(t *testing.T) {
	s := NewSummary(false)
	_ = s.Add(Point{TS: 1, Value: value.Int(1)})
	_ = s.Add(Point{TS: 2, Value: value.Int(3)})
	if s.HasPercentiles() || !s.Value("p50").IsZero() || s.Value(Sum) != value.Int(4) {
		t.Errorf("p50 is %v and the sum %v", s.Value("p50"), s.Value(Sum))
	}
	all := NewSummary(true)
	_ = all.Append(s)
	if all.HasPercentiles() || !all.Value("p50").IsZero() {
		t.Error("percentiles came out of a summary without")
	}
	var zero Summary
	_ = zero.Append(s)
	if zero.Value(Max) != value.Int(3) || !zero.Value(Sum).IsZero() || !zero.Value(Rate).IsZero() || !zero.Value(Avg).IsZero() {
		t.Errorf("the zero summary keeps %v %v", zero.Value(Max), zero.Value(Sum))
	}
}

func TestRateKnowsThatACounterBeganAgain(t *testing.T) {
	for _, x := range []struct {
		values []value.Value
		want   value.Value
	}{
		{[]value.Value{value.Int(100), value.Int(110), value.Int(130)}, finite(15)},
		{[]value.Value{value.Int(100), value.Int(3), value.Int(5)}, finite(2.5)},
		{[]value.Value{finite(1.5), finite(0.5), finite(2.5)}, finite(1.25)},
		{[]value.Value{value.Int(100), value.Int(-5), value.Int(5)}, finite(5)},
		{[]value.Value{value.Int(math.MinInt64), value.Int(math.MaxInt64)}, finite(0x1p64)},
		{[]value.Value{value.Int(5)}, value.Value{}},
		{[]value.Value{value.Int(5), value.Int(5)}, finite(0)},
	} {
		s := NewSummary(false)
		for i, v := range x.values {
			_ = s.Add(Point{TS: int64(i) * 1000, Value: v})
		}
		if got := s.Value(Rate); got != x.want {
			t.Errorf("the rate of %v is %v, want %v", x.values, got, x.want)
		}
	}
	s := NewSummary(false)
	_ = s.Add(Point{TS: 5, Value: value.Int(1)})
	_ = s.Add(Point{TS: 5, Value: value.Int(2)})
	if got := s.Value(Rate); !got.IsZero() {
		t.Errorf("in no time the rate is %v", got)
	}
}

func TestASummaryCanBeAskedInBetween(t *testing.T) {
	s := NewSummary(true)
	for i, v := range []int64{5, 1, 9, 3} {
		_ = s.Add(Point{TS: int64(i), Value: value.Int(v)})
		if got, want := s.Value("p0"), s.Min; got != want {
			t.Errorf("p0 of %d is %v, the least is %v", i+1, got, want)
		}
	}
}
