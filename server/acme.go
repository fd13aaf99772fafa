package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// ACME configures certificates from a certificate authority, by RFC 8555. To verify a host, the
// authority connects to its port 443 (TLS-ALPN-01, RFC 8737). The zero ACME is disabled.
type ACME struct {
	// Hosts are the names to get certificates for. The first is also for clients that send no name.
	// Setting Hosts means agreeing to the authority's terms.
	Hosts []string
	// Email, if not empty, is where the authority reports problems.
	Email string
	// Directory is the URL of the authority; the default is DefaultACMEDirectory. CA, if not empty,
	// is a PEM file with the CA certificate of the authority's own server.
	Directory, CA string
	// Cache is a directory for keys and certificates. For the default of Server, see Config.TLS.
	Cache string
}

// DefaultACMEDirectory is the default ACME authority, Let's Encrypt.
const DefaultACMEDirectory = autocert.DefaultACMEDirectory

// acmeDir is the default directory for ACME.Cache, below Config.DataDir.
const acmeDir = "acme"

// Pauses after a failure to obtain a certificate, doubled each time. Let's Encrypt permits five
// failures an hour.
const (
	acmePauseMin = 5 * time.Minute
	acmePauseMax = 6 * time.Hour
)

// issuePatience is how long a client waits for the first certificate of a host.
const issuePatience = 10 * time.Second

// acmeTimeout bounds one request to an authority.
const acmeTimeout = time.Minute

// acmeCache returns the directory for ACME.Cache.
func (c *Config) acmeCache() (string, error) {
	if c.TLS.ACME.Cache != "" || len(c.TLS.ACME.Hosts) == 0 {
		return c.TLS.ACME.Cache, nil
	}
	a, err := parseStore(c.Store)
	if err != nil {
		return "", err
	}
	if a.dir == "" {
		return "", fmt.Errorf("%w: --acme needs --acme-cache where the store is not a directory", ErrTLS)
	}
	return filepath.Join(a.dir, acmeDir), nil
}

// check validates the settings.
// mistakes returns what is wrong with the settings.
func (a *ACME) mistakes() (failed []error) {
	seen := map[string]bool{}
	for _, host := range a.Hosts {
		if seen[plainHost(host)] {
			failed = append(failed, fmt.Errorf("%w: --acme must name each host once, not %.100q again", ErrTLS, host))
		}
		seen[plainHost(host)] = true
		if net.ParseIP(host) != nil || !strings.Contains(strings.Trim(host, "."), ".") || strings.ContainsAny(host, "*:/ ") {
			failed = append(failed, fmt.Errorf("%w: --acme must be names of hosts such as plant.example, without port and wildcard, not %.100q", ErrTLS, host))
		}
	}
	if _, err := a.directory(); err != nil {
		failed = append(failed, err)
	}
	if _, err := a.client(); err != nil {
		failed = append(failed, err)
	}
	return failed
}

func (a *ACME) directory() (string, error) {
	text := cmp.Or(a.Directory, DefaultACMEDirectory)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("%w: --acme-directory must be a URL that begins with https://, not %.200q", ErrTLS, text)
	}
	return text, nil
}

// client returns an HTTP client for the authority.
func (a *ACME) client() (*http.Client, error) {
	return authorityClient("--acme-ca", a.CA, acmeTimeout, ErrTLS)
}

// authorityClient returns an HTTP client that trusts the CA certificates in a file, or for "" those
// of the system. Its errors wrap kind, and name the flag of the file.
func authorityClient(flag, file string, timeout time.Duration, kind error) (*http.Client, error) {
	if file == "" {
		return &http.Client{Timeout: timeout}, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", kind, flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%w: %s %s has no certificate in PEM", kind, flag, file)
	}
	return &http.Client{Timeout: timeout, Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}, nil
}

// untilEnd cancels requests when a context ends, even while their bodies are read: a certificate
// manager accepts no context.
type untilEnd struct {
	ctx  context.Context //nolint:containedctx // of the server
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (u *untilEnd) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(u.ctx, cancel)
	done := func() { stop(); cancel() }
	resp, err := u.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		done()
		return nil, err
	}
	resp.Body = &endedBody{resp.Body, done}
	return resp, nil
}

