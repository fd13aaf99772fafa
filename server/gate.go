package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/azure"
)

// gate authenticates and authorizes requests.
type gate struct {
	book     *access.Book
	audit    *access.Log
	entities access.Entities
	sessions *sessions
	log      *slog.Logger
}

// errNoOrigin is the problem for a request in a session that does not say which page it comes from.
var errNoOrigin = problemf(http.StatusForbidden, "a request in a session that changes something must have the header Origin or Sec-Fetch-Site, as browsers send it; a program sends a token: Authorization: Bearer …")

// admit returns the request with its caller, or an error. The caller must call release at the end
// of the request.
func (g *gate) admit(r *http.Request, o *operation) (admitted *http.Request, release func(), err error) {
	who, until := &access.Principal{}, time.Time{}
	asked := o.needs != public || !g.book.Guarded()
	if asked {
		if who, until, err = g.login(r); err != nil {
			return nil, nil, err
		}
	}
	if err := o.needs.check(r, who, g.entities); err != nil {
		return nil, nil, err
	}
	if asked {
		recognized(r)
		if answer, ok := r.Context().Value(knownKey{}).(http.Header); ok {
			answer.Set(knownHeader, "1")
		}
	}
	if who.Name() == "" { // nobody has to log in: what was presented does not count, and neither does its end
		until = time.Time{}
	}
	c := &caller{who: who, revoked: context.Background(), still: func() error { return g.still(r, o, who, until) }}
	ctx := r.Context()
	release = func() {}
	if o.slow || o.waits {
		revoked, revoke := context.WithCancel(context.Background()) // independent, because a WebSocket outlives the request's
		stop, ok := who.Watch(revoke)
		if !ok {
			revoke()
			return nil, nil, access.ErrCredentials
		}
		if !until.IsZero() {
			expiry := time.AfterFunc(time.Until(until), revoke)
			unwatch := stop
			stop = func() { expiry.Stop(); unwatch() }
		}
		c.revoked, release = revoked, func() { stop(); revoke() }
	}
	if o.slow {
		working, end := context.WithCancelCause(ctx)
		away := context.AfterFunc(c.revoked, func() { end(errRevoked) })
		unwatch := release
		release = func() { away(); unwatch(); end(nil) }
		ctx = working
	}
	if o.needs.audited(r) {
		c.changed = sync.OnceFunc(func() { g.record(ctx, who, r, o.id, c.about) })
	} else {
		c.changed = func() {}
	}
	return r.WithContext(context.WithValue(ctx, callerKey{}, c)), release, nil
}

// still returns nil if a caller who was admitted to an operation would be admitted again: the
// result of a long wait is not for a caller who was revoked meanwhile, whose credentials have
// expired, or who has lost access to the entity.
func (g *gate) still(r *http.Request, o *operation, who *access.Principal, until time.Time) error {
	if !who.Valid() || !until.IsZero() && !time.Now().Before(until) {
		return access.ErrCredentials
	}
	return o.needs.check(r, who, g.entities)
}

// errRevoked is the cause when the context of a stream ends.
var errRevoked = errors.New("the credentials were revoked, or have expired")

// login authenticates the caller of a request: by a header, a session, or a certificate, in this
// order. until is when a signature or a certificate expires; zero means that the principal decides.
func (g *gate) login(r *http.Request) (who *access.Principal, until time.Time, err error) {
	attempt := access.Attempt{Address: addressOf(r)}
	header := r.Header.Get("Authorization")
	scheme, rest, _ := strings.Cut(header, " ")
	token := r.PathValue("token")
	switch {
	case token != "": // for devices made for ThingsBoard
		attempt.Token = token
	case azure.IsSignature(header):
		s, wrong := azure.ParseSignature(header, time.Now())
		attempt.Name, attempt.Signature, until = s.Device, &s.Signed, s.Expires
		if wrong != nil {
			attempt.Signature = &access.Signature{} // matches no key, but is counted
			who, err := g.book.Login(r.Context(), &attempt)
			if errors.Is(err, access.ErrCredentials) {
				err = wrong
			}
			return who, until, err
		}
	case strings.EqualFold(scheme, "Bearer"):
		attempt.Token = cmp.Or(strings.TrimSpace(rest), "none")
	case header != "":
		attempt.Name, attempt.Password, _ = r.BasicAuth()
		if access.IsToken(attempt.Password) {
			attempt.Token = attempt.Password
		}
		if attempt.Name == "" && attempt.Token == "" {
			attempt.Token = "none" // an unknown scheme must not count as no credentials
		}
	default:
		if who := g.sessions.find(r); who != nil {
			if !safe(r.Method) && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
				return nil, until, errNoOrigin
			}
			return who, until, nil
		}
		attempt.Certificate, until = access.CertificateOf(r.TLS, time.Now())
	}
	who, err = g.book.Login(r.Context(), &attempt)
	return who, until, err
}

// safe reports whether a method changes nothing.
func safe(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// addressOf returns the client's address.
func addressOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// record writes an action to the audit log. It writes nothing if nobody has to log in, because
// there is no name.
func (g *gate) record(ctx context.Context, who *access.Principal, r *http.Request, action, about string) {
	what := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		what += "?" + r.URL.RawQuery
	}
	if about != "" {
		what += " " + about
	}
	g.note(ctx, who, addressOf(r), action, what)
}

// note is like record, for actions that are not requests.
func (g *gate) note(ctx context.Context, who *access.Principal, from netip.Addr, action, what string) {
	if !g.book.Guarded() {
		return
	}
	entry := access.Entry{Who: who.Name(), From: from.String(), Action: action, What: shorten(what, 1000), Outcome: "ok"}
	g.add(ctx, &entry)
}

// add writes an entry to the audit log.
func (g *gate) add(ctx context.Context, entry *access.Entry) {
	// The action took place, even if the client leaves.
	if err := g.audit.Add(context.WithoutCancel(ctx), *entry); err != nil {
		g.log.LogAttrs(ctx, slog.LevelError, "cannot record a change in the audit log", slog.String("who", entry.Who),
			slog.String("action", entry.Action), slog.String("what", shorten(entry.What, 300)), slog.Any("error", err))
	}
}
