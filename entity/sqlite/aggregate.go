package sqlite

import (
	"context"

	"github.com/greenroom-go/greenroom/entity"
)

// aggregation is one call of Aggregate.
type aggregation struct {
	s       *Store
	ctx     context.Context //nolint:containedctx // lives as long as one call of Aggregate
	id, key string
	step    int64
	limit   int
	buckets []entity.Bucket
}

// run sums up a range: in SQL where the tables are complete, and here from the first to
// the last bucket of which the tail has something. A point of the tail may take the
// place of one in the tables, so that sums cannot be added up.
func (a *aggregation) run(from, to int64) error {
	tail := a.s.tail.series(a.id, a.key, from, to)
	if len(tail) == 0 {
		return a.tables(from, to)
	}
	first := max(from, a.start(tail[0].ts))
	last := min(to, a.start(tail[len(tail)-1].ts)+a.step)
	if err := a.tables(from, first); err != nil {
		return err
	}
	if err := a.points(first, last); err != nil {
		return err
	}
	return a.tables(last, to)
}

// start is where the bucket of a time begins.
func (a *aggregation) start(ts int64) int64 { return ts / a.step * a.step }

// tables sums up what the tables have.
func (a *aggregation) tables(from, to int64) error {
	if from >= to || len(a.buckets) >= a.limit {
		return nil
	}
	rows, err := a.s.queries.aggregate.QueryContext(a.ctx, a.id, a.key, from, to, a.step, a.limit-len(a.buckets))
	if err != nil {
		return err
	}
	return scan(rows, func() error {
		var b entity.Bucket
		err := rows.Scan(&b.TS, &b.Count, &b.Avg, &b.Min, &b.Max, &b.Sum)
		a.buckets = append(a.buckets, b)
		return err
	})
}

// aggregatePage is how many points are read at once.
const aggregatePage = 10_000

// points sums up what the tables and the tail have.
func (a *aggregation) points(from, to int64) error {
	for len(a.buckets) <= a.limit {
		page, err := a.s.history(a.ctx, a.id, a.key, from, to, aggregatePage, false)
		if err != nil {
			return err
		}
		for i := range page {
			if n, ok := page[i].Value.Number(); ok {
				a.add(page[i].TS, n)
			}
		}
		if len(page) < aggregatePage {
			break
		}
		from = page[len(page)-1].TS + 1
	}
	a.buckets = a.buckets[:min(len(a.buckets), a.limit)]
	return nil
}

func (a *aggregation) add(ts int64, n float64) {
	start := a.start(ts)
	if len(a.buckets) == 0 || a.buckets[len(a.buckets)-1].TS != start {
		a.buckets = append(a.buckets, entity.Bucket{TS: start, Min: n, Max: n})
	}
	b := &a.buckets[len(a.buckets)-1]
	b.Count++
	b.Sum += n
	b.Avg = b.Sum / float64(b.Count)
	b.Min, b.Max = min(b.Min, n), max(b.Max, n)
}
