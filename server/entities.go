package server

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
)

func (s *Server) entityRoutes() []route {
	return []route{
		{"GET", "/v1/entities", []string{"limit", "cursor", "search", "type", "q", "fields"}, s.listEntities},
		{"POST", "/v1/entities", nil, s.postEntity},
		{"GET", "/v1/entities/{id}", []string{"fields"}, s.getEntity},
		{"PUT", "/v1/entities/{id}", nil, s.putEntity},
		{"PATCH", "/v1/entities/{id}", nil, s.patchEntity},
		{"DELETE", "/v1/entities/{id}", nil, s.deleteEntity},
		{"GET", "/v1/entities/{id}/attributes", nil, s.getAttributes},
		{"PUT", "/v1/entities/{id}/attributes", nil, s.putAttributes},
		{"PATCH", "/v1/entities/{id}/attributes", nil, s.patchAttributes},
		{"GET", "/v1/entities/{id}/attributes/{section}", nil, s.getSection},
		{"PUT", "/v1/entities/{id}/attributes/{section}", nil, s.putSection},
		{"PATCH", "/v1/entities/{id}/attributes/{section}", nil, s.patchSection},
		{"GET", "/v1/entities/{id}/relations", []string{"direction", "type", "limit", "cursor"}, s.listRelations},
		{"GET", "/v1/entities/{id}/relations/{type}/{to}", nil, s.getRelation},
		{"PUT", "/v1/entities/{id}/relations/{type}/{to}", nil, s.putRelation},
		{"DELETE", "/v1/entities/{id}/relations/{type}/{to}", nil, s.deleteRelation},
		{"POST", "/v1/entities/{id}/traverse", nil, s.traverse},
	}
}

func (s *Server) listEntities(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit, err := limitParam(q, entity.MaxPageLimit)
	if err != nil {
		return err
	}
	f, err := fieldsParam(q, fieldLatest)
	if err != nil {
		return err
	}
	if q.Has("q") {
		return s.find(w, r, findQuery{filter: q.Get("q"), typ: q.Get("type"), text: q.Get("search"), cursor: q.Get("cursor"), limit: limit, fields: f})
	}
	list, next, err := s.runtime.Entities(r.Context(), entity.Page{After: q.Get("cursor"), Limit: limit, Search: q.Get("search"), Type: q.Get("type")})
	if err != nil {
		return err
	}
	body := []byte(`{"entities":[`)
	for i := range list {
		if body, err = s.appendEntity(r.Context(), appendComma(body, i), &list[i], f); err != nil {
			return err
		}
	}
	writeBody(w, appendNext(append(body, ']'), next))
	return nil
}

// appendNext ends an object with the cursor of the next page, if there is one.
func appendNext(dst []byte, next string) []byte {
	if next != "" {
		dst = append(dst, `,"next":`...)
		dst = entity.String(next).AppendJSON(dst)
	}
	return append(dst, "}\n"...)
}

