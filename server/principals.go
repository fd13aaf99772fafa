package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

// principalAPI manages principals.
type principalAPI struct {
	book  *access.Book
	audit *access.Log
}

func (a *principalAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/principals", "listPrincipals", "List the people, services and devices that may log in, by name.", a.list, needs(manages)),
		op("POST", "/v1/principals", "postPrincipal", "Create a principal. Only this response contains its token.", a.create, answers(201), fails(409), needs(manages)),
		op("GET", "/v1/principals/{name}", "getPrincipal", "Read one principal.", a.get, fails(404), needs(manages)),
		op("DELETE", "/v1/principals/{name}", "deletePrincipal", "Revoke a principal, and end everything that it has open.", a.remove, fails(404, 409), needs(manages)),
		op("GET", "/v1/audit", "listAudit", "Read who changed what, newest first.", a.entries, needs(manages)),
	}
}

type principalPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"pump-1"`
}

// principalBody is a principal as it is made. Without password, key, certificate and oidc it gets a
// token.
type principalBody struct {
	// ASCII letters, digits and . _ - : @.
	Name string `json:"name" example:"pump-1"`
	// 1 to 16.
	Grants []grantJSON `json:"grants"`
	// When it expires, in milliseconds since the epoch; absent for never.
	Expires int64 `json:"expires_ms,omitempty" minimum:"0" maximum:"253402300799999"`
	// For devices that have a name and a password; 8 to 1024 bytes.
	Password string `json:"password,omitempty"`
	// For devices that sign with a key, as those of Azure IoT Hub do. The store keeps the key in
	// clear.
	Key bool `json:"key,omitempty"`
	// For devices that show a client certificate whose common name is the name.
	Certificate bool `json:"certificate,omitempty"`
	// For people who log in with the OpenID Connect provider, which must know them by this name.
	OIDC bool `json:"oidc,omitempty"`
	// How many KiB it may send in a second; what it sends beyond that is read later. 0 or absent for
	// what the server allows devices, gateways and admins.
	Rate int64 `json:"rate_kib,omitempty" minimum:"0" maximum:"1073741824" example:"4096"`
}

// grantJSON is what a principal may do with which entities.
type grantJSON struct {
	Role string `json:"role" enum:"admin,operator,viewer,device" example:"device"`
	// Which entities, in the language of docs/filter.md, by id, type and attributes; absent for all
	// entities, and in the role device for the entity with the principal's name.
	Filter string `json:"filter,omitempty" example:"id like \"hall-3-%\""`
}

// principalJSON is a principal.
type principalJSON struct {
	Name       string      `json:"name" example:"pump-1"`
	Grants     []grantJSON `json:"grants"`
	Credential string      `json:"credential" enum:"token,password,key,certificate,oidc" example:"token"`
	Created    int64       `json:"created_ms" example:"1451649600512"`
	// Absent for never.
	Expires int64 `json:"expires_ms,omitempty"`
	// When it last logged in; absent for never.
	Used int64 `json:"used_ms,omitempty"`
	// Who made it.
	By string `json:"by,omitempty" example:"alice"`
	// How many KiB it may send in a second; absent if that is up to the server.
	Rate int64 `json:"rate_kib,omitempty" example:"4096"`
	// Until when it last had to wait, or was refused, because it sent more than it may; absent for never since the
	// start of the server.
	Held int64 `json:"held_ms,omitempty" example:"1451649600512"`
	// How long its connections and requests have had to wait for that reason, in total.
	Waited float64 `json:"waited_s,omitempty" example:"12.5"`
	// Only in the response to the request that made it: it cannot be read again.
	Token string `json:"token,omitempty"`
	// The symmetric key, Base64; as token.
	SharedKey string `json:"shared_key,omitempty"`
}

func newPrincipalJSON(i *access.Info) principalJSON {
	p := principalJSON{Name: i.Name, Credential: i.Credential, Created: i.Created.UnixMilli(), By: i.By, Rate: i.Rate >> 10, Waited: i.Waited.Seconds(), Grants: []grantJSON{}}
	for _, g := range i.Grants {
		p.Grants = append(p.Grants, grantJSON{string(g.Role), g.Filter})
	}
	if !i.Expires.IsZero() {
		p.Expires = i.Expires.UnixMilli()
	}
	if !i.Used.IsZero() {
		p.Used = i.Used.UnixMilli()
	}
	if !i.Held.IsZero() {
		p.Held = i.Held.UnixMilli()
	}
	return p
}

// principalPageJSON is a page of principals.
type principalPageJSON struct {
	Principals []principalJSON `json:"principals"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

