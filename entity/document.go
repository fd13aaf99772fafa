package entity

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
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

// CheckCondition reports what keeps a write from going ahead: condition is an entity tag,
// IfAny, IfNone, or "" for no condition, and etag is what is there, "" for
// nothing. The error wraps ErrConflict, or ErrNotFound where there is nothing.
func CheckCondition(condition, etag string) error {
	switch {
	case condition == "" || condition == etag && etag != "" || condition == IfAny && etag != "" || condition == IfNone && etag == "":
		return nil
	case condition == IfNone:
		return fmt.Errorf("%w: it exists, with the version %q", ErrConflict, etag)
	case condition == IfAny:
		return fmt.Errorf("%w: there is none, and the condition is that there be one", ErrNotFound)
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
		return Doc{}, fmt.Errorf("%s %q: %w: must have at most %d bytes, not %d", kind, id, ErrInvalid, MaxDocBytes, len(body))
	}
	return query(ctx, r, func(ctx context.Context) (Doc, error) {
		return r.store.PutDoc(ctx, Doc{Kind: kind, ID: id, Body: body}, condition)
	})
}

// Doc returns a document, or ErrNotFound.
func (r *Runtime) Doc(ctx context.Context, kind, id string) (Doc, error) {
	return query(ctx, r, func(ctx context.Context) (Doc, error) { return r.store.Doc(ctx, kind, id) })
}

// Docs returns all documents of a kind, ordered by id.
func (r *Runtime) Docs(ctx context.Context, kind string) ([]Doc, error) {
	return query(ctx, r, func(ctx context.Context) ([]Doc, error) { return r.store.Docs(ctx, kind) })
}

// DeleteDoc removes a document, under the conditions of PutDoc. It returns
// ErrNotFound when there is none.
func (r *Runtime) DeleteDoc(ctx context.Context, kind, id, condition string) error {
	return r.read(ctx, func(ctx context.Context) error { return r.store.DeleteDoc(ctx, kind, id, condition) })
}

func checkDoc(kind, id string) error {
	return cmp.Or(checkName("kind of a document", kind, MaxDocIDBytes), checkName(kind, id, MaxDocIDBytes))
}
