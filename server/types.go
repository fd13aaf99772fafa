package server

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
)

// maxTypeBytes bounds a type and an import of types.
const maxTypeBytes = 4 << 20

func (s *Server) typeRoutes() []route {
	return []route{
		{"GET", "/v1/types", nil, s.listTypes},
		{"GET", "/v1/types/{type}", []string{"resolved"}, s.getType},
		{"PUT", "/v1/types/{type}", nil, s.putType},
		{"DELETE", "/v1/types/{type}", nil, s.deleteType},
		{"POST", "/v1/types", []string{"format"}, s.importTypes},
	}
}

// typeJSON is a type with its version.
type typeJSON struct {
	*model.Type
	ETag string `json:"etag"`
}

type typeListJSON struct {
	Types []typeJSON `json:"types"`
}

func (s *Server) listTypes(w http.ResponseWriter, _ *http.Request) error {
	list := typeListJSON{Types: []typeJSON{}}
	for _, t := range s.runtime.Types() {
		list.Types = append(list.Types, typeJSON(t))
	}
	return writeJSON(w, list)
}

// resolvedJSON is a type with all that it inherits and contains.
type resolvedJSON struct {
	ID         string                     `json:"id"`
	ETag       string                     `json:"etag"`
	Strict     bool                       `json:"strict"`
	IsA        []string                   `json:"isA"`
	Properties map[string]*model.Property `json:"properties"`
	Telemetry  map[string]*model.Schema   `json:"telemetry"`
	Relations  map[string]*model.Relation `json:"relations"`
	Commands   map[string]*model.Command  `json:"commands"`
}

func (s *Server) getType(w http.ResponseWriter, r *http.Request) error {
	t, err := s.runtime.Type(r.PathValue("type"))
	if err != nil {
		return err
	}
	switch text := r.URL.Query().Get("resolved"); text {
	case "", "false":
		if notModified(w, r, t.ETag) {
			return nil
		}
		return writeJSON(w, typeJSON(t))
	case "true":
	default:
		return problemf(http.StatusBadRequest, "resolved=%s is not possible; true or false is right", shorten(text, 32))
	}
	resolved, err := s.runtime.ResolvedType(t.ID)
	if err != nil {
		return err
	}
	return writeJSON(w, resolvedJSON{
		ID: t.ID, ETag: t.ETag, Strict: resolved.Strict, IsA: slices.Sorted(maps.Keys(resolved.IsA)),
		Properties: orEmpty(resolved.Properties), Telemetry: orEmpty(resolved.Telemetry),
		Relations: orEmpty(resolved.Relations), Commands: orEmpty(resolved.Commands),
	})
}

// orEmpty makes of a map that is not there one without anything in it: {}, not null.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

func (s *Server) putType(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("type")
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	body, _, err := readBody(w, r, maxTypeBytes, mediaJSON)
	if err != nil {
		return err
	}
	// An answer can be sent back as it is.
	var head map[string]json.RawMessage
	if err := json.Unmarshal(body, &head); err != nil {
		return problemf(http.StatusBadRequest, "the body is no type: %v", jsonError(err))
	}
	if head == nil {
		return problemf(http.StatusBadRequest, "the body is null; a JSON object is right")
	}
	delete(head, "etag")
	if head["id"] == nil {
		if head["id"], err = json.Marshal(id); err != nil {
			return err
		}
	}
	if body, err = json.Marshal(head); err != nil {
		return err
	}
	t, err := model.Parse(body)
	if err != nil {
		return err
	}
	if t.ID != id {
		return problemf(http.StatusBadRequest, "the id in the body is %q, not that of the path", shorten(t.ID, 64))
	}
	stored, err := s.runtime.PutType(r.Context(), t, condition)
	if err != nil {
		return conditionProblem(err, condition, blind, true)
	}
	w.Header().Set("ETag", `"`+stored.ETag+`"`)
	return writeStatus(w, created(condition == entity.IfNone), typeJSON(stored))
}

func (s *Server) deleteType(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.runtime.DeleteType(r.Context(), r.PathValue("type"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// importTypes puts types that may need each other.
func (s *Server) importTypes(w http.ResponseWriter, r *http.Request) error {
	format := r.URL.Query().Get("format")
	body, _, err := readBody(w, r, maxTypeBytes, mediaJSON)
	if err != nil {
		return err
	}
	var types []*model.Type
	switch format {
	case "", "dtdl":
		types, err = model.ParseDTDL(body)
	case "native":
		types, err = parseTypes(body)
	default:
		return problemf(http.StatusBadRequest, "format=%s is not possible; dtdl or native is right", shorten(format, 32))
	}
	if err != nil {
		return err
	}
	if len(types) == 0 {
		return problemf(http.StatusBadRequest, "there is no type in the body")
	}
	stored, err := s.runtime.PutTypes(r.Context(), types)
	if err != nil {
		return err
	}
	answer := importedTypesJSON{Types: make([]importedTypeJSON, len(stored))}
	for i := range stored {
		answer.Types[i] = importedTypeJSON{stored[i].ID, stored[i].ETag}
	}
	w.Header().Set("Location", "/v1/types/"+url.PathEscape(stored[0].ID))
	return writeJSON(w, answer)
}

type importedTypesJSON struct {
	Types []importedTypeJSON `json:"types"`
}

type importedTypeJSON struct {
	ID   string `json:"id"`
	ETag string `json:"etag"`
}

func parseTypes(body []byte) ([]*model.Type, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, problemf(http.StatusBadRequest, "the body is no array of types: %v", jsonError(err))
	}
	types := make([]*model.Type, len(raw))
	for i := range raw {
		var err error
		if types[i], err = model.Parse(raw[i]); err != nil {
			return nil, problemf(http.StatusBadRequest, "type %d: %v", i, err)
		}
	}
	return types, nil
}

// modelProblem is the problem of an error of package model, nil for any other.
func modelProblem(err error) *problem {
	switch {
	case errors.Is(err, model.ErrCycle):
		return problemf(http.StatusConflict, "%v", err)
	case errors.Is(err, model.ErrUnknown):
		return problemf(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, model.ErrInvalid):
		return problemf(http.StatusBadRequest, "%v", err)
	default:
		return nil
	}
}
