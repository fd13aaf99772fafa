package server

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

// startLogins starts a server whose provider answers what it is by discover, and refuses all codes.
func startLogins(t *testing.T, discover func(w http.ResponseWriter, document string)) *running {
	t.Helper()
	mux := http.NewServeMux()
	provider := httptest.NewServer(mux)
	t.Cleanup(provider.Close)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		discover(w, `{"issuer":"`+provider.URL+`","authorization_endpoint":"`+provider.URL+`/auth","token_endpoint":"`+provider.URL+`/token","jwks_uri":"`+provider.URL+`/keys"}`)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", mediaJSON)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
	})
	return startWith(t, Config{OIDC: OIDC{Issuer: provider.URL, Client: "greenroom"}})
}

// begin begins a login, and returns its state and cookie.
func (r *running) beginLogin() (state, cookie string) {
	r.t.Helper()
	to, cookie := r.beginLoginAt()
	return to.Query().Get("state"), cookie
}

// beginLoginAt begins a login, and returns where the browser is sent, and its cookie.
func (r *running) beginLoginAt() (to *url.URL, cookie string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.HTTPAddr()+oidcPath, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // which follows nothing
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if to, err = resp.Location(); err != nil || len(resp.Cookies()) != 1 {
		r.t.Fatal(resp.Status, err)
	}
	return to, resp.Cookies()[0].String()
}

func (r *running) finishLogin(state, cookie string) int {
	r.t.Helper()
	cookie, _, _ = strings.Cut(cookie, ";")
	resp, _ := r.do("GET", oidcCallback+"?code=guess&state="+url.QueryEscape(state), "", "Cookie", cookie)
	return resp.StatusCode
}

func TestAProviderIsAskedOnceWhatItIs(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	all := make(chan struct{})
	s := startLogins(t, func(w http.ResponseWriter, document string) {
		asked.Add(1)
		<-all
		_, _ = w.Write([]byte(document))
	})
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { s.beginLogin() })
	}
	eventually(t, "the first", func() bool { return asked.Load() > 0 })
	close(all)
	wg.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestAProviderThatFailsIsNotAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := startLogins(t, func(w http.ResponseWriter, _ string) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	})
	for range 5 {
		if resp, text := s.do("GET", oidcPath, ""); resp.StatusCode != http.StatusBadGateway {
			t.Errorf("%s %s", resp.Status, text)
		}
	}
	if n := asked.Load(); n > 2 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestGuessedLoginsAtTheProviderAreSlowed(t *testing.T) {
	t.Parallel()
	s := startLogins(t, func(w http.ResponseWriter, document string) { _, _ = w.Write([]byte(document)) })
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	state, cookie := s.beginLogin()
	for _, other := range []string{
		strings.Replace(cookie, state, "chosen", 1), // by who can set cookies and does not know the key
		strings.Replace(cookie, "=", "=x", 1),
		s.oidc.cookie + "=a.b.c",
		s.oidc.cookie + "=",
	} {
		if status := s.as("").finishLogin("chosen", other); status != http.StatusBadRequest {
			t.Errorf("%s: %d", other, status)
		}
	}
	old := s.oidc.seal(state, "nonce", "verifier", strconv.FormatInt(time.Now().Add(-time.Second).Unix(), 10))
	if status := s.as("").finishLogin(state, s.oidc.cookie+"="+old); status != http.StatusBadRequest {
		t.Errorf("too late: %d", status)
	}
	for range access.FreeFailures {
		if status := s.as("").finishLogin(state, cookie); status != http.StatusBadGateway {
			t.Fatalf("a wrong code: %d", status)
		}
	}
	if status := s.as("").finishLogin(state, cookie); status != http.StatusTooManyRequests {
		t.Errorf("after too many: %d", status)
	}
}

func TestNamesAtAProviderMayHaveMoreThanOthers(t *testing.T) {
	t.Parallel()
	s, _ := startGuarded(t)
	for _, name := range []string{"alice+ops@plant.example", "auth0|5f7c8ec7c33c6c004bbafe82"} {
		s.principal(`{"name":"` + name + `","grants":[{"role":"viewer"}],"oidc":true}`)
		who, err := s.book.Login(t.Context(), &access.Attempt{OIDC: name})
		if err != nil || who.Name() != name {
			t.Errorf("%s: %v", name, err)
		}
		s.send(200, "GET", "/v1/principals/"+url.PathEscape(name), mediaJSON, "")
		if _, _, err := s.book.Create(t.Context(), &access.Spec{Name: name + "2", Grants: []access.Grant{{Role: access.Viewer}}}); !errors.Is(err, access.ErrInvalid) {
			t.Errorf("with a token: %v", err)
		}
		s.send(204, "DELETE", "/v1/principals/"+url.PathEscape(name), mediaJSON, "")
	}
	if _, _, err := s.book.Create(t.Context(), &access.Spec{Name: "+provision", OIDC: true, Grants: []access.Grant{{Role: access.Viewer}}}); !errors.Is(err, access.ErrInvalid) {
		t.Errorf("a name of the server's own: %v", err)
	}
}
