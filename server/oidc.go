package server

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/greenroom-go/greenroom/server/access"
)

// OIDC configures an OpenID Connect provider, with which people can log in to the dashboard. A
// claim names the principal, which an admin must have created for it; nobody else can log in. The
// zero OIDC is disabled.
type OIDC struct {
	// Issuer is the provider's URL, as it identifies itself. Client is the server's client id at
	// the provider, and Secret the client's secret, "" for a public client.
	Issuer, Client, Secret string
	// Claim is the claim with the name of the principal; the default is DefaultOIDCClaim. The claim
	// email is valid only with email_verified.
	Claim string
	// CA, if not empty, is a PEM file with the CA certificate of the provider.
	CA string
	// URL is the address of the server for browsers, such as https://plant.example. If it is empty,
	// it is taken from their requests. The provider must know URL/login/oidc/callback.
	URL string
}

// DefaultOIDCClaim is the default claim with the name of a principal.
const DefaultOIDCClaim = "email"

// ErrOIDC is wrapped by errors about invalid settings of OIDC.
var ErrOIDC = errors.New("OpenID Connect")

const (
	oidcPath     = "/login/oidc"
	oidcCallback = oidcPath + "/callback"
	// oidcTimeout bounds a request to the provider, and oidcPatience a person's visit there.
	oidcTimeout  = 10 * time.Second
	oidcPatience = 10 * time.Minute
	// oidcPause is how long the provider is not asked again after a failure.
	oidcPause = 2 * time.Second
)

// Enabled reports whether there is a provider.
func (o *OIDC) Enabled() bool { return o.Issuer != "" || o.Client != "" }

// Check returns nil if the settings are valid. Otherwise it returns the error of errors.Join with all
// mistakes, each of which wraps ErrOIDC. It does not contact the provider.
func (o *OIDC) Check() error {
	_, err := o.client()
	return err
}

// client returns an HTTP client for the provider, or the error of Check.
func (o *OIDC) client() (*http.Client, error) {
	var failed []error
	if o.Client == "" {
		failed = append(failed, fmt.Errorf("%w: --oidc-client must be the name by which the provider knows this server", ErrOIDC))
	}
	for _, of := range [][2]string{{"--oidc-issuer", o.Issuer}, {"--url", o.URL}} {
		flag, text := of[0], of[1]
		if text == "" && flag == "--url" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			failed = append(failed, fmt.Errorf("%w: %s must be a URL that begins with https://, not %.200q", ErrOIDC, flag, text))
		}
	}
	client, err := authorityClient("--oidc-ca", o.CA, oidcTimeout, ErrOIDC)
	if err != nil {
		failed = append(failed, err)
	}
	return client, errors.Join(failed...)
}

// oidcLogin implements the login with the provider: a redirect to it, and the return with a code.
type oidcLogin struct {
	settings OIDC
	client   *http.Client
	gate     *gate
	log      *slog.Logger
	cookie   string
	key      [sha256.Size]byte // signs the cookies
	provider provider
}

// provider discovers the provider once, with a single request for all who wait. It may start after
// the server.
type provider struct {
	known  atomic.Pointer[oidc.Provider]
	asking singleflight.Group
	mu     sync.Mutex
	failed error     // the last error, guarded by mu
	again  time.Time // when to try again after a failure, guarded by mu
}

// get returns the provider, which it discovers if needed.
func (p *provider) get(ctx context.Context, issuer string) (*oidc.Provider, error) {
	if known := p.known.Load(); known != nil {
		return known, nil
	}
	ctx = context.WithoutCancel(ctx) // one caller may leave while others wait
	got, err, _ := p.asking.Do("", func() (any, error) {
		p.mu.Lock()
		failed, again := p.failed, p.again
		p.mu.Unlock()
		if failed != nil && time.Now().Before(again) {
			return nil, failed
		}
		ctx, cancel := context.WithTimeout(ctx, oidcTimeout)
		defer cancel()
		known, err := oidc.NewProvider(ctx, issuer)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.failed, p.again = err, time.Now().Add(oidcPause); err == nil {
			p.known.Store(known)
		}
		return known, err
	})
	known, _ := got.(*oidc.Provider)
	return known, err
}

