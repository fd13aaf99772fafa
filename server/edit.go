package server

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// maxBodyBytes is the default limit of a JSON body.
const maxBodyBytes = entity.MaxPatchBytes

// entityBody is an entity as it is written.
type entityBody struct {
	// Only when an entity is created; by default the server generates one.
	ID string `json:"id,omitempty" example:"room-1"`
	// The id of its type; null for none.
	Type typeRef `json:"type,omitzero" example:"\"Room\""`
	sectionsBody
	// The relations from it.
	Relations *[]relationBody `json:"relations,omitempty"`
}

// typeRef is the id of a type: nil if it is missing, "" for null.
type typeRef struct{ id *string }

// UnmarshalJSON accepts a string or null.
func (t *typeRef) UnmarshalJSON(text []byte) error {
	t.id = new(string)
	if !isNull(text) && json.Unmarshal(text, t.id) != nil {
		return errors.New("type must be the id of a type, or null for none")
	}
	return nil
}

// editedJSON is what a write has done.
type editedJSON struct {
	ID string `json:"id" example:"room-1"`
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
	// The entity is new.
	Created bool          `json:"created"`
	Changed []changedJSON `json:"changed"`
}

// changedJSON is an attribute that a write has changed.
type changedJSON struct {
	Section string `json:"section" enum:"attributes,desired,reported" example:"desired"`
	// A JSON pointer.
	Path    string `json:"path" example:"/setpoint"`
	Removed bool   `json:"removed,omitempty"`
}

// edits converts the body to edits of a whole entity.
func (b *entityBody) edits(form entity.PatchForm) (entity.Edits, error) {
	typ := b.Type.id
	if typ == nil && form == entity.Replace {
		typ = new(string)
	}
	edits := entity.Edits{Type: typ, Patches: b.patches(form)}
	if b.Relations != nil {
		for i := range *b.Relations {
			rel, err := (*b.Relations)[i].relation()
			if err != nil {
				return entity.Edits{}, err
			}
			edits.Relate = append(edits.Relate, rel)
		}
	}
	return edits, nil
}

// targetProblem returns the problem for a write that refers to other entities: if one of them does
// not exist, the body is at fault.
func targetProblem(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return problemf(http.StatusUnprocessableEntity, "%v; a relation leads to an entity that exists", err)
	}
	return err
}

type createEntityRequest struct{ Body entityBody }

// create creates an entity, which must not exist.
func (a *entityAPI) create(ctx context.Context, in *createEntityRequest) (*answer[editedJSON], error) {
	id := in.Body.ID
	if id == "" {
		id = strings.ToLower(rand.Text())
	}
	edits, err := in.Body.edits(entity.Replace)
	if err != nil {
		return nil, err
	}
	edits.If, edits.By = entity.IfNone, callerOf(ctx).who.Name()
	if err := callerOf(ctx).who.May(ctx, a.runtime, access.Write, id); err != nil {
		return nil, err
	}
	if err := mayWriteEnds(ctx, a.runtime, edits.Relate); err != nil {
		return nil, err
	}
	edited, err := a.runtime.Edit(ctx, id, edits)
	if err != nil {
		return nil, targetProblem(err)
	}
	reply := newEdited(id, &edited)
	reply.location = "/v1/entities/" + url.PathEscape(id)
	return reply, nil
}

type writeEntityRequest struct {
	entityPath
	precondition
	Body entityBody
}

// put replaces an entity, except for its telemetry.
func (a *entityAPI) put(ctx context.Context, in *writeEntityRequest) (*answer[editedJSON], error) {
	b := &in.Body
	if b.ID != "" && b.ID != in.ID {
		return nil, problemf(http.StatusBadRequest, "id must be that of the path, %q, not %q", in.ID, shorten(b.ID, 64))
	}
	edits, err := b.edits(entity.Replace)
	if err != nil {
		return nil, err
	}
	if b.Relations != nil {
		if edits.Unrelate, err = a.othersThan(ctx, in.ID, edits.Relate); err != nil {
			return nil, err
		}
	}
	edits.If = in.replacing()
	return a.editor.edit(ctx, in.ID, edits, in.blind())
}

