package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

const sectionFields = fieldAttributes | fieldDesired | fieldReported | fieldDelta | fieldMetadata

// attributeAPI reads and writes the attributes of entities.
type attributeAPI struct {
	runtime *entity.Runtime
	editor  *editor
}

func (a *attributeAPI) operations() []operation {
	whole, patch := content{mediaJSON, documentJSON{}}, content{mediaJSONPatch, []patchOperation{}}
	return []operation{
		op("GET", "/v1/entities/{id}/attributes", "getAttributes", "Read all sections of an entity.", a.get, needs(seesEntity), fails(404)),
		op("PUT", "/v1/entities/{id}/attributes", "putAttributes", "Replace all sections.", a.put, needs(writesEntity), answers(200, 201), fails(409, 422, 428)),
		op("PATCH", "/v1/entities/{id}/attributes", "patchAttributes", "Patch the document whose members are the sections.", a.patch, needs(writesEntity),
			accepts(maxBodyBytes, content{mediaMergePatch, sectionsBody{}}, patch), answers(200, 201), fails(404, 409, 422)),
		op("GET", "/v1/entities/{id}/attributes/{section}", "getSection", "Read one section.", a.getSection, needs(seesEntity), fails(404)),
		op("PUT", "/v1/entities/{id}/attributes/{section}", "putSection", "Replace one section.", a.putSection, needs(reportsSection),
			accepts(maxBodyBytes, whole), answers(200, 201), fails(404, 409, 422, 428)),
		op("PATCH", "/v1/entities/{id}/attributes/{section}", "patchSection", "Patch one section.", a.patchSection, needs(reportsSection),
			accepts(maxBodyBytes, content{mediaMergePatch, whole.value}, patch), answers(200, 201), fails(404, 409, 422)),
	}
}

// documentJSON is a section of attributes: any JSON object.
type documentJSON map[string]any

// sectionsJSON is all sections of an entity.
type sectionsJSON struct {
	Attributes documentJSON `json:"attributes" example:"{\"floor\":2}"`
	Desired    documentJSON `json:"desired" example:"{\"setpoint\":21}"`
	Reported   documentJSON `json:"reported"`
	// The parts of desired that differ from reported.
	Delta    documentJSON `json:"delta" example:"{\"setpoint\":21}"`
	Metadata metadataJSON `json:"metadata"`
}

// metadataJSON has the sections again, with {"timestamp": seconds} instead of each value.
type metadataJSON struct {
	Attributes documentJSON `json:"attributes"`
	Desired    documentJSON `json:"desired"`
	Reported   documentJSON `json:"reported"`
	Delta      documentJSON `json:"delta"`
}

// sectionsBody is all sections of an entity as they are written.
type sectionsBody struct {
	Attributes json.RawMessage `json:"attributes,omitempty" type:"object" example:"{\"floor\":2}"`
	Desired    json.RawMessage `json:"desired,omitempty" type:"object" example:"{\"setpoint\":21}"`
	Reported   json.RawMessage `json:"reported,omitempty" type:"object"`
}

// patchOperation is an operation of RFC 6902.
type patchOperation struct {
	Op string `json:"op" enum:"add,remove,replace,move,copy,test" example:"add"`
	// A JSON pointer.
	Path string `json:"path" example:"/desired/setpoint"`
	// Where the value comes from, in move and copy.
	From string `json:"from,omitempty"`
	// Any JSON, in add, replace and test.
	Value json.RawMessage `json:"value,omitempty" example:"21"`
}

type sectionsRequest struct {
	entityPath
	ifChanged
}

