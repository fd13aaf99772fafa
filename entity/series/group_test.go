package series

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// modelGroup pools series the obvious way.
func modelGroup(q Query, members [][]Point) []Bucket {
	type member struct {
		Point
		series int
	}
	var all []member
	for i, points := range members {
		for _, p := range points {
			all = append(all, member{p, i})
		}
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(a.series, b.series)) })
	var together []Point
	for _, m := range all {
		together = append(together, m.Point)
	}
	answer := modelAnswer(Query{From: q.From, To: q.To, Grid: q.Grid, Funcs: q.Funcs, Fill: Fill{Mode: FillNull}}, together)
	for i := range answer {
		b := &answer[i]
		if b.Count == 0 {
			continue
		}
		for j, f := range q.Funcs {
			switch f {
			case Rate:
				b.Values[j] = modelGroupRate(q, members, b.Start, b.End)
			case Last: // of equal times the first member's
				for _, m := range all {
					if q.within(m.TS) && m.TS >= b.Start && m.TS < b.End && (m.TS > lastTS(all[0].TS, together, q, b)-1) {
						b.Values[j] = m.Value
						break
					}
				}
			default: // the same as of one series
			}
		}
	}
	modelFill(Query{From: q.From, Funcs: q.Funcs, Fill: q.Fill}, nil, answer)
	if q.Fill.Mode == FillNone {
		answer = slices.DeleteFunc(answer, func(b Bucket) bool { return b.Count == 0 })
	}
	return answer
}

// lastTS is the time of the last point in a bucket.
func lastTS(ts int64, points []Point, q Query, b *Bucket) int64 {
	for _, p := range points {
		if p.TS >= b.Start && p.TS < b.End && q.within(p.TS) {
			ts = max(ts, p.TS)
		}
	}
	return ts
}

func modelGroupRate(q Query, members [][]Point, start, end int64) value.Value {
	var whole value.Sum
	rated := false
	for _, points := range members {
		if n := modelBucket(Query{From: q.From, To: q.To, Funcs: []Func{Rate}}, points, start, end).Values[0]; !n.IsZero() {
			whole.Add(n)
			rated = true
		}
	}
	if !rated {
		return value.Value{}
	}
	return sum(&whole)
}

func TestGroupAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 12))
		var members [][]Point
		var longest []Point
		for range 1 + r.IntN(4) {
			points := tame(walk(r, r.IntN(30)))
			for i := range points { // times that several have
				points[i].TS -= points[i].TS % 1000
			}
			points = slices.CompactFunc(points, func(a, b Point) bool { return a.TS == b.TS })
			members = append(members, points)
			if len(points) > len(longest) {
				longest = points
			}
		}
		q := randomQuery(t, r, longest)
		if q.Grid.IsZero() {
			q.Grid = mustGrid(t, "30s", "UTC")
		}
		q.Funcs = append(q.Funcs, First, Last, "p50")
		g, err := NewGroup(q)
		if err != nil {
			t.Fatal(err)
		}
		for i, points := range members {
			if i%2 == 0 {
				err = g.Add(Each(points))
			} else { // the same as rows
				m := g.Member()
				for _, row := range rowsOf(t, points, 1000, true) {
					err = errors.Join(err, m.AddRow(row))
				}
				err = errors.Join(err, m.Close())
			}
			if err != nil && !errors.Is(err, ErrCut) {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
		}
		if err != nil {
			continue // the range cuts a row
		}
		compareAnswers(t, fmt.Sprintf("seed %d: %+v", seed, q), q.Funcs, collect(t, g.Buckets()), modelGroup(q, members))
	}
}

