package entity

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// PatchForm is the format of a patch.
type PatchForm uint8

// The forms of a patch.
const (
	// MergePatch is a JSON merge patch (RFC 7396): members are set, objects are merged, and null
	// removes. An array is one value.
	MergePatch PatchForm = iota
	// JSONPatch is a JSON array of operations (RFC 6902): add, remove, replace, move, copy and
	// test.
	JSONPatch
	// Replace is a JSON object that replaces the section.
	Replace
)

// Patch changes one section of the attributes of an entity.
type Patch struct {
	Section Section
	Form    PatchForm
	// Body is the JSON text. A null that would be kept is refused: leaving a
	// member out says the same, and a merge patch could not express it.
	Body []byte
}

// apply applies the patch to a copy of the section. work is the work done by the earlier patches of
// the same edit.
func (p *Patch) apply(before section, now int64, work int) (*leaves, error) {
	if p.Section < Attributes || p.Section > Reported {
		return nil, fmt.Errorf("%w: section %d; there are attributes, desired and reported", ErrInvalid, p.Section)
	}
	if len(p.Body) > MaxPatchBytes {
		return nil, fmt.Errorf("%w: %d bytes; at most %d are allowed", ErrInvalid, len(p.Body), MaxPatchBytes)
	}
	in := parser{s: string(p.Body), reading: -1}
	if !utf8.ValidString(in.s) {
		return nil, in.encodingError()
	}
	l := &leaves{section: slices.Clone(before), now: now, work: work}
	err := l.spend(len(p.Body) + len(before)*leafBytes/8)
	if err != nil {
		return nil, err
	}
	switch p.Form {
	case MergePatch:
		if in.peek() != '{' {
			return nil, fmt.Errorf("%w: a merge patch is a JSON object, not %s", ErrInvalid, in.found())
		}
		err = l.merge(&in, "")
	case Replace:
		err = l.write(&in, "")
	case JSONPatch:
		return l, l.applyJSONPatch(p.Body)
	default:
		return nil, fmt.Errorf("%w: form %d of a patch; there are MergePatch, JSONPatch and Replace", ErrInvalid, p.Form)
	}
	if err != nil {
		return nil, err
	}
	if in.peek(); in.i < len(in.s) {
		return nil, in.fail(CauseSyntax, "%s after the end of the patch", in.found())
	}
	return l, nil
}
