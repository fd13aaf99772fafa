package server

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/search"
)

// Limits of a search.
const (
	// findPatience is how long a page of a search may look for entities before it
	// is handed out as it is.
	findPatience     = 2 * time.Second
	defaultFindLimit = 50
)

// findQuery is a question for entities.
type findQuery struct {
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
	q := findQuery{filter: b.Filter, typ: b.Type, text: b.Search, cursor: b.Cursor, limit: b.Limit, fields: fieldLatest, count: b.Count}
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
func (s *Server) find(w http.ResponseWriter, r *http.Request, q findQuery) error {
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
	sel := search.Query{Filter: f, Type: q.typ, Text: q.text, After: after}
	began := time.Now()
	last := after
	err = s.finder.Each(r.Context(), sel, func(v entity.View, matched bool) bool {
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
		total, err := s.finder.Count(r.Context(), sel)
		if err != nil {
			return err
		}
		body = entity.Int(total).AppendJSON(append(body, `,"total":`...))
	}
	if next != "" {
		next = pageCursor(next)
	}
	writeBody(w, appendNext(body, next))
	return nil
}
