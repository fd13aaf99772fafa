package series

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// someNumbers returns random values in the order of time: of one kind, or of several with texts
// among them.
func someNumbers(rnd *rand.Rand, n int) (columns Numbers, points []Point) {
	mixed, kind := rnd.IntN(2) == 0, value.KindInt+value.Kind(rnd.IntN(2))-1
	columns.Kind = kind
	if mixed {
		columns.Kind, columns.Kinds = 0, []value.Kind{}
	}
	ts := rnd.Int64N(1000)
	for range n {
		ts += rnd.Int64N(400)
		v := value.Int(rnd.Int64N(20) - 10)
		if rnd.IntN(8) == 0 { // most of which are the same float64
			v = value.Int(math.MaxInt64 - rnd.Int64N(3))
		}
		if mixed && rnd.IntN(5) == 0 {
			v = value.Bool(true)
		} else if kind == value.KindFloat || mixed && rnd.IntN(2) == 0 {
			v = []value.Value{value.Float(rnd.NormFloat64()), value.Float(math.Copysign(0, -1)), value.Float(0), value.Float(math.MaxFloat64), value.Float(1 << 63)}[rnd.IntN(5)]
		}
		k, bits, _ := v.Raw()
		columns.TS, columns.Bits = append(columns.TS, ts), append(columns.Bits, bits)
		if mixed {
			columns.Kinds = append(columns.Kinds, k)
		}
		if v.IsNumber() {
			points = append(points, Point{TS: ts, Value: v})
		}
	}
	return columns, points
}

var allFuncs = [][]Func{{Min, Max, Avg, Sum, Count, First, Last}, {Count}, {Rate, Avg}, {"p50", Sum}, {First, Last, Rate, "p99"}}

// TestColumnsAnswerAsPointsDo gives aggregators the same numbers as columns, cut into pieces, as
// summaries where they fit into a bucket, and one by one.
func TestColumnsAnswerAsPointsDo(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		columns, points := someNumbers(rnd, 1+rnd.IntN(300))
		q := Query{Funcs: allFuncs[rnd.IntN(len(allFuncs))], Fill: Fill{Mode: []FillMode{FillNone, FillNull, FillPrevious}[rnd.IntN(3)]}}
		if rnd.IntN(4) > 0 {
			q.Grid = mustGrid(t, []string{"1s", "10s", "1ms", "minute"}[rnd.IntN(4)], "UTC")
		}
		if rnd.IntN(2) == 0 {
			q.From = 1 + rnd.Int64N(20_000)
			q.To = q.From + 1 + rnd.Int64N(30_000)
		}
		want := fmt.Sprint(collect(t, q.Aggregate(Each(points))))
		var got []Bucket
		a, err := NewAggregator(q, func(b Bucket) error { got = append(got, b); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(columns.TS); {
			to := min(from+1+rnd.IntN(60), len(columns.TS))
			part := Numbers{TS: columns.TS[from:to], Bits: columns.Bits[from:to], Kind: columns.Kind}
			if columns.Kinds != nil {
				part.Kinds = columns.Kinds[from:to]
			}
			if rnd.IntN(2) == 0 && a.TakesWhole(part.TS[0], part.TS[len(part.TS)-1]) {
				err = a.AddWhole(summaryOf(t, &part))
			} else {
				err = a.AddNumbers(part)
			}
			if err != nil {
				t.Fatal(err)
			}
			from = to
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != want {
			t.Fatalf("seed %d, %+v:\n got %v\nwant %s", seed, q, got, want)
		}
	}
}

// summaryOf returns what a store knows of a block without reading it.
func summaryOf(t *testing.T, n *Numbers) *Summary {
	t.Helper()
	s := NewSummary(false)
	for i, ts := range n.TS {
		kind := n.Kind
		if n.Kinds != nil {
			kind = n.Kinds[i]
		}
		if v := value.FromRaw(kind, n.Bits[i], ""); v.IsNumber() {
			if err := s.Add(Point{TS: ts, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !s.IsExact() { // it would be opened
		return s
	}
	stored := new(Summary)
	if err := stored.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return stored
}

// TestASummaryOfColumnsIsThatOfPoints compares all that a row of a rollup keeps.
func TestASummaryOfColumnsIsThatOfPoints(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		columns, points := someNumbers(rnd, 1+rnd.IntN(200))
		want, got := NewSummary(true), NewSummary(true)
		for _, p := range points {
			if err := want.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		for left := columns; len(left.TS) > 0; {
			var some Numbers
			some, left = left.Cut(left.TS[0] + 1 + rnd.Int64N(9000))
			if err := got.AddNumbers(some); err != nil {
				t.Fatal(err)
			}
		}
		wanted, err := want.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if data, err := got.MarshalBinary(); err != nil || string(data) != string(wanted) {
			t.Fatalf("seed %d: %v\n got %x\nwant %x", seed, err, data, wanted)
		}
		if len(points) > 0 && points[0].TS < got.Last.TS {
			if err := got.AddNumbers(columns); !errors.Is(err, ErrOrder) {
				t.Errorf("seed %d: numbers from before the last: %v, want ErrOrder", seed, err)
			}
		}
	}
}

func TestColumnsMustBeInTheOrderOfTime(t *testing.T) {
	q := Query{Funcs: []Func{Count}}
	a, err := NewAggregator(q, func(Bucket) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	n := Numbers{TS: []int64{5, 6}, Bits: []uint64{1, 1}, Kind: value.KindInt}
	if err := errors.Join(a.AddNumbers(n), a.AddNumbers(Numbers{TS: []int64{6}, Bits: []uint64{1}, Kind: value.KindInt})); err != nil {
		t.Fatal(err)
	}
	if err := a.AddNumbers(n); !errors.Is(err, ErrOrder) {
		t.Errorf("numbers from before the last: %v, want ErrOrder", err)
	}
}

// BenchmarkAggregateColumns makes hours of a day of readings a second apart, given in columns:
//
//	go test -run '^$' -bench AggregateColumns ./entity/series
func BenchmarkAggregateColumns(b *testing.B) {
	var n Numbers
	for i := range 86_400 {
		n.TS = append(n.TS, int64(i)*1000)
		n.Bits = append(n.Bits, math.Float64bits(math.Round(20+300*math.Sin(float64(i)/1000))/100))
	}
	n.Kind = value.KindFloat
	for _, funcs := range [][]Func{{Avg}, {Min, Max, Count}, {Rate}, {"p95"}} {
		b.Run(string(funcs[0]), func(b *testing.B) {
			q := Query{Grid: mustGrid(b, "1h", "UTC"), Funcs: slices.Clone(funcs)}
			for b.Loop() {
				hours := 0
				a, err := NewAggregator(q, func(Bucket) error { hours++; return nil })
				if err == nil {
					err = errors.Join(a.AddNumbers(n), a.Close())
				}
				if err != nil || hours != 24 {
					b.Fatal(hours, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(n.TS)), "ns/point")
		})
	}
}
