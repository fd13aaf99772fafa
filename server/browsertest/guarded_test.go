package browsertest

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// guarded is a visit to a server with TLS on which who comes must log in.
type guarded struct {
	*visit
	client *http.Client
	ca     string // a file
	token  string // of an admin
}

// TestDashboardOfAGuardedServer looks at the pages of a server with TLS as those see it who manage it.
func TestDashboardOfAGuardedServer(t *testing.T) {
	g := newGuarded(t)
	g.run("people log in and out", (*guarded).testLogin)
	g.login(g.token)
	g.run("a device is connected by the commands that are shown", (*guarded).testConnect)
	g.run("devices get credentials with a provision key", (*guarded).testProvisioning)
	g.run("a device is claimed", (*guarded).testClaims)
}

// run makes a subtest of a visit.
func (g *guarded) run(name string, f func(*guarded)) {
	g.t.Run(name, func(t *testing.T) {
		sub := *g
		sub.visit = &visit{t, g.browser, g.url}
		f(&sub)
	})
}

// newGuarded starts a browser and a guarded server.
func newGuarded(t *testing.T) *guarded {
	t.Helper()
	path := requireBrowser(t)
	if os.Getenv("GREENROOM_URL") != "" {
		t.Skip("GREENROOM_URL names a server that is not ours to guard")
	}
	t.Parallel()
	cert, key, pool := certificate(t)
	server := newProcess(t)
	server.args = append(slices.DeleteFunc(server.args, func(arg string) bool { return arg == "--demo" }), "--tls-cert", cert, "--tls-key", key)
	server.url = strings.Replace(server.url, "http:", "https:", 1)
	server.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	server.start(t)
	t.Cleanup(func() { server.stop(t) })
	g := &guarded{visit: &visit{t, startBrowser(t, path), server.url}, client: server.client, ca: cert}
	g.token = g.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	return g
}

// certificate writes a certificate for loopback addresses, which is its own CA, and its key.
func certificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	known := httptest.NewTLSServer(http.NotFoundHandler())
	defer known.Close()
	secret, err := x509.MarshalPKCS8PrivateKey(known.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(known.Certificate())
	cert, key = filepath.Join(t.TempDir(), "server.pem"), filepath.Join(t.TempDir(), "server.key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: known.Certificate().Raw}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, pool
}

// ask sends a request as the admin, once there is one, and returns the answer.
func (g *guarded) ask(method, path, body string, want int) []byte {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	res, err := g.client.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != want {
		g.t.Fatalf("%s %s: %s %s %v, want %d", method, path, res.Status, text, err, want)
	}
	return bytes.TrimSpace(text)
}

// principal makes a principal and returns its token.
func (g *guarded) principal(body string) string {
	g.t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal(g.ask("POST", "/v1/principals", body, http.StatusCreated), &made); err != nil {
		g.t.Fatal(err)
	}
	return made.Token
}

// login begins a session, which all tabs have, in the place of one before.
func (g *guarded) login(token string) {
	g.t.Helper()
	p := g.open("/openapi.json", 1280, 900, "light")
	evaluate[bool](p, fmt.Sprintf(`(fetch('/v1/session', {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify({token: %q})}).then((answer) => (window.loggedIn = answer.ok)), true)`, token))
	p.wait("the session", `window.loggedIn`)
}

// testLogin logs in by the form, on a phone, looks at who may do what there, and logs out.
func (g *guarded) testLogin() {
	const form = `document.querySelector('.login form')`
	p := g.open("/", 390, 844, "dark")
	enter := func(token string) {
		p.wait("the form", form)
		evaluate[bool](p, `((input) => (input.value = '', input.dispatchEvent(new Event('input', {bubbles: true}))))(document.querySelector('.login input[type=password]'))`)
		p.do("enter a token", chromedp.SendKeys(".login input[type=password]", token), chromedp.Click(".login button[type=submit]"))
	}
	enter("gr_admin_wrong")
	p.wait("the refusal", `document.querySelector('.login [role=alert]').textContent !== ''`)
	if title := evaluate[string](p, `document.title`); !strings.HasPrefix(title, "Log in") {
		g.t.Errorf("the title of the form is %q", title)
	}
	p.requireFits()
	p.screenshot("login-phone")
	// What is asked from now on may be asked again and again, each second.
	evaluate[bool](p, `(window.asked = [], window.fetch = ((f) => (...args) => (window.asked.push(String(args[0])), f(...args)))(window.fetch), window.begun = performance.now(), true)`)
	p.wait("a second and a half", `performance.now() > window.begun + 1500`)
	if asked := evaluate[[]string](p, `window.asked`); len(asked) > 0 {
		g.t.Errorf("without a login the page asks for %q", asked)
	}
	enter(g.token)
	p.wait("the pages", `document.querySelector('.top .logout')`)
	evaluate[bool](p, `(location.hash = '#/access', true)`)
	p.wait("who may do what", `document.querySelectorAll('.access .listed').length === 2 && document.querySelectorAll('.access .listed tbody tr').length > 1`)
	p.do("make who may send little", chromedp.SendKeys(`.create-token input[type=text]`, "eager"), chromedp.SendKeys(`.create-token input[type=number]`, "1"), chromedp.Click(`.create-token button`))
	p.wait("its token and its rate", `document.querySelector('.create-token code') && [...document.querySelectorAll('.access .listed tr')].some((e) => e.textContent.includes('eager') && e.textContent.includes('1 KiB/s'))`)
	token := evaluate[string](p, `document.querySelector('.create-token code').textContent`)
	for range 3 { // each costs two seconds
		req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, g.url+"/v1/types", http.NoBody)
		if err != nil {
			g.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := g.client.Do(req)
		if err != nil {
			g.t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	p.wait("it is held back", `document.querySelector('.access .held')?.textContent === 'held back'`)
	p.requireFits()
	if cut := evaluate[[]string](p, `[...document.querySelectorAll('.access .listed tbody :is(th, td)'), document.querySelector('.top .logout')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent)`); len(cut) > 0 {
		g.t.Errorf("on a phone these are cut off: %q", cut)
	}
	p.screenshotWhole("access-phone")
	p.do("log out", chromedp.Click(".top .logout"))
	p.wait("the form again", form)
}
