package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/embedded"
	"github.com/greenroom-go/greenroom/cluster/enginetest"
	"github.com/greenroom-go/greenroom/cluster/nats"
)

const secret = "known to the servers and clients of these tests"

var quiet = slog.New(slog.DiscardHandler)

func start(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	cfg.Log = quiet
	s, err := embedded.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func open(t testing.TB, s *embedded.Server, cfg nats.Config) *nats.Engine {
	t.Helper()
	nc, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	e, err := nats.Open(t.Context(), nc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestAServerForThisProcessOnly has no port, and keeps what it has when it is started again.
func TestAServerForThisProcessOnly(t *testing.T) {
	t.Parallel()
	cfg := embedded.Config{Dir: t.TempDir()}
	s := start(t, cfg)
	if url := s.URL(); url != "" {
		t.Errorf("it listens at %s", url)
	}
	if _, err := open(t, s, nats.Config{}).Put(t.Context(), "k", []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got, err := open(t, start(t, cfg), nats.Config{}).Get(t.Context(), "k"); err != nil || string(got.Value) != "v" {
		t.Errorf("after a restart: %q, %v", got.Value, err)
	}
}

// three starts a cluster of servers. Their addresses for each other must be known before: others may take the
// ports meanwhile, and then there are new ones.
func three(t testing.TB) []*embedded.Server {
	t.Helper()
	for {
		servers, err := tryThree(t)
		if err == nil {
			for _, s := range servers {
				t.Cleanup(s.Close)
			}
			return servers
		}
		for _, s := range servers {
			s.Close()
		}
		if !strings.Contains(err.Error(), "in use") {
			t.Fatal(err)
		}
	}
}

func tryThree(t testing.TB) (servers []*embedded.Server, err error) {
	t.Helper()
	routes, err := ports(3)
	if err != nil {
		return nil, err
	}
	for i, addr := range routes {
		s, err := embedded.Start(embedded.Config{
			Name: fmt.Sprint("s", i+1), Dir: t.TempDir(), Addr: "127.0.0.1:0", RouteAddr: addr, Routes: routes,
			Secret: secret, Unsynced: true, Log: quiet,
		})
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// ports returns addresses that are free at the moment.
func ports(n int) (addrs []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}

// TestThreeServers run the conformance suite on replicas. Then one after the other ends: two of them agree on
// what is put, and one puts nothing.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	servers, n := three(t), 0
	enginetest.Run(t, func(t testing.TB) (a, b cluster.Engine) {
		n++
		cfg := nats.Config{Stream: fmt.Sprint("MAP", n), Replicas: 3}
		return open(t, servers[n%3], cfg), open(t, servers[(n+1)%3], cfg)
	})
	e := open(t, servers[2], nats.Config{Replicas: 3})
	put := func(ctx context.Context, was cluster.Revision) (cluster.Revision, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return e.Put(ctx, "k", []byte("v"), was)
	}
	last, err := put(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	servers[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // for an election
	defer cancel()
	for {
		rev, err := put(ctx, last)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("two of three servers: %v", err)
		}
		if errors.Is(err, cluster.ErrConflict) { // an unsure one has come through
			at, err := e.Get(ctx, "k")
			if err == nil && at.Revision > last {
				break
			}
		}
		last = max(last, rev)
	}
	servers[1].Close()
	if rev, err := put(t.Context(), last); err == nil {
		t.Errorf("one of three servers has put something at %d", rev)
	}
}

func TestASecretIsNeeded(t *testing.T) {
	t.Parallel()
	s := start(t, embedded.Config{Dir: t.TempDir(), Addr: "127.0.0.1:0", Secret: secret})
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "CONNECT {\"auth_token\":\"another one\"}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 1<<16)
	n := 0
	for !strings.Contains(string(got[:n]), "Authorization Violation") {
		k, err := conn.Read(got[n:])
		if n += k; err != nil {
			t.Fatalf("the server says %q: %v", got[:n], err)
		}
	}
	if nc, err := s.Connect(t.Context()); err != nil {
		t.Error(err)
	} else {
		nc.Close()
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	single, clustered := t.TempDir(), t.TempDir()
	for _, dir := range []string{filepath.Join(single, "nats-single"), filepath.Join(clustered, "nats-cluster")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	routes := []string{"127.0.0.1:1"}
	for want, cfg := range map[string]embedded.Config{
		"Config.Dir is empty":         {},
		"Config.Dir has nats-single":  {Dir: single, Name: "a", RouteAddr: "127.0.0.1:0", Routes: routes},
		"Config.Dir has nats-cluster": {Dir: clustered},
		"Config.Name is empty":        {Dir: t.TempDir(), RouteAddr: "127.0.0.1:0", Routes: routes},
		"RouteAddr must be an addr":   {Dir: t.TempDir(), Name: "a", Routes: routes},
		"not \"nowhere\"":             {Dir: t.TempDir(), Name: "a", RouteAddr: "127.0.0.1:0", Routes: []string{"nowhere"}},
		"Addr must be a loopback":     {Dir: t.TempDir(), Addr: "0.0.0.0:0"},
		"RouteAddr must be a loop":    {Dir: t.TempDir(), Name: "a", RouteAddr: "10.0.0.1:6222", Routes: routes},
		"from 0 to 65535":             {Dir: t.TempDir(), Addr: "127.0.0.1:http"},
		"address already in use":      {Dir: t.TempDir(), Addr: busy.Addr().String()},
	} {
		cfg.Log = quiet
		if s, err := embedded.Start(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", cfg, err, want)
			if err == nil {
				s.Close()
			}
		}
	}
}
