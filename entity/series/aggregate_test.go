package series

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

func mustGrid(t testing.TB, text, name string) Grid {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseGrid(text, 0, z)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// collect reads an answer to its end.
func collect(t testing.TB, buckets iter.Seq2[Bucket, error]) []Bucket {
	t.Helper()
	var list []Bucket
	for b, err := range buckets {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, b)
	}
	return list
}

// show writes an answer in a line: start:values, times in seconds.
func show(buckets []Bucket) string {
	var s []string
	for _, b := range buckets {
		s = append(s, fmt.Sprint(b.Start/1000, ":", b.Values))
	}
	return fmt.Sprint(s)
}

// modelAnswer answers a query the obvious way: every bucket of the range, each
// from all points.
func modelAnswer(q Query, points []Point) []Bucket {
	inside := slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return p.TS < q.From || q.To != 0 && p.TS >= q.To })
	var starts [][2]int64
	add := func(ts int64) {
		start, end := q.Grid.Bucket(ts)
		if q.Grid.IsZero() {
			if q.From != 0 {
				start = q.From
			}
			if q.To != 0 {
				end = q.To
			}
		}
		if b := [2]int64{start, end}; !slices.Contains(starts, b) {
			starts = append(starts, b)
		}
	}
	for _, p := range inside {
		add(p.TS)
	}
	if q.Fill.Mode != FillNone {
		from, to := q.From, q.To
		if from == 0 && len(inside) > 0 {
			from = inside[0].TS
		}
		if to == 0 && len(inside) > 0 {
			to = inside[len(inside)-1].TS + 1
		}
		if from != 0 || len(inside) > 0 {
			for ts := from; ts < to; {
				add(ts)
				_, ts = q.Grid.Bucket(ts)
			}
		}
	}
	slices.SortFunc(starts, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var answer []Bucket
	for _, s := range starts {
		answer = append(answer, modelBucket(q, points, s[0], s[1]))
	}
	modelFill(q, points, answer)
	return answer
}

func modelBucket(q Query, points []Point, start, end int64) Bucket {
	b := Bucket{Start: start, End: end}
	var inside []Point
	var before Point
	for _, p := range points {
		switch {
		case p.TS < start || p.TS < q.From:
			before = p
		case p.TS < end && (q.To == 0 || p.TS < q.To):
			inside = append(inside, p)
		}
	}
	b.Count = int64(len(inside))
	for _, f := range q.Funcs {
		b.Values = append(b.Values, naive(f, inside, before))
	}
	return b
}

func modelFill(q Query, points []Point, answer []Bucket) {
	var lookBack Point
	for _, p := range points {
		if p.TS < q.From {
			lookBack = p
		}
	}
	for i := range answer {
		if answer[i].Count > 0 {
			continue
		}
		before, after := i-1, i+1
		for before >= 0 && answer[before].Count == 0 {
			before--
		}
		for after < len(answer) && answer[after].Count == 0 {
			after++
		}
		for j, f := range q.Funcs {
			n := value.Value{}
			switch {
			case f == Count:
				n = value.Int(0)
			case q.Fill.Mode == FillValue:
				n = q.Fill.Value
			case q.Fill.Mode == FillPrevious && before >= 0:
				n = answer[before].Values[j]
			case q.Fill.Mode == FillPrevious && f != Sum && f != Rate:
				n = lookBack.Value
			case q.Fill.Mode == FillLinear && before >= 0 && after < len(answer):
				a, b := answer[before], answer[after]
				if !a.Values[j].IsZero() && !b.Values[j].IsZero() {
					part := float64(answer[i].Start-a.Start) / float64(b.Start-a.Start)
					n = finite(float(a.Values[j])*(1-part) + float(b.Values[j])*part)
				}
			}
			answer[i].Values[j] = n
		}
	}
}

