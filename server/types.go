package server

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
)

// maxTypeBytes bounds a type and an import of types.
const maxTypeBytes = 4 << 20

// typeAPI reads and writes the types of entities.
type typeAPI struct{ runtime *entity.Runtime }

func (a *typeAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/types", "listTypes", "List all types, by id.", a.list, needs(seesSome)),
		op("GET", "/v1/types/{type}", "getType", "Read one type.", a.get, needs(seesSome), fails(404)),
		op("PUT", "/v1/types/{type}", "putType", "Create or replace a type.", a.put, needs(writesAll),
			accepts(maxTypeBytes, content{mediaJSON, typeBody{}}), answers(200, 201), fails(409, 422, 428)),
		op("DELETE", "/v1/types/{type}", "deleteType", "Delete a type that nothing uses.", a.remove, needs(writesAll), fails(404, 409)),
		op("POST", "/v1/types", "importTypes", "Create or replace types that may depend on each other, all or none.", a.load, needs(writesAll),
			accepts(maxTypeBytes, content{mediaJSON, typesBody{}}), fails(409, 422)),
	}
}

type typePath struct {
	// The id of the type.
	ID string `path:"type" minLength:"1" maxLength:"256" example:"Room"`
}

// typeJSON is a type with its version.
type typeJSON struct {
	*model.Type
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
}

// typeListJSON is all types.
type typeListJSON struct {
	Types []typeJSON `json:"types"`
}

func (a *typeAPI) list(context.Context, *struct{}) (*answer[typeListJSON], error) {
	list := typeListJSON{Types: []typeJSON{}}
	for _, t := range a.runtime.Types() {
		list.Types = append(list.Types, typeJSON(t))
	}
	return ok(list), nil
}

// resolvedJSON is a type with all that it inherits and contains.
type resolvedJSON struct {
	ID   string `json:"id" example:"Room"`
	ETag string `json:"etag" example:"3k"`
	// Entities may have only what the type declares.
	Strict bool `json:"strict"`
	// The type itself and all that it extends.
	IsA        []string                   `json:"isA" example:"[\"Room\",\"Place\"]"`
	Properties map[string]*model.Property `json:"properties"`
	Telemetry  map[string]*model.Schema   `json:"telemetry"`
	Relations  map[string]*model.Relation `json:"relations"`
	Commands   map[string]*model.Command  `json:"commands"`
}

type getTypeRequest struct {
	typePath
	ifChanged
	// With everything that the type inherits and contains.
	Resolved bool `query:"resolved"`
}

// typeAnswer is a type, resolved or not.
type typeAnswer struct {
	either[typeJSON, resolvedJSON]
}

func (a *typeAPI) get(_ context.Context, in *getTypeRequest) (*answer[typeAnswer], error) {
	t, err := a.runtime.Type(in.ID)
	if err != nil {
		return nil, err
	}
	if !in.Resolved {
		return ok(typeAnswer{either[typeJSON, resolvedJSON]{a: (*typeJSON)(&t)}}).versioned(t.ETag), nil
	}
	resolved, err := a.runtime.ResolvedType(t.ID)
	if err != nil {
		return nil, err
	}
	return ok(typeAnswer{either[typeJSON, resolvedJSON]{b: &resolvedJSON{
		ID: t.ID, ETag: t.ETag, Strict: resolved.Strict, IsA: slices.Sorted(maps.Keys(resolved.IsA)),
		Properties: orEmpty(resolved.Properties), Telemetry: orEmpty(resolved.Telemetry),
		Relations: orEmpty(resolved.Relations), Commands: orEmpty(resolved.Commands),
	}}}), nil
}

// orEmpty returns an empty map for nil, so that JSON has {} and not null.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// typeBody is a type as it is written; a response can be sent back unchanged.
type typeBody struct {
	*model.Type
	// Ignored: the version goes into If-Match.
	ETag string `json:"etag,omitempty"`
}

type putTypeRequest struct {
	typePath
	precondition
	Body payload
}

func (a *typeAPI) put(ctx context.Context, in *putTypeRequest) (*answer[typeJSON], error) {
	var head map[string]json.RawMessage
	if err := json.Unmarshal(in.Body.text, &head); err != nil {
		return nil, problemf(http.StatusBadRequest, "the body must be a type: %v", jsonError(err))
	}
	if head == nil {
		return nil, problemf(http.StatusBadRequest, "the body must be a JSON object, not null")
	}
	delete(head, "etag")
	if head["id"] == nil {
		head["id"], _ = json.Marshal(in.ID) // it cannot fail
	}
	body, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	t, err := model.Parse(body)
	if err != nil {
		return nil, err
	}
	if t.ID != in.ID {
		return nil, problemf(http.StatusBadRequest, "id must be that of the path, %q, not %q", in.ID, shorten(t.ID, 64))
	}
	stored, err := a.runtime.PutType(ctx, t, in.replacing())
	return replaced(&in.precondition, typeJSON(stored), stored.ETag, err)
}

type deleteTypeRequest struct {
	typePath
	precondition
}

func (a *typeAPI) remove(ctx context.Context, in *deleteTypeRequest) (*answer[nothing], error) {
	return in.removed(a.runtime.DeleteType(ctx, in.ID, in.condition))
}

// typesBody is one or several types, in DTDL or in Greenroom's own format.
type typesBody struct{}

type importTypesRequest struct {
	// DTDL of version 2 or 3, or an array of types in Greenroom's own format.
	Format string `query:"format" enum:"dtdl,native" default:"dtdl"`
	Body   payload
}

// importedTypesJSON is the types that were put.
type importedTypesJSON struct {
	Types []importedTypeJSON `json:"types"`
}

// importedTypeJSON is a type that was put.
type importedTypeJSON struct {
	ID   string `json:"id" example:"Room"`
	ETag string `json:"etag" example:"3k"`
}

// load puts types, which may depend on each other.
func (a *typeAPI) load(ctx context.Context, in *importTypesRequest) (*answer[importedTypesJSON], error) {
	parse := model.ParseDTDL
	if in.Format == "native" {
		parse = parseTypes
	}
	types, err := parse(in.Body.text)
	if err != nil {
		return nil, err
	}
	if len(types) == 0 {
		return nil, problemf(http.StatusBadRequest, "the body must have at least one type")
	}
	stored, err := a.runtime.PutTypes(ctx, types)
	if err != nil {
		return nil, err
	}
	list := importedTypesJSON{Types: make([]importedTypeJSON, len(stored))}
	for i := range stored {
		list.Types[i] = importedTypeJSON{stored[i].ID, stored[i].ETag}
	}
	return &answer[importedTypesJSON]{value: list, location: "/v1/types/" + url.PathEscape(stored[0].ID)}, nil
}

func parseTypes(body []byte) ([]*model.Type, error) {
	var raw []json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		return nil, problemf(http.StatusBadRequest, "the body must be an array of types: %v", jsonError(err))
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
