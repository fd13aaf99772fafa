package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// forger is a provider of OpenID Connect whose ID tokens say what a test wants. It accepts any code.
type forger struct {
	*httptest.Server
	key *ecdsa.PrivateKey
	id  atomic.Pointer[string] // the next ID token
}

func startForger(t *testing.T) *forger {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	f := &forger{Server: httptest.NewServer(mux), key: key}
	t.Cleanup(f.Close)
	say := func(path string, body func() string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaJSON)
			_, _ = w.Write([]byte(body()))
		})
	}
	say("/.well-known/openid-configuration", func() string {
		return `{"issuer":"` + f.URL + `","authorization_endpoint":"` + f.URL + `/auth","token_endpoint":"` + f.URL + `/token",
			"jwks_uri":"` + f.URL + `/keys","id_token_signing_alg_values_supported":["ES256"]}`
	})
	point, err := key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	say("/keys", func() string {
		return `{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"k","x":"` + b64(point[1:33]) + `","y":"` + b64(point[33:]) + `"}]}`
	})
	say("/token", func() string { return `{"access_token":"a","token_type":"Bearer"` + *f.id.Load() + `}` })
	return f
}

// claims returns the claims of a valid ID token, with some changed.
func (f *forger) claims(nonce string, changed map[string]any) []byte {
	all := map[string]any{
		"iss": f.URL, "aud": "greenroom", "sub": "1", "email": "alice@plant.example", "email_verified": true, "nonce": nonce,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	maps.Copy(all, changed)
	text, _ := json.Marshal(all) // of strings, numbers and a bool
	return text
}

func unsigned(head string, claims []byte) string {
	return base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString(claims)
}

// sign returns an ID token that a key has signed.
func sign(t *testing.T, key *ecdsa.PrivateKey, claims []byte) string {
	t.Helper()
	text := unsigned(`{"alg":"ES256","kid":"k"}`, claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestForgedIDTokensLogNobodyIn(t *testing.T) {
	t.Parallel()
	f := startForger(t)
	s := startWith(t, Config{OIDC: OIDC{Issuer: f.URL, Client: "greenroom", Secret: "secret"}, TrustedProxies: []string{"127.0.0.0/8"}})
	s.token = s.principal(`{"name":"root","grants":[{"role":"admin"}]}`)
	s.principal(`{"name":"alice@plant.example","grants":[{"role":"viewer"}],"oidc":true}`)
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(changed map[string]any) func(string) string {
		return func(nonce string) string { return sign(t, f.key, f.claims(nonce, changed)) }
	}
	from := 0
	nextAddress := func() string { // so that no failure slows the next login
		from++
		return fmt.Sprint("192.0.2.", from)
	}
	for name, x := range map[string]struct {
		id   func(nonce string) string
		want int
	}{
		"valid":            {signed(nil), http.StatusOK},
		"of another login": {signed(map[string]any{"nonce": "another"}), http.StatusBadGateway},
		"without a nonce":  {signed(map[string]any{"nonce": ""}), http.StatusBadGateway},
		"another issuer":   {signed(map[string]any{"iss": "https://login.example"}), http.StatusBadGateway},
		"another client":   {signed(map[string]any{"aud": "other"}), http.StatusBadGateway},
		"no client":        {signed(map[string]any{"aud": []string{}}), http.StatusBadGateway},
		"expired":          {signed(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), http.StatusBadGateway},
		"not verified":     {signed(map[string]any{"email_verified": false}), http.StatusBadGateway},
		"no name":          {signed(map[string]any{"email": ""}), http.StatusBadGateway},
		"names as a list":  {signed(map[string]any{"email": []string{"alice@plant.example"}}), http.StatusBadGateway},
		"another name":     {signed(map[string]any{"email": "Alice@plant.example"}), http.StatusForbidden},
		"one with a token": {signed(map[string]any{"email": "root"}), http.StatusForbidden},
		"another key":      {func(n string) string { return sign(t, other, f.claims(n, nil)) }, http.StatusBadGateway},
		"no signature":     {func(n string) string { return unsigned(`{"alg":"none"}`, f.claims(n, nil)) + "." }, http.StatusBadGateway},
		"the client's own": {func(n string) string { return signedBySecret("secret", f.claims(n, nil)) }, http.StatusBadGateway},
		"no ID token":      {func(string) string { return "" }, http.StatusBadGateway},
	} {
		state, nonce, cookie := s.as("").beginForged()
		id := x.id(nonce)
		said := ""
		if id != "" {
			said = `,"id_token":"` + id + `"`
		}
		f.id.Store(&said)
		resp, text := s.as("").do("GET", oidcCallback+"?code=any&state="+url.QueryEscape(state), "", "Cookie", cookie, "X-Forwarded-For", nextAddress())
		if resp.StatusCode != x.want {
			t.Errorf("%s: %s %s", name, resp.Status, text)
		}
		for _, c := range resp.Cookies() {
			if x.want != http.StatusOK && c.MaxAge >= 0 {
				t.Errorf("%s: the cookie %s", name, c)
			}
		}
	}
}

// beginForged begins a login, and returns what the provider is told of it, and the cookie.
func (r *running) beginForged() (state, nonce, cookie string) {
	r.t.Helper()
	to, cookie := r.beginLoginAt()
	cookie, _, _ = strings.Cut(cookie, ";")
	return to.Query().Get("state"), to.Query().Get("nonce"), cookie
}

// signedBySecret returns an ID token with the client's secret as the key, as algorithms that are not
// the provider's would allow.
func signedBySecret(secret string, claims []byte) string {
	text := unsigned(`{"alg":"HS256"}`, claims)
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(text)) // a hash does not fail
	return text + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