func randomQuery(t *testing.T, r *rand.Rand, points []Point) Query {
	t.Helper()
	q := Query{Grid: []Grid{mustGrid(t, "30s", "UTC"), mustGrid(t, "minute", "Asia/Kolkata"), mustGrid(t, "5minute", "UTC"), {}}[r.IntN(4)]}
	q.Funcs = []Func{everyFunc[r.IntN(len(everyFunc))], everyFunc[r.IntN(len(everyFunc))], Count, Rate}
	q.Fill = []Fill{{}, {Mode: FillNull}, {Mode: FillPrevious}, {Mode: FillLinear}, {Mode: FillValue, Value: value.Int(-7)}}[r.IntN(5)]
	if len(points) > 0 {
		last := points[len(points)-1].TS
		if r.IntN(2) == 0 {
			q.From = 1 + r.Int64N(last+10_000)
		}
		if r.IntN(2) == 0 {
			q.To = q.From + 1 + r.Int64N(last+10_000)
		}
	}
	return q
}

func TestAggregateAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 9))
		points := tame(walk(r, r.IntN(60)))
		q := randomQuery(t, r, points)
		got := collect(t, q.Aggregate(Each(points)))
		want := modelAnswer(q, points)
		compareAnswers(t, fmt.Sprintf("seed %d: %+v", seed, q), q.Funcs, got, want)
	}
}

func compareAnswers(t *testing.T, what string, funcs []Func, got, want []Bucket) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s:\n got %s\nwant %s", what, show(got), show(want))
	}
	for i := range got {
		equal := got[i].Start == want[i].Start && got[i].End == want[i].End && got[i].Count == want[i].Count && len(got[i].Values) == len(funcs)
		for j := range funcs {
			equal = equal && same(funcs[j], got[i].Values[j], want[i].Values[j])
		}
		if !equal {
			t.Fatalf("%s:\n got %+v\nwant %+v", what, got[i], want[i])
		}
	}
}

// rowsOf rolls points up.
func rowsOf(t testing.TB, points []Point, step int64, percentiles bool) []Row {
	t.Helper()
	var rows []Row
	for _, p := range points {
		start := p.TS - floorMod(p.TS, step)
		if n := len(rows); n == 0 || rows[n-1].Start != start {
			rows = append(rows, Row{start, start + step, NewSummary(percentiles)})
		}
		if err := rows[len(rows)-1].Summary.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

// TestRowsAnswerAsThePointsDo has a part of the points as rows.
func TestRowsAnswerAsThePointsDo(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 10))
		points := tame(walk(r, 1+r.IntN(60)))
		split := points[r.IntN(len(points))].TS
		split -= floorMod(split, 10_000)
		q := Query{Grid: mustGrid(t, "30s", "UTC"), Funcs: everyFunc, Fill: Fill{Mode: FillPrevious}}
		if r.IntN(2) == 0 {
			q.From = 10_000 * (1 + r.Int64N(20))
		}
		want := modelAnswer(q, points)
		var got []Bucket
		a, err := NewAggregator(q, func(b Bucket) error { got = append(got, b); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rowsOf(t, points, 10_000, true) {
			if row.Start >= split {
				break
			}
			if err := a.AddRow(row); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range points {
			if p.TS < split {
				continue
			}
			if err := a.Add(p); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		compareAnswers(t, fmt.Sprintf("seed %d", seed), q.Funcs, got, want)
	}
}

func TestFill(t *testing.T) {
	points := []Point{{5_000, value.Int(1)}, {25_000, value.Int(10)}, {65_000, value.Int(30)}, {66_000, value.Int(40)}}
	for _, x := range []struct {
		fill     string
		from, to int64
		want     string
	}{
		{"none", 0, 0, `[0:[1 1] 20:[10 1] 60:[35 2]]`},
		{"null", 0, 0, `[0:[1 1] 10:[null 0] 20:[10 1] 30:[null 0] 40:[null 0] 50:[null 0] 60:[35 2]]`},
		{"previous", 0, 95_000, `[0:[1 1] 10:[1 0] 20:[10 1] 30:[10 0] 40:[10 0] 50:[10 0] 60:[35 2] 70:[35 0] 80:[35 0] 90:[35 0]]`},
		{"linear", 0, 81_000, `[0:[1 1] 10:[5.5 0] 20:[10 1] 30:[16.25 0] 40:[22.5 0] 50:[28.75 0] 60:[35 2] 70:[null 0] 80:[null 0]]`},
		{"0", 0, 80_000, `[0:[1 1] 10:[0 0] 20:[10 1] 30:[0 0] 40:[0 0] 50:[0 0] 60:[35 2] 70:[0 0]]`},
		{"linear", 12_000, 30_000, `[10:[null 0] 20:[10 1]]`},
		{"previous", 12_000, 30_000, `[10:[1 0] 20:[10 1]]`}, // the 1 from before the range was in force
		{"null", 70_000, 90_000, `[70:[null 0] 80:[null 0]]`},
		{"null", 0, 5_000, `[]`},
		{"none", 12_000, 20_000, `[]`},
	} {
		fill, err := ParseFill(x.fill)
		if err != nil {
			t.Fatal(err)
		}
		q := Query{From: x.from, To: x.to, Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Avg, Count}, Fill: fill}
		if got := show(collect(t, q.Aggregate(Each(points)))); got != x.want {
			t.Errorf("%s from %d to %d:\n got %s\nwant %s", x.fill, x.from, x.to, got, x.want)
		}
	}
}

func TestRateLosesNothingAtTheEdges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 11))
	var points []Point
	count := int64(0)
	for ts := int64(500); ts < 3_600_000; ts += 1 + r.Int64N(40_000) {
		count += r.Int64N(100)
		points = append(points, Point{ts, value.Int(count)})
	}
	q := Query{Grid: mustGrid(t, "60s", "UTC"), Funcs: []Func{Rate, First, Last}}
	total, before := 0.0, points[0].TS
	for _, b := range collect(t, q.Aggregate(Each(points))) {
		last := before
		for _, p := range points {
			if p.TS < b.End {
				last = p.TS
			}
		}
		if !b.Values[0].IsZero() {
			total += float(b.Values[0]) * float64(last-before) / 1000
		}
		before = last
	}
	if want := float64(count - points[0].Value.Int()); total < want-1e-6 || total > want+1e-6 {
		t.Errorf("the rates come to %v, the counter went up by %v", total, want)
	}
}

