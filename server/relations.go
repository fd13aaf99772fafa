package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	maxRelationsLimit     = 10_000
	defaultRelationsLimit = 100
)

// relationJSON is an edge as it is written; From is that of the answers.
type relationJSON struct {
	From       string          `json:"from,omitempty"`
	Type       string          `json:"type"`
	To         string          `json:"to"`
	Properties json.RawMessage `json:"properties,omitempty"`
}

func (j *relationJSON) relation() (entity.Relation, error) {
	properties, err := parseProperties(j.Properties)
	if err != nil {
		return entity.Relation{}, fmt.Errorf("relation %q to %q: %w", shorten(j.Type, 64), shorten(j.To, 64), err)
	}
	return entity.Relation{From: j.From, Type: j.Type, To: j.To, Properties: properties}, nil
}

func newRelationJSON(r *entity.Relation) relationJSON {
	return relationJSON{From: r.From, Type: r.Type, To: r.To, Properties: json.RawMessage(r.Properties.Text())}
}

// parseProperties reads the properties of an edge, the zero Value for none.
func parseProperties(raw []byte) (entity.Value, error) {
	if len(raw) == 0 || isNull(raw) {
		return entity.Value{}, nil
	}
	v := entity.JSON(raw)
	if v.Kind() == 0 || v.Text()[0] != '{' {
		return v, fmt.Errorf("properties: %w: a JSON object of at most %d bytes is right", entity.ErrInvalid, entity.MaxTextBytes)
	}
	return v, nil
}

func parseDirection(text string) (entity.Direction, error) {
	for _, d := range []entity.Direction{entity.Out, entity.In, entity.Both} {
		if text == d.String() {
			return d, nil
		}
	}
	return 0, problemf(http.StatusBadRequest, "direction=%s is not possible; out, in or both is right", shorten(text, 32))
}

type relationPageJSON struct {
	Relations []relationJSON `json:"relations"`
	Next      string         `json:"next,omitempty"`
}

// listRelations answers with the edges of an entity in an order that does not
// change, so that a page can begin where the one before ended.
func (s *Server) listRelations(w http.ResponseWriter, r *http.Request) error {
	q, id := r.URL.Query(), r.PathValue("id")
	direction := entity.Both
	limit, err := limitParam(q, maxRelationsLimit)
	if err == nil && q.Has("direction") {
		direction, err = parseDirection(q.Get("direction"))
	}
	if err != nil {
		return err
	}
	after, err := pageAfter(q.Get("cursor"))
	if err != nil {
		return err
	}
	if err := s.mustExist(r.Context(), id); err != nil {
		return err
	}
	list, err := s.runtime.Relations(r.Context(), id, direction)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(rel entity.Relation) bool {
		return q.Has("type") && rel.Type != q.Get("type") || relationPlace(&rel, id) <= after
	})
	slices.SortFunc(list, func(a, b entity.Relation) int { return strings.Compare(relationPlace(&a, id), relationPlace(&b, id)) })
	page := relationPageJSON{Relations: []relationJSON{}}
	if limit = cmp.Or(limit, defaultRelationsLimit); len(list) > limit {
		list = list[:limit]
		page.Next = pageCursor(relationPlace(&list[limit-1], id))
	}
	for i := range list {
		page.Relations = append(page.Relations, newRelationJSON(&list[i]))
	}
	return writeJSON(w, page)
}

// relationPlace is the place of an edge in the list of an entity: those from it
// come first.
func relationPlace(r *entity.Relation, id string) string {
	if r.From == id {
		return "0\x00" + r.Type + "\x00" + r.To
	}
	return "1\x00" + r.Type + "\x00" + r.From
}

// mustExist returns ErrNotFound for an entity that does not exist.
func (s *Server) mustExist(ctx context.Context, id string) error {
	return s.runtime.View(ctx, id, func(entity.View) error { return nil })
}

// findRelation returns the edge that a path names.
func (s *Server) findRelation(r *http.Request) (entity.Relation, error) {
	id, typ, to := r.PathValue("id"), r.PathValue("type"), r.PathValue("to")
	list, err := s.runtime.Relations(r.Context(), id, entity.Out)
	if err != nil {
		return entity.Relation{}, err
	}
	i := slices.IndexFunc(list, func(rel entity.Relation) bool { return rel.Type == typ && rel.To == to && rel.From == id })
	if i < 0 {
		return entity.Relation{}, fmt.Errorf("relation %q from %q to %q: %w", shorten(typ, 64), id, shorten(to, 64), entity.ErrNotFound)
	}
	return list[i], nil
}

func (s *Server) getRelation(w http.ResponseWriter, r *http.Request) error {
	rel, err := s.findRelation(r)
	if err != nil {
		return err
	}
	return writeJSON(w, newRelationJSON(&rel))
}

// putRelation puts an edge, or gives it other properties.
func (s *Server) putRelation(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	body, _, err := readBody(w, r, maxBodyBytes, mediaJSON)
	if err != nil {
		return err
	}
	properties, err := parseProperties(body)
	if err != nil {
		return err
	}
	rel := entity.Relation{Type: r.PathValue("type"), To: r.PathValue("to"), Properties: properties}
	if condition == "" { // an edge does not make an entity
		if err := s.mustExist(r.Context(), r.PathValue("id")); err != nil {
			return err
		}
		condition = entity.IfAny
	}
	return s.edit(w, r, r.PathValue("id"), entity.Edits{If: condition, Relate: []entity.Relation{rel}}, false)
}

func (s *Server) deleteRelation(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	rel, err := s.findRelation(r)
	if err != nil {
		return err
	}
	edits := entity.Edits{If: cmp.Or(condition, entity.IfAny), Unrelate: []entity.Relation{rel}}
	if _, err := s.runtime.Edit(r.Context(), rel.From, edits); err != nil {
		return conditionProblem(err, condition, false, false)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
