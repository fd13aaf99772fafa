package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/mapping"
)

// kindQuery is the kind of the documents of saved queries.
const kindQuery = "query"

// maxQueries bounds the saved queries.
const maxQueries = 1000

// queryAPI reads and writes saved queries, and completes filters.
type queryAPI struct {
	runtime *entity.Runtime
	queries *queryBook
	words   vocabularies
}

func (a *queryAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/query/complete", "complete", "Complete a filter or a mapping at the cursor, and check it.", a.complete, needs(seesSome)),
		op("GET", "/v1/queries", "listQueries", "List the saved queries, by id.", a.list, needs(seesAll)),
		op("GET", "/v1/queries/{query}", "getQuery", "Read one saved query.", a.get, needs(seesAll), fails(404)),
		op("PUT", "/v1/queries/{query}", "putQuery", "Save a query.", a.put, needs(writesAll), answers(200, 201), fails(422, 428)),
		op("DELETE", "/v1/queries/{query}", "deleteQuery", "Delete a saved query.", a.remove, needs(writesAll), fails(404)),
	}
}

type queryPath struct {
	// The id of the saved query.
	ID string `path:"query" minLength:"1" maxLength:"256" example:"hot-rooms"`
}

// queryBody is a saved query as it is written.
type queryBody struct {
	Title string `json:"title,omitempty" example:"Hot rooms"`
	// docs/filter.md has the language.
	Filter string `json:"filter" example:"temperature > 30"`
	// Only entities of this type or one that extends it.
	Type string `json:"type,omitempty" example:"Room"`
	// Any JSON that the owner of the query keeps with it.
	View json.RawMessage `json:"view,omitempty"`
}

// queryJSON is a saved query.
type queryJSON struct {
	ID string `json:"id" example:"hot-rooms"`
	// The version, for If-Match.
	ETag    string `json:"etag" example:"3k"`
	Updated int64  `json:"updated_ms" example:"1451649600512"`
	queryBody
}

// queryListJSON is the saved queries.
type queryListJSON struct {
	Queries []queryJSON `json:"queries"`
}

func newQueryJSON(d *entity.Doc) (queryJSON, error) {
	q := queryJSON{ID: d.ID, ETag: d.ETag(), Updated: d.Updated}
	err := json.Unmarshal(d.Body, &q.queryBody)
	return q, err
}

func (a *queryAPI) list(ctx context.Context, _ *struct{}) (*answer[queryListJSON], error) {
	docs, err := a.runtime.Docs(ctx, kindQuery)
	if err != nil {
		return nil, err
	}
	list := queryListJSON{Queries: make([]queryJSON, len(docs))}
	for i := range docs {
		if list.Queries[i], err = newQueryJSON(&docs[i]); err != nil {
			return nil, err
		}
	}
	return ok(list), nil
}

type getQueryRequest struct {
	queryPath
	ifChanged
}

func (a *queryAPI) get(ctx context.Context, in *getQueryRequest) (*answer[queryJSON], error) {
	doc, err := a.runtime.Doc(ctx, kindQuery, in.ID)
	if err != nil {
		return nil, err
	}
	q, err := newQueryJSON(&doc)
	if err != nil {
		return nil, err
	}
	return ok(q).versioned(doc.ETag()), nil
}

type putQueryRequest struct {
	queryPath
	precondition
	Body queryBody
}

func (a *queryAPI) put(ctx context.Context, in *putQueryRequest) (*answer[queryJSON], error) {
	var q queryJSON
	doc, err := a.queries.keep(ctx, in.ID, &in.Body, in.replacing())
	if err == nil {
		q, err = newQueryJSON(&doc)
	}
	return replaced(&in.precondition, q, q.ETag, err)
}

type deleteQueryRequest struct {
	queryPath
	precondition
}

func (a *queryAPI) remove(ctx context.Context, in *deleteQueryRequest) (*answer[nothing], error) {
	return in.removed(a.runtime.DeleteDoc(ctx, kindQuery, in.ID, in.condition))
}

