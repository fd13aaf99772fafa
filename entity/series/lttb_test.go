package series

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// modelLTTB is the algorithm as its author wrote it down, over the whole list.
func modelLTTB(points []Point, n int) []Point {
	if len(points) <= max(n, 2) {
		return points
	}
	if n <= 2 {
		return []Point{points[0], points[len(points)-1]}
	}
	x := func(i int) float64 { return float64(points[i].TS - points[0].TS) }
	y := func(i int) float64 { return float(points[i].Value) }
	end := func(part int) int { return 1 + (part+1)*(len(points)-2)/(n-2) }
	chosen := []int{0}
	for part := range n - 2 {
		from, to := 1, end(part)
		if part > 0 {
			from = end(part - 1)
		}
		nextTo := len(points)
		if part < n-3 {
			nextTo = end(part + 1)
		}
		ax, ay := 0.0, 0.0
		for i := to; i < nextTo; i++ {
			ax += x(i) / float64(nextTo-to)
			ay += y(i) / float64(nextTo-to)
		}
		a := chosen[len(chosen)-1]
		best, largest := from, -1.0
		for i := from; i < to; i++ {
			area := math.Abs((x(a)-ax)*(y(i)-y(a)) - (x(a)-x(i))*(ay-y(a)))
			if area > largest*(1+1e-12) {
				best, largest = i, area
			}
		}
		chosen = append(chosen, best)
	}
	var out []Point
	for _, i := range append(chosen, len(points)-1) {
		out = append(out, points[i])
	}
	return out
}

func TestDownsampleAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 13))
		points := make([]Point, r.IntN(300))
		ts := int64(1_700_000_000_000)
		for i := range points {
			ts += 1 + r.Int64N(100_000)
			points[i] = Point{ts, finite(math.Sin(float64(i)/20)*10 + r.NormFloat64())}
		}
		n := r.IntN(80)
		got, want := Downsample(points, n), modelLTTB(points, n)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d of %d points:\n got %v\nwant %v", seed, n, len(points), got, want)
		}
	}
}

func TestDownsampleKeepsEndsAndPeaks(t *testing.T) {
	points := make([]Point, 10_000)
	for i := range points {
		points[i] = Point{int64(i) * 60_000, finite(20)}
	}
	points[4321].Value = finite(90)
	got := Downsample(points, 100)
	if len(got) != 100 || got[0] != points[0] || got[99] != points[9999] || !slices.Contains(got, points[4321]) {
		t.Errorf("%d points, from %v to %v", len(got), got[0], got[len(got)-1])
	}
	if !slices.IsSortedFunc(got, func(a, b Point) int { return cmp.Compare(a.TS, b.TS) }) {
		t.Error("they are not in order")
	}
	for n, want := range map[int]int{0: 2, 1: 2, 2: 2, 3: 3, 9999: 9999, 10_000: 10_000, 20_000: 10_000} {
		if got := Downsample(points, n); len(got) != want {
			t.Errorf("%d points are %d", n, len(got))
		}
	}
	if len(Downsample(nil, 5)) != 0 || len(Downsample(points[:1], 0)) != 1 {
		t.Error("none, or one")
	}
}

func TestDownsampleEachComplainsAboutTheTotal(t *testing.T) {
	points := make([]Point, 100)
	for i := range points {
		points[i] = Point{int64(i), value.Int(int64(i))}
	}
	failed := errors.New("the disk is gone")
	for _, x := range []struct {
		points func(yield func(Point, error) bool)
		total  int
		want   error
	}{
		{Each(points), 100, nil},
		{Each(points), 99, ErrTotal},
		{Each(points), 101, ErrTotal},
		{Each(points), 0, ErrTotal},
		{func(yield func(Point, error) bool) { _ = yield(points[0], nil) && yield(Point{}, failed) }, 100, failed},
	} {
		var err error
		for _, e := range DownsampleEach(x.points, x.total, 10) {
			err = e
		}
		if !errors.Is(err, x.want) {
			t.Errorf("of %d: error %v, want %v", x.total, err, x.want)
		}
	}
	for p, err := range DownsampleEach(Each(points), 100, 10) {
		if err != nil || p != points[0] {
			t.Errorf("it begins with %v, %v", p, err)
		}
		break
	}
}

func TestDownsampleTakesTheFirstOfEqualTriangles(t *testing.T) {
	points := make([]Point, 12)
	for i := range points {
		points[i] = Point{int64(i), value.Int(7)}
	}
	want := []Point{points[0], points[1], points[6], points[11]}
	if got := Downsample(points, 4); !slices.Equal(got, want) {
		t.Errorf("a flat line is %v, want %v", got, want)
	}
}