// getEntity answers with an entity from its actor. Its ETag is the version that
// conditions want, a dot, and a hash of all that is in the answer: the telemetry
// goes on without a new version.
func (s *Server) getEntity(w http.ResponseWriter, r *http.Request) error {
	f, err := fieldsParam(r.URL.Query(), allFields)
	if err != nil {
		return err
	}
	snapshot, err := s.runtime.Entity(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	body, err := s.appendEntity(r.Context(), nil, &snapshot, f)
	if err != nil {
		return err
	}
	sum := fnv.New64a()
	_, _ = sum.Write(body) // a hash takes all
	if notModified(w, r, snapshot.ETag+"."+strconv.FormatUint(sum.Sum64(), 36)) {
		return nil
	}
	writeBody(w, append(body, '\n'))
	return nil
}

// appendEntity appends an entity as JSON.
func (s *Server) appendEntity(ctx context.Context, dst []byte, e *entity.Snapshot, f fields) ([]byte, error) {
	dst = append(dst, `{"id":`...)
	dst = entity.String(e.ID).AppendJSON(dst)
	if e.Type != "" {
		dst = append(dst, `,"type":`...)
		dst = entity.String(e.Type).AppendJSON(dst)
	}
	dst = append(dst, `,"etag":"`...)
	dst = append(dst, e.ETag...)
	dst = append(dst, `","created_ms":`...)
	dst = strconv.AppendInt(dst, e.Created, 10)
	dst = append(dst, `,"updated_ms":`...)
	dst = strconv.AppendInt(dst, e.Updated, 10)
	if f.has(fieldLatest) {
		dst = appendLatest(dst, e.Latest)
	}
	dst = appendSections(dst, e, f)
	if f.has(fieldRelations) {
		list, err := s.runtime.Relations(ctx, e.ID, entity.Both)
		if err != nil {
			return nil, err
		}
		dst = appendRelationCounts(dst, e.ID, list)
	}
	if e.Actor != "" {
		dst = append(dst, `,"actor":`...)
		dst = entity.String(e.Actor).AppendJSON(dst)
	}
	return append(dst, '}'), nil
}

func appendLatest(dst []byte, list []entity.Latest) []byte {
	dst = append(dst, `,"latest":{`...)
	for i := range list {
		l := &list[i]
		dst = entity.String(l.Key).AppendJSON(appendComma(dst, i))
		dst = append(dst, `:{"value":`...)
		dst = l.Value.AppendJSON(dst)
		dst = append(dst, `,"ts":`...)
		dst = strconv.AppendInt(dst, l.TS, 10)
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendUint(dst, l.Seq, 10)
		dst = append(appendOrigin(dst, l.Origin), '}')
	}
	return append(dst, '}')
}

// appendOrigin appends the members that say who computed a value.
func appendOrigin(dst []byte, o entity.Origin) []byte {
	if o.IsZero() {
		return dst
	}
	if name, _, ok := mappingOf(o); ok {
		dst = append(dst, `,"mapping":`...)
		dst = entity.String(name).AppendJSON(dst)
	}
	dst = append(dst, `,"source":`...)
	dst = entity.String(o.Source).AppendJSON(dst)
	dst = append(dst, `,"source_seq":`...)
	return strconv.AppendUint(dst, o.Seq, 10)
}

// mappingOf returns the mapping that has computed a value, and its version.
// Package mapping calls its sources mapping:name@version, with :again behind it
// for what a late reading has changed.
func mappingOf(o entity.Origin) (name string, version int64, ok bool) {
	rest, ok := strings.CutPrefix(o.Source, "mapping:")
	if !ok {
		return "", 0, false
	}
	rest, _, _ = strings.Cut(rest, ":")
	name, text, ok := strings.Cut(rest, "@")
	version, err := strconv.ParseInt(text, 10, 64)
	return name, version, ok && err == nil
}

// appendSections appends the documents of the attributes that are asked for, each
// as a member with a comma before it.
func appendSections(dst []byte, e *entity.Snapshot, f fields) []byte {
	desired, reported := e.Section(entity.Desired), e.Section(entity.Reported)
	sections := []struct {
		field  fields
		leaves []entity.Attribute
	}{
		{fieldAttributes, e.Section(entity.Attributes)},
		{fieldDesired, desired},
		{fieldReported, reported},
		{fieldDelta, entity.Delta(desired, reported)},
	}
	for i, s := range sections {
		if f.has(s.field) {
			dst = append(append(dst, `,"`...), fieldNames[i+1]...)
			dst = entity.AppendAttributes(append(dst, `":`...), s.leaves)
		}
	}
	if !f.has(fieldMetadata) {
		return dst
	}
	dst = append(dst, `,"metadata":{`...)
	for i, s := range sections {
		dst = append(append(appendComma(dst, i), '"'), fieldNames[i+1]...)
		dst = entity.AppendTimes(append(dst, `":`...), s.leaves)
	}
	return append(dst, '}')
}

// appendRelationCounts appends how many edges of each type there are.
func appendRelationCounts(dst []byte, id string, list []entity.Relation) []byte {
	out, in := make(map[string]int), make(map[string]int)
	for i := range list {
		if list[i].From == id {
			out[list[i].Type]++
		}
		if list[i].To == id {
			in[list[i].Type]++
		}
	}
	dst = append(dst, `,"relations":{"out":`...)
	dst = append(appendCounts(dst, out), `,"in":`...)
	return append(appendCounts(dst, in), '}')
}

func appendCounts(dst []byte, counts map[string]int) []byte {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	dst = append(dst, '{')
	for i, name := range names {
		dst = entity.String(name).AppendJSON(appendComma(dst, i))
		dst = strconv.AppendInt(append(dst, ':'), int64(counts[name]), 10)
	}
	return append(dst, '}')
}

// snapshotOf copies out of a view what the fields need.
func snapshotOf(v entity.View, f fields) entity.Snapshot {
	e := entity.Snapshot{ID: v.ID(), Type: v.Type(), ETag: v.ETag(), Created: v.Created(), Updated: v.Updated()}
	if f.has(fieldLatest) {
		for l := range v.EachLatest() {
			e.Latest = append(e.Latest, l)
		}
		slices.SortFunc(e.Latest, func(a, b entity.Latest) int { return strings.Compare(a.Key, b.Key) })
	}
	if f.has(fieldAttributes | fieldDesired | fieldReported | fieldDelta | fieldMetadata) {
		for section := entity.Attributes; section <= entity.Reported; section++ {
			for a := range v.EachAttribute(section) {
				e.Attributes = append(e.Attributes, entity.StoredAttribute{Section: section, Attribute: a})
			}
		}
	}
	return e
}

// pageCursor and pageAfter write and read the cursor of a list that is ordered by
// a text.
func pageCursor(last string) string { return base64.RawURLEncoding.EncodeToString([]byte(last)) }

func pageAfter(cursor string) (string, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || !utf8.Valid(after) {
		return "", problemf(http.StatusBadRequest, "cursor=%s is not one that was handed out; pass on what an answer before had as next", shorten(cursor, 64))
	}
	return string(after), nil
}
