package server

import (
	"context"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// forgetfulStore cannot read the documents of a kind.
type forgetfulStore struct {
	entity.Store
	kind string
}

var errForgotten = errors.New("the documents cannot be read")

func (s *forgetfulStore) Docs(ctx context.Context, kind, after string, limit int) ([]entity.Doc, error) {
	if kind == s.kind {
		return nil, errForgotten
	}
	return s.Store.Docs(ctx, kind, after, limit)
}

// It is not parallel: it looks for goroutines that servers of other tests have.
func TestAStartThatFailsLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{DataDir: dir, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", NewAdmin: true, Logger: slog.New(slog.DiscardHandler)}
	cfg.setDefaults()
	for _, kind := range []string{"principal", "template"} {
		_, err := open(t.Context(), cfg, func() (entity.Store, error) {
			store, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
			return &forgetfulStore{store, kind}, err
		})
		if !errors.Is(err, errForgotten) {
			t.Fatalf("%s: %v", kind, err)
		}
		var stacks strings.Builder
		eventually(t, "the end of all parts", func() bool {
			stacks.Reset()
			if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"/entity/search.", "/entity/alarm.", "/entity/mapping.", "/entity/sqlite.", "/server/mqtt."} {
				if strings.Contains(stacks.String(), part) {
					return false
				}
			}
			return true
		})
	}
	// Nobody has seen the token of an admin.
	cfg.NewAdmin = false
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if s.Guarded() {
		t.Error("an admin was made whose token nobody has")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCloseBreaksOffWhatIsAskedOfAnAuthority(t *testing.T) {
	t.Parallel()
	asked, left := make(chan struct{}), make(chan struct{})
	authority := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done() // it never answers
		close(left)
	}))
	defer authority.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := newIssuer(&ACME{Hosts: []string{"plant.example"}, Directory: authority.URL, CA: ca, Cache: dir}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	i.manager.Client.HTTPClient.Timeout = 0 // nothing else ends a request
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.run(ctx)
	}()
	receive(t, asked, "a request to the authority")
	cancel()
	receive(t, left, "its end")
	receive(t, ended, "the end of the issuer")
}

func TestTheAuditLogHasNoSecretsOfURLs(t *testing.T) {
	t.Parallel()
	s, _ := startGuarded(t)
	resp, text := s.do("PUT", "/v1/webhooks/ops", `{"url":"https://hooks.example/services/T0/B1/secret?key=secret"}`, "Content-Type", mediaJSON, "If-None-Match", "*")
	if resp.StatusCode != http.StatusCreated {
		t.Fatal(resp.Status, text)
	}
	if _, text := s.do("GET", "/v1/audit?limit=1", ""); !strings.Contains(text, "/v1/webhooks/ops https://hooks.example") || strings.Contains(text, "secret") {
		t.Errorf("the audit log has %s", text)
	}
}
