package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/server/access"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir(), next: 1}
	a.cert, a.key = a.sign("ca", nil, true)
	return a
}

// sign makes a certificate and writes NAME.pem and NAME.key.
func (a *authority) sign(name string, hosts []string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	return a.signUntil(time.Now().Add(time.Hour), name, hosts, isCA)
}

// signUntil is sign for a certificate that expires.
func (a *authority) signUntil(end time.Time, name string, hosts []string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.next++
	made := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if isCA {
		parent, signer = made, key
	}
	der, err := x509.CreateCertificate(rand.Reader, made, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(name+".key", "PRIVATE KEY", raw)
	a.write(name+".pem", "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

func (a *authority) write(name, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

// client is the configuration of a client that shows a certificate, "" for none.
func (a *authority) client(name string) *tls.Config {
	a.t.Helper()
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	c.RootCAs.AddCert(a.cert)
	if name != "" {
		pair, err := tls.LoadX509KeyPair(a.path(name+".pem"), a.path(name+".key"))
		if err != nil {
			a.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// ask makes a request to a server with TLS.
func (r *running) ask(method, path, host string, with *tls.Config, body, token string) (status int, text string, serial int64) {
	r.t.Helper()
	transport := &http.Transport{TLSClientConfig: with, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(r.t.Context(), method, "https://"+r.HTTPAddr()+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Host = host
	req.Header.Set("Content-Type", mediaJSON)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(raw), resp.TLS.PeerCertificates[0].SerialNumber.Int64()
}

func TestAServerThatOthersReachHasTLSAndAsksWhoComes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", []string{"plant.example"}, false)
	ca.sign("pump-1", nil, false)
	ca.sign("stranger", nil, false)
	log := &logBuffer{}
	cfg := Config{
		DataDir: t.TempDir(), HTTP: "0.0.0.0:0", MQTT: "0.0.0.0:0", Logger: slog.New(slog.NewTextHandler(log, nil)),
		TLS: TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key"), ClientCA: ca.path("ca.pem")},
	}
	server, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	admin := server.FirstToken()
	s := run(t, server, log)
	_, port, _ := net.SplitHostPort(s.HTTPAddr())
	own := "127.0.0.1:" + port
	_, mqttPort, _ := net.SplitHostPort(s.MQTTAddr())
	if _, text, _ := s.ask("GET", "/v1/system", own, ca.client(""), "", admin); !strings.Contains(text, `"addresses":{"http":{"port":`+port+`,"tls":true},"mqtt":{"port":`+mqttPort+`,"tls":true}}`) {
		t.Errorf("the addresses are not in %s", text)
	}
	if status, text, _ := s.ask("GET", "/v1/entities", own, ca.client(""), "", ""); status != http.StatusUnauthorized {
		t.Errorf("without credentials: %d %s", status, text)
	}
	if status, text, _ := s.ask("POST", "/v1/principals", "plant.example", ca.client(""), `{"name":"pump-1","grants":[{"role":"device"}],"certificate":true}`, admin); status != http.StatusCreated {
		t.Fatalf("with the first token: %d %s", status, text)
	}
	for host, want := range map[string]int{"plant.example": http.StatusOK, "192.0.2.1": http.StatusOK, "evil.example": http.StatusForbidden} {
		if status, text, _ := s.ask("GET", "/v1/entities", host, ca.client(""), "", admin); status != want {
			t.Errorf("as host %s: %d %s, want %d", host, status, text, want)
		}
	}
	if status, text, _ := s.ask("POST", "/v1/entities/pump-1/telemetry", own, ca.client("pump-1"), `{"t":1}`, ""); status != http.StatusNoContent {
		t.Errorf("HTTP with a certificate: %d %s", status, text)
	}
	for name, want := range map[string]int{"stranger": http.StatusUnauthorized, "pump-1": http.StatusForbidden} {
		if status, text, _ := s.ask("POST", "/v1/entities/other/telemetry", own, ca.client(name), `{"t":1}`, ""); status != want {
			t.Errorf("for another entity, with the certificate of %s: %d %s, want %d", name, status, text, want)
		}
	}
	dial := func(certificate string) mqtt311.Client {
		o := mqtt311.NewClientOptions().AddBroker("ssl://" + s.MQTTAddr()).SetClientID("d").SetTLSConfig(ca.client(certificate)).SetConnectTimeout(patience)
		c := mqtt311.NewClient(o)
		t.Cleanup(func() { c.Disconnect(0) })
		return c
	}
	device := dial("pump-1")
	await(t, device.Connect())
	await(t, device.Publish("e/pump-1/telemetry", 1, false, `{"t":2}`))
	if token := dial("stranger").Connect(); token.WaitTimeout(patience) && token.Error() == nil {
		t.Error("a certificate that belongs to no principal connected")
	}
	if token := dial("").Connect(); token.WaitTimeout(patience) && token.Error() == nil {
		t.Error("a client without credentials connected")
	}
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.MQTTAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01c")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	if n, _ := io.ReadFull(nc, answer); n == 4 && answer[0] == 0x20 {
		t.Error("MQTT is spoken without TLS")
	}
}

// Devices made for AWS IoT name their protocol, and so may others.
func TestClientsMayNameTheProtocolThatTheySpeak(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", nil, false)
	s := startWith(t, Config{TLS: TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}})
	for _, c := range []struct {
		at, protocol string
		taken        bool
	}{
		{s.MQTTAddr(), "", true},
		{s.MQTTAddr(), "mqtt", true},
		{s.MQTTAddr(), "x-amzn-mqtt-ca", true},
		{s.MQTTAddr(), "http/1.1", false},
		{s.HTTPAddr(), "", true},
		{s.HTTPAddr(), "http/1.1", true},
		{s.HTTPAddr(), "mqtt", false},
		{s.HTTPAddr(), "acme-tls/1", false},
	} {
		config := ca.client("")
		if c.protocol != "" {
			config.NextProtos = []string{c.protocol}
		}
		nc, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", c.at)
		if c.taken != (err == nil) {
			t.Errorf("a client that names %q at %s: %v", c.protocol, c.at, err)
		}
		if err != nil {
			continue
		}
		if got := nc.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != c.protocol { //nolint:forcetypeassert // it is one
			t.Errorf("a client that names %q speaks %q", c.protocol, got)
		}
		_ = nc.Close() // it was only opened
	}
}

func TestCertificatesAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	first, _ := ca.sign("server", nil, false)
	c, err := newCertificates(TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	serial := func() int64 {
		c.mu.Lock()
		c.looked = time.Time{} // a second later
		c.mu.Unlock()
		return c.current().Certificates[0].Leaf.SerialNumber.Int64()
	}
	if got := serial(); got != first.SerialNumber.Int64() {
		t.Errorf("the certificate is %d", got)
	}
	second, _ := ca.sign("server", nil, false)
	if got := serial(); got != second.SerialNumber.Int64() {
		t.Errorf("after it was written the certificate is %d, want %d", got, second.SerialNumber)
	}
	if err := os.WriteFile(ca.path("server.key"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != second.SerialNumber.Int64() {
		t.Errorf("with a broken key the certificate is %d, want that before, %d", got, second.SerialNumber)
	}
	third, _ := ca.sign("server", nil, false)
	if got := serial(); got != third.SerialNumber.Int64() {
		t.Errorf("after it was mended the certificate is %d, want %d", got, third.SerialNumber)
	}
}

func TestAddressesThatOthersReachNeedMore(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	_, err := New(t.Context(), Config{DataDir: t.TempDir(), HTTP: "0.0.0.0:0", MQTT: "127.0.0.1:0", Logger: quiet})
	if !errors.Is(err, ErrNotLoopback) || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("without TLS: %v, want %v", err, ErrNotLoopback)
	}
	_, err = New(t.Context(), Config{DataDir: t.TempDir(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", TLS: TLS{Cert: "none.pem"}, Logger: quiet})
	if !errors.Is(err, ErrTLS) {
		t.Errorf("without a key: %v, want %v", err, ErrTLS)
	}
	s, err := New(t.Context(), Config{DataDir: t.TempDir(), HTTP: "0.0.0.0:0", MQTT: "127.0.0.1:0", Insecure: true, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Guarded() || s.FirstToken() != "" {
		t.Error("an insecure server without a principal asks who comes")
	}
}

func TestANewAdminIsMadeWhereTheTokensAreLost(t *testing.T) {
	t.Parallel()
	s := startWith(t, Config{NewAdmin: true})
	token := s.FirstToken()
	if !s.Guarded() || token == "" {
		t.Fatal("there is no new admin")
	}
	if resp, text := s.as(token).do("GET", "/v1/principals", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("with its token: %s %s", resp.Status, text)
	}
}

// A connection does not outlive the certificate that it was made with.
func TestWhatACertificateHasOpenedEndsWhenItExpires(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", nil, false)
	s := startWith(t, Config{TLS: TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key"), ClientCA: ca.path("ca.pem")}})
	for _, spec := range []access.Spec{
		{Name: "admin", Grants: []access.Grant{{Role: access.Admin}}},
		{Name: "pump-1", Grants: []access.Grant{{Role: access.Device}}, Certificate: true},
	} {
		if _, _, err := s.book.Create(t.Context(), &spec); err != nil {
			t.Fatal(err)
		}
	}
	end := time.Now().Add(5 * time.Second)
	ca.signUntil(end, "pump-1", nil, false)
	lost := make(chan struct{}, 1)
	device := mqtt311.NewClient(mqtt311.NewClientOptions().AddBroker("ssl://" + s.MQTTAddr()).SetClientID("d").SetTLSConfig(ca.client("pump-1")).
		SetAutoReconnect(false).SetConnectionLostHandler(func(mqtt311.Client, error) { lost <- struct{}{} }))
	await(t, device.Connect())
	t.Cleanup(func() { device.Disconnect(0) })
	over := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.client("pump-1"), MaxConnsPerHost: 2}}
	t.Cleanup(over.CloseIdleConnections)
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.HTTPAddr()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := over.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	session := func() int {
		resp := get("/v1/session")
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	stream := get("/v1/stream")
	defer stream.Body.Close()
	if got := session(); got != http.StatusOK || stream.StatusCode != http.StatusOK || !time.Now().Before(end) {
		t.Fatalf("before the end: %d and %s", got, stream.Status)
	}
	receive(t, lost, "the end of the MQTT connection")
	_, _ = io.Copy(io.Discard, stream.Body) // until it ends
	if early := time.Until(end); early > time.Second {
		t.Errorf("the connections ended %v too early", early)
	}
	if got := session(); got != http.StatusUnauthorized {
		t.Errorf("a request over the connection from before: %d, want 401", got)
	}
}
