package entity

import (
	"context"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Doc is a document that is stored once for all entities: a type, a mapping, a
// saved query, a rule of retention. Its kind says which, and its body is whatever
// the owner of the kind makes of it.
type Doc struct {
	Kind, ID string
	Body     []byte
	// Version goes up with each change, also over a deletion. PutDoc sets it.
	Version int64
	// Updated is when it was last changed, in milliseconds since the epoch.
	// PutDoc sets it.
	Updated int64
}

// ETag is the document's version as an entity tag, without quotes.
func (d *Doc) ETag() string { return strconv.FormatInt(d.Version, 36) }

// Conditions of writes that are no entity tags.
const (
	// IfAny holds when there is something of any version (If-Match: *).
	IfAny = "*"
	// IfNone holds when there is nothing yet (If-None-Match: *).
	IfNone = "-"
)

// CheckCondition tells whether a write may go ahead: condition is an entity tag,
// IfAny, IfNone, or "" for no condition, and etag is what is there, "" for
// nothing. The error wraps ErrConflict, or ErrNotFound where there is nothing.
func CheckCondition(condition, etag string) error {
	switch {
	case condition == "" || condition == etag && etag != "" || condition == IfAny && etag != "" || condition == IfNone && etag == "":
		return nil
	case condition == IfNone:
		return fmt.Errorf("%w: it exists, with the version %q", ErrConflict, etag)
	case etag == "":
		return fmt.Errorf("%w: there is none of the version %q", ErrNotFound, condition)
	default:
		return fmt.Errorf("%w: the version is %q, not %q; read it again", ErrConflict, etag, condition)
	}
}

// PutDoc stores a document and returns it as it is then, durable. condition is
// the ETag that the stored one must have, IfAny, IfNone, or "" to write whatever
// there is. It returns ErrConflict or ErrNotFound when the condition does not
// hold, and ErrInvalid for a kind or id that cannot be.
func (r *Runtime) PutDoc(ctx context.Context, kind, id string, body []byte, condition string) (Doc, error) {
	if err := checkDoc(kind, id); err != nil {
		return Doc{}, err
	}
	if len(body) > MaxDocBytes {
		return Doc{}, fmt.Errorf("%s %q: %w: %d bytes; at most %d are allowed", kind, id, ErrInvalid, len(body), MaxDocBytes)
	}
	var doc Doc
	err := r.read(ctx, func(ctx context.Context) (err error) {
		doc, err = r.store.PutDoc(ctx, Doc{Kind: kind, ID: id, Body: body}, condition)
		return err
	})
	return doc, err
}

// Doc returns a document, or ErrNotFound.
func (r *Runtime) Doc(ctx context.Context, kind, id string) (Doc, error) {
	var doc Doc
	err := r.read(ctx, func(ctx context.Context) (err error) {
		doc, err = r.store.Doc(ctx, kind, id)
		return err
	})
	return doc, err
}

// Docs returns all documents of a kind, ordered by id.
func (r *Runtime) Docs(ctx context.Context, kind string) ([]Doc, error) {
	var docs []Doc
	err := r.read(ctx, func(ctx context.Context) (err error) {
		docs, err = r.store.Docs(ctx, kind)
		return err
	})
	return docs, err
}

// DeleteDoc removes a document, under the conditions of PutDoc. It returns
// ErrNotFound when there is none.
func (r *Runtime) DeleteDoc(ctx context.Context, kind, id, condition string) error {
	return r.read(ctx, func(ctx context.Context) error { return r.store.DeleteDoc(ctx, kind, id, condition) })
}

func checkDoc(kind, id string) error {
	for _, name := range [...]string{kind, id} {
		switch {
		case name == "" || len(name) > MaxDocIDBytes:
			return fmt.Errorf("%s %.64q: %w: a name of 1 to %d bytes is right", kind, id, ErrInvalid, MaxDocIDBytes)
		case !utf8.ValidString(name):
			return fmt.Errorf("%s %q: %w: not UTF-8", kind, id, ErrInvalid)
		}
		for i := 0; i < len(name); i++ {
			if name[i] < ' ' || name[i] == 0x7f {
				return fmt.Errorf("%s %q: %w: control character %U", kind, id, ErrInvalid, rune(name[i]))
			}
		}
	}
	return nil
}
