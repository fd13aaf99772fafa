package server

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
)

// parseFilter compiles a filter, or says what is wrong with it.
func parseFilter(text string) (*filter.Filter, error) {
	f, err := filter.Parse(text)
	if err != nil {
		return nil, filterError(err)
	}
	return f, nil
}

func filterError(err error) error {
	p := problemf(http.StatusBadRequest, "%v", err)
	if at, ok := errors.AsType[*filter.Error](err); ok {
		p.extra = map[string]any{"offset": at.Offset, "column": at.Column}
	}
	return p
}

// matcher evaluates one filter for a number of entities. It is used by one
// goroutine at a time.
type matcher struct {
	server *Server
	filter *filter.Filter
	env    filter.Env
}

func (s *Server) newMatcher(f *filter.Filter) *matcher {
	return &matcher{server: s, filter: f, env: filter.Env{Now: time.Now().UnixMilli()}}
}

// match tells whether an entity is one that the filter is about. What it needs of
// other entities it asks of them.
func (m *matcher) match(ctx context.Context, v entity.View) bool {
	return m.filter.Match(m.server.viewOf(ctx, v), &m.env)
}

// err is what kept the matches from an answer.
func (m *matcher) err() error {
	if err := m.env.Err(); err != nil {
		return problemf(http.StatusUnprocessableEntity, "%v; a filter that looks at fewer related entities is right", err)
	}
	return nil
}

// viewOf shows an entity to a filter. The entities that are related to it are seen as
// the store has them: the actor of one may be waiting for the one that asks. Those that
// cannot be read do not match; only the end of ctx ends the search.
func (s *Server) viewOf(ctx context.Context, v entity.View) *entityview.View {
	return entityview.New(v, func(id string, look func(entity.View)) error {
		_ = s.runtime.Scan(ctx, entity.ListQuery{IDs: []string{id}}, func(other entity.View) bool {
			look(other)
			return false
		})
		return ctx.Err()
	})
}
