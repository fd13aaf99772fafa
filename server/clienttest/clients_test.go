package clienttest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server"
)

// patience is how long a client may take for all it does.
const patience = time.Minute

// clients is where the clients are installed.
var clients string

func TestMain(m *testing.M) {
	var err error
	if clients, err = os.MkdirTemp("", "greenroom-clients-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(clients) // of no use to anybody
	os.Exit(code)
}

// unreachable matches what npm says when there is no way to a registry, which says
// nothing about the server.
var unreachable = regexp.MustCompile(`\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH)\b`)

// install installs the clients, once for all tests. What it returns is why not.
var install = sync.OnceValues(func() (missing string, err error) {
	if _, err := exec.LookPath("npm"); err != nil {
		return "npm is not installed", nil
	}
	if err := os.CopyFS(clients, os.DirFS("testdata")); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = clients
	out, err := cmd.CombinedOutput()
	if err != nil && unreachable.Match(out) {
		return "npm reaches no registry", nil
	}
	if err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return "", nil
})

// ready installs the clients, or skips the test. npm may take minutes: call it before
// something waits for what a client does.
func ready(t *testing.T) {
	t.Helper()
	missing, err := install()
	if err != nil {
		t.Fatal(err)
	}
	if missing != "" {
		t.Skipf("NOT TESTED with clients of other projects: %s", missing)
	}
}

// client runs one of the programs in testdata, which gets its settings as JSON and whose
// output it returns. It ends by itself.
func client(t *testing.T, program string, settings map[string]any) string {
	t.Helper()
	ready(t)
	in, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(clients, program), string(in))
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", program, err, out.String(), complaints.String())
	}
	return out.String()
}

// running is a server under test.
type running struct {
	*server.Server
	t     *testing.T
	token string // "" while nobody has to log in
	url   string
	http  *http.Client
}

// trust has requests to the server encrypted and its certificate checked against a CA.
func (r *running) trust(ca string) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(ca))
	_, port, _ := net.SplitHostPort(r.HTTPAddr()) // it is an address of net
	r.url = "https://localhost:" + port
	r.http = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// start runs a server until the end of the test.
func start(t *testing.T, cfg server.Config) *running {
	t.Helper()
	cfg.HTTP, cfg.MQTT, cfg.Store = cmp.Or(cfg.HTTP, "127.0.0.1:0"), "127.0.0.1:0", t.TempDir()
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := server.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server: %v", err)
		}
	})
	return &running{Server: s, t: t, url: "http://" + s.HTTPAddr(), http: http.DefaultClient}
}

// do makes a request and returns the body of its answer.
func (r *running) do(method, path, body string, header ...string) string {
	r.t.Helper()
	status, text := r.try(method, path, body, header...)
	if status >= 300 {
		r.t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
	return text
}

// may is do for what may not be there yet.
func (r *running) may(method, path string) string {
	r.t.Helper()
	_, text := r.try(method, path, "")
	return text
}

func (r *running) try(method, path, body string, header ...string) (status int, answer string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// get reads JSON.
func (r *running) get(path string, into any) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(r.do("GET", path, "")), into); err != nil {
		r.t.Fatalf("GET %s: %v", path, err)
	}
}

// principal makes a principal and returns its token, if it has one.
func (r *running) principal(body string) string {
	r.t.Helper()
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(r.do("POST", "/v1/principals", body, "Content-Type", "application/json")), &made); err != nil {
		r.t.Fatal(err)
	}
	return made.Token
}

// desire merges a patch into what an entity should be.
func (r *running) desire(id, body string) {
	r.t.Helper()
	r.do("PATCH", "/v1/entities/"+id+"/attributes/desired", body, "Content-Type", "application/merge-patch+json")
}

// eventually looks until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		if time.Since(began) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// latest returns the latest values of an entity by key.
func (r *running) latest(id string) map[string]any {
	r.t.Helper()
	var e struct {
		Latest map[string]struct{ Value any }
	}
	r.get("/v1/entities/"+id, &e)
	out := map[string]any{}
	for key, l := range e.Latest {
		out[key] = l.Value
	}
	return out
}
