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
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// relationAPI reads and writes the relations of entities.
type relationAPI struct {
	runtime *entity.Runtime
	editor  *editor
}

func (a *relationAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/entities/{id}/relations", "listRelations", "List the relations of an entity, those from it first.", a.list, needs(seesEntity), answersMuch, fails(404)),
		op("GET", "/v1/entities/{id}/relations/{type}/{to}", "getRelation", "Read one relation.", a.get, needs(seesEntity), fails(404)),
		op("PUT", "/v1/entities/{id}/relations/{type}/{to}", "putRelation", "Create a relation, or replace its properties.", a.put, needs(writesEntity),
			accepts(maxBodyBytes, content{mediaJSON, documentJSON{}}), answers(200, 201), fails(404, 409, 422)),
		op("DELETE", "/v1/entities/{id}/relations/{type}/{to}", "deleteRelation", "Delete a relation.", a.remove, needs(writesEntity), fails(404)),
	}
}

type relationPath struct {
	entityPath
	// The type of the relation.
	Type string `path:"type" minLength:"1" maxLength:"256" example:"contains"`
	// The id of the entity at the other end.
	To string `path:"to" minLength:"1" maxLength:"256" example:"sensor-1"`
}

// relationBody is a relation as it is written.
type relationBody struct {
	// The id of the entity from which it leads; only in an import.
	From string `json:"from,omitempty"`
	Type string `json:"type" example:"contains"`
	// The id of the entity to which it leads.
	To         string          `json:"to" example:"sensor-1"`
	Properties json.RawMessage `json:"properties,omitempty" type:"object" example:"{\"since\":2020}"`
}

// relationJSON is a relation.
type relationJSON struct {
	// The id of the entity from which it leads.
	From string `json:"from" example:"room-1"`
	Type string `json:"type" example:"contains"`
	// The id of the entity to which it leads.
	To         string          `json:"to" example:"sensor-1"`
	Properties json.RawMessage `json:"properties,omitempty" type:"object" example:"{\"since\":2020}"`
}

func (j *relationBody) relation() (entity.Relation, error) {
	properties, err := parseProperties(j.Properties)
	if err != nil {
		return entity.Relation{}, fmt.Errorf("relation %q to %q: %w", shorten(j.Type, 64), shorten(j.To, 64), err)
	}
	return entity.Relation{From: j.From, Type: j.Type, To: j.To, Properties: properties}, nil
}

func newRelationJSON(r *entity.Relation) relationJSON {
	return relationJSON{From: r.From, Type: r.Type, To: r.To, Properties: json.RawMessage(r.Properties.Text())}
}

// parseProperties parses the properties of an edge; the zero Value means none.
func parseProperties(raw []byte) (value.Value, error) {
	if len(raw) == 0 || isNull(raw) {
		return value.Value{}, nil
	}
	v := entity.ParseJSON(raw)
	if v.Kind() == 0 || v.Text()[0] != '{' {
		return v, fmt.Errorf("properties: %w: must be a JSON object of at most %d bytes", entity.ErrInvalid, entity.MaxTextBytes)
	}
	return v, nil
}

func parseDirection(text string) (entity.Direction, error) {
	for _, d := range []entity.Direction{entity.Out, entity.In, entity.Both} {
		if text == d.String() {
			return d, nil
		}
	}
	return 0, problemf(http.StatusBadRequest, "direction must be out, in or both, not %q", shorten(text, 32))
}

