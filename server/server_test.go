package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

func TestAddressesThatCannotBeServedSayWhy(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().String()
	for _, tt := range []struct {
		http, mqtt string
		is         error
		says       []string
	}{
		{port, "127.0.0.1:0", ErrAddressInUse, []string{port, "HTTP", "--http"}},
		{"127.0.0.1:0", port, ErrAddressInUse, []string{port, "MQTT", "--mqtt"}},
		{"0.0.0.0:0", "127.0.0.1:0", ErrNotLoopback, []string{"0.0.0.0:0", "--http", "127.0.0.1"}},
		{":8080", "127.0.0.1:0", ErrNotLoopback, []string{"--http"}},
		{"127.0.0.1:0", "192.0.2.1:1883", ErrNotLoopback, []string{"192.0.2.1:1883", "--mqtt"}},
		{"127.0.0.1", "127.0.0.1:0", nil, []string{"host:port", "--http"}},
		{"127.0.0.1:0", "127.0.0.1:http-alt-no-such", nil, []string{"--mqtt"}},
	} {
		dir := filepath.Join(t.TempDir(), "data")
		_, err := New(t.Context(), Config{DataDir: dir, HTTP: tt.http, MQTT: tt.mqtt, Logger: slog.New(slog.DiscardHandler)})
		if err == nil || (tt.is != nil && !errors.Is(err, tt.is)) {
			t.Errorf("HTTP %s, MQTT %s: %v, want %v", tt.http, tt.mqtt, err, tt.is)
			continue
		}
		for _, word := range tt.says {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("HTTP %s, MQTT %s: %q does not contain %q", tt.http, tt.mqtt, err, word)
			}
		}
	}
}

func TestOneDirectoryHasOneServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, dir)
	_, err := New(t.Context(), Config{DataDir: dir, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("a second server: %v, want %v", err, sqlite.ErrInUse)
	}
}

func TestServerThatIsNotRunCanBeClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 { // the directory is free again
		s, err := New(t.Context(), Config{DataDir: dir, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Run after Close: %v, want %v", err, ErrClosed)
		}
	}
}

func TestShutdownKeepsWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.dial311("sensor")
	const messages = 2000
	var acked atomic.Int64
	enough, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var tokens []mqtt311.Token
		for i := range messages {
			tokens = append(tokens, c.Publish("e/room/telemetry", 1, false, fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, i, i)))
		}
		for i, token := range tokens {
			if !token.WaitTimeout(patience) || token.Error() != nil {
				return // the server is gone
			}
			if acked.Store(int64(i + 1)); i == messages/10 {
				close(enough)
			}
		}
	}()
	receive(t, enough, "acknowledgements")
	if err := s.stop(); err != nil {
		t.Fatalf("shutdown under load: %v", err)
	}
	receive(t, ended, "the client's end")
	s = start(t, dir)
	var page struct{ Points []struct{ TS, Value int64 } }
	s.get("/v1/entities/room/telemetry/n?limit=100000", &page)
	if n := acked.Load(); int64(len(page.Points)) < n {
		t.Errorf("%d readings of %d acknowledged ones are there", len(page.Points), n)
	}
	for i, p := range page.Points {
		if p.TS != int64(i) || p.Value != int64(i) {
			t.Fatalf("the reading %d is %+v", i, p)
		}
	}
}

func TestShutdownEndsAtItsDeadlineAlthoughTheStoreFails(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	cfg := Config{HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", DrainTimeout: 50 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil))}
	cfg.setDefaults()
	store := &brokenStore{failed: make(chan struct{})}
	store.broken.Store(true)
	server, err := open(t.Context(), cfg, func() (_ entity.Store, err error) {
		store.Store, err = sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
		return store, err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	s := &running{Server: server, t: t, log: log}
	token := s.dial311("sensor").Publish("e/room/telemetry", 1, false, `{"t":1}`)
	receive(t, store.failed, "a failed commit")
	cancel()
	if err := receive(t, ended, "the end"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "not committed") {
		t.Errorf("Run: %v, want one that says what was not committed", err)
	}
	if !token.WaitTimeout(patience) || token.Error() == nil {
		t.Error("the reading was acknowledged without a commit")
	}
}

// brokenStore is a store whose commits fail while it is told so.
type brokenStore struct {
	entity.Store
	broken atomic.Bool
	failed chan struct{}
}

func (b *brokenStore) Commit(ctx context.Context, batch *entity.Batch) error {
	if b.broken.Load() {
		select {
		case b.failed <- struct{}{}:
		default:
		}
		return errors.New("no space left on device")
	}
	return b.Store.Commit(ctx, batch)
}

func TestHealthSaysWhenTheStoreFails(t *testing.T) {
	t.Parallel()
	log := &logBuffer{}
	cfg := Config{HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))}
	cfg.setDefaults()
	store := &brokenStore{failed: make(chan struct{})}
	server, err := open(t.Context(), cfg, func() (_ entity.Store, err error) {
		store.Store, err = sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
		return store, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := run(t, server, log)
	if resp, body := s.do("GET", "/healthz", ""); resp.StatusCode != http.StatusOK || strings.TrimSpace(body) != `{"status":"ok"}` {
		t.Errorf("health: %s %s", resp.Status, body)
	}
	store.broken.Store(true)
	token := s.dial311("sensor").Publish("e/room/telemetry", 1, false, `{"t":1}`)
	receive(t, store.failed, "a failed commit")
	receive(t, store.failed, "another one, after which the first is known")
	resp, body := s.do("GET", "/healthz", "")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "no space left on device") {
		t.Errorf("health while the store fails: %s %s", resp.Status, body)
	}
	select {
	case <-token.Done():
		t.Error("the reading was acknowledged without a commit")
	default:
	}
	store.broken.Store(false)
	await(t, token)
	if resp, body := s.do("GET", "/healthz", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("health after that: %s %s", resp.Status, body)
	}
}