// get returns all sections of an entity, with the times of their leaves.
func (a *attributeAPI) get(ctx context.Context, in *sectionsRequest) (*answer[sectionsJSON], error) {
	snapshot, err := a.runtime.Entity(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	body := appendSections(nil, &snapshot, sectionFields)
	body[0] = '{' // replaces the comma before the first member
	return encoded[sectionsJSON](append(body, '}')).versioned(snapshot.ETag), nil
}

// deltaName is the section that is computed from two others.
const deltaName = "delta"

type sectionPath struct {
	entityPath
	// delta can only be read.
	Section string `path:"section" enum:"attributes,desired,reported,delta" example:"desired"`
}

type getSectionRequest struct {
	sectionPath
	ifChanged
}

// getSection returns the document of a section.
func (a *attributeAPI) getSection(ctx context.Context, in *getSectionRequest) (*answer[documentJSON], error) {
	section, err := entity.ParseSection(in.Section)
	if err != nil && in.Section != deltaName {
		return nil, noSection(in.Section)
	}
	snapshot, err := a.runtime.Entity(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	leaves := snapshot.Section(section)
	if in.Section == deltaName {
		leaves = entity.Delta(snapshot.Section(entity.Desired), snapshot.Section(entity.Reported))
	}
	return encoded[documentJSON](entity.AppendAttributes(nil, leaves)).versioned(snapshot.ETag), nil
}

func noSection(name string) error {
	return problemf(http.StatusNotFound, "there is no section %q; the sections are attributes, desired, reported and delta", shorten(name, 64))
}

// writable returns the section in the path, or an error if it cannot be written.
func (p *sectionPath) writable() (entity.Section, error) {
	section, err := entity.ParseSection(p.Section)
	switch {
	case p.Section == deltaName:
		return 0, problemf(http.StatusUnprocessableEntity, "delta is computed as the difference of desired and reported; write one of these")
	case err != nil:
		return 0, noSection(p.Section)
	}
	return section, nil
}

type writeSectionRequest struct {
	sectionPath
	precondition
	Body payload
}

// putSection replaces one section.
func (a *attributeAPI) putSection(ctx context.Context, in *writeSectionRequest) (*answer[editedJSON], error) {
	section, err := in.writable()
	if err != nil {
		return nil, err
	}
	edits := entity.Edits{If: in.replacing(), Patches: []entity.Patch{{Section: section, Form: entity.Replace, Body: in.Body.text}}}
	return a.editor.edit(ctx, in.ID, edits, in.blind())
}

type putAttributesRequest struct {
	entityPath
	precondition
	Body sectionsBody
}

// put replaces all sections.
func (a *attributeAPI) put(ctx context.Context, in *putAttributesRequest) (*answer[editedJSON], error) {
	return a.editor.edit(ctx, in.ID, entity.Edits{If: in.replacing(), Patches: in.Body.patches(entity.Replace)}, in.blind())
}

// patches returns patches of the sections. With entity.Replace, a missing section becomes empty;
// otherwise it is not changed.
func (b *sectionsBody) patches(form entity.PatchForm) []entity.Patch {
	var list []entity.Patch
	for i, raw := range []json.RawMessage{b.Attributes, b.Desired, b.Reported} {
		if raw == nil && form == entity.Replace {
			raw = json.RawMessage("{}")
		}
		if raw != nil {
			list = append(list, entity.Patch{Section: entity.Attributes + entity.Section(i), Form: form, Body: raw})
		}
	}
	return list
}

// patchForms maps the media types of patches.
var patchForms = map[string]entity.PatchForm{mediaMergePatch: entity.MergePatch, mediaJSONPatch: entity.JSONPatch}

// patchSection patches one section.
func (a *attributeAPI) patchSection(ctx context.Context, in *writeSectionRequest) (*answer[editedJSON], error) {
	section, err := in.writable()
	if err != nil {
		return nil, err
	}
	edits := entity.Edits{If: in.condition, Patches: []entity.Patch{{Section: section, Form: patchForms[in.Body.media], Body: in.Body.text}}}
	return a.editor.edit(ctx, in.ID, edits, false)
}

type patchAttributesRequest struct {
	entityPath
	precondition
	Body payload
}

// patch patches the document whose members are the sections.
func (a *attributeAPI) patch(ctx context.Context, in *patchAttributesRequest) (*answer[editedJSON], error) {
	edits := entity.Edits{If: in.condition}
	if in.Body.media == mediaJSONPatch {
		var err error
		if edits.Patches, err = splitPatch(in.Body.text); err != nil {
			return nil, err
		}
		return a.editor.edit(ctx, in.ID, edits, false)
	}
	var b sectionsBody
	if err := decodeJSON(in.Body.text, &b); err != nil {
		return nil, err
	}
	edits.Patches = b.patches(entity.MergePatch)
	for i := range edits.Patches {
		if isNull(edits.Patches[i].Body) { // removing a section leaves it empty
			edits.Patches[i].Form, edits.Patches[i].Body = entity.Replace, []byte("{}")
		}
	}
	return a.editor.edit(ctx, in.ID, edits, false)
}

// splitPatch splits a JSON patch of all sections into patches of one section each, in the order of
// the operations.
func splitPatch(body []byte) ([]entity.Patch, error) {
	var ops []map[string]json.RawMessage
	if err := json.Unmarshal(body, &ops); err != nil {
		return nil, problemf(http.StatusBadRequest, `the body is no JSON patch such as [{"op":"replace","path":"/desired/setpoint","value":21}]: %v`, jsonError(err))
	}
	var patches []entity.Patch
	var runs [][]map[string]json.RawMessage // the operations of each patch
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
				return nil, problemf(http.StatusBadRequest, "operation %d: from must be in the same section as path, %v, not %v", i, section, from)
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

// localize removes the section from a pointer of an operation, and returns it.
func localize(op map[string]json.RawMessage, member string) (entity.Section, error) {
	var pointer string
	if err := json.Unmarshal(op[member], &pointer); err != nil {
		return 0, fmt.Errorf("%s must be a string", member)
	}
	name, rest, deeper := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	section, err := entity.ParseSection(name)
	if err != nil || !strings.HasPrefix(pointer, "/") {
		return 0, fmt.Errorf("%s must begin with /attributes, /desired or /reported, not %q", member, shorten(pointer, 64))
	}
	if deeper {
		rest = "/" + rest
	}
	op[member], err = json.Marshal(rest)
	return section, err
}