type listPrincipalsRequest struct {
	cursorParam
	// Only those made by this principal, or by a provision key: "provision key" and its name.
	By string `query:"by" maxLength:"256" example:"provision key sensors"`
	// The maximum number of principals to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (a *principalAPI) list(_ context.Context, in *listPrincipalsRequest) (*answer[principalPageJSON], error) {
	after, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, more := a.book.List(in.By, after, in.Limit)
	page := principalPageJSON{Principals: []principalJSON{}}
	for i := range list {
		page.Principals = append(page.Principals, newPrincipalJSON(&list[i]))
	}
	if more {
		page.Next = pageCursor(list[len(list)-1].Name)
	}
	return ok(page), nil
}

type createPrincipalRequest struct{ Body principalBody }

func (a *principalAPI) create(ctx context.Context, in *createPrincipalRequest) (*answer[principalJSON], error) {
	b := &in.Body
	if most := int64(access.MaxRate >> 10); b.Rate < 0 || b.Rate > most {
		return nil, problemf(http.StatusBadRequest, "rate_kib must be an integer from 1 to %d, or 0 for what the server allows, not %d", most, b.Rate)
	}
	spec := access.Spec{Name: b.Name, Password: b.Password, Key: b.Key, Certificate: b.Certificate, OIDC: b.OIDC, By: callerOf(ctx).who.Name(), Rate: b.Rate << 10}
	for _, g := range b.Grants {
		spec.Grants = append(spec.Grants, access.Grant{Role: access.Role(g.Role), Filter: g.Filter})
	}
	if b.Expires != 0 {
		spec.Expires = time.UnixMilli(b.Expires)
	}
	token, info, err := a.book.Create(ctx, &spec)
	if err != nil {
		return nil, principalProblem(err)
	}
	callerOf(ctx).about = info.Name
	for i := range info.Grants {
		callerOf(ctx).about += " " + strings.TrimSpace(string(info.Grants[i].Role)+" "+info.Grants[i].Filter)
	}
	p := newPrincipalJSON(&info)
	if b.Key {
		p.SharedKey = token
	} else {
		p.Token = token
	}
	reply := ok(p).withStatus(http.StatusCreated)
	reply.location = "/v1/principals/" + url.PathEscape(p.Name)
	return reply, nil
}

func (a *principalAPI) get(_ context.Context, in *principalPath) (*answer[principalJSON], error) {
	info, err := a.book.Info(in.Name)
	if err != nil {
		return nil, principalProblem(err)
	}
	return ok(newPrincipalJSON(&info)), nil
}

func (a *principalAPI) remove(ctx context.Context, in *principalPath) (*answer[nothing], error) {
	if err := a.book.Revoke(ctx, in.Name); err != nil {
		return nil, principalProblem(err)
	}
	return noContent(), nil
}

// principalProblem returns the problem for an error of a Book about principals. Errors about
// credentials are in refusal.Answers.
func principalProblem(err error) error {
	switch {
	case errors.Is(err, access.ErrInvalid):
		return problemf(http.StatusBadRequest, "%v", err)
	case errors.Is(err, access.ErrNotFound):
		return problemf(http.StatusNotFound, "%v", err)
	case errors.Is(err, access.ErrExists), errors.Is(err, access.ErrLastAdmin):
		return problemf(http.StatusConflict, "%v", err)
	default:
		return err
	}
}

type auditRequest struct {
	// Only entries with a lower number than this: the last one of the previous page.
	Before int `query:"before" minimum:"0" maximum:"9007199254740991" default:"0"`
	// The maximum number of entries to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// auditJSON is a part of the audit log.
type auditJSON struct {
	Entries []auditEntryJSON `json:"entries"`
}

// auditEntryJSON is something that was done.
type auditEntryJSON struct {
	// Numbers the entries from 1, without a gap.
	Seq uint64 `json:"seq" example:"17"`
	TS  int64  `json:"ts" example:"1451649600512"`
	// The principal.
	Who string `json:"who" example:"alice"`
	// The address from which it came.
	From string `json:"from,omitempty" example:"192.0.2.1"`
	// The operation, by its operationId.
	Action string `json:"action" example:"deleteEntity"`
	// The path.
	What    string `json:"what,omitempty" example:"/v1/entities/room-1"`
	Outcome string `json:"outcome" example:"ok"`
}

func (a *principalAPI) entries(ctx context.Context, in *auditRequest) (*answer[auditJSON], error) {
	list, err := a.audit.Entries(ctx, uint64(in.Before), in.Limit) //nolint:gosec // not negative
	if err != nil {
		return nil, err
	}
	page := auditJSON{Entries: []auditEntryJSON{}}
	for i := range list {
		page.Entries = append(page.Entries, auditEntryJSON(list[i]))
	}
	return ok(page), nil
}
