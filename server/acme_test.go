package server

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// pebble is an authority that was made for tests of ACME.
type pebble struct {
	url  string
	root []byte // its certificate, in PEM
	stop func()
}

// startPebble starts Pebble. It finds each host on this machine, at a port for TLS.
func startPebble(t *testing.T, ca *authority, tlsPort int) *pebble {
	t.Helper()
	program := os.Getenv("GREENROOM_PEBBLE")
	if program == "" {
		t.Skip("GREENROOM_PEBBLE does not name Pebble, an authority for tests; make test sets it")
	}
	directory, management := freeAddress(t), freeAddress(t)
	ca.sign("pebble", []string{"localhost"}, false)
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": directory, "managementListenAddress": management,
		"certificate": ca.path("pebble.pem"), "privateKey": ca.path("pebble.key"),
		"tlsPort": tlsPort, "httpPort": 1, "profiles": map[string]any{"default": map[string]any{"description": "for tests", "validityPeriod": 7776000}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pebble.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	log := &logBuffer{}
	cmd := exec.CommandContext(t.Context(), program, "-config", file, "-dnsserver", startDNS(t), "-strict")
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &pebble{url: "https://" + directory + "/dir"}
	p.stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("Pebble's log:\n%s", log)
		}
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.client("")}}
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+management+"/roots/0", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := client.Do(req); err == nil {
			p.root, err = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err == nil && resp.StatusCode == http.StatusOK {
				return p
			}
		}
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatalf("Pebble does not answer: %v\n%s", err, log)
		}
	}
}

// startDNS starts a server of DNS, over TCP as Pebble asks, that finds each name on this machine.
func startDNS(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				// Pebble closes the connections of what it has no more use for.
				if err := answerDNS(conn); err != nil && !errors.Is(err, errDNSGone) {
					t.Errorf("DNS: %v", err)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// errDNSGone says that who asked has closed the connection.
var errDNSGone = errors.New("the connection is closed")

// answerDNS answers one question. RFC 1035, 4.2.2: the length of a message goes before it.
func answerDNS(conn net.Conn) error {
	var length [2]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		return fmt.Errorf("%w: %w", errDNSGone, err)
	}
	text := make([]byte, binary.BigEndian.Uint16(length[:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		return fmt.Errorf("%w: %w", errDNSGone, err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(text); err != nil {
		return err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	text, err := m.Pack()
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)); err != nil {
		return fmt.Errorf("%w: %w", errDNSGone, err)
	}
	return nil
}

// freeAddress is one that nothing listens on yet.
func freeAddress(t *testing.T) string {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestAnAuthorityIssuesTheCertificate(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	authority := startPebble(t, ca, number)
	cfg := Config{DataDir: t.TempDir(), HTTP: address, MQTT: "127.0.0.1:0", TLS: TLS{ACME: ACME{
		Hosts: []string{"plant.example", "other.example"}, Directory: authority.url, CA: ca.path("ca.pem"),
	}}}
	start := func() *running {
		log := &logBuffer{}
		cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
		server, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return run(t, server, log)
	}
	known := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: "plant.example"}
	known.RootCAs.AppendCertsFromPEM(authority.root)
	s := start()
	issued := issuedOn(t, s.HTTPAddr(), known)
	same(t, "the certificate of the broker", serialOf(t, s.MQTTAddr(), known), issued)
	status, _, _ := s.ask("GET", "/v1/entities", "plant.example", known, "", "")
	same(t, "a request to the host", status, 200)
	status, _, _ = s.ask("GET", "/v1/entities", "elsewhere.example", known, "", "")
	same(t, "a request to another host", status, 403)

	other := known.Clone()
	other.ServerName = "other.example"
	if issuedOn(t, s.HTTPAddr(), other) == issued {
		t.Error("two hosts have one certificate")
	}
	nameless := known.Clone()                                   // as a device that knows the server by an address
	nameless.ServerName, nameless.InsecureSkipVerify = "", true //nolint:gosec // its certificate is compared
	same(t, "the certificate for who says no name", serialOf(t, s.MQTTAddr(), nameless), issued)
	stranger := known.Clone()
	stranger.ServerName = "elsewhere.example"
	if conn, err := tls.Dial("tcp", s.HTTPAddr(), stranger); err == nil {
		_ = conn.Close()
		t.Error("obtained a certificate for a host that was not named")
	}

	if err := s.stopped(t); err != nil {
		t.Error(err)
	}
	authority.stop() // it is not asked again
	s = start()
	same(t, "the certificate after a restart", serialOf(t, s.HTTPAddr(), known), issued)
	info, err := os.Stat(filepath.Join(cfg.DataDir, acmeDir))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory with the keys: %v, %v; want 0700", info.Mode(), err)
	}
}

// issuedOn is serialOf for a host that may not have its certificate yet: an authority that takes longer
// than a handshake may (Pebble refuses one nonce in twenty) costs a client its first connections.
func issuedOn(t *testing.T, address string, with *tls.Config) string {
	t.Helper()
	eventually(t, "the certificate of "+with.ServerName, func() bool {
		conn, err := (&tls.Dialer{Config: with}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	return serialOf(t, address, with)
}

func serialOf(t *testing.T, address string, with *tls.Config) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: with}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String() //nolint:forcetypeassert // that is what it dials
}

func TestACMESaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tls  TLS
		want string
	}{
		{TLS{ACME: ACME{Hosts: []string{"127.0.0.1"}}}, `--acme must be names of hosts such as plant.example, without port and wildcard, not "127.0.0.1"`},
		{TLS{ACME: ACME{Hosts: []string{"a.example", "*.example"}}}, `not "*.example"`},
		{TLS{ACME: ACME{Hosts: []string{"plant"}}}, `not "plant"`},
		{TLS{ACME: ACME{Hosts: []string{"a.example"}, Directory: "http://ca.example"}}, `--acme-directory must be a URL that begins with https://, not "http://ca.example"`},
		{TLS{ACME: ACME{Hosts: []string{"a.example"}, CA: "/nowhere"}}, "--acme-ca: open /nowhere"},
		{TLS{ACME: ACME{Hosts: []string{"a.example"}}, Cert: "a.pem"}, "--acme must not be given with --tls-cert"},
	} {
		if err := tt.tls.Check(); !errors.Is(err, ErrTLS) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v; want %s", tt.tls, err, tt.want)
		}
	}
	_, err := New(t.Context(), Config{Store: "postgres://a@127.0.0.1:1/b", TLS: TLS{ACME: ACME{Hosts: []string{"a.example"}}}})
	if !errors.Is(err, ErrTLS) || !strings.Contains(err.Error(), "--acme-cache") {
		t.Errorf("without a directory: %v", err)
	}
}