func newOIDCLogin(settings *OIDC, g *gate, port string, log *slog.Logger) (*oidcLogin, error) {
	client, err := settings.client()
	if err != nil {
		return nil, err
	}
	l := &oidcLogin{settings: *settings, client: client, gate: g, log: log, cookie: "greenroom_login_" + port}
	_, _ = rand.Read(l.key[:]) // it never fails; logins in progress do not survive a restart
	return l, nil
}

// config returns the OAuth 2 client for a request of a browser.
func (l *oidcLogin) config(ctx context.Context, r *http.Request) (*oidc.Provider, *oauth2.Config, error) {
	p, err := l.provider.get(ctx, l.settings.Issuer)
	if err != nil {
		return nil, nil, err
	}
	at := strings.TrimSuffix(l.settings.URL, "/")
	if at == "" {
		at = "http://" + r.Host // the guard has checked it
		if isSecure(r) {
			at = "https://" + r.Host
		}
	}
	return p, &oauth2.Config{
		ClientID: l.settings.Client, ClientSecret: l.settings.Secret, Endpoint: p.Endpoint(),
		RedirectURL: at + oidcCallback, Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}, nil
}

// begin redirects a browser to the provider. What must come back with it is in a cookie, so that
// nobody can be made to log in as somebody else, and the server stores nothing.
func (l *oidcLogin) begin(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), l.client), oidcTimeout)
	defer cancel()
	_, config, err := l.config(ctx, r)
	if err != nil {
		l.fail(w, r, http.StatusBadGateway, "The provider cannot be reached.", err)
		return
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	l.remember(w, r, l.seal(state, nonce, verifier, strconv.FormatInt(time.Now().Add(oidcPatience).Unix(), 10)))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther)
}

// seal returns the signed text of a cookie.
func (l *oidcLogin) seal(parts ...string) string {
	text := strings.Join(parts, ".")
	return text + "." + l.sum(text)
}

func (l *oidcLogin) sum(text string) string {
	mac := hmac.New(sha256.New, l.key[:])
	_, _ = mac.Write([]byte(text)) // a hash does not fail
	return hex.EncodeToString(mac.Sum(nil))
}

// unseal returns the state, nonce and verifier in a cookie.
func (l *oidcLogin) unseal(text string) (state, nonce, verifier string, err error) {
	at := strings.LastIndexByte(text, '.')
	if at < 0 || !hmac.Equal([]byte(text[at+1:]), []byte(l.sum(text[:at]))) {
		return "", "", "", errors.New("the cookie is not one of this server")
	}
	parts := strings.Split(text[:at], ".")
	until, err := strconv.ParseInt(parts[len(parts)-1], 10, 64)
	if err != nil || len(parts) != 4 || time.Now().Unix() > until {
		return "", "", "", errors.New("the login took too long")
	}
	return parts[0], parts[1], parts[2], nil
}