// queryBook keeps the saved queries, whose number is bounded.
type queryBook struct {
	runtime *entity.Runtime

	mu sync.Mutex // held while queries are counted and written
}

// keep validates and stores a query.
func (b *queryBook) keep(ctx context.Context, id string, q *queryBody, condition string) (doc entity.Doc, err error) {
	if _, err := filter.Parse(q.Filter); err != nil {
		return doc, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	docs, err := b.runtime.Docs(ctx, kindQuery)
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
	return b.runtime.PutDoc(ctx, kindQuery, id, body, condition)
}

type completeRequest struct {
	// What the text is.
	Kind string `query:"kind" enum:"filter,mapping" default:"filter"`
	// The text of the query box.
	Text string `query:"q" example:"temp"`
	// The position of the cursor in bytes of UTF-8; by default the end.
	Offset *int `query:"offset" minimum:"0" maximum:"1000000"`
}

// completionJSON is what may stand at the cursor of a query box, and whether the text is valid.
type completionJSON struct {
	// Where the replaced text begins, in bytes of UTF-8.
	From int `json:"from"`
	// Where it ends.
	To    int              `json:"to" example:"4"`
	Items []suggestionJSON `json:"items"`
	// The error in the text; absent if there is none.
	Error *filterErrorJSON `json:"error,omitempty"`
	// The text as the server writes it; absent with an error.
	Canonical *string `json:"canonical,omitempty"`
}

// suggestionJSON is a text that may be inserted there.
type suggestionJSON struct {
	Text string                `json:"text" example:"temperature"`
	Kind filter.SuggestionKind `json:"kind" enum:"word,operator,path,relation,id,value,function" example:"path"`
}

// filterErrorJSON is an error in a filter or a mapping.
type filterErrorJSON struct {
	// The place in bytes of UTF-8.
	Offset int `json:"offset" example:"4"`
	// The line, from 1; only of a mapping.
	Line int `json:"line,omitempty"`
	// The position in characters, from 1; in a mapping, within its line.
	Column int    `json:"column" example:"5"`
	Text   string `json:"text" example:"expected an operator"`
}

func (a *queryAPI) complete(ctx context.Context, in *completeRequest) (*answer[completionJSON], error) {
	offset := len(in.Text)
	if in.Offset != nil {
		offset = *in.Offset
	}
	if offset > len(in.Text) {
		return nil, problemf(http.StatusBadRequest, "offset must be a place in q, from 0 to its length in bytes, %d, not %d", len(in.Text), offset)
	}
	vocabulary, err := a.words.vocabulary(ctx, a.runtime)
	if err != nil {
		return nil, err
	}
	var c filter.Completion
	var read fmt.Stringer
	if in.Kind == "mapping" {
		c = mapping.Complete(in.Text, offset, vocabulary)
		read, err = mapping.Parse(in.Text)
	} else {
		c = filter.Complete(in.Text, offset, vocabulary)
		read, err = filter.Parse(in.Text)
	}
	reply := completionJSON{From: c.From, To: c.To, Items: make([]suggestionJSON, len(c.Items))}
	for i, item := range c.Items {
		reply.Items[i] = suggestionJSON(item)
	}
	var inFilter *filter.Error
	var inMapping *mapping.SyntaxError
	switch {
	case errors.As(err, &inFilter):
		reply.Error = &filterErrorJSON{inFilter.Offset, 0, inFilter.Column, inFilter.Text}
	case errors.As(err, &inMapping):
		reply.Error = &filterErrorJSON{inMapping.Offset, inMapping.Line, inMapping.Column, inMapping.Detail}
	case err != nil:
		reply.Error = &filterErrorJSON{Column: 1, Text: err.Error()}
	default:
		reply.Canonical = new(read.String())
	}
	return ok(reply), nil
}
