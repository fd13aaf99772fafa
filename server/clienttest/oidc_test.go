package clienttest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// startProvider starts a provider of OpenID Connect that knows a server, and returns its URL.
func startProvider(t *testing.T, redirect string) string {
	t.Helper()
	ready(t)
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	settings, err := json.Marshal(map[string]string{"port": port, "redirect": redirect})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(clients, "provider.mjs"), string(settings))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the provider: %s", complaints.String())
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			go func() { _, _ = io.Copy(io.Discard, out) }() // until it ends
			return "http://" + address
		}
	}
	t.Fatalf("the provider has ended: %v", lines.Err())
	return ""
}

func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// browser is somebody who follows links, fills in forms and keeps cookies.
type browser struct {
	t    *testing.T
	http http.Client
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t: t, http: http.Client{Jar: jar}}
}

func (b *browser) get(at string) (status int, text string) {
	b.t.Helper()
	return b.send(http.MethodGet, at, nil)
}

func (b *browser) send(method, at string, form url.Values) (status int, text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

var formAction = regexp.MustCompile(`<form[^>]*action="([^"]+)"`)

// login goes to the provider, logs in there and consents, and returns what the server says then.
func (b *browser) login(at, name string) (status int, text string) {
	b.t.Helper()
	status, text = b.get(at)
	for _, form := range []url.Values{{"prompt": {"login"}, "login": {name}, "password": {"any"}}, {"prompt": {"consent"}}} {
		action := formAction.FindStringSubmatch(text)
		if status != http.StatusOK || action == nil {
			b.t.Fatalf("the provider's page is %d %s", status, text)
		}
		status, text = b.send(http.MethodPost, html.UnescapeString(action[1]), form)
	}
	return status, text
}

func TestPeopleLogInAtAProvider(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	at := "http://" + address
	issuer := startProvider(t, at+"/login/oidc/callback")
	r := start(t, server.Config{HTTP: address, OIDC: server.OIDC{Issuer: issuer, Client: "greenroom", Secret: "a secret of the test"}})
	r.token = r.principal(`{"name":"root","grants":[{"role":"admin"}]}`)
	r.principal(`{"name":"alice@plant.example","grants":[{"role":"viewer"}],"oidc":true}`)
	r.principal(`{"name":"bob@plant.example","grants":[{"role":"admin"}]}`) // has a token
	r.principal(`{"name":"unverified@plant.example","grants":[{"role":"admin"}],"oidc":true}`)

	alice := newBrowser(t)
	if status, text := alice.get(at + "/v1/session/ways"); status != http.StatusOK || !strings.Contains(text, `"oidc":"/login/oidc"`) {
		t.Errorf("the ways to log in: %d %s", status, text)
	}
	if status, text := alice.login(at+"/login/oidc", "alice@plant.example"); status != http.StatusOK || !strings.Contains(text, `url=/`) {
		t.Fatalf("alice: %d %s", status, text)
	}
	if status, text := alice.get(at + "/v1/session"); status != http.StatusOK || !strings.Contains(text, `"name":"alice@plant.example"`) || !strings.Contains(text, `"all":["read"]`) {
		t.Errorf("who alice is: %d %s", status, text)
	}
	for name, why := range map[string]string{
		"bob@plant.example":        "Nobody with the name",
		"carol@plant.example":      "Nobody with the name",
		"unverified@plant.example": "cannot be used",
	} {
		b := newBrowser(t)
		if status, text := b.login(at+"/login/oidc", name); status == http.StatusOK || !strings.Contains(text, why) {
			t.Errorf("%s: %d %s; want %q", name, status, text, why)
		}
		if status, _ := b.get(at + "/v1/session"); status != http.StatusUnauthorized {
			t.Errorf("%s has a session: %d", name, status)
		}
	}
}

// TestALoginBeginsWhereItEnds has a browser come back from a login that it has not begun: with the code of
// somebody else it would be logged in as that one.
func TestALoginBeginsWhereItEnds(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	at := "http://" + address
	issuer := startProvider(t, at+"/login/oidc/callback")
	r := start(t, server.Config{HTTP: address, OIDC: server.OIDC{Issuer: issuer, Client: "greenroom", Secret: "a secret of the test"}})
	r.token = r.principal(`{"name":"root","grants":[{"role":"admin"}]}`)
	r.principal(`{"name":"mallory@plant.example","grants":[{"role":"viewer"}],"oidc":true}`)

	mallory := newBrowser(t)
	code := ""
	mallory.http.CheckRedirect = func(req *http.Request, _ []*http.Request) error {
		if req.URL.Host == address && req.URL.Path == "/login/oidc/callback" {
			code = req.URL.String()
			return http.ErrUseLastResponse
		}
		return nil
	}
	mallory.login(at+"/login/oidc", "mallory@plant.example")
	if code == "" {
		t.Fatal("the provider has sent nobody back")
	}
	victim := newBrowser(t)
	if status, text := victim.get(code); status != http.StatusBadRequest {
		t.Errorf("without a login of its own: %d %s", status, text)
	}
	victim.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if status, text := victim.get(at + "/login/oidc"); status != http.StatusSeeOther {
		t.Fatalf("the way to the provider: %d %s", status, text)
	}
	if status, text := victim.get(code); status != http.StatusBadRequest {
		t.Errorf("with the state of another login: %d %s", status, text)
	}
	if status, _ := victim.get(at + "/v1/session"); status != http.StatusUnauthorized {
		t.Errorf("the victim has a session: %d", status)
	}
	for _, path := range []string{"?error=access_denied&state=x", "?code=x", ""} {
		if status, text := newBrowser(t).get(fmt.Sprint(at, "/login/oidc/callback", path)); status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", path, status, text)
		}
	}
}
