package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/value"
)

// findTimeout bounds the search for a page of entities, which is then returned as it is.
const findTimeout = 2 * time.Second

// maxPageBytes is the size at which a page of entities ends, even if more were requested.
const maxPageBytes = 16 << 20

// entityFinder returns the entities that match a filter.
type entityFinder struct {
	finder  *search.Finder
	encoder *entityEncoder
	timeout time.Duration // findTimeout except in tests
	bytes   int           // maxPageBytes except in tests
}

// findQuery selects entities.
type findQuery struct {
	filter, typ, text string
	cursor            string
	limit             int
	fields            fields
	count             bool
}

type searchRequest struct{ Body searchBody }

// searchBody selects entities.
type searchBody struct {
	// docs/filter.md has the language; the empty filter matches all.
	Filter string `json:"filter,omitempty" example:"temperature > 20"`
	// Only entities of this type or one that extends it.
	Type string `json:"type,omitempty" example:"Room"`
	// Only entities whose id contains this, in any case.
	Search string `json:"search,omitempty" maxLength:"256" example:"room"`
	cursorParam
	// The maximum number of entities to return.
	Limit  int       `json:"limit,omitempty" minimum:"1" maximum:"1000" default:"50" example:"50"`
	Fields fieldList `json:"fields,omitzero"`
	// Also count all entities that match.
	Count bool `json:"count,omitempty"`
}

// search is like list, for filters that are too long for a URL.
func (a *entityAPI) search(ctx context.Context, in *searchRequest) (*answer[entityPageJSON], error) {
	b := &in.Body
	return a.finder.find(ctx, &findQuery{
		filter: b.Filter, typ: b.Type, text: b.Search, cursor: b.Cursor, limit: cmp.Or(b.Limit, 50), fields: b.Fields.or(fieldLatest), count: b.Count,
	})
}

// find returns a page of matching entities.
func (x *entityFinder) find(ctx context.Context, q *findQuery) (*answer[entityPageJSON], error) {
	if q.limit < 1 || q.limit > entity.MaxPageLimit {
		return nil, problemf(http.StatusBadRequest, "limit must be an integer from 1 to %d, not %d", entity.MaxPageLimit, q.limit)
	}
	if len(q.text) > entity.MaxSearchBytes {
		return nil, problemf(http.StatusBadRequest, "search must have at most %d bytes, not %d", entity.MaxSearchBytes, len(q.text))
	}
	f, _, err := visible(ctx, q.filter)
	if err != nil {
		return nil, err
	}
	after, err := pageAfter(q.cursor)
	if err != nil {
		return nil, err
	}
	body, found, next := []byte(`{"entities":[`), 0, ""
	var ferr error
	selection := search.Query{Filter: f, Type: q.typ, Text: q.text, After: after}
	began := time.Now()
	last := after
	err = x.finder.Each(ctx, selection, func(v entity.View, matched bool) bool {
		if matched && (found == q.limit || len(body) >= x.bytes) || last != after && time.Since(began) > x.timeout {
			next = last
			return false
		}
		last = v.ID()
		if !matched {
			return true
		}
		snapshot := snapshotOf(v, q.fields)
		body, ferr = x.encoder.append(ctx, appendComma(body, found), &snapshot, q.fields)
		found++
		return ferr == nil
	})
	if err = cmp.Or(err, ferr); err != nil {
		return nil, err
	}
	body = append(body, ']')
	if q.count {
		total, err := x.finder.Count(ctx, selection)
		if err != nil {
			return nil, err
		}
		body = value.Int(total).AppendJSON(append(body, `,"total":`...))
	}
	if next != "" {
		next = pageCursor(next)
	}
	return encoded[entityPageJSON](appendNext(body, next)), nil
}
