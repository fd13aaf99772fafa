package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// kindQuery is the kind of the documents that have the saved queries.
const kindQuery = "query"

// maxQueries bounds the saved queries.
const maxQueries = 1000

func (s *Server) queryRoutes() []route {
	return []route{
		{"POST", "/v1/search", nil, s.postSearch},
		{"GET", "/v1/query/complete", []string{"q", "offset"}, s.complete},
		{"GET", "/v1/queries", nil, s.listQueries},
		{"GET", "/v1/queries/{query}", nil, s.getQuery},
		{"PUT", "/v1/queries/{query}", nil, s.putQuery},
		{"DELETE", "/v1/queries/{query}", nil, s.deleteQuery},
	}
}

// queryBody is what is kept of a saved query. View is the dashboard's own affair.
type queryBody struct {
	Title  string          `json:"title,omitempty"`
	Filter string          `json:"filter"`
	Type   string          `json:"type,omitempty"`
	View   json.RawMessage `json:"view,omitempty"`
}

type queryJSON struct {
	ID      string `json:"id"`
	ETag    string `json:"etag"`
	Updated int64  `json:"updated_ms"`
	queryBody
}

type queryListJSON struct {
	Queries []queryJSON `json:"queries"`
}

func newQueryJSON(d *entity.Doc) (queryJSON, error) {
	q := queryJSON{ID: d.ID, ETag: d.ETag(), Updated: d.Updated}
	err := json.Unmarshal(d.Body, &q.queryBody)
	return q, err
}

func (s *Server) listQueries(w http.ResponseWriter, r *http.Request) error {
	docs, err := s.runtime.Docs(r.Context(), kindQuery)
	if err != nil {
		return err
	}
	list := queryListJSON{Queries: make([]queryJSON, len(docs))}
	for i := range docs {
		if list.Queries[i], err = newQueryJSON(&docs[i]); err != nil {
			return err
		}
	}
	return writeJSON(w, list)
}

func (s *Server) getQuery(w http.ResponseWriter, r *http.Request) error {
	doc, err := s.runtime.Doc(r.Context(), kindQuery, r.PathValue("query"))
	if err != nil {
		return err
	}
	if notModified(w, r, doc.ETag()) {
		return nil
	}
	q, err := newQueryJSON(&doc)
	if err != nil {
		return err
	}
	return writeJSON(w, q)
}

func (s *Server) putQuery(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("query")
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	var b queryBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	doc, err := s.keepQuery(r.Context(), id, &b, condition)
	if err != nil {
		return conditionProblem(err, condition, blind, true)
	}
	q, err := newQueryJSON(&doc)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+doc.ETag()+`"`)
	return writeStatus(w, created(condition == entity.IfNone), q)
}

// keepQuery checks a query and keeps it.
func (s *Server) keepQuery(ctx context.Context, id string, q *queryBody, condition string) (doc entity.Doc, err error) {
	if _, err := parseFilter(q.Filter); err != nil {
		return doc, err
	}
	s.editing.Lock()
	defer s.editing.Unlock()
	docs, err := s.runtime.Docs(ctx, kindQuery)
	if err != nil {
		return doc, err
	}
	known := slices.ContainsFunc(docs, func(d entity.Doc) bool { return d.ID == id })
	if len(docs) >= maxQueries && !known {
		return doc, problemf(http.StatusUnprocessableEntity, "there are %d saved queries, which is the limit; delete one", len(docs))
	}
	body, err := json.Marshal(q)
	if err != nil {
		return doc, err
	}
	return s.runtime.PutDoc(ctx, kindQuery, id, body, condition)
}

func (s *Server) deleteQuery(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.runtime.DeleteDoc(r.Context(), kindQuery, r.PathValue("query"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// completionJSON is what may stand at the cursor of a query box, and whether what
// is in it is a filter.
type completionJSON struct {
	From      int              `json:"from"`
	To        int              `json:"to"`
	Items     []suggestionJSON `json:"items"`
	Error     *filterErrorJSON `json:"error,omitempty"`
	Canonical *string          `json:"canonical,omitempty"`
}

type suggestionJSON struct {
	Text string                `json:"text"`
	Kind filter.SuggestionKind `json:"kind"`
}

type filterErrorJSON struct {
	Offset int    `json:"offset"`
	Column int    `json:"column"`
	Text   string `json:"text"`
}

func (s *Server) complete(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	text := q.Get("q")
	offset, err := offsetParam(q, len(text))
	if err != nil {
		return err
	}
	vocabulary, err := s.vocabulary(r.Context())
	if err != nil {
		return err
	}
	c := filter.Complete(text, offset, vocabulary)
	answer := completionJSON{From: c.From, To: c.To, Items: make([]suggestionJSON, len(c.Items))}
	for i := range c.Items {
		answer.Items[i] = suggestionJSON{c.Items[i].Text, c.Items[i].Kind}
	}
	f, err := filter.Parse(text)
	var at *filter.Error
	switch {
	case errors.As(err, &at):
		answer.Error = &filterErrorJSON{at.Offset, at.Column, at.Text}
	case err != nil:
		answer.Error = &filterErrorJSON{Column: 1, Text: err.Error()}
	default:
		canonical := f.String()
		answer.Canonical = &canonical
	}
	return writeJSON(w, answer)
}
