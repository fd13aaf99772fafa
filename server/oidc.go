package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/greenroom-go/greenroom/server/access"
)

// OIDC lets people log in to the dashboard at a provider of OpenID Connect. Who they are there
// says a claim, and that is the name of a principal that an admin has made for it: the provider
// lets nobody in who is none. The zero OIDC is none.
type OIDC struct {
	// Issuer is the URL of the provider, as it says itself. Client is the name by which it
	// knows the server, and Secret what goes with that, "" for a public client.
	Issuer, Client, Secret string
	// Claim has the name of the principal, DefaultOIDCClaim if empty. The claim email counts
	// only with email_verified.
	Claim string
	// CA, if not empty, is a file in PEM with who signed the certificate of the provider.
	CA string
	// URL is how browsers reach the server, such as https://plant.example. If empty, that is
	// taken from their requests. The provider has to know URL/login/oidc/callback.
	URL string
}

// DefaultOIDCClaim is the claim that has the name of a principal.
const DefaultOIDCClaim = "email"

// ErrOIDC is wrapped by the errors about settings of OIDC that cannot be used.
var ErrOIDC = errors.New("OpenID Connect")

const (
	oidcPath     = "/login/oidc"
	oidcCallback = oidcPath + "/callback"
	// oidcTimeout bounds what is asked of the provider, and oidcPatience how long somebody may
	// take there.
	oidcTimeout  = 10 * time.Second
	oidcPatience = 10 * time.Minute
)

// Enabled reports whether there is a provider.
func (o *OIDC) Enabled() bool { return o.Issuer != "" || o.Client != "" }

// Check returns nil if the settings can be used. The provider is not asked.
func (o *OIDC) Check() error {
	_, err := o.client()
	return err
}

// client returns what speaks to the provider.
func (o *OIDC) client() (*http.Client, error) {
	if o.Client == "" {
		return nil, fmt.Errorf("%w: --oidc-client must be the name by which the provider knows this server", ErrOIDC)
	}
	for flag, text := range map[string]string{"--oidc-issuer": o.Issuer, "--url": o.URL} {
		if text == "" && flag == "--url" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
			return nil, fmt.Errorf("%w: %s must be a URL that begins with https://, not %.200q", ErrOIDC, flag, text)
		}
	}
	return authorityClient("--oidc-ca", o.CA, oidcTimeout, ErrOIDC)
}

// oidcLogin is the way by the provider: to it, and back with a code.
type oidcLogin struct {
	settings OIDC
	client   *http.Client
	gate     *gate
	log      *slog.Logger
	cookie   string
	provider atomic.Pointer[oidc.Provider] // once it was asked; it may start after the server
}

func newOIDCLogin(settings *OIDC, g *gate, port string, log *slog.Logger) (*oidcLogin, error) {
	client, err := settings.client()
	if err != nil {
		return nil, err
	}
	return &oidcLogin{settings: *settings, client: client, gate: g, log: log, cookie: "greenroom_login_" + port}, nil
}

// config returns the client of OAuth 2 for a request of a browser.
func (l *oidcLogin) config(ctx context.Context, r *http.Request) (*oidc.Provider, *oauth2.Config, error) {
	p := l.provider.Load()
	if p == nil {
		var err error
		if p, err = oidc.NewProvider(ctx, l.settings.Issuer); err != nil {
			return nil, nil, err
		}
		l.provider.Store(p)
	}
	at := strings.TrimSuffix(l.settings.URL, "/")
	if at == "" {
		at = "http://" + r.Host // the guard has looked at it
		if r.TLS != nil {
			at = "https://" + r.Host
		}
	}
	return p, &oauth2.Config{
		ClientID: l.settings.Client, ClientSecret: l.settings.Secret, Endpoint: p.Endpoint(),
		RedirectURL: at + oidcCallback, Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}, nil
}

// begin sends a browser to the provider. What is to come back with it is in a cookie, so that
// nobody can be made to log in as another, and nothing has to be remembered here.
func (l *oidcLogin) begin(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), l.client), oidcTimeout)
	defer cancel()
	_, config, err := l.config(ctx, r)
	if err != nil {
		l.fail(w, r, http.StatusBadGateway, "The provider cannot be reached.", err)
		return
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	l.remember(w, r, strings.Join([]string{state, nonce, verifier}, "."))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther)
}

// remember sets or, with "", takes back the cookie of a login. The provider's page sends the browser
// back, so that the cookie cannot be strict.
func (l *oidcLogin) remember(w http.ResponseWriter, r *http.Request, text string) {
	c := &http.Cookie{
		Name: l.cookie, Value: text, Path: oidcPath, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: r.TLS != nil,
		MaxAge: int(oidcPatience / time.Second),
	}
	if text == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// finish lets in who comes back from the provider.
func (l *oidcLogin) finish(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	cookie, err := r.Cookie(l.cookie)
	l.remember(w, r, "")
	if err != nil {
		l.fail(w, r, http.StatusBadRequest, "The login took too long, or did not begin here.", err)
		return
	}
	parts := strings.SplitN(cookie.Value, ".", 3)
	if len(parts) != 3 || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(parts[0])) != 1 {
		l.fail(w, r, http.StatusBadRequest, "The login did not begin here.", errors.New("state is another one"))
		return
	}
	if text := q.Get("error"); text != "" {
		l.fail(w, r, http.StatusForbidden, "The provider has refused the login.", fmt.Errorf("%.200q: %.500q", text, q.Get("error_description")))
		return
	}
	name, err := l.nameOf(r, q.Get("code"), parts[1], parts[2])
	if err != nil {
		l.fail(w, r, http.StatusBadGateway, "What the provider says cannot be used.", err)
		return
	}
	who, err := l.gate.book.Login(r.Context(), &access.Attempt{OIDC: name, Address: addressOf(r)})
	if err != nil {
		l.fail(w, r, http.StatusForbidden, fmt.Sprintf("Nobody with the name %.200q may log in. An admin can make a principal with this name, for OpenID Connect.", name), err)
		return
	}
	if text, ok := l.gate.sessions.begin(who); ok {
		l.gate.sessions.set(w, r, text)
	}
	// A redirect would still be one from the provider's page, and the cookie not be sent.
	l.page(w, http.StatusOK, oidcPage{Next: "/"})
}

// nameOf exchanges a code for who it is about.
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
		return "", errors.New("nonce is another one")
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
		l.log.LogAttrs(context.Background(), slog.LevelDebug, "a page was not sent", slog.Any("error", err))
	}
}

// fail shows what people can do something about, and logs the rest: some of it is for admins only.
func (l *oidcLogin) fail(w http.ResponseWriter, r *http.Request, status int, text string, err error) {
	l.log.LogAttrs(r.Context(), slog.LevelWarn, "a login by OpenID Connect has failed", slog.String("address", addressOf(r).String()), slog.Any("error", err))
	l.page(w, status, oidcPage{Error: text})
}
