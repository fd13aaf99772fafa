package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
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
	s, err := New(t.Context(), Config{
		DataDir: t.TempDir(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil)),
		TLS: TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")},
	})
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

// slowFrom is raw over a connection from another loopback address, whose request waits for its body.
func (r *running) slowFrom(address string) net.Conn {
	r.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.DialContext(r.t.Context(), "tcp", r.HTTPAddr())
	if err != nil {
		r.t.Skipf("this machine has one loopback address only: %v", err)
	}
	r.t.Cleanup(func() { _ = conn.Close() }) // the server may have closed it
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"); err != nil {
		r.t.Fatal(err)
	}
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n"
	line := make([]byte, len(goOn))
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != goOn {
		r.t.Fatalf("the request is answered %q, %v", line, err)
	}
	return conn
}

// Strangers whose requests do not end keep nobody out, and end nobody's who has logged in.
func TestStrangersWhoseRequestsDoNotEndKeepNobodyOut(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.conns.limit = 5 })
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	stream := s.raw("GET /v1/stream?entity=a HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer " + s.token + "\r\n\r\n")
	events := bufio.NewReader(stream)
	if line, err := events.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Fatalf("the stream begins with %q, %v", line, err)
	}
	other := s.slowFrom("127.0.0.3") // is older, but one only
	var slow []net.Conn
	for range 3 {
		slow = append(slow, s.slowFrom("127.0.0.2"))
	}
	for _, oldest := range slow[:2] {
		fresh := s.slowFrom("127.0.0.4")
		isClosed(t, oldest)
		if _, err := io.WriteString(fresh, "{}"); err != nil {
			t.Fatal(err)
		}
		if status, body := readAnswer(t, fresh); status != http.StatusUnauthorized {
			t.Errorf("a request while strangers are slow: %d %s", status, body)
		}
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the place to be free", func() bool {
			s.conns.mu.Lock()
			defer s.conns.mu.Unlock()
			return s.conns.open < s.conns.limit
		})
		slow = append(slow, s.slowFrom("127.0.0.2"))
	}
	for _, conn := range []net.Conn{other, slow[2]} {
		if _, err := io.WriteString(conn, "{}"); err != nil {
			t.Fatal(err)
		}
		if status, body := readAnswer(t, conn); status != http.StatusUnauthorized {
			t.Errorf("a request that gave way to nobody: %d %s", status, body)
		}
	}
	s.post("a", `{"ts":1,"values":{"t":1}}`)
	for {
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream of who has logged in: %v", err)
		}
		if strings.HasPrefix(line, "data:") {
			break
		}
	}
}

func TestConnectionsFromProxiesAreOfManyClients(t *testing.T) {
	t.Parallel()
	trusted, err := parseProxies([]string{"10.0.0.7"})
	if err != nil {
		t.Fatal(err)
	}
	c := newHTTPConns(10)
	c.proxies = trusted
	for remote, want := range map[string]string{
		"10.0.0.7:1": "10.0.0.7:1", "10.0.0.7:2": "10.0.0.7:2", "10.0.0.8:1": "10.0.0.8", "[::ffff:10.0.0.8]:2": "10.0.0.8", "[2001:db8::1]:1": "2001:db8::/64",
	} {
		if got := c.ownerOf(from{at: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(remote))}); got != want {
			t.Errorf("%s counts as %s, want %s", remote, got, want)
		}
	}
}

// from is a connection from an address.
type from struct {
	net.Conn
	at net.Addr
}

func (f from) RemoteAddr() net.Addr { return f.at }

// deadlined notes until when a request may be read.
type deadlined struct {
	*httptest.ResponseRecorder
	until []time.Duration
}

func (d *deadlined) SetReadDeadline(at time.Time) error {
	d.until = append(d.until, time.Until(at))
	return nil
}

func TestABodyOfAStrangerHasLittleTime(t *testing.T) {
	t.Parallel()
	o := op("POST", "/x", "x", "x", func(context.Context, *sessionRequest) (*answer[nothing], error) { return noContent(), nil }, needs(public))
	w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x", strings.NewReader("{}"))
	if err := o.serve(w, r); err != nil {
		t.Fatal(err)
	}
	if len(w.until) != 2 || w.until[0] > publicReadTimeout || w.until[1] <= publicReadTimeout {
		t.Errorf("the body may be read for %v, and then for more", w.until)
	}
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