// othersThan returns the edges from an entity that are not in keep.
func (a *entityAPI) othersThan(ctx context.Context, id string, keep []entity.Relation) ([]entity.Relation, error) {
	type end struct{ typ, to string }
	kept := make(map[end]bool, len(keep))
	for i := range keep {
		kept[end{keep[i].Type, keep[i].To}] = true
	}
	list, err := a.runtime.Relations(ctx, id, entity.Out)
	if err != nil {
		return nil, err
	}
	var others []entity.Relation
	for i := range list {
		if !kept[end{list[i].Type, list[i].To}] {
			others = append(others, list[i])
		}
	}
	return others, nil
}

// patch merges into the type and the sections of an entity.
func (a *entityAPI) patch(ctx context.Context, in *patchEntityRequest) (*answer[editedJSON], error) {
	var b entityBody
	if err := decodeJSON(in.Body.text, &b); err != nil {
		return nil, err
	}
	if b.ID != "" || b.Relations != nil {
		return nil, problemf(http.StatusBadRequest, "a patch of an entity may have type, attributes, desired and reported; relations are at /v1/entities/{id}/relations")
	}
	edits, err := b.edits(entity.MergePatch)
	if err != nil {
		return nil, err
	}
	edits.If = in.condition
	return a.editor.edit(ctx, in.ID, edits, false)
}

type patchEntityRequest struct {
	entityPath
	precondition
	Body payload
}

type deleteEntityRequest struct {
	entityPath
	precondition
}

func (a *entityAPI) remove(ctx context.Context, in *deleteEntityRequest) (*answer[nothing], error) {
	return in.removed(a.runtime.Delete(ctx, in.ID, in.condition))
}

// editor edits entities, and explains refused edits.
type editor struct{ runtime *entity.Runtime }

// edit makes an edit, and returns what it did.
func (e *editor) edit(ctx context.Context, id string, edits entity.Edits, blind bool) (*answer[editedJSON], error) {
	if err := mayWriteEnds(ctx, e.runtime, edits.Relate); err != nil {
		return nil, err
	}
	edits.By = callerOf(ctx).who.Name()
	edited, err := e.runtime.Edit(ctx, id, edits)
	if err != nil {
		return nil, e.problem(ctx, id, &edits, blind, err)
	}
	return newEdited(id, &edited), nil
}

// problem distinguishes a failed condition of an edit from other causes of the same errors: a test
// in a JSON patch, and a missing end of a relation.
func (e *editor) problem(ctx context.Context, id string, edits *entity.Edits, blind bool, err error) error {
	if errors.Is(err, entity.ErrTestFailed) { // the condition did hold: it is checked before
		return err
	}
	if edits.If == "" || !errors.Is(err, entity.ErrConflict) && !errors.Is(err, entity.ErrNotFound) {
		if len(edits.Relate) > 0 {
			return targetProblem(err)
		}
		return err
	}
	etag := ""
	verr := e.runtime.View(ctx, id, func(v entity.View) error { etag = v.ETag(); return nil })
	if verr != nil && !errors.Is(verr, entity.ErrNotFound) {
		return verr
	}
	if entity.CheckCondition(edits.If, etag) == nil { // it holds, so the conflict is another
		if errors.Is(err, entity.ErrNotFound) {
			return targetProblem(err)
		}
		return err
	}
	return conditionProblem(err, edits.If, blind, true)
}

// newEdited returns the response to a write of an entity.
func newEdited(id string, edited *entity.Edited) *answer[editedJSON] {
	body := editedJSON{ID: id, ETag: edited.ETag, Created: edited.Created, Changed: make([]changedJSON, len(edited.Attributes))}
	for i := range edited.Attributes {
		at := &edited.Attributes[i]
		body.Changed[i] = changedJSON{Section: at.Section.String(), Path: at.Path, Removed: at.Removed()}
	}
	return ok(body).withETag(edited.ETag).withStatus(created(edited.Created))
}

// isNull reports whether a member is null.
func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }
