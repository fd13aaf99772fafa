package awsshadow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
)

const (
	maxNameBytes  = 64 // of the name of a shadow
	maxTokenBytes = 64 // of a client token
	// maxTries is how often an update without a version is tried if other edits intervene.
	maxTries = 10
)

// Shadow identifies a shadow. The classic shadow of a thing has no Name.
type Shadow struct{ Thing, Name string }

// CheckName checks that a string is a valid name of a shadow. The error is a *Rejection.
func CheckName(name string) error {
	const allowed = "$-_:"
	plain := strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(allowed, r)
	}) < 0
	if name == "" || len(name) > maxNameBytes || !plain {
		return reject("Invalid shadow name: must have 1 to %d letters of ASCII, digits and %s, not %.80q", maxNameBytes, allowed, name)
	}
	return nil
}

// Rejection says why a request was rejected, in the words of AWS.
type Rejection struct { //nolint:errname // what AWS calls it
	Code    int // an HTTP status
	Message string
	cause   error
}

// Error returns the message.
func (r *Rejection) Error() string { return r.Message }

// Unwrap returns the error of the runtime, if there is one.
func (r *Rejection) Unwrap() error { return r.cause }

func reject(format string, args ...any) error {
	return &Rejection{Code: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), cause: entity.ErrInvalid}
}

// rejection returns the rejection for an error, or nil if the sender should try again.
func rejection(err error) *Rejection {
	if r, ok := errors.AsType[*Rejection](err); ok {
		return r
	}
	switch {
	case errors.Is(err, entity.ErrConflict):
		return &Rejection{http.StatusConflict, "Version conflict", err}
	case errors.Is(err, entity.ErrMismatch), errors.Is(err, entity.ErrInvalid), errors.Is(err, entity.ErrTooManyKeys):
		return &Rejection{http.StatusBadRequest, err.Error(), err}
	default:
		return nil
	}
}

// request is a client's request.
type request struct {
	Given   json.RawMessage `json:"state"`
	Version *uint64         `json:"version"`
	Token   json.RawMessage `json:"clientToken"`

	state state  // parsed from Given, for operations that use it
	token string // the checked client token, as JSON; "" for none
}

// state contains the patches of the sections, nil for none.
type state struct{ desired, reported json.RawMessage }

// parse parses a state, which must contain nothing else.
func (s *state) parse(data []byte) error {
	if len(data) == 0 {
		return reject("Missing required node: state")
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(data, &all) != nil {
		return reject("State node must be an object")
	}
	for name, v := range all {
		switch name {
		case "desired":
			s.desired = v
		case "reported":
			s.reported = v
		default:
			return reject("State contains an invalid node: '%s'", name)
		}
		if string(v) != "null" && v[0] != '{' {
			return reject("%s node must be an object", strings.ToUpper(name[:1])+name[1:])
		}
	}
	return nil
}

// parse parses a request. It may be empty if mayBeEmpty is set.
func parse(payload []byte, mayBeEmpty bool) (*request, error) {
	in := &request{}
	if mayBeEmpty && len(payload) == 0 {
		return in, nil
	}
	err := json.Unmarshal(payload, in)
	if token := string(in.Token); token != "" {
		if token[0] != '"' || len(token) > maxTokenBytes+2 {
			return in, reject("Invalid clientToken")
		}
		in.token = token
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		switch wrong.Field {
		case "version":
			return in, reject("Invalid version")
		case "":
			return in, reject("Payload must be a JSON object")
		}
	}
	if err != nil {
		return in, reject("Payload contains invalid json")
	}
	return in, nil
}

// document is a snapshot of a shadow.
type document struct {
	version           uint64
	etag              string
	desired, reported []entity.Attribute
}

// read returns a shadow, which is empty if it does not exist, or the entity does not.
func read(ctx context.Context, rt layout.Runtime, s Shadow) (d document, err error) {
	err = rt.View(ctx, s.Thing, func(v entity.View) error {
		d = document{version: v.Revision(), etag: v.ETag(), desired: s.leaves(v, entity.Desired), reported: s.leaves(v, entity.Reported)}
		return nil
	})
	if errors.Is(err, entity.ErrNotFound) {
		return document{etag: entity.IfNone}, nil
	}
	return d, err
}

// leaves returns the leaves of a section that belong to the shadow, with paths relative to it.
func (s Shadow) leaves(v entity.View, section entity.Section) []entity.Attribute {
	return s.part(slices.Collect(v.EachAttribute(section)))
}

// part is like leaves, for the leaves of a whole section.
func (s Shadow) part(all []entity.Attribute) []entity.Attribute {
	if s.Name == "" {
		return all
	}
	prefix := entity.Pointer(s.Name) + "/"
	from, _ := find(all, prefix)
	part := []entity.Attribute{}
	for _, a := range all[from:] {
		if !strings.HasPrefix(a.Path, prefix) {
			break
		}
		a.Path = a.Path[len(prefix)-1:]
		part = append(part, a)
	}
	return part
}

func (d *document) exists() bool { return len(d.desired)+len(d.reported) > 0 }

// parts returns the members of state and metadata: desired, reported and, if delta is set, delta.
// It omits those that are empty.
func (d *document) parts(delta bool) (list []part) {
	list = append(list, part{"desired", d.desired}, part{"reported", d.reported})
	if delta {
		list = append(list, part{"delta", entity.Delta(d.desired, d.reported)})
	}
	return slices.DeleteFunc(list, func(p part) bool { return len(p.leaves) == 0 })
}

type part struct {
	name   string
	leaves []entity.Attribute
}

// appendParts appends an object with the parts.
func appendParts(dst []byte, parts []part, each func([]byte, []entity.Attribute) []byte) []byte {
	dst = append(dst, '{')
	for i, p := range parts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = each(append(value.AppendQuoted(dst, p.name), ':'), p.leaves)
	}
	return append(dst, '}')
}

