package search

import (
	"context"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

// Matcher evaluates one filter for entities, at one present time. One goroutine at a
// time may use it. Make it with NewMatcher.
type Matcher struct {
	rt     *entity.Runtime
	filter *filter.Filter
	env    filter.Env
}

// NewMatcher returns a Matcher that reads related entities from rt.
func NewMatcher(rt *entity.Runtime, f *filter.Filter) *Matcher {
	m := &Matcher{rt: rt, filter: f}
	m.Reset()
	return m
}

// Reset sets the time that the filter calls now to the present, and forgets the related
// entities that were counted against its limit.
func (m *Matcher) Reset() { m.env = filter.Env{Now: time.Now().UnixMilli()} }

// Match reports whether the filter matches an entity. It may read related entities from
// the store. After it, Err says whether the answer can be relied on.
func (m *Matcher) Match(ctx context.Context, v entity.View) bool {
	return m.filter.Match(filterView(ctx, m.rt, v), &m.env)
}

// Err returns an error that wraps filter.ErrVisits once the matches since Reset have
// looked at too many related entities; their results are unreliable then.
func (m *Matcher) Err() error { return m.env.Err() }

// filterView shows an entity to a filter. Related entities are shown as the store has
// them, because the actor of one may be waiting for the caller. A related entity that
// cannot be read does not match; only the end of ctx ends the search.
func filterView(ctx context.Context, rt *entity.Runtime, v entity.View) *entityview.View {
	return entityview.New(v, func(id string, look func(entity.View)) error {
		_ = rt.Scan(ctx, entity.ListQuery{IDs: []string{id}}, func(other entity.View) bool {
			look(other)
			return false
		})
		return ctx.Err()
	})
}
