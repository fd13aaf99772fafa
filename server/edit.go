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
)

// maxBodyBytes bounds a body of JSON where nothing else is said.
const maxBodyBytes = entity.MaxPatchBytes

// entityBody is an entity as it is written.
type entityBody struct {
	ID         string          `json:"id,omitempty"`
	Type       json.RawMessage `json:"type,omitempty"` // a string, or in a patch null
	Attributes json.RawMessage `json:"attributes,omitempty"`
	Desired    json.RawMessage `json:"desired,omitempty"`
	Reported   json.RawMessage `json:"reported,omitempty"`
	Relations  *[]relationJSON `json:"relations,omitempty"`
}

// typeID returns the type that is set: nil for none said, "" for null.
func (b *entityBody) typeID() (*string, error) {
	if b.Type == nil {
		return nil, nil //nolint:nilnil // documented
	}
	var id *string
	if err := json.Unmarshal(b.Type, &id); err != nil {
		return nil, problemf(http.StatusBadRequest, "type is the id of a type, or null for none")
	}
	if id == nil {
		id = new(string)
	}
	return id, nil
}

// sections returns what is said about each section, in order; nil for nothing.
func (b *entityBody) sections() [3]json.RawMessage {
	return [3]json.RawMessage{b.Attributes, b.Desired, b.Reported}
}

// patches makes patches of the sections. With replace a section that is not there
// is emptied, otherwise left alone.
func (b *entityBody) patches(form entity.PatchForm) []entity.Patch {
	var list []entity.Patch
	for i, raw := range b.sections() {
		if raw == nil && form == entity.Replace {
			raw = json.RawMessage("{}")
		}
		if raw != nil {
			list = append(list, entity.Patch{Section: entity.Attributes + entity.Section(i), Form: form, Body: raw})
		}
	}
	return list
}

// edits makes the body what the runtime is to do to a whole entity.
func (b *entityBody) edits(form entity.PatchForm) (entity.Edits, error) {
	typ, err := b.typeID()
	if err != nil {
		return entity.Edits{}, err
	}
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

// postEntity makes an entity that does not exist yet.
func (s *Server) postEntity(w http.ResponseWriter, r *http.Request) error {
	var b entityBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	if b.ID == "" {
		b.ID = strings.ToLower(rand.Text())
	}
	edits, err := b.edits(entity.Replace)
	if err != nil {
		return err
	}
	edits.If = entity.IfNone
	done, err := s.runtime.Edit(r.Context(), b.ID, edits)
	if err != nil {
		return targetProblem(err)
	}
	w.Header().Set("Location", "/v1/entities/"+url.PathEscape(b.ID))
	return writeEdited(w, b.ID, &done)
}

// targetProblem is about a write that names other entities: that one of them does
// not exist is a fault of the body.
func targetProblem(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return problemf(http.StatusUnprocessableEntity, "%v; a relation leads to an entity that exists", err)
	}
	return err
}

// putEntity replaces an entity, but for its telemetry.
func (s *Server) putEntity(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	var b entityBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	if b.ID != "" && b.ID != id {
		return problemf(http.StatusBadRequest, "the id in the body is %q, not that of the path", shorten(b.ID, 64))
	}
	edits, err := b.edits(entity.Replace)
	if err != nil {
		return err
	}
	if b.Relations != nil {
		if edits.Unrelate, err = s.othersThan(r.Context(), id, edits.Relate); err != nil {
			return err
		}
	}
	edits.If = condition
	return s.edit(w, r, id, edits, blind)
}

// othersThan returns the edges from an entity that are not in a list.
func (s *Server) othersThan(ctx context.Context, id string, keep []entity.Relation) ([]entity.Relation, error) {
	type end struct{ typ, to string }
	kept := make(map[end]bool, len(keep))
	for i := range keep {
		kept[end{keep[i].Type, keep[i].To}] = true
	}
	list, err := s.runtime.Relations(ctx, id, entity.Out)
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

// patchEntity merges into the type and the sections of an entity.
func (s *Server) patchEntity(w http.ResponseWriter, r *http.Request) error {
	var b entityBody
	body, _, err := readBody(w, r, maxBodyBytes, mediaMergePatch)
	if err == nil {
		err = decodeJSON(body, &b)
	}
	if err != nil {
		return err
	}
	if b.ID != "" || b.Relations != nil {
		return problemf(http.StatusBadRequest, "a patch of an entity has type, attributes, desired and reported; relations are at /v1/entities/{id}/relations")
	}
	edits, err := b.edits(entity.MergePatch)
	if err != nil {
		return err
	}
	if edits.If, err = conditionOf(r.Header); err != nil {
		return err
	}
	return s.edit(w, r, r.PathValue("id"), edits, false)
}

func (s *Server) deleteEntity(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.runtime.Delete(r.Context(), r.PathValue("id"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// edit makes an edit and answers with what it did.
func (s *Server) edit(w http.ResponseWriter, r *http.Request, id string, edits entity.Edits, blind bool) error {
	done, err := s.runtime.Edit(r.Context(), id, edits)
	if err != nil {
		return s.editProblem(r.Context(), id, &edits, blind, err)
	}
	return writeEdited(w, id, &done)
}

// editProblem tells the condition of an edit from what else can be in conflict or
// missing: a test of a JSON patch, and the other end of a relation.
func (s *Server) editProblem(ctx context.Context, id string, edits *entity.Edits, blind bool, err error) error {
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
	verr := s.runtime.View(ctx, id, func(v entity.View) error { etag = v.ETag(); return nil })
	if verr != nil && !errors.Is(verr, entity.ErrNotFound) {
		return verr
	}
	if entity.CheckCondition(edits.If, etag) == nil { // it holds: the conflict is another
		if errors.Is(err, entity.ErrNotFound) {
			return targetProblem(err)
		}
		return err
	}
	return conditionProblem(err, edits.If, blind, true)
}

// writeEdited answers a write of an entity.
func writeEdited(w http.ResponseWriter, id string, done *entity.Edited) error {
	w.Header().Set("ETag", `"`+done.ETag+`"`)
	body := append(make([]byte, 0, 256), `{"id":`...)
	body = entity.String(id).AppendJSON(body)
	body = append(body, `,"etag":"`+done.ETag+`","created":`...)
	body = entity.Bool(done.Created).AppendJSON(body)
	body = append(body, `,"changed":[`...)
	for i := range done.Attributes {
		body = append(appendComma(body, i), `{"section":"`...)
		body = append(body, done.Attributes[i].Section.String()...)
		body = append(body, `","path":`...)
		body = entity.String(done.Attributes[i].Path).AppendJSON(body)
		if done.Attributes[i].Removed() {
			body = append(body, `,"removed":true`...)
		}
		body = append(body, '}')
	}
	writeBodyStatus(w, created(done.Created), append(body, "]}\n"...))
	return nil
}

// isNull tells whether a member was given as null.
func isNull(raw json.RawMessage) bool { return string(bytes.TrimSpace(raw)) == "null" }