func TestAggregateRefuses(t *testing.T) {
	grid := mustGrid(t, "10s", "UTC")
	ok := Query{Grid: grid, Funcs: []Func{Avg}}
	points := []Point{{1000, value.Int(1)}, {2000, value.Int(2)}}
	failed := errors.New("the disk is gone")
	for name, x := range map[string]struct {
		change func(q *Query)
		points iter.Seq2[Point, error]
		want   error
	}{
		"no function":        {func(q *Query) { q.Funcs = nil }, Each(points), ErrInvalid},
		"an unknown one":     {func(q *Query) { q.Funcs = []Func{"mode"} }, Each(points), ErrInvalid},
		"a percentile > 100": {func(q *Query) { q.Funcs = []Func{"p101"} }, Each(points), ErrInvalid},
		"an unknown fill":    {func(q *Query) { q.Fill.Mode = 9 }, Each(points), ErrInvalid},
		"a fill of nothing":  {func(q *Query) { q.Fill.Mode = FillValue }, Each(points), ErrInvalid},
		"a range backwards":  {func(q *Query) { q.From, q.To = 5, 4 }, Each(points), ErrInvalid},
		"a negative limit":   {func(q *Query) { q.MaxBuckets = -1 }, Each(points), ErrInvalid},
		"points backwards":   {func(*Query) {}, Each([]Point{{2000, value.Int(1)}, {1000, value.Int(1)}}), ErrOrder},
		"across buckets":     {func(*Query) {}, Each([]Point{{20_000, value.Int(1)}, {1000, value.Int(1)}}), ErrOrder},
		"too many buckets":   {func(q *Query) { q.MaxBuckets = 1 }, Each([]Point{{1000, value.Int(1)}, {20_000, value.Int(1)}}), ErrTooManyBuckets},
		"too many filled":    {func(q *Query) { q.From, q.To, q.Fill.Mode = 1, 1e12, FillNull }, Each(nil), ErrTooManyBuckets},
		"an error of points": {func(*Query) {}, func(yield func(Point, error) bool) { _ = yield(points[0], nil) && yield(Point{}, failed) }, failed},
	} {
		q := ok
		x.change(&q)
		var err error
		for _, e := range q.Aggregate(x.points) {
			err = e
		}
		if !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", name, err, x.want)
		}
	}
}

