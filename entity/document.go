package entity

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
)

// Doc is a document that does not belong to one entity: a type, a mapping, a saved query, a
// retention rule. Its kind says which, and the owner of the kind defines what the body means.
type Doc struct {
	Kind, ID string
	Body     []byte
	// Version increases with each change, even across a deletion. PutDoc sets it.
	Version int64
	// Updated is when it was last changed, in milliseconds since the epoch.
	// PutDoc sets it.
	Updated int64
}

// ETag is the document's version as an entity tag, without quotes.
func (d *Doc) ETag() string { return strconv.FormatInt(d.Version, 36) }

// Conditions of writes that are not entity tags.
const (
	// IfAny holds if something exists, of any version (If-Match: *).
	IfAny = "*"
	// IfNone holds if nothing exists (If-None-Match: *).
	IfNone = "-"
)

// CheckCondition returns an error if a condition does not hold: condition is an entity tag, IfAny,
// IfNone, or "" for no condition, and etag is the current version, "" for nothing. The error wraps
// ErrConflict, or ErrNotFound if there is nothing.
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

// PutDoc stores a document and returns the stored one, which is durable. condition is the ETag that
// the stored one must have, IfAny, IfNone, or "" to write in any case. PutDoc returns ErrConflict
// or ErrNotFound if the condition does not hold, and ErrInvalid for an invalid kind or id.
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

// DocsBytes bounds, roughly, the bodies of the documents that a Store returns at once, and docsPage
// is how many documents are read at once.
const (
	DocsBytes = 4 << 20
	docsPage  = 1000
)

// Docs returns all documents of a kind, ordered by id. If there may be many, use EachDoc.
func (r *Runtime) Docs(ctx context.Context, kind string) (list []Doc, err error) {
	err = r.EachDoc(ctx, kind, func(d *Doc) error {
		list = append(list, *d)
		return nil
	})
	return list, err
}

// EachDoc calls f with the documents of a kind, ordered by id. It reads them in pages, so that
// their bodies are not in memory at once, and holds nothing while f runs: f may or may not see a
// document that is put or deleted meanwhile. It returns the first error of f or of the store. The
// document is the caller's.
func (r *Runtime) EachDoc(ctx context.Context, kind string, f func(*Doc) error) error {
	return eachDoc(f, func(after string) ([]Doc, error) {
		return query(ctx, r, func(ctx context.Context) ([]Doc, error) { return r.store.Docs(ctx, kind, after, docsPage) })
	})
}

func eachDoc(f func(*Doc) error, read func(after string) ([]Doc, error)) error {
	for after := ""; ; {
		page, err := read(after)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			after = page[i].ID
			if err := f(&page[i]); err != nil {
				return err
			}
		}
	}
}

// DeleteDoc removes a document, under the conditions of PutDoc. It returns ErrNotFound if there is
// none.
func (r *Runtime) DeleteDoc(ctx context.Context, kind, id, condition string) error {
	return r.read(ctx, func(ctx context.Context) error { return r.store.DeleteDoc(ctx, kind, id, condition) })
}

func checkDoc(kind, id string) error {
	return cmp.Or(checkName("kind of a document", kind, MaxDocIDBytes), checkName(kind, id, MaxDocIDBytes))
}
