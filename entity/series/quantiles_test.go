package series

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func TestPercentilesOfManyAreWithinTheBound(t *testing.T) {
	shapes := map[string]func(r *rand.Rand) float64{
		"temperatures": func(r *rand.Rand) float64 { return 21 + r.NormFloat64() },
		"both signs":   func(r *rand.Rand) float64 { return r.NormFloat64() * 10 },
		"negative":     func(r *rand.Rand) float64 { return -math.Exp(r.NormFloat64() * 3) },
		"long tail":    func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 4) },
		"few values":   func(r *rand.Rand) float64 { return float64(r.IntN(3) - 1) },
		"huge":         func(r *rand.Rand) float64 { return math.MaxFloat64 * (1 - r.Float64()/1e3) },
		"tiny":         func(r *rand.Rand) float64 { return 5e-324 * float64(r.IntN(100)) },
	}
	for name, shape := range shapes {
		for _, n := range []int{ExactPercentiles, ExactPercentiles + 1, 20_000} {
			r := rand.New(rand.NewPCG(uint64(n), 5))
			whole, parts := NewSummary(true), NewSummary(true)
			part := NewSummary(true)
			var list []float64
			for i := range n {
				p := Point{TS: int64(i), Value: finite(shape(r))}
				list = append(list, float(p.Value))
				_ = whole.Add(p)
				_ = part.Add(p)
				if i%777 == 0 || i == n-1 {
					data, _ := part.MarshalBinary()
					var stored Summary
					if err := stored.UnmarshalBinary(data); err != nil {
						t.Fatal(err)
					}
					_ = parts.Append(&stored)
					part = NewSummary(true)
				}
			}
			slices.Sort(list)
			for _, s := range []*Summary{whole, parts} {
				checkPercentiles(t, name, s, list, n <= ExactPercentiles && s == whole)
			}
		}
	}
}

// checkPercentiles compares with the sorted numbers.
func checkPercentiles(t *testing.T, name string, s *Summary, list []float64, exact bool) {
	t.Helper()
	for _, p := range []float64{0, 0.1, 1, 5, 25, 49.5, 50, 75, 90, 99, 99.9, 99.99, 100} {
		rank := p / 100 * float64(len(list)-1)
		low, high := list[int(rank)], list[int(math.Ceil(rank))]
		want := low*(1-rank+math.Floor(rank)) + high*(rank-math.Floor(rank))
		got := s.Value(Percentile(p)).Float()
		bound := PercentileError*math.Abs(want) + 1e-300
		switch {
		case exact:
			bound = max(math.Abs(low), math.Abs(high))*1e-11 + 1e-300 // 99.9 is no float
		case low < 0 && high > 0: // between the signs each end has its error
			bound = PercentileError * max(-low, high)
		}
		if !(math.Abs(got-want) <= bound*(1+1e-9)) {
			t.Errorf("%s: p%v of %d is %v, want %v within %v", name, p, len(list), got, want, bound)
		}
	}
}

func TestPercentilesOfIntegersAreIntegersWhereOneIsMeant(t *testing.T) {
	s := NewSummary(true)
	for i, v := range []int64{9, math.MaxInt64, 7} {
		_ = s.Add(Point{TS: int64(i), Value: value.Int(v)})
	}
	if got := s.Value("p50"); got != value.Int(9) {
		t.Errorf("the middle one is %v", got)
	}
	if got := s.Value("p100"); got != value.Int(math.MaxInt64) {
		t.Errorf("the greatest is %v", got)
	}
	if got := s.Value("p25"); got != finite(8) {
		t.Errorf("p25 is %v", got)
	}
}

func TestPercentilesBetweenLargeIntegersAreRoundedOnce(t *testing.T) {
	for _, tt := range []struct {
		list []int64
		p    Func
		want float64
	}{
		{[]int64{math.MinInt64, math.MaxInt64}, "p50", -0.5},
		{[]int64{math.MinInt64, math.MaxInt64 - 7}, "p50", -4},
		{[]int64{1<<53 + 1, -1<<53 - 4}, "p50", -1.5},
		{[]int64{-2, math.MinInt64}, "p100", -2},
		{[]int64{-8, 1<<62 + 8, math.MinInt64}, "p50", -8},
		{[]int64{math.MinInt64, math.MaxInt64}, "p75", 1<<62 - 0.75},
		{[]int64{1, 2}, "p50", 1.5},
	} {
		s := NewSummary(true)
		for i, v := range tt.list {
			_ = s.Add(Point{TS: int64(i), Value: value.Int(v)})
		}
		if got := s.Value(tt.p); float(got) != tt.want {
			t.Errorf("%s of %d is %v, want %v", tt.p, tt.list, got, tt.want)
		}
	}
}

func TestAnEncodedRowIsSmall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	s := NewSummary(true)
	for i := range 5000 {
		_ = s.Add(Point{TS: int64(i), Value: finite(20 + r.NormFloat64())})
	}
	data, err := s.MarshalBinary()
	if err != nil || len(data) > 500 {
		t.Errorf("a row of 5000 temperatures has %d bytes, %v", len(data), err)
	}
}
