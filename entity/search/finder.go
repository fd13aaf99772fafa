package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

const (
	// CountTimeout bounds the duration of a Count.
	CountTimeout = 25 * time.Second

	// indexedChunk is how many entities are taken from the index at once.
	indexedChunk = 200
)

// ErrCountTimeout reports that a count took longer than CountTimeout. The same count
// may be quick later, once its columns are in the index.
var ErrCountTimeout = errors.New("counting takes too long")

// Query selects entities. An entity has to satisfy all the fields.
type Query struct {
	// Filter must not be nil. The filter of the empty text matches every entity.
	Filter *filter.Filter
	// Type, if not empty, is a type that the entity has or extends.
	Type string
	// Text, if not empty, is what entity.ListQuery.Search looks for.
	Text string
	// After, if not empty, leaves out the ids up to it.
	After string
}

// Finder finds the entities of a runtime. Its methods may be called concurrently.
// Make it with New.
type Finder struct {
	rt    *entity.Runtime
	index *index
}

// New returns a Finder for rt. It starts no goroutine and reads nothing until the
// first search that an index would help. Call Close before the runtime is closed.
func New(rt *entity.Runtime, log *slog.Logger) *Finder {
	return &Finder{rt: rt, index: newIndex(rt, log)}
}

// Close stops maintaining the index and waits for the goroutines that do.
func (f *Finder) Close() { f.index.close() }

// Columns returns how many paths are indexed.
func (f *Finder) Columns() int { return f.index.width() }

// Each calls fn with the entities that the query has to examine, in the order of their ids, and
// with whether each matches, until fn returns false. Entities that the store or the index can rule
// out are skipped. fn must not keep the view.
//
// It returns an error that wraps filter.ErrVisits if the filter examines too many related entities,
// or the error of ctx or of the store.
func (f *Finder) Each(ctx context.Context, q Query, fn func(v entity.View, matched bool) bool) error {
	m := NewMatcher(f.rt, q.Filter)
	plan := q.Filter.Plan(m.env.Now)
	if plan.Never {
		return nil
	}
	list := entity.ListQuery{After: q.After, Search: q.Text, IDs: planIDs(&plan)}
	if len(list.IDs) == 0 {
		reached, done, err := f.eachIndexed(ctx, &q, m, fn)
		if done {
			return cmp.Or(err, context.Cause(ctx))
		}
		list.After = reached
	}
	is := plan.Is
	if q.Type != "" {
		is = append(is, q.Type)
	}
	if len(is) > 0 {
		if list.Types = f.subtypes(is); len(list.Types) == 0 {
			return nil
		}
	}
	err := f.rt.Scan(ctx, list, func(v entity.View) bool {
		matched := m.Match(ctx, v)
		return m.Err() == nil && ctx.Err() == nil && fn(v, matched)
	})
	return cmp.Or(m.Err(), err, context.Cause(ctx))
}

// eachIndexed is Each by the index. done is false where the index cannot answer, or not
// to the end; then reached is the last id that was considered. The entities that the
// index finds are read and matched again, so that those passed to fn match now.
func (f *Finder) eachIndexed(ctx context.Context, q *Query, m *Matcher, fn func(v entity.View, matched bool) bool) (reached string, done bool, err error) {
	for reached = q.After; ; {
		found, unlock, ok := f.index.lookup(ctx, q)
		if !ok {
			return reached, false, nil
		}
		var ids []string
		found.each(reached, func(id string) bool {
			ids = append(ids, id)
			return len(ids) < indexedChunk
		})
		unlock()
		if len(ids) == 0 {
			return reached, true, nil
		}
		more := true
		err := f.rt.Scan(ctx, entity.ListQuery{IDs: ids}, func(v entity.View) bool {
			more = !m.Match(ctx, v) || fn(v, true)
			return more
		})
		if err != nil || !more || len(ids) < indexedChunk {
			return reached, true, err
		}
		reached = ids[len(ids)-1]
	}
}

// Count returns how many entities match; q.After is ignored. It has to examine every entity, so it
// waits for the index if that would help. After CountTimeout it returns ErrCountTimeout; otherwise
// its errors are those of Each.
func (f *Finder) Count(ctx context.Context, q Query) (int64, error) {
	q.After = ""
	began := time.Now()
	waiting, stop := context.WithTimeout(ctx, CountTimeout)
	f.index.await(waiting, &q)
	stop()
	n := int64(0)
	if found, unlock, ok := f.index.lookup(ctx, &q); ok {
		defer unlock()
		found.each("", func(string) bool { n++; return true })
		return n, nil
	}
	timedOut := false
	err := f.Each(ctx, q, func(_ entity.View, matched bool) bool {
		if matched {
			n++
		}
		timedOut = time.Since(began) > CountTimeout
		return !timedOut
	})
	if timedOut {
		return 0, fmt.Errorf("%w: more than %v", ErrCountTimeout, CountTimeout)
	}
	return n, err
}

// planIDs returns the ids that a plan allows, nil for all.
func planIDs(plan *filter.Plan) []string {
	for i := range plan.Bounds {
		b := &plan.Bounds[i]
		if b.Path.Root != filter.RootID || b.TS || len(b.Values) == 0 {
			continue
		}
		ids := make([]string, 0, len(b.Values))
		for _, v := range b.Values {
			ids = append(ids, v.Text())
		}
		return ids
	}
	return nil
}

// subtypes returns the types that are, or extend, every one of the bases.
func (f *Finder) subtypes(bases []string) []string {
	var list []string
	known := f.rt.Types()
	for i := range known {
		resolved, err := f.rt.ResolvedType(known[i].ID)
		if err != nil {
			continue // deleted since
		}
		if !slices.ContainsFunc(bases, func(id string) bool { return !resolved.IsA[id] }) {
			list = append(list, known[i].ID)
		}
	}
	return list
}
