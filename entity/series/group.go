package series

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Group makes one series of several: their points are pooled, bucket by bucket, as if one entity
// had reported them all. So an average gives each point the same weight; see [Across] for one that
// gives each series the same weight. The rate of a group is the sum of the rates of its members.
// First and Last are the earliest and the latest point of any of them (for equal times, of the
// member that was added first), and percentiles are those of all points together.
//
// It keeps one Summary for each bucket that has points. It must not be used concurrently, and
// members are added one after the other.
type Group struct {
	query   Query
	buckets map[int64]*pooled
}

type pooled struct {
	start, end int64
	summary    Summary
	rate       value.Sum
	rated      bool
}

// NewGroup returns an empty group, or an error that wraps ErrInvalid.
func NewGroup(q Query) (*Group, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	return &Group{query: q, buckets: make(map[int64]*pooled)}, nil
}

// Member returns an aggregator for the points and rows of one member. They are part of the group
// once it is closed. It returns ErrTooManyBuckets when the members together have too many.
func (g *Group) Member() *Aggregator {
	a := &Aggregator{filler: filler{query: g.query}, need: needs(g.query.Funcs)}
	a.query.Fill = Fill{}
	a.summary.kept = a.need
	a.sink = g.pool
	return a
}

// Add adds the points of one member, in the order of their time.
func (g *Group) Add(points iter.Seq2[Point, error]) error { return g.Member().addAll(points) }

func (g *Group) pool(start, end int64, s *Summary, before Point) error {
	p := g.buckets[start]
	if p == nil {
		most := g.query.MaxBuckets
		if most == 0 {
			most = DefaultMaxBuckets
		}
		if len(g.buckets) >= most {
			return fmt.Errorf("%w: more than %d; ask for a longer step or a shorter range", ErrTooManyBuckets, most)
		}
		p = &pooled{start: start, end: end, summary: Summary{kept: s.kept}}
		g.buckets[start] = p
	}
	if rate := s.value(Rate, before); !rate.IsZero() {
		p.rate.Add(rate)
		p.rated = true
	}
	p.summary.pool(s)
	return nil
}

// Buckets returns the buckets of the group, with the query's fill.
func (g *Group) Buckets() iter.Seq2[Bucket, error] {
	return stream(func(emit func(Bucket) error) error {
		f := filler{query: g.query, emit: emit}
		for _, start := range slices.Sorted(maps.Keys(g.buckets)) {
			if err := f.bucket(g.buckets[start].bucket(g.query.Funcs)); err != nil {
				return err
			}
		}
		return f.close()
	})
}

func (p *pooled) bucket(funcs []Func) Bucket {
	b := Bucket{Start: p.start, End: p.end, Count: p.summary.Count, Values: make([]value.Value, len(funcs))}
	for i, f := range funcs {
		switch {
		case f != Rate:
			b.Values[i] = p.summary.Value(f)
		case p.rated:
			b.Values[i] = finite(p.rate.Float())
		}
	}
	return b
}