func TestGroupIsBounded(t *testing.T) {
	g, err := NewGroup(Query{Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Avg}, MaxBuckets: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Add(Each([]Point{{0, value.Int(1)}, {10_000, value.Int(1)}})); err != nil {
		t.Fatal(err)
	}
	if err := g.Add(Each([]Point{{10_000, value.Int(1)}, {20_000, value.Int(1)}})); !errors.Is(err, ErrTooManyBuckets) {
		t.Errorf("error %v", err)
	}
	if _, err := NewGroup(Query{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a group of nothing: %v", err)
	}
}

func TestAlign(t *testing.T) {
	grid := mustGrid(t, "10s", "UTC")
	q := Query{Grid: grid, Funcs: []Func{Avg, Count}}
	a := q.Aggregate(Each([]Point{{1000, value.Int(1)}, {21_000, value.Int(3)}}))
	b := q.Aggregate(Each([]Point{{11_000, value.Int(5)}, {22_000, value.Int(7)}, {23_000, value.Int(9)}}))
	c := q.Aggregate(Each(nil))
	var got []string
	for line, err := range Align(a, b, c) {
		if err != nil {
			t.Fatal(err)
		}
		s := fmt.Sprint(line.Start / 1000)
		for _, x := range line.Buckets {
			s += fmt.Sprint(" ", x.Values)
		}
		got = append(got, s)
	}
	if want := `[0 [1 1] [] [] 10 [] [5 1] [] 20 [3 1] [8 2] []]`; fmt.Sprint(got) != want {
		t.Errorf("lines %v, want %v", got, want)
	}
	for line, err := range Align(a, b) { // read again, and broken off
		if err != nil || line.Start != 0 {
			t.Errorf("line %v, %v", line, err)
		}
		break
	}
}

func TestAlignPassesErrorsOn(t *testing.T) {
	q := Query{Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Avg}}
	other := Query{Grid: mustGrid(t, "20s", "UTC"), Funcs: []Func{Avg}}
	points := []Point{{1000, value.Int(1)}, {30_000, value.Int(1)}}
	backwards := []Point{{1000, value.Int(1)}, {30_000, value.Int(1)}, {0, value.Int(1)}}
	for name, x := range map[string]struct {
		lines func(yield func(Line, error) bool)
		want  error
	}{
		"other grids": {Align(q.Aggregate(Each(points)), other.Aggregate(Each(points))), ErrInvalid},
		"order":       {Align(q.Aggregate(Each(points)), q.Aggregate(Each(backwards))), ErrOrder},
		"at once":     {Align(q.Aggregate(Each(points)), Query{}.Aggregate(Each(points))), ErrInvalid},
	} {
		var err error
		for _, e := range x.lines {
			err = e
		}
		if !errors.Is(err, x.want) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestAcross(t *testing.T) {
	q := Query{Grid: mustGrid(t, "10s", "UTC"), Funcs: []Func{Avg, Max}, Fill: Fill{Mode: FillNull}, From: 1, To: 40_000}
	a := q.Aggregate(Each([]Point{{1000, value.Int(1)}, {2000, value.Int(3)}, {21_000, value.Int(4)}}))
	b := q.Aggregate(Each([]Point{{5000, value.Int(10)}, {12_000, value.Int(6)}}))
	for f, want := range map[Func]string{
		Sum:   `[0:[12 13] 10:[6 6] 20:[4 4] 30:[null null]]`,
		Avg:   `[0:[6 6.5] 10:[6 6] 20:[4 4] 30:[null null]]`,
		Max:   `[0:[10 10] 10:[6 6] 20:[4 4] 30:[null null]]`,
		Count: `[0:[2 2] 10:[1 1] 20:[1 1] 30:[0 0]]`,
		"p50": `[0:[6 6.5] 10:[6 6] 20:[4 4] 30:[null null]]`,
	} {
		buckets := collect(t, Across(f, Align(a, b)))
		if got := show(buckets); got != want {
			t.Errorf("%s: %s, want %s", f, got, want)
		}
		if buckets[0].Count != 2 || buckets[3].Count != 0 {
			t.Errorf("%s: %d and %d series", f, buckets[0].Count, buckets[3].Count)
		}
	}
	for _, f := range []Func{First, Last, Rate, "x"} {
		for _, err := range Across(f, Align(a, b)) {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: error %v", f, err)
			}
		}
	}
}

func (q *Query) within(ts int64) bool { return ts >= q.From && (q.To == 0 || ts < q.To) }