// append appends the members state, metadata and version.
func (d *document) append(dst []byte, delta bool) []byte {
	parts := d.parts(delta)
	dst = appendParts(append(dst, `"state":`...), parts, entity.AppendAttributes)
	dst = appendParts(append(dst, `,"metadata":`...), parts[:len(d.parts(false))], entity.AppendTimes)
	return fmt.Appendf(dst, `,"version":%d`, d.version)
}

// finish appends the time and the client token, and closes the answer.
func (in *request) finish(dst []byte) []byte {
	dst = fmt.Appendf(dst, `,"timestamp":%d`, time.Now().Unix())
	if in.token != "" {
		dst = append(append(dst, `,"clientToken":`...), in.token...)
	}
	return append(dst, '}')
}

// Get returns the document of a shadow, in the form of get/accepted.
func Get(ctx context.Context, rt layout.Runtime, s Shadow, payload []byte) ([]byte, error) {
	in, err := parse(payload, true)
	if err != nil {
		return in.refuse(err)
	}
	d, err := read(ctx, rt, s)
	if err == nil && !d.exists() {
		err = s.missing()
	}
	if err != nil {
		return in.refuse(err)
	}
	return in.finish(d.append([]byte{'{'}, true)), nil
}

func (s Shadow) missing() error {
	name := s.Thing
	if s.Name != "" {
		name += "~" + s.Name
	}
	return &Rejection{http.StatusNotFound, fmt.Sprintf("No shadow exists with name: '%s'", name), entity.ErrNotFound}
}

// Delete deletes a shadow, and returns the payload of delete/accepted.
func Delete(ctx context.Context, rt layout.Runtime, s Shadow, payload []byte) ([]byte, error) {
	in, err := parse(payload, true)
	if err != nil {
		return in.refuse(err)
	}
	done, err := change(ctx, rt, s, in, func(d *document) ([]entity.Patch, error) {
		if !d.exists() {
			return nil, s.missing()
		}
		return []entity.Patch{s.patch(entity.Desired, d.desired, []byte("null")), s.patch(entity.Reported, d.reported, []byte("null"))}, nil
	})
	if err != nil {
		return in.refuse(err)
	}
	return in.finish(fmt.Appendf(nil, `{"version":%d`, done.Revision)), nil
}

// Update changes a shadow. It returns the payloads of update/accepted and update/documents.
func Update(ctx context.Context, rt layout.Runtime, s Shadow, payload []byte) (accepted, documents []byte, err error) {
	in, err := parse(payload, false)
	if err == nil {
		err = in.state.parse(in.Given)
	}
	if err != nil {
		rejected, err := in.refuse(err)
		return rejected, nil, err
	}
	var before document
	done, err := change(ctx, rt, s, in, func(d *document) (patches []entity.Patch, err error) {
		before = *d
		if in.state.desired != nil {
			patches = append(patches, s.patch(entity.Desired, d.desired, in.state.desired))
		}
		if in.state.reported != nil {
			patches = append(patches, s.patch(entity.Reported, d.reported, in.state.reported))
		}
		return patches, nil
	})
	if err != nil {
		rejected, err := in.refuse(err)
		return rejected, nil, err
	}
	after := before.with(s, &done)
	documents = append(before.append([]byte(`{"previous":{`), false), `},"current":{`...)
	documents = in.finish(append(after.append(documents, false), '}'))
	return in.accepted(&after), documents, nil
}

// accepted returns the requested state, and when its leaves were set.
func (in *request) accepted(after *document) []byte {
	dst := []byte(`{"state":{`)
	var metadata []byte
	for _, p := range []struct {
		name   string
		text   json.RawMessage
		leaves []entity.Attribute
	}{{"desired", in.state.desired, after.desired}, {"reported", in.state.reported, after.reported}} {
		if p.text == nil {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst, metadata = append(dst, ','), append(metadata, ',')
		}
		dst = append(append(value.AppendQuoted(dst, p.name), ':'), p.text...)
		metadata = append(value.AppendQuoted(metadata, p.name), ':')
		metadata = entity.AppendTimes(metadata, touched(p.text, p.leaves))
	}
	dst = append(append(append(dst, `},"metadata":{`...), metadata...), '}')
	return in.finish(fmt.Appendf(dst, `,"version":%d`, after.version))
}