// endedBody calls done when it is closed.
type endedBody struct {
	io.ReadCloser
	done func()
}

// Close implements io.Closer.
func (b *endedBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// issuer obtains certificates by ACME. Its fields are immutable.
type issuer struct {
	end     context.CancelFunc // cancels requests to the authority
	hosts   []string
	manager *autocert.Manager
	log     *slog.Logger
	ready   map[string]chan struct{} // by plain host; closed when there is a certificate
}

func newIssuer(a *ACME, log *slog.Logger) (*issuer, error) {
	if failed := a.mistakes(); len(failed) > 0 {
		return nil, errors.Join(failed...)
	}
	directory, err := a.directory()
	if err != nil {
		return nil, err
	}
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(context.Background())
	client.Transport = &untilEnd{ctx, cmp.Or(client.Transport, http.DefaultTransport)}
	ready := make(map[string]chan struct{})
	for _, host := range a.Hosts {
		ready[plainHost(host)] = make(chan struct{})
	}
	return &issuer{end: end, hosts: a.Hosts, log: log, ready: ready, manager: &autocert.Manager{
		Prompt:     autocert.AcceptTOS,
		Cache:      autocert.DirCache(a.Cache),
		HostPolicy: autocert.HostWhitelist(a.Hosts...),
		Email:      a.Email,
		Client:     &acme.Client{DirectoryURL: directory, HTTPClient: client, UserAgent: "greenroom"},
	}}, nil
}

// isChallenge reports whether the client is the authority (RFC 8737, 3).
func isChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto
}

// helloFor returns a hello that requests the only kind of key in use, which current clients
// support. For another kind, the manager would ask the authority and let the client wait.
func helloFor(host string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

// has reports whether a certificate for a client is available without waiting for the authority.
func (i *issuer) has(hello *tls.ClientHelloInfo) bool {
	ready := i.ready[plainHost(cmp.Or(hello.ServerName, i.hosts[0]))]
	if ready == nil || isChallenge(hello) {
		return false
	}
	select {
	case <-ready:
		return true
	default:
		return false
	}
}

// certificate returns the certificate for a client. Devices that know the server by its address
// send no name.
func (i *issuer) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if hello.ServerName == "" {
		named := *hello
		named.ServerName = i.hosts[0]
		hello = &named
	}
	if isChallenge(hello) {
		return i.manager.GetCertificate(hello)
	}
	ready := i.ready[plainHost(hello.ServerName)]
	if ready == nil {
		return nil, fmt.Errorf("there is no certificate for %.100q", hello.ServerName)
	}
	timer := time.NewTimer(issuePatience)
	defer timer.Stop()
	select {
	case <-ready:
		return i.manager.GetCertificate(helloFor(hello.ServerName))
	case <-timer.C: // a request to the authority for each handshake would exceed its limits
		return nil, fmt.Errorf("there is no certificate for %.100q yet", hello.ServerName)
	}
}

// plainHost returns the canonical form of a host name.
func plainHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// isFor reports whether there are certificates for a host.
func (i *issuer) isFor(host string) bool {
	return i.ready[plainHost(host)] != nil
}

// run obtains the certificate of each host, so that problems are logged before anybody connects.
// From then on the manager renews them, until ctx ends. It returns when it has all certificates, or
// soon after ctx has ended.
func (i *issuer) run(ctx context.Context) {
	context.AfterFunc(ctx, i.end)
	missing := i.hosts
	for wait := acmePauseMin; ; wait = min(2*wait, acmePauseMax) {
		var failed []string
		for _, host := range missing {
			cert, err := i.manager.GetCertificate(helloFor(host))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				failed = append(failed, host)
				i.log.LogAttrs(ctx, slog.LevelError, "cannot obtain a certificate for a host; will try again",
					slog.String("host", host), slog.Duration("in", wait), slog.Any("error", err))
			default:
				close(i.ready[plainHost(host)])
				i.log.LogAttrs(ctx, slog.LevelInfo, "obtained a certificate for a host",
					slog.String("host", host), slog.Time("expires", cert.Leaf.NotAfter))
			}
		}
		if missing = failed; len(missing) == 0 || pause.For(ctx, wait) != nil {
			return
		}
	}
}
