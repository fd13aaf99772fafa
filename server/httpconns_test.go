package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

const healthRequest = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

// isHealthy has a request answered over a connection that is open.
func isHealthy(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, healthRequest); err != nil {
		t.Fatal(err)
	}
	if status, body := readAnswer(t, conn); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
}

// isClosed looks for the end of a connection.
func isClosed(t *testing.T, conn net.Conn) {
	t.Helper()
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection that has rested longest: %d bytes, %v", n, err)
	}
}

// resting waits until so many connections are open, and rest.
func (r *running) resting(n int) {
	r.t.Helper()
	eventually(r.t, "the connections to rest", func() bool {
		r.conns.mu.Lock()
		defer r.conns.mu.Unlock()
		return r.conns.oldest.Len() == n && r.conns.open == n
	})
}

func TestIdleConnectionsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.conns.limit = 3 })
	unused := s.raw("")
	s.resting(1)
	idle := s.raw("")
	isHealthy(t, idle)
	s.resting(2)
	last := s.raw("")
	isHealthy(t, last)
	s.resting(3)
	isHealthy(t, idle) // has rested shorter now than the last
	s.resting(3)

	for _, longest := range []net.Conn{unused, last, idle} {
		isHealthy(t, s.raw(""))
		isClosed(t, longest)
		s.resting(3)
	}
}

func TestIdleConnectionsWithTLSKeepNobodyOut(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", []string{"127.0.0.1"}, false)
	log := &logBuffer{}
	s, err := New(t.Context(), Config{DataDir: t.TempDir(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil)),
		TLS: TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}})
	if err != nil {
		t.Fatal(err)
	}
	s.conns.limit = 1
	r := run(t, s, log)
	dial := func() net.Conn {
		conn, err := (&tls.Dialer{Config: ca.client("")}).DialContext(t.Context(), "tcp", r.HTTPAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	first := dial()
	isHealthy(t, first)
	r.resting(1)
	isHealthy(t, dial())
	isClosed(t, first)
}

func TestAConnectionWaitsWhereAllAreInUse(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.conns.limit = 1 })
	busy := s.raw("POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	line := make([]byte, len(goOn))
	if _, err := io.ReadFull(busy, line); err != nil || string(line) != goOn {
		t.Fatalf("the request is answered %q, %v", line, err)
	}
	waiting := s.raw(healthRequest)
	if _, err := io.WriteString(busy, "{}"); err != nil {
		t.Fatal(err)
	}
	if status, body := readAnswer(t, busy); status != http.StatusOK {
		t.Errorf("the request that was in use: %d %s", status, body)
	}
	if status, body := readAnswer(t, waiting); status != http.StatusOK {
		t.Errorf("the one that has waited: %d %s", status, body)
	}
	isClosed(t, busy)
}

// A connection that waits for a place does not hold up a shutdown.
func TestAShutdownEndsTheWaitForAPlace(t *testing.T) {
	t.Parallel()
	c := newHTTPConns(0)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	limited, accepted := c.listener(ln), make(chan error, 1)
	go func() {
		_, err := limited.Accept()
		accepted <- err
	}()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := limited.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, accepted, "the end of Accept"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}
