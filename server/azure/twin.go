package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// Limits of properties, as in Azure.
const (
	maxPatchBytes = 32 << 10
	maxPatchDepth = 10
	maxNameBytes  = 1 << 10
)

// errorCode is Azure's code for an invalid argument.
const errorCode = 400004

// outcome is the answer to a request about a twin.
type outcome struct {
	status  int
	version uint64 // 0 for none
	body    []byte
}

// twin answers a request about the twin of the client's device, by calling do.
func (l *Layout) twin(c layout.Client, m *layout.Message, bag string, do func(layout.Client, string, []byte) (outcome, error), done func(error)) error {
	rid, err := requestOf(bag)
	if err != nil {
		return err
	}
	id := deviceOf(c)
	if err := entity.CheckID(id); err != nil {
		return err
	}
	o, err := do(c, id, m.Payload)
	switch {
	case err == nil:
		m.Spoke(id)
	case isWrong(err):
		o = rejected(err)
		m.Refused(err)
	default:
		return err
	}
	topic := fmt.Sprintf("%s%d/?%s=%s", twinAnswer, o.status, requestID, rid)
	if o.version != 0 {
		topic += fmt.Sprintf("&%s=%d", versionName, o.version)
	}
	_ = c.Send(topic, o.body, nil) // a client that does not subscribe does not want the answer
	done(nil)
	return nil
}

// isWrong reports whether the request is at fault, so that trying it again is useless.
func isWrong(err error) bool {
	return errors.Is(err, entity.ErrInvalid) || errors.Is(err, entity.ErrMismatch) || errors.Is(err, entity.ErrTooManyKeys)
}

// rejected returns the answer to an invalid request.
func rejected(err error) outcome {
	body := fmt.Appendf(nil, `{"errorCode":%d,"message":`, errorCode)
	body = value.AppendQuoted(body, err.Error())
	return outcome{status: http.StatusBadRequest, body: fmt.Appendf(body, `,"timestampUtc":%q}`, time.Now().UTC().Format(time.RFC3339))}
}

// getTwin returns both sections, each with the version of the entity.
func (l *Layout) getTwin(c layout.Client, id string, _ []byte) (outcome, error) {
	if err := c.May(access.Read, id); err != nil {
		return outcome{}, err
	}
	ctx, cancel := context.WithTimeout(l.host.Running, lookTimeout)
	defer cancel()
	doc := appendTwin(nil, nil, nil, 0) // for an entity that does not exist
	err := l.host.Runtime.View(ctx, id, func(v entity.View) error {
		doc = appendTwin(nil, slices.Collect(v.EachAttribute(entity.Desired)), slices.Collect(v.EachAttribute(entity.Reported)), v.Revision())
		return nil
	})
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return outcome{}, err
	}
	return outcome{status: http.StatusOK, body: doc}, nil
}

func appendTwin(dst []byte, desired, reported []entity.Attribute, version uint64) []byte {
	dst = appendVersioned(append(dst, `{"desired":`...), desired, version)
	dst = appendVersioned(append(dst, `,"reported":`...), reported, version)
	return append(dst, '}')
}

// appendVersioned appends an object of leaves, with its version.
func appendVersioned(dst []byte, leaves []entity.Attribute, version uint64) []byte {
	dst = entity.AppendAttributes(dst, leaves)
	dst = dst[:len(dst)-1] // the closing brace
	if len(leaves) > 0 {
		dst = append(dst, ',')
	}
	return fmt.Appendf(dst, `%q:%d}`, versionName, version)
}

// report merges a patch into the section reported.
func (l *Layout) report(c layout.Client, id string, patch []byte) (outcome, error) {
	if err := c.May(access.Report, id); err != nil {
		return outcome{}, err
	}
	if err := checkPatch(patch); err != nil {
		return outcome{}, err
	}
	edited, err := layout.By(l.host.Runtime, c.Who().Name()).Edit(l.host.Running, id, entity.Edits{Patches: []entity.Patch{{Section: entity.Reported, Body: patch}}})
	return outcome{status: http.StatusNoContent, version: edited.Revision}, err
}

// checkPatch checks a patch against Azure's limits.
func checkPatch(patch []byte) error {
	if len(patch) > maxPatchBytes {
		return fmt.Errorf("%w: properties must have at most %d bytes, not %d", entity.ErrInvalid, maxPatchBytes, len(patch))
	}
	var all map[string]any
	if err := json.Unmarshal(patch, &all); err != nil || all == nil {
		return fmt.Errorf("%w: properties must be an object of JSON", entity.ErrInvalid)
	}
	return checkNames(all, 1)
}

// checkNames checks the names of properties, and their depth.
func checkNames(object map[string]any, depth int) error {
	if depth > maxPatchDepth {
		return fmt.Errorf("%w: properties must be at most %d levels deep", entity.ErrInvalid, maxPatchDepth)
	}
	for name, member := range object {
		if name == "" || len(name) > maxNameBytes || strings.ContainsAny(name, ".$ ") || strings.IndexFunc(name, unicode.IsControl) >= 0 {
			return fmt.Errorf("%w: the name of a property must have 1 to %d bytes, and no control characters, '.', '$' and spaces, not %.100q", entity.ErrInvalid, maxNameBytes, name)
		}
		if inner, ok := member.(map[string]any); ok {
			if err := checkNames(inner, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// desiredChanges returns the patch that an edit makes to desired, with its version, or nil if it
// does not change desired. A removed leaf is null, unless something else has replaced it.
func desiredChanges(edit *entity.Edit) []byte {
	var leaves []entity.Attribute
	for i := range edit.Attributes {
		if a := &edit.Attributes[i]; a.Section == entity.Desired && (!a.Removed() || !replaced(edit.Attributes, a.Path)) {
			leaf := a.Attribute
			if a.Removed() {
				leaf.Value = value.JSON("null")
			}
			leaves = append(leaves, leaf)
		}
	}
	if leaves == nil {
		return nil
	}
	return appendVersioned(nil, leaves, edit.Revision)
}

// replaced reports whether an edit sets a leaf above or below a path: an object has replaced a
// leaf, or a leaf an object.
func replaced(edits []entity.AttributeEdit, path string) bool {
	return slices.ContainsFunc(edits, func(a entity.AttributeEdit) bool {
		return a.Section == entity.Desired && !a.Removed() && (strings.HasPrefix(a.Path, path+"/") || strings.HasPrefix(path, a.Path+"/"))
	})
}