// relationPageJSON is a page of relations.
type relationPageJSON struct {
	Relations []relationJSON `json:"relations"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

type listRelationsRequest struct {
	entityPath
	cursorParam
	Direction string `query:"direction" enum:"out,in,both" default:"both"`
	// Only relations of this type.
	Type *string `query:"type" example:"contains"`
	// The maximum number of relations to return.
	Limit int `query:"limit" minimum:"1" maximum:"10000" default:"100"`
}

// list returns the relations of an entity in a stable order, so that a page can begin where the
// previous one ended.
func (a *relationAPI) list(ctx context.Context, in *listRelationsRequest) (*answer[relationPageJSON], error) {
	direction, err := parseDirection(in.Direction)
	if err != nil {
		return nil, err
	}
	after, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	if err := mustExist(ctx, a.runtime, in.ID); err != nil {
		return nil, err
	}
	list, err := a.runtime.Relations(ctx, in.ID, direction)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(rel entity.Relation) bool {
		return in.Type != nil && rel.Type != *in.Type || relationPlace(&rel, in.ID) <= after || !seesEnds(ctx, a.runtime, &rel, in.ID)
	})
	slices.SortFunc(list, func(a, b entity.Relation) int {
		return strings.Compare(relationPlace(&a, in.ID), relationPlace(&b, in.ID))
	})
	page := relationPageJSON{Relations: []relationJSON{}}
	if len(list) > in.Limit {
		list = list[:in.Limit]
		page.Next = pageCursor(relationPlace(&list[in.Limit-1], in.ID))
	}
	for i := range list {
		page.Relations = append(page.Relations, newRelationJSON(&list[i]))
	}
	return ok(page), nil
}

// relationPlace returns the sort key of an edge in the list of an entity: edges from it come first.
func relationPlace(r *entity.Relation, id string) string {
	if r.From == id {
		return "0\x00" + r.Type + "\x00" + r.To
	}
	return "1\x00" + r.Type + "\x00" + r.From
}

// mustExist returns ErrNotFound for an entity that does not exist.
func mustExist(ctx context.Context, rt *entity.Runtime, id string) error {
	return rt.View(ctx, id, func(entity.View) error { return nil })
}

// find returns the relation in the path.
func (a *relationAPI) find(ctx context.Context, in *relationPath) (entity.Relation, error) {
	list, err := a.runtime.Relations(ctx, in.ID, entity.Out)
	if err != nil {
		return entity.Relation{}, err
	}
	i := slices.IndexFunc(list, func(rel entity.Relation) bool { return rel.Type == in.Type && rel.To == in.To && rel.From == in.ID })
	if i < 0 {
		return entity.Relation{}, fmt.Errorf("relation %q from %q to %q: %w", shorten(in.Type, 64), in.ID, shorten(in.To, 64), entity.ErrNotFound)
	}
	return list[i], nil
}

func (a *relationAPI) get(ctx context.Context, in *relationPath) (*answer[relationJSON], error) {
	if err := callerOf(ctx).who.May(ctx, a.runtime, access.Read, in.To); err != nil {
		return nil, err
	}
	rel, err := a.find(ctx, in)
	if err != nil {
		return nil, err
	}
	return ok(newRelationJSON(&rel)), nil
}

type putRelationRequest struct {
	relationPath
	precondition
	Body payload
}

// put creates a relation, or replaces its properties.
func (a *relationAPI) put(ctx context.Context, in *putRelationRequest) (*answer[editedJSON], error) {
	properties, err := parseProperties(in.Body.text)
	if err != nil {
		return nil, err
	}
	if in.condition == "" { // a relation does not create an entity
		if err := mustExist(ctx, a.runtime, in.ID); err != nil {
			return nil, err
		}
	}
	rel := entity.Relation{Type: in.Type, To: in.To, Properties: properties}
	return a.editor.edit(ctx, in.ID, entity.Edits{If: cmp.Or(in.condition, entity.IfAny), Relate: []entity.Relation{rel}}, false)
}

type deleteRelationRequest struct {
	relationPath
	precondition
}

func (a *relationAPI) remove(ctx context.Context, in *deleteRelationRequest) (*answer[nothing], error) {
	rel, err := a.find(ctx, &in.relationPath)
	if err != nil {
		return nil, err
	}
	edits := entity.Edits{If: cmp.Or(in.condition, entity.IfAny), Unrelate: []entity.Relation{rel}}
	if _, err := a.runtime.Edit(ctx, rel.From, edits); err != nil {
		return nil, conditionProblem(err, in.condition, false, false)
	}
	return noContent(), nil
}
