package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// running is a server under test.
type running struct {
	*Server
	t    *testing.T
	log  *logBuffer
	stop func() error // shuts down gracefully; the first call counts

	token string // with which requests are made; "" for none
}

// start runs a server on free ports, on dir or on a directory of its own.
func start(t *testing.T, dir string) *running {
	t.Helper()
	return startWith(t, Config{DataDir: dir})
}

// startWith is start with more of a configuration.
func startWith(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	log := &logBuffer{}
	cfg.Store, cfg.HTTP, cfg.MQTT = pgtest.Address(t, cfg.DataDir), "127.0.0.1:0", "127.0.0.1:0"
	cfg.Version, cfg.Logger = "v0.0.0-test", slog.New(slog.NewTextHandler(log, nil))
	s, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return run(t, s, log)
}

func run(t *testing.T, s *Server, log *logBuffer) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	r := &running{Server: s, t: t, log: log, stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
		if t.Failed() {
			t.Logf("the server's log:\n%s", log)
		}
	})
	return r
}

// logBuffer is a log that a test can read.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// do sends a request and returns the answer with its body.
func (r *running) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp, string(text)
}

// get decodes what a path answers with 200.
func (r *running) get(path string, into any) {
	r.t.Helper()
	resp, body := r.do("GET", path, "")
	if resp.StatusCode != http.StatusOK {
		r.t.Fatalf("GET %s: %s %s", path, resp.Status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		r.t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// post sends readings, which must be taken.
func (r *running) post(id, payload string) {
	r.t.Helper()
	resp, body := r.do("POST", "/v1/entities/"+id+"/telemetry", payload, "Content-Type", "application/json")
	if resp.StatusCode != http.StatusNoContent {
		r.t.Fatalf("POST for %s: %s %s", id, resp.Status, body)
	}
}

// latest returns the latest values of an entity as JSON, by key.
func (r *running) latest(id string) map[string]string {
	r.t.Helper()
	var e struct {
		Latest map[string]struct{ Value json.RawMessage }
	}
	r.get("/v1/entities/"+id, &e)
	out := map[string]string{}
	for key, l := range e.Latest {
		out[key] = string(l.Value)
	}
	return out
}

// metric returns the value of a metric's line, "" when there is none.
func (r *running) metric(name string) string {
	r.t.Helper()
	_, body := r.do("GET", "/metrics", "")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// dial311 connects an MQTT 3.1.1 client.
func (r *running) dial311(id string, options ...func(*mqtt311.ClientOptions)) mqtt311.Client {
	r.t.Helper()
	o := mqtt311.NewClientOptions().AddBroker("tcp://" + r.MQTTAddr()).SetClientID(id).SetAutoReconnect(false)
	for _, option := range options {
		option(o)
	}
	c := mqtt311.NewClient(o)
	await(r.t, c.Connect())
	r.t.Cleanup(func() { c.Disconnect(0) })
	return c
}

// dialCut is dial311 with a way to cut the connection, without a DISCONNECT.
func (r *running) dialCut(id string, options ...func(*mqtt311.ClientOptions)) (c mqtt311.Client, cut func()) {
	r.t.Helper()
	var nc net.Conn
	c = r.dial311(id, append(options, func(o *mqtt311.ClientOptions) {
		o.SetCustomOpenConnectionFn(func(u *url.URL, _ mqtt311.ClientOptions) (_ net.Conn, err error) {
			nc, err = (&net.Dialer{}).DialContext(r.t.Context(), "tcp", u.Host)
			return nc, err
		})
	})...)
	return c, func() {
		if err := nc.Close(); err != nil {
			r.t.Errorf("cut the connection: %v", err)
		}
	}
}

// await waits for a token.
func await(t *testing.T, token mqtt311.Token) {
	t.Helper()
	if !token.WaitTimeout(patience) {
		t.Fatal("no answer from the broker")
	}
	if err := token.Error(); err != nil {
		t.Fatalf("the broker's answer: %v", err)
	}
}

// receive waits for a value of a channel.
func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// eventually looks every few milliseconds until ok: a loop that only looks takes a CPU
// from what it waits for.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		if time.Since(began) > patience {
			t.Fatalf("waited in vain for %s", what)
		}
		if err := pause.For(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatalf("waited for %s: %v", what, err)
		}
	}
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}