func TestRowsThatDoNotFitAreRefused(t *testing.T) {
	row := func(start, end int64, percentiles bool) Row {
		s := NewSummary(percentiles)
		_ = s.Add(Point{start, value.Int(1)})
		return Row{start, end, s}
	}
	for name, x := range map[string]struct {
		q    Query
		row  Row
		want error
	}{
		"in two buckets":      {Query{Funcs: []Func{Avg}, Grid: mustGrid(t, "10s", "UTC")}, row(5000, 15_000, false), ErrCut},
		"over the beginning":  {Query{Funcs: []Func{Avg}, From: 6000}, row(5000, 15_000, false), ErrCut},
		"over the end":        {Query{Funcs: []Func{Avg}, To: 6000}, row(5000, 15_000, false), ErrCut},
		"without percentiles": {Query{Funcs: []Func{"p50"}}, row(5000, 15_000, false), ErrNoPercentiles},
		"before the last":     {Query{Funcs: []Func{Avg}}, row(-5000, 0, false), ErrOrder},
		"that fit":            {Query{Funcs: []Func{Avg, "p50"}, From: 5000, To: 15_000}, row(5000, 15_000, true), nil},
		"before the range":    {Query{Funcs: []Func{"p50"}, From: 15_000}, row(5000, 15_000, false), nil},
		"behind the range":    {Query{Funcs: []Func{"p50"}, To: 5000}, row(5000, 15_000, false), nil},
	} {
		a, err := NewAggregator(x.q, func(Bucket) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Add(Point{0, value.Int(1)})
		if err := a.AddRow(x.row); !errors.Is(err, x.want) || x.want == nil && err != nil {
			t.Errorf("a row %s: error %v, want %v", name, err, x.want)
		}
	}
}

func TestAnAnswerCanBeBrokenOff(t *testing.T) {
	read := 0
	points := func(yield func(Point, error) bool) {
		for i := range int64(1000) {
			read++
			if !yield(Point{i * 10_000, value.Int(i)}, nil) {
				return
			}
		}
	}
	q := Query{Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Max}}
	for b, err := range q.Aggregate(points) {
		if err != nil {
			t.Fatal(err)
		}
		if b.Start == 50_000 {
			break
		}
	}
	if read > 10 {
		t.Errorf("%d points were read", read)
	}
	failed := errors.New("the connection is gone")
	a, err := NewAggregator(q, func(Bucket) error { return failed })
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Add(Point{0, value.Int(1)})
	if err := a.Add(Point{10_000, value.Int(1)}); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
}

func TestFuncsByName(t *testing.T) {
	for name, want := range map[string]Func{"min": Min, "rate": Rate, "p50": "p50", "p99.90": "p99.9", "p0": "p0", "p100": "p100", "p5.": "p5"} {
		if got, err := ParseFunc(name); err != nil || got != want {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"", "p", "p-1", "p100.1", "p1e1", "pNaN", "mean", "MIN", "p 5", "p.", "p1.2.3"} {
		if got, err := ParseFunc(name); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
	if Percentile(99.9) != "p99.9" || Percentile(50) != "p50" {
		t.Error("percentiles have other names")
	}
}

func TestFillsByName(t *testing.T) {
	for text, want := range map[string]Fill{
		"": {}, "none": {}, "null": {Mode: FillNull}, "previous": {Mode: FillPrevious}, "linear": {Mode: FillLinear},
		"0": {FillValue, value.Int(0)}, "-1.5": {FillValue, finite(-1.5)}, "1e3": {FillValue, finite(1000)}, "99999999999999999999": {FillValue, finite(1e20)},
	} {
		if got, err := ParseFill(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"value", "NaN", "Inf", "0x1", "1_0", "true", `"1"`, "1e999", "prev", " 1", "+1"} {
		if got, err := ParseFill(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

func TestBucketsBelongToTheirReceiver(t *testing.T) {
	q := Query{Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Max}, Fill: Fill{Mode: FillPrevious}}
	var got []string
	for b, err := range q.Aggregate(Each([]Point{{1000, value.Int(1)}, {31_000, value.Int(2)}})) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b.Values[0].String())
		b.Values[0] = value.Int(99)
	}
	if fmt.Sprint(got) != "[1 1 1 2]" {
		t.Errorf("after a receiver wrote to its buckets they are %v", got)
	}
}
