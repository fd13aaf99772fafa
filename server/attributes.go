package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

const sectionFields = fieldAttributes | fieldDesired | fieldReported | fieldDelta | fieldMetadata

// getAttributes answers with all sections of an entity and the times of their
// leaves.
func (s *Server) getAttributes(w http.ResponseWriter, r *http.Request) error {
	snapshot, err := s.runtime.Entity(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if notModified(w, r, snapshot.ETag) {
		return nil
	}
	body := appendSections(nil, &snapshot, sectionFields)
	body[0] = '{' // in the place of the comma before the first member
	writeBody(w, append(body, "}\n"...))
	return nil
}

// deltaName is the section that is computed of two others.
const deltaName = "delta"

// getSection answers with the document of one section.
func (s *Server) getSection(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("section")
	section, err := entity.ParseSection(name)
	if err != nil && name != deltaName {
		return problemf(http.StatusNotFound, "there is no section %q; there are attributes, desired, reported and delta", shorten(name, 64))
	}
	snapshot, err := s.runtime.Entity(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	if notModified(w, r, snapshot.ETag) {
		return nil
	}
	leaves := snapshot.Section(section)
	if name == deltaName {
		leaves = entity.Delta(snapshot.Section(entity.Desired), snapshot.Section(entity.Reported))
	}
	writeBody(w, append(entity.AppendAttributes(nil, leaves), '\n'))
	return nil
}

// sectionParam returns the section of the path, which is to be written.
func sectionParam(r *http.Request) (entity.Section, error) {
	name := r.PathValue("section")
	section, err := entity.ParseSection(name)
	switch {
	case name == deltaName:
		return 0, problemf(http.StatusUnprocessableEntity, "delta is what desired and reported differ in; write one of these")
	case err != nil:
		return 0, problemf(http.StatusNotFound, "there is no section %q; there are attributes, desired, reported and delta", shorten(name, 64))
	}
	return section, nil
}

// putSection replaces one section.
func (s *Server) putSection(w http.ResponseWriter, r *http.Request) error {
	section, err := sectionParam(r)
	if err != nil {
		return err
	}
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	body, _, err := readBody(w, r, maxBodyBytes, mediaJSON)
	if err != nil {
		return err
	}
	edits := entity.Edits{If: condition, Patches: []entity.Patch{{Section: section, Form: entity.Replace, Body: body}}}
	return s.edit(w, r, r.PathValue("id"), edits, blind)
}

// putAttributes replaces all sections.
func (s *Server) putAttributes(w http.ResponseWriter, r *http.Request) error {
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	var b entityBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	if err := b.onlySections(); err != nil {
		return err
	}
	return s.edit(w, r, r.PathValue("id"), entity.Edits{If: condition, Patches: b.patches(entity.Replace)}, blind)
}

func (b *entityBody) onlySections() error {
	if b.ID != "" || b.Type != nil || b.Relations != nil {
		return problemf(http.StatusBadRequest, "the document of the attributes has attributes, desired and reported; the type is that of /v1/entities/{id}")
	}
	return nil
}

// patchForms are the media types of a patch.
var patchForms = map[string]entity.PatchForm{mediaMergePatch: entity.MergePatch, mediaJSONPatch: entity.JSONPatch}

// patchSection patches one section.
func (s *Server) patchSection(w http.ResponseWriter, r *http.Request) error {
	section, err := sectionParam(r)
	if err != nil {
		return err
	}
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	body, media, err := readBody(w, r, maxBodyBytes, mediaMergePatch, mediaJSONPatch)
	if err != nil {
		return err
	}
	edits := entity.Edits{If: condition, Patches: []entity.Patch{{Section: section, Form: patchForms[media], Body: body}}}
	return s.edit(w, r, r.PathValue("id"), edits, false)
}

// patchAttributes patches the document that has the sections as its members.
func (s *Server) patchAttributes(w http.ResponseWriter, r *http.Request) error {
	edits := entity.Edits{}
	var err error
	if edits.If, err = conditionOf(r.Header); err != nil {
		return err
	}
	body, media, err := readBody(w, r, maxBodyBytes, mediaMergePatch, mediaJSONPatch)
	if err != nil {
		return err
	}
	if media == mediaJSONPatch {
		if edits.Patches, err = splitPatch(body); err != nil {
			return err
		}
		return s.edit(w, r, r.PathValue("id"), edits, false)
	}
	var b entityBody
	if err := decodeJSON(body, &b); err != nil {
		return err
	}
	if err := b.onlySections(); err != nil {
		return err
	}
	edits.Patches = b.patches(entity.MergePatch)
	for i := range edits.Patches {
		if isNull(edits.Patches[i].Body) { // removing a section leaves an empty one
			edits.Patches[i].Form, edits.Patches[i].Body = entity.Replace, []byte("{}")
		}
	}
	return s.edit(w, r, r.PathValue("id"), edits, false)
}

// splitPatch makes of a JSON patch of all sections patches of one each, in the
// order of the operations.
func splitPatch(body []byte) ([]entity.Patch, error) {
	var ops []map[string]json.RawMessage
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, problemf(http.StatusBadRequest, `the body is no JSON patch such as [{"op":"replace","path":"/desired/setpoint","value":21}]: %v`, jsonError(err))
	}
	var patches []entity.Patch
	var runs [][]map[string]json.RawMessage // the operations of each
	for i, op := range ops {
		section, err := localize(op, "path")
		if err != nil {
			return nil, problemf(http.StatusBadRequest, "operation %d: %v", i, err)
		}
		if op["from"] != nil {
			from, err := localize(op, "from")
			if err != nil {
				return nil, problemf(http.StatusBadRequest, "operation %d: %v", i, err)
			}
			if from != section {
				return nil, problemf(http.StatusBadRequest, "operation %d: from %v to %v; within one section is right", i, from, section)
			}
		}
		if n := len(patches); n == 0 || patches[n-1].Section != section {
			patches, runs = append(patches, entity.Patch{Section: section, Form: entity.JSONPatch}), append(runs, nil)
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], op)
	}
	for i := range patches {
		text, err := json.Marshal(runs[i])
		if err != nil {
			return nil, err
		}
		patches[i].Body = text
	}
	return patches, nil
}

// localize takes the section off a pointer of an operation, and returns it.
func localize(op map[string]json.RawMessage, member string) (entity.Section, error) {
	var pointer string
	if err := json.Unmarshal(op[member], &pointer); err != nil {
		return 0, fmt.Errorf("%s is missing or no string", member)
	}
	name, rest, deeper := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	section, err := entity.ParseSection(name)
	if err != nil || !strings.HasPrefix(pointer, "/") {
		return 0, fmt.Errorf("%s is %q; it begins with /attributes, /desired or /reported", member, shorten(pointer, 64))
	}
	if deeper {
		rest = "/" + rest
	}
	op[member], err = json.Marshal(rest)
	return section, err
}
