package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// Limits of a search.
const (
	// findPatience is how long a page of a search may look for entities before it
	// is handed out as it is.
	findPatience = 2 * time.Second
	// countPatience is how long a count may take.
	countPatience = 25 * time.Second

	defaultFindLimit = 50
)

// search is a question for entities.
type search struct {
	filter, typ, text string
	cursor            string
	limit             int // 0 for the default
	fields            fields
	count             bool
}

type searchBody struct {
	Filter string   `json:"filter"`
	Type   string   `json:"type"`
	Search string   `json:"search"`
	Cursor string   `json:"cursor"`
	Limit  int      `json:"limit"`
	Fields []string `json:"fields"`
	Count  bool     `json:"count"`
}

// postSearch is the list of entities for filters that are too long for a URL.
func (s *Server) postSearch(w http.ResponseWriter, r *http.Request) error {
	var b searchBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	q := search{filter: b.Filter, typ: b.Type, text: b.Search, cursor: b.Cursor, limit: b.Limit, fields: fieldLatest, count: b.Count}
	if b.Fields != nil {
		var err error
		if q.fields, err = parseFields(b.Fields); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	return s.find(w, r.WithContext(ctx), q)
}

// find answers with the entities that match.
func (s *Server) find(w http.ResponseWriter, r *http.Request, q search) error {
	if q.limit < 0 || q.limit > entity.MaxPageLimit {
		return problemf(http.StatusBadRequest, "limit=%d is not possible; a whole number from 1 to %d is right", q.limit, entity.MaxPageLimit)
	}
	if len(q.text) > entity.MaxSearchBytes {
		return problemf(http.StatusBadRequest, "search has %d bytes; at most %d are allowed", len(q.text), entity.MaxSearchBytes)
	}
	f, err := parseFilter(q.filter)
	if err != nil {
		return err
	}
	after, err := pageAfter(q.cursor)
	if err != nil {
		return err
	}
	limit := cmp.Or(q.limit, defaultFindLimit)
	body, found, next := []byte(`{"entities":[`), 0, ""
	var ferr error
	sel := selection{filter: f, typ: q.typ, search: q.text, after: after}
	began := time.Now()
	last := after
	err = s.each(r.Context(), sel, func(v entity.View, matched bool) bool {
		if matched && found == limit || last != after && time.Since(began) > s.findPatience {
			next = last
			return false
		}
		last = v.ID()
		if !matched {
			return true
		}
		snapshot := snapshotOf(v, q.fields)
		body, ferr = s.appendEntity(r.Context(), appendComma(body, found), &snapshot, q.fields)
		found++
		return ferr == nil
	})
	if err = cmp.Or(err, ferr); err != nil {
		return err
	}
	body = append(body, ']')
	if q.count {
		if body, err = s.appendTotal(r.Context(), body, sel); err != nil {
			return err
		}
	}
	if next != "" {
		next = pageCursor(next)
	}
	writeBody(w, appendNext(body, next))
	return nil
}

// appendTotal counts all that match.
func (s *Server) appendTotal(ctx context.Context, body []byte, sel selection) ([]byte, error) {
	sel.after = ""
	total, began, over := int64(0), time.Now(), false
	waiting, stop := context.WithTimeout(ctx, countPatience)
	s.finder.await(waiting, &sel)
	stop()
	if n, ok := s.countIndexed(ctx, &sel); ok {
		return entity.Int(n).AppendJSON(append(body, `,"total":`...)), nil
	}
	err := s.each(ctx, sel, func(_ entity.View, matched bool) bool {
		if matched {
			total++
		}
		over = time.Since(began) > countPatience
		return !over
	})
	if over {
		return nil, problemf(http.StatusUnprocessableEntity, "counting takes more than %v; ask without count, with a narrower filter, or again: what is indexed by then is counted at once", countPatience)
	}
	return entity.Int(total).AppendJSON(append(body, `,"total":`...)), err
}

// selection says which entities are meant.
type selection struct {
	filter      *filter.Filter
	typ, search string
	after       string // only ids greater than this
}

// each calls f with the entities that a selection has to look at, in the order of
// their ids, and whether each matches, until f returns false. What an index can
// tell of the filter is left to the store.
func (s *Server) each(ctx context.Context, sel selection, f func(v entity.View, matched bool) bool) error {
	m := s.newMatcher(sel.filter)
	plan := sel.filter.Plan(m.env.Now)
	if plan.Never {
		return nil
	}
	q := entity.ListQuery{After: sel.after, Search: sel.search, IDs: planIDs(&plan)}
	if len(q.IDs) == 0 {
		if done, err := s.eachIndexed(ctx, &sel, m, f); done {
			return cmp.Or(err, context.Cause(ctx))
		}
		q.After = sel.after // it may have come some way
	}
	is := plan.Is
	if sel.typ != "" {
		is = append(is, sel.typ)
	}
	if len(is) > 0 {
		if q.Types = s.typesOf(is); len(q.Types) == 0 {
			return nil
		}
	}
	err := s.runtime.Scan(ctx, q, func(v entity.View) bool {
		matched := m.match(ctx, v)
		return m.env.Err() == nil && ctx.Err() == nil && f(v, matched)
	})
	if merr := m.err(); merr != nil {
		return merr
	}
	return cmp.Or(err, context.Cause(ctx))
}

// indexedChunk is how many entities are taken from the index at once.
const indexedChunk = 200

// eachIndexed is each by the index in memory; done is false where that cannot
// answer. The entities that it finds are read and matched again, so that what is
// handed out matches.
func (s *Server) eachIndexed(ctx context.Context, sel *selection, m *matcher, f func(v entity.View, matched bool) bool) (done bool, err error) {
	for after := sel.after; ; {
		q, unlock, ok := s.finder.lookup(ctx, sel)
		if !ok {
			sel.after = after
			return false, nil
		}
		var ids []string
		q.each(after, func(id string) bool {
			ids = append(ids, id)
			return len(ids) < indexedChunk
		})
		unlock()
		if len(ids) == 0 {
			return true, nil
		}
		more := true
		err := s.runtime.Scan(ctx, entity.ListQuery{IDs: ids}, func(v entity.View) bool {
			more = !m.match(ctx, v) || f(v, true)
			return more
		})
		if err != nil || !more || len(ids) < indexedChunk {
			return true, err
		}
		after = ids[len(ids)-1]
	}
}

// countIndexed counts what matches by the index.
func (s *Server) countIndexed(ctx context.Context, sel *selection) (n int64, ok bool) {
	q, unlock, ok := s.finder.lookup(ctx, sel)
	if !ok {
		return 0, false
	}
	defer unlock()
	q.each("", func(string) bool { n++; return true })
	return n, true
}

// planIDs returns the ids that an entity must have one of, nil for all.
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

// typesOf returns the types that are, or extend, all of some types.
func (s *Server) typesOf(of []string) []string {
	var list []string
	known := s.runtime.Types()
	for i := range known {
		resolved, err := s.runtime.ResolvedType(known[i].ID)
		if err != nil {
			continue // deleted since
		}
		all := true
		for _, id := range of {
			all = all && resolved.IsA[id]
		}
		if all {
			list = append(list, known[i].ID)
		}
	}
	return list
}