// touched returns the leaves below the top-level members of a patch.
func touched(patch json.RawMessage, leaves []entity.Attribute) (list []entity.Attribute) {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(patch, &members) // it was parsed before; null has no members
	for _, a := range leaves {
		name, _ := a.Member()
		if _, ok := members[name]; ok {
			list = append(list, a)
		}
	}
	return list
}

// patch returns the patch that merges a JSON object into a section of the shadow; null clears it.
func (s Shadow) patch(section entity.Section, have []entity.Attribute, text []byte) entity.Patch {
	null := string(text) == "null"
	switch {
	case s.Name != "":
		name := string(value.AppendQuoted(nil, s.Name))
		return entity.Patch{Section: section, Body: fmt.Appendf(nil, `{%s:%s}`, name, text)}
	case null && len(have) > 0:
		return entity.Patch{Section: section, Form: entity.Replace, Body: []byte(`{}`)}
	case null:
		return entity.Patch{Section: section, Body: []byte(`{}`)}
	default:
		return entity.Patch{Section: section, Body: text}
	}
}

// change edits a shadow on the condition that the entity was not edited since f saw it. If the
// request has no version, it tries again.
func change(ctx context.Context, rt layout.Runtime, s Shadow, in *request, f func(*document) ([]entity.Patch, error)) (entity.Edited, error) {
	for try := 1; ; try++ {
		d, err := read(ctx, rt, s)
		if err != nil {
			return entity.Edited{}, err
		}
		if in.Version != nil && *in.Version != d.version {
			return entity.Edited{}, &Rejection{http.StatusConflict, "Version conflict", entity.ErrConflict}
		}
		patches, err := f(&d)
		if err != nil {
			return entity.Edited{}, err
		}
		done, err := rt.Edit(ctx, s.Thing, entity.Edits{If: d.etag, Patches: patches})
		if errors.Is(err, entity.ErrNotFound) { // it was deleted meanwhile
			err = fmt.Errorf("%w: %w", entity.ErrConflict, err)
		}
		if in.Version == nil && try < maxTries && errors.Is(err, entity.ErrConflict) {
			continue
		}
		return done, err
	}
}

// refuse returns the answer to a rejected request, or nil if the sender should try again.
func (in *request) refuse(err error) ([]byte, error) {
	r := rejection(err)
	if r == nil {
		return nil, err
	}
	dst := fmt.Appendf(nil, `{"code":%d,"message":`, r.Code)
	return in.finish(value.AppendQuoted(dst, r.Message)), r
}

// with returns the shadow after an edit.
func (d *document) with(s Shadow, done *entity.Edited) document {
	after := document{version: done.Revision, etag: done.ETag}
	after.desired = s.edited(d.desired, entity.Desired, done.Attributes)
	after.reported = s.edited(d.reported, entity.Reported, done.Attributes)
	return after
}

func (s Shadow) edited(leaves []entity.Attribute, section entity.Section, edits []entity.AttributeEdit) []entity.Attribute {
	prefix := ""
	if s.Name != "" {
		prefix = entity.Pointer(s.Name)
	}
	list := slices.Clone(leaves)
	for _, e := range edits {
		path, ok := strings.CutPrefix(e.Path, prefix)
		if e.Section != section || !ok || !strings.HasPrefix(path, "/") {
			continue
		}
		e.Path = path
		i, found := find(list, path)
		switch {
		case found && e.Removed():
			list = slices.Delete(list, i, i+1)
		case found:
			list[i] = e.Attribute
		case !e.Removed():
			list = slices.Insert(list, i, e.Attribute)
		}
	}
	return list
}

// Names returns the names of the named shadows of a thing: of the objects in desired and reported
// whose name is valid for a shadow.
func Names(ctx context.Context, rt layout.Runtime, thing string) ([]string, error) {
	names := map[string]bool{}
	err := rt.View(ctx, thing, func(v entity.View) error {
		for _, section := range []entity.Section{entity.Desired, entity.Reported} {
			for a := range v.EachAttribute(section) {
				if name, ok := named(&a); ok {
					names[name] = true
				}
			}
		}
		return nil
	})
	list := slices.AppendSeq([]string{}, maps.Keys(names)) // an empty list must be [] in JSON
	slices.Sort(list)
	return list, err
}

// named returns the name of the named shadow to which an attribute in desired or reported belongs,
// if any.
func named(a *entity.Attribute) (name string, ok bool) {
	name, deeper := a.Member()
	return name, deeper && CheckName(name) == nil
}
