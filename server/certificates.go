package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
)

// TLS configures the certificate of a server: from files, which are read again when they change, or
// from an authority. The zero TLS disables encryption.
type TLS struct {
	// Cert and Key are PEM files: the certificate, followed by any intermediate certificates, and
	// its key.
	Cert, Key string
	// ACME, if it has Hosts, replaces these files.
	ACME ACME
	// ClientCA, if not empty, is a PEM file with the CA certificates for client certificates. A
	// client that presents one is the principal named by its common name. Client certificates are
	// optional.
	ClientCA string
}

// Enabled reports whether any field is set.
func (t *TLS) Enabled() bool {
	return t.Cert != "" || t.Key != "" || t.ClientCA != "" || len(t.ACME.Hosts) > 0
}

// Check returns nil if the files are valid. Otherwise it returns the error of errors.Join with all
// mistakes, each of which wraps ErrTLS. It does not contact an authority.
func (t *TLS) Check() error {
	var failed []error
	if len(t.ACME.Hosts) > 0 {
		failed = t.ACME.mistakes()
	}
	_, wrong := t.read(nil)
	return errors.Join(append(failed, wrong...)...)
}

// load reads the files. Without a certificate among them, issued returns that of the authority.
func (t *TLS) load(issued func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (*tls.Config, error) {
	c, failed := t.read(issued)
	if len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	return c, nil
}

// read is load with each mistake as an error of its own.
func (t *TLS) read(issued func(*tls.ClientHelloInfo) (*tls.Certificate, error)) (c *tls.Config, failed []error) {
	c = &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case len(t.ACME.Hosts) > 0:
		if t.Cert != "" || t.Key != "" {
			failed = append(failed, fmt.Errorf("%w: --acme must not be given with --tls-cert and --tls-key", ErrTLS))
		}
		c.GetCertificate = issued
	case t.Cert == "" || t.Key == "":
		failed = append(failed, fmt.Errorf("%w: --tls-cert and --tls-key must both be given, or --acme", ErrTLS))
	default:
		pair, wrong := t.readPair()
		c.Certificates, failed = []tls.Certificate{pair}, append(failed, wrong...)
	}
	if t.ClientCA == "" {
		return c, failed
	}
	c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.VerifyClientCertIfGiven
	if text, err := os.ReadFile(t.ClientCA); err != nil {
		failed = append(failed, fmt.Errorf("%w: --client-ca: %w", ErrTLS, err))
	} else if !c.ClientCAs.AppendCertsFromPEM(text) {
		failed = append(failed, fmt.Errorf("%w: --client-ca %s has no certificate in PEM", ErrTLS, t.ClientCA))
	}
	return c, failed
}

// readPair reads the certificate and its key.
func (t *TLS) readPair() (pair tls.Certificate, failed []error) {
	cert, err := os.ReadFile(t.Cert)
	if err != nil {
		failed = append(failed, fmt.Errorf("%w: --tls-cert: %w", ErrTLS, err))
	}
	key, err := os.ReadFile(t.Key)
	if err != nil {
		failed = append(failed, fmt.Errorf("%w: --tls-key: %w", ErrTLS, err))
	}
	if len(failed) > 0 {
		return pair, failed
	}
	if pair, err = tls.X509KeyPair(cert, key); err != nil {
		failed = append(failed, fmt.Errorf("%w: --tls-cert %s with --tls-key %s: %w", ErrTLS, t.Cert, t.Key, err))
	}
	return pair, failed
}

// certificatesFor is how long files are assumed to be unchanged.
const certificatesFor = time.Second

// certificates holds the contents of the files of a TLS, and checks them for changes when a client
// connects. If the new files are invalid, for example because the certificate was written before
// its key, it logs that and keeps the old contents.
type certificates struct {
	files  TLS
	log    *slog.Logger
	issuer *issuer // nil if the certificate is in a file
	turns  *handshakes

	mu     sync.Mutex
	config *tls.Config // guarded by mu
	stamp  string      // of the files in config; guarded by mu
	failed string      // of files that were invalid; guarded by mu
	looked time.Time   // guarded by mu
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	c := &certificates{files: files, log: log, turns: newHandshakes(), stamp: files.stamp(), looked: time.Now()}
	if len(files.ACME.Hosts) > 0 {
		var err error
		if c.issuer, err = newIssuer(&files.ACME, log); err != nil {
			return nil, err
		}
	}
	config, err := c.load()
	c.config = config
	return c, err
}

// load reads the files.
func (c *certificates) load() (*tls.Config, error) {
	if c.issuer == nil {
		return c.files.load(nil)
	}
	return c.files.load(c.issuer.certificate)
}

// stamp returns a string that changes when a file does.
func (t *TLS) stamp() (s string) {
	for _, name := range []string{t.Cert, t.Key, t.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			s += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), ";")
		}
	}
	return s
}

// mqttProtocols are what clients of the MQTT broker may name (ALPN); the second one is named by
// devices made for AWS IoT. A client that names only others is refused, so that nobody can direct a
// browser to the broker as if it were the dashboard.
var mqttProtocols = []string{"mqtt", "x-amzn-mqtt-ca"}

// httpProtocols returns what clients of the HTTP API may name, an authority among them.
func (t *TLS) httpProtocols() []string {
	list := []string{"http/1.1"}
	if len(t.ACME.Hosts) > 0 {
		list = append(list, acme.ALPNProto)
	}
	return list
}

// listener returns a listener with TLS for clients that name one of some protocols, or none.
func (c *certificates) listener(ln net.Listener, protocols []string) net.Listener {
	return tls.NewListener(c.turns.listener(ln), &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := c.turn(hello); err != nil {
			return nil, err
		}
		config := c.current().Clone()
		config.NextProtos = protocols
		find := config.GetCertificate
		if find == nil {
			cert := &config.Certificates[0]
			find = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return cert, nil } //nolint:unparam // as GetCertificate
		}
		config.Certificates = nil // so that GetCertificate is called
		config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := find(hello)
			if err == nil {
				err = c.turn(hello)
			}
			return cert, err
		}
		return config, nil
	}})
}

// turn waits for the turn of a handshake. A handshake that has to wait for the authority takes no
// turn.
func (c *certificates) turn(hello *tls.ClientHelloInfo) error {
	if turn, ok := hello.Conn.(*turnConn); ok && (c.issuer == nil || c.issuer.has(hello)) {
		return turn.take()
	}
	return nil
}

func (c *certificates) current() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < certificatesFor {
		return c.config
	}
	c.looked = time.Now()
	stamp := c.files.stamp()
	if stamp == c.stamp || stamp == c.failed {
		return c.config
	}
	config, err := c.load()
	if err != nil {
		c.failed = stamp
		c.log.LogAttrs(context.Background(), slog.LevelError, "the changed certificates are invalid; keeping the previous ones", slog.Any("error", err))
		return c.config
	}
	c.config, c.stamp = config, stamp
	c.log.LogAttrs(context.Background(), slog.LevelInfo, "reloaded the certificates")
	return config
}

// isFor reports whether the certificate is valid for a host.
func (c *certificates) isFor(host string) bool {
	if c.issuer != nil {
		return c.issuer.isFor(host)
	}
	leaf := c.current().Certificates[0].Leaf
	return leaf != nil && leaf.VerifyHostname(host) == nil
}
