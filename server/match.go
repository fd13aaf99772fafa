package server

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
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
	return m.filter.Match(&filterView{View: v, ctx: ctx, server: m.server}, &m.env)
}

// err is what kept the matches from an answer.
func (m *matcher) err() error {
	if err := m.env.Err(); err != nil {
		return problemf(http.StatusUnprocessableEntity, "%v; a filter that looks at fewer related entities is right", err)
	}
	return nil
}

// filterView shows an entity to a filter.
type filterView struct {
	entity.View
	ctx    context.Context //nolint:containedctx // of the match that it lives for
	server *Server
	edge   entity.Value // the properties of the relation that led here
}

var filterSections = map[filter.Root]entity.Section{
	filter.RootAttributes: entity.Attributes, filter.RootDesired: entity.Desired, filter.RootReported: entity.Reported,
}

// Lookup returns the value at a path.
func (v *filterView) Lookup(p *filter.Path) (filter.Value, bool) {
	switch p.Root {
	case filter.RootID:
		return filter.String(v.ID()), true
	case filter.RootType:
		return filter.String(v.Type()), v.Type() != ""
	case filter.RootCreated:
		return filter.Time(v.Created()), true
	case filter.RootUpdated:
		return filter.Time(v.Updated()), v.Updated() != 0
	case filter.RootLatest:
		l, ok := v.Latest(p.Name)
		return filterValue(l.Value), ok
	case filter.RootRelation:
		return filter.JSONAt(v.edge.Text(), p.Name)
	case filter.RootDelta:
		return v.delta(p)
	default:
		section := filterSections[p.Root]
		if a, ok := v.Attribute(section, p.Name); ok {
			return filterValue(a.Value), true
		}
		return filter.JSON("{}"), v.Has(section, p.Name)
	}
}

// delta returns what desired has at a path and reported has not.
func (v *filterView) delta(p *filter.Path) (filter.Value, bool) {
	var desired, reported []entity.Attribute
	for a := range v.EachAttribute(entity.Desired) {
		desired = append(desired, a)
	}
	for a := range v.EachAttribute(entity.Reported) {
		reported = append(reported, a)
	}
	for _, a := range entity.Delta(desired, reported) {
		switch {
		case a.Path == p.Name:
			return filterValue(a.Value), true
		case strings.HasPrefix(a.Path, p.Name+"/"):
			return filter.JSON("{}"), true
		}
	}
	return filter.Value{}, false
}

// Time returns when the value at a path was measured or set.
func (v *filterView) Time(p *filter.Path) (int64, bool) {
	switch p.Root {
	case filter.RootLatest:
		l, ok := v.Latest(p.Name)
		return l.TS, ok
	case filter.RootDelta:
		if _, ok := v.delta(p); !ok {
			return 0, false
		}
		a, ok := v.Attribute(entity.Desired, p.Name)
		return a.TS, ok
	default:
		a, ok := v.Attribute(filterSections[p.Root], p.Name)
		return a.TS, ok
	}
}

// Is reports whether the entity's type is another or extends it.
func (v *filterView) Is(typeID string) bool { return v.IsA(typeID) }

// Related looks for a relation that the filter is about.
func (v *filterView) Related(r *filter.Relation, e *filter.Env) bool {
	direction := entity.Out
	if r.Direction == filter.From {
		direction = entity.In
	}
	for edge := range v.Relations(direction) {
		other := edge.To
		if r.Direction == filter.From {
			other = edge.From
		}
		if r.Type != "" && edge.Type != r.Type || r.ID != "" && other != r.ID {
			continue
		}
		if r.Decided() {
			return r.Match(nil, e)
		}
		if v.relatedTo(other, edge.Properties, r, e) {
			return true
		}
		if e.Err() != nil || v.ctx.Err() != nil {
			return false
		}
	}
	return false
}

// relatedTo matches the entity at the other end of an edge, as the store has it:
// its actor may be waiting for the one that asks.
func (v *filterView) relatedTo(id string, properties entity.Value, r *filter.Relation, e *filter.Env) (matched bool) {
	_ = v.server.runtime.Scan(v.ctx, entity.ListQuery{IDs: []string{id}}, func(other entity.View) bool { // what cannot be read does not match
		matched = r.Match(&filterView{View: other, ctx: v.ctx, server: v.server, edge: properties}, e)
		return false
	})
	return matched
}

func filterValue(v entity.Value) filter.Value {
	switch v.Kind() {
	case entity.KindFloat:
		return filter.Float(v.Float())
	case entity.KindInt:
		return filter.Int(v.Int())
	case entity.KindBool:
		return filter.Bool(v.Bool())
	case entity.KindString:
		return filter.String(v.Text())
	default:
		return filter.JSON(v.Text())
	}
}
