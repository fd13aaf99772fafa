package mapping

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// runtimeReader is the Reader of an entity runtime.
type runtimeReader struct{ rt *entity.Runtime }

// idsAtOnce is how many entities are read with one query.
const idsAtOnce = 500

// Match reads all entities whose id has the longest literal of the pattern.
func (r *runtimeReader) Match(ctx context.Context, pattern string, f func(id string, v View)) error {
	p, err := filter.ParsePattern(pattern)
	if err != nil {
		return err
	}
	longest := slices.MaxFunc(p.Literals(), func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	return r.rt.Scan(ctx, entity.ListQuery{Search: longest}, func(v entity.View) bool {
		if p.Match(v.ID()) {
			f(v.ID(), v)
		}
		return ctx.Err() == nil
	})
}

// Entities reads the entities as committed, without starting them.
func (r *runtimeReader) Entities(ctx context.Context, ids []string, f func(id string, v View)) error {
	for chunk := range slices.Chunk(ids, idsAtOnce) {
		err := r.rt.Scan(ctx, entity.ListQuery{IDs: chunk}, func(v entity.View) bool {
			f(v.ID(), v)
			return ctx.Err() == nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Points reads the history by pages.
func (r *runtimeReader) Points(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	var all []entity.Point
	q := entity.HistoryQuery{ID: id, Key: key, From: from, To: to, Descending: descending}
	if from >= to {
		return nil, nil
	}
	for {
		q.Limit = min(limit-len(all), entity.MaxHistoryLimit)
		points, next, err := r.rt.History(ctx, q)
		if errors.Is(err, entity.ErrNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, points...)
		if next == "" || len(all) >= limit {
			return all, nil
		}
		q.Cursor = next
	}
}

// Related reads the relations of an entity.
func (r *runtimeReader) Related(ctx context.Context, rel Relation) (ids []string, err error) {
	direction := entity.Out
	if rel.Incoming {
		direction = entity.In
	}
	edges, err := r.rt.Relations(ctx, rel.Entity, direction)
	if errors.Is(err, entity.ErrNotFound) {
		return nil, nil
	}
	for _, e := range edges {
		switch {
		case e.Type != rel.Type:
		case rel.Incoming:
			ids = append(ids, e.From)
		default:
			ids = append(ids, e.To)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), err
}
