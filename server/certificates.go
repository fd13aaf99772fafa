package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// TLS says with which files a server encrypts. They are read again when they change.
// The zero TLS is none.
type TLS struct {
	// Cert and Key are files in PEM: the certificate with those between it and its
	// CA, and its key.
	Cert, Key string
	// ClientCA, if not empty, is a file in PEM with the certificates of those who sign
	// the certificates of clients. A client that shows one is the principal that its common
	// name says; none needs to show one.
	ClientCA string
}

// Enabled reports whether there is anything set.
func (t *TLS) Enabled() bool { return *t != TLS{} }

// Check returns nil if the files can be used.
func (t *TLS) Check() error {
	_, err := t.load()
	return err
}

// load reads the files.
func (t *TLS) load() (*tls.Config, error) {
	if t.Cert == "" || t.Key == "" {
		return nil, fmt.Errorf("%w: --tls-cert and --tls-key must both be given", ErrTLS)
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("%w: --tls-cert %s with --tls-key %s: %w", ErrTLS, t.Cert, t.Key, err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if t.ClientCA == "" {
		return c, nil
	}
	text, err := os.ReadFile(t.ClientCA)
	if err != nil {
		return nil, fmt.Errorf("%w: --client-ca: %w", ErrTLS, err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: --client-ca %s has no certificate in PEM", ErrTLS, t.ClientCA)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven
	return c, nil
}

// certificatesFor is how long files are taken to be unchanged.
const certificatesFor = time.Second

// certificates has what the files of a TLS say, and looks at them when somebody connects.
// What cannot be used, such as a certificate that was written before its key, is logged,
// and the one before stays.
type certificates struct {
	files TLS
	log   *slog.Logger

	mu     sync.Mutex
	config *tls.Config // guarded by mu
	stamp  string      // of the files that config is of; guarded by mu
	failed string      // of files that were of no use; guarded by mu
	looked time.Time   // guarded by mu
}

func newCertificates(files TLS, log *slog.Logger) (*certificates, error) {
	config, err := files.load()
	if err != nil {
		return nil, err
	}
	return &certificates{files: files, log: log, config: config, stamp: files.stamp(), looked: time.Now()}, nil
}

// stamp changes when a file does.
func (t *TLS) stamp() (s string) {
	for _, name := range []string{t.Cert, t.Key, t.ClientCA} {
		if info, err := os.Stat(name); err == nil {
			s += fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size(), ";")
		}
	}
	return s
}

// server returns what a listener is to do.
func (c *certificates) server() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(), nil }}
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
	config, err := c.files.load()
	if err != nil {
		c.failed = stamp
		c.log.LogAttrs(context.Background(), slog.LevelError, "the certificates have changed and cannot be used; those before stay", slog.Any("error", err))
		return c.config
	}
	c.config, c.stamp = config, stamp
	c.log.LogAttrs(context.Background(), slog.LevelInfo, "the certificates are read again")
	return config
}

// isFor reports whether the certificate is one for a host.
func (c *certificates) isFor(host string) bool {
	leaf := c.current().Certificates[0].Leaf
	return leaf != nil && leaf.VerifyHostname(host) == nil
}
