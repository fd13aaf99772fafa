package series

import (
	"fmt"
	"iter"
	"math"
)

// Downsample returns n points that look like all of them in a chart, by Largest Triangle Three
// Buckets (Steinarsson, Downsampling Time Series for Visual Representation, 2013): the first and
// the last point, and from each of n-2 parts with the same number of points the one that forms the
// largest triangle with the point chosen before and the average of the next part. Of equal
// triangles it takes the first. If there are no more than n points it returns all of them, and if n
// is 2 or less the two ends.
//
// The points must be in the order of time. It returns a new slice.
func Downsample(points []Point, n int) []Point {
	var chosen []Point
	for p, err := range DownsampleEach(Each(points), len(points), n) {
		if err != nil {
			return nil // there are as many points as were announced
		}
		chosen = append(chosen, p)
	}
	return chosen
}

// DownsampleEach is Downsample for total points that are read one after the other. It holds two of
// the n-2 parts at a time. An error of points ends it; an error that wraps ErrTotal says that there
// were not total points.
func DownsampleEach(points iter.Seq2[Point, error], total, n int) iter.Seq2[Point, error] {
	return func(yield func(Point, error) bool) {
		d := sampler{total: total, parts: max(n-2, 0), all: total <= max(n, 2), yield: yield}
		for p, err := range points {
			if err == nil && d.seen == total {
				err = fmt.Errorf("%w: more than %d", ErrTotal, total)
			}
			if err != nil {
				yield(Point{}, err)
				return
			}
			if !d.add(p) {
				return
			}
		}
		if d.seen != total {
			yield(Point{}, fmt.Errorf("%w: %d in place of %d", ErrTotal, d.seen, total))
		}
	}
}

// sampler reads the points part by part. The first and the last are not in any.
type sampler struct {
	total, parts int
	all          bool
	yield        func(Point, error) bool

	seen          int
	chosen        Point
	present, next []Point
	number        int // of the part that next is
}

// end returns how many points are before the end of a part, counted from 0.
func (d *sampler) end(part int) int {
	return 1 + int(math.Floor(float64(part+1)*float64(d.total-2)/float64(d.parts)))
}

// add takes a point and reports whether more are wanted.
func (d *sampler) add(p Point) bool {
	d.seen++
	switch {
	case d.all || d.seen == 1:
		d.chosen = p
		return d.yield(p, nil)
	case d.seen == d.total:
		return (d.parts == 0 || d.choose(d.present, d.next) && d.choose(d.next, []Point{p})) && d.yield(p, nil)
	case d.parts == 0:
		return true
	}
	if d.seen > d.end(d.number) {
		if !d.choose(d.present, d.next) {
			return false
		}
		d.number++
		d.present, d.next = d.next, d.present[:0]
	}
	d.next = append(d.next, p)
	return true
}

// choose hands out the point of a part that makes the largest triangle with the
// one chosen before and the average of the part after it.
func (d *sampler) choose(part, after []Point) bool {
	if len(part) == 0 {
		return true
	}
	origin, x, y := d.chosen.TS, 0.0, 0.0 // times are taken from here: they are large
	for _, p := range after {
		x += float64(p.TS-origin) / float64(len(after))
		y += float(p.Value) / float64(len(after))
	}
	best, largest := part[0], -1.0
	for _, p := range part {
		// Twice the area; the chosen point is at x = 0.
		area := math.Abs(x*(float(p.Value)-float(d.chosen.Value)) - float64(p.TS-origin)*(y-float(d.chosen.Value)))
		if area > largest {
			best, largest = p, area
		}
	}
	d.chosen = best
	return d.yield(best, nil)
}