// remember sets the cookie of a login or, with "", deletes it. The browser is redirected from the
// provider's page, so the cookie cannot be strict.
func (l *oidcLogin) remember(w http.ResponseWriter, r *http.Request, text string) {
	c := &http.Cookie{
		Name: l.cookie, Value: text, Path: oidcPath, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: isSecure(r),
		MaxAge: int(oidcPatience / time.Second),
	}
	if text == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// finish completes the login of a browser that returns from the provider.
func (l *oidcLogin) finish(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	cookie, err := r.Cookie(l.cookie)
	l.remember(w, r, "")
	if err != nil {
		l.fail(w, r, http.StatusBadRequest, "The login took too long, or did not begin here.", err)
		return
	}
	state, nonce, verifier, err := l.unseal(cookie.Value)
	if err == nil && subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
		err = errors.New("state does not match")
	}
	if err != nil {
		l.fail(w, r, http.StatusBadRequest, "The login took too long, or did not begin here.", err)
		return
	}
	if text := q.Get("error"); text != "" {
		l.fail(w, r, http.StatusForbidden, "The provider has refused the login.", fmt.Errorf("%.200q: %.500q", text, q.Get("error_description")))
		return
	}
	if wait := l.gate.book.Slowed(addressOf(r)); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		l.fail(w, r, http.StatusTooManyRequests, "Too many logins from this address have failed. Try again in a moment.", access.ErrSlowed)
		return
	}
	name, err := l.nameOf(r, q.Get("code"), nonce, verifier)
	if err != nil {
		if _, away := errors.AsType[*url.Error](err); !away { // a url.Error is the provider's fault
			l.gate.book.Failed(addressOf(r))
		}
		l.fail(w, r, http.StatusBadGateway, "What the provider says cannot be used.", err)
		return
	}
	who, err := l.gate.book.Login(r.Context(), &access.Attempt{OIDC: name, Address: addressOf(r)})
	if err != nil {
		l.fail(w, r, http.StatusForbidden, fmt.Sprintf("Nobody with the name %.200q may log in. An admin can make a principal with this name, for OpenID Connect.", name), err)
		return
	}
	if text, ok := l.gate.sessions.begin(r.Context(), who); ok {
		l.gate.sessions.set(w, r, text)
	}
	// After a redirect, the browser would still count as coming from the provider's page, and not
	// send the cookie.
	l.page(w, http.StatusOK, oidcPage{Next: "/"})
}

// nameOf exchanges a code for the name of a principal.
func (l *oidcLogin) nameOf(r *http.Request, code, nonce, verifier string) (string, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), l.client), oidcTimeout)
	defer cancel()
	provider, config, err := l.config(ctx, r)
	if err != nil {
		return "", err
	}
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		return "", err
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: l.settings.Client}).Verify(ctx, raw)
	if err != nil {
		return "", err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return "", errors.New("nonce does not match")
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return "", err
	}
	return nameIn(claims, cmp.Or(l.settings.Claim, DefaultOIDCClaim))
}

// nameIn returns the claim with the name of a principal.
func nameIn(claims map[string]any, claim string) (string, error) {
	name, _ := claims[claim].(string)
	if name == "" {
		return "", fmt.Errorf("there is no claim %q", claim)
	}
	if claim == DefaultOIDCClaim && claims["email_verified"] != true && claims["email_verified"] != "true" {
		return "", fmt.Errorf("the provider has not verified the email address %.200q", name)
	}
	return name, nil
}

type oidcPage struct{ Next, Error string }

var oidcTemplate = template.Must(template.New("login").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Greenroom</title>
{{if .Next}}<meta http-equiv="refresh" content="0;url={{.Next}}">
<p><a href="{{.Next}}">Continue</a></p>
{{else}}<h1>Not logged in</h1>
<p role="alert">{{.Error}}</p>
<p><a href="/">Back</a></p>
{{end}}`))

func (l *oidcLogin) page(w http.ResponseWriter, status int, p oidcPage) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := oidcTemplate.Execute(w, p); err != nil {
		l.log.LogAttrs(context.Background(), slog.LevelDebug, "cannot send a page", slog.Any("error", err))
	}
}

// fail shows what the person can act on, and logs the error, which may be meant for admins only.
func (l *oidcLogin) fail(w http.ResponseWriter, r *http.Request, status int, text string, err error) {
	l.log.LogAttrs(r.Context(), slog.LevelWarn, "a login with OpenID Connect failed", slog.String("address", addressOf(r).String()), slog.Any("error", err))
	l.page(w, status, oidcPage{Error: text})
}
