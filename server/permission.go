package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/server/access"
)

// permission is what the caller of an operation must be permitted to do. Each operation has one;
// the zero permission admits nobody.
type permission uint8

const (
	_               permission = iota
	public                     // everybody, without credentials
	known                      // every caller who is logged in
	seesEntity                 // may read the entity in the path
	seesSome                   // may read some entities; the handler shows no others
	seesAll                    // may read all entities, for what is not about a single one
	reportsEntity              // may report for the entity in the path
	receivesEntity             // is the device of the entity in the path
	reportsSelf                // may report for the entity of its own name; its token is in the path
	receivesSelf               // is the device of that entity
	reportsSection             // like reportsEntity for the section reported, and like writesEntity for others
	writesEntity               // may write the entity in the path
	writesSome                 // may write some entities; the handler checks which
	writesAll                  // may write all entities, including the setup
	manages                    // may manage principals
	claims                     // every caller who is logged in; written to the audit log
	administers                // may manage, for what is not about principals
	permissionCount = iota
)

// needs sets the permission that an operation requires.
func needs(p permission) option { return func(o *operation) { o.needs = p } }

// check returns nil if a caller has the permission for a request.
func (p permission) check(r *http.Request, who *access.Principal, all access.Entities) error {
	switch p {
	case public, known, claims:
		return nil
	case seesEntity:
		return who.May(r.Context(), all, access.Read, r.PathValue("id"))
	case reportsEntity:
		return who.May(r.Context(), all, access.Report, r.PathValue("id"))
	case receivesEntity:
		return who.May(r.Context(), all, access.Receive, r.PathValue("id"))
	case receivesSelf:
		return who.May(r.Context(), all, access.Receive, selfOf(who, r.PathValue("token")))
	case reportsSelf:
		return who.May(r.Context(), all, access.Report, selfOf(who, r.PathValue("token")))
	case reportsSection:
		if r.PathValue("section") == entity.Reported.String() {
			return who.May(r.Context(), all, access.Report, r.PathValue("id"))
		}
		return who.May(r.Context(), all, access.Write, r.PathValue("id"))
	case writesEntity:
		return who.May(r.Context(), all, access.Write, r.PathValue("id"))
	case seesSome:
		return holds(who.MaySome(access.Read), who, "read any entity")
	case writesSome:
		return holds(who.MaySome(access.Write), who, "write any entity")
	case seesAll:
		return holds(who.MayAll(access.Read), who, "read all entities, which this needs")
	case writesAll:
		return holds(who.MayAll(access.Write), who, "write all entities, which this needs")
	case manages:
		return holds(who.MayAll(access.Manage), who, "manage principals, which an admin may")
	case administers:
		return holds(who.MayAll(access.Manage), who, "change this, which an admin may")
	default:
		return fmt.Errorf("%w: nobody may do this", access.ErrForbidden)
	}
}

// deviceOf returns the entity that a caller with this permission is the device of, or "".
func (p permission) deviceOf(r *http.Request, who *access.Principal, all access.Entities) string {
	id := r.PathValue("id")
	switch p {
	case reportsEntity, receivesEntity:
	case reportsSelf, receivesSelf:
		id = selfOf(who, r.PathValue("token"))
	case reportsSection:
		if r.PathValue("section") != entity.Reported.String() {
			return ""
		}
	default:
		return ""
	}
	if who.May(r.Context(), all, access.Receive, id) != nil {
		return ""
	}
	return id
}

// selfOf returns the entity of a device with its token in the path: the one of its name, or, if
// nobody has to log in, the one named by the path.
func selfOf(who *access.Principal, token string) string { return cmp.Or(who.Name(), token) }

// audited reports whether a request must be recorded in the audit log. What devices report is not
// recorded.
func (p permission) audited(r *http.Request) bool {
	return !safe(r.Method) && (p >= writesEntity || p == reportsSection && r.PathValue("section") != entity.Reported.String())
}

func holds(may bool, who *access.Principal, what string) error {
	if may {
		return nil
	}
	return fmt.Errorf("%w: %q may not %s", access.ErrForbidden, who.Name(), what)
}

// caller is the sender of a request.
type caller struct {
	who     *access.Principal
	revoked context.Context //nolint:containedctx // of an operation that is slow or waits: ends when the principal is revoked or expires
	still   func() error    // returns nil if the request would be admitted again
	changed func()          // writes the action to the audit log; may be called more than once
	about   string          // for the audit log, besides the path
}

// leftUnchanged says that the request changes nothing, which is therefore not in the audit log.
func (c *caller) leftUnchanged() { c.changed = func() {} }

type callerKey struct{}

// callerOf returns the caller of the request of a context. Without a request, it returns a caller
// who may do nothing.
func callerOf(ctx context.Context) *caller {
	if c, ok := ctx.Value(callerKey{}).(*caller); ok {
		return c
	}
	return &caller{who: &access.Principal{}, revoked: context.Background(), still: func() error { return nil }, changed: func() {}}
}

// errRelated is the error for a filter that refers to entities that its author may not read.
var errRelated = errors.New("a filter with related looks at other entities, which needs a grant over all of them")

// visible parses a filter and restricts it to what the caller of ctx may read; the restriction
// comes first. It also returns the text of the result.
func visible(ctx context.Context, text string) (*filter.Filter, string, error) {
	f, err := filter.Parse(text)
	if err != nil {
		return nil, "", err
	}
	who := callerOf(ctx).who
	if who.MayAll(access.Read) {
		return f, text, nil
	}
	if d := f.Depends(); d.Related || d.Relations {
		return nil, "", fmt.Errorf("%w: %w", access.ErrForbidden, errRelated)
	}
	scope, err := filter.Parse(who.Filter(access.Read))
	if err == nil {
		f, err = f.Within(scope)
	}
	if err != nil {
		return nil, "", problemf(http.StatusUnprocessableEntity, "the filter is too long or too deep with the filters of your grants: %v", err)
	}
	return f, f.String(), nil
}

// mayWriteEnds returns nil if the caller may write the target entities of relations, because the
// relations belong to those, too.
func mayWriteEnds(ctx context.Context, all access.Entities, list []entity.Relation) error {
	who := callerOf(ctx).who
	for i := range list {
		if err := who.May(ctx, all, access.Write, list[i].To); err != nil {
			return err
		}
	}
	return nil
}

// seesEnds reports whether the caller may read both ends of a relation; it may read own.
func seesEnds(ctx context.Context, all access.Entities, rel *entity.Relation, own string) bool {
	other := rel.To
	if other == own {
		other = rel.From
	}
	return other == own || callerOf(ctx).who.May(ctx, all, access.Read, other) == nil
}
