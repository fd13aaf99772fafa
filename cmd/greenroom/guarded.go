package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// guardedDevices is how many principals a guarded server has for the connections of a load, which use
// them in turn. The connections with the number ofItsOwn share one more.
const (
	guardedDevices = 50
	ofItsOwn       = -1
)

// startGuarded starts a server with TLS that requires a login. Its link logs in with tokens of
// principals that may report for the entities of a load.
func startGuarded(ctx context.Context, s scratch) (c *child, err error) {
	cert, key, config, err := benchCertificate(s.dir)
	if err != nil {
		return nil, err
	}
	if c, err = startChild(ctx, s, "--tls-cert", cert, "--tls-key", key); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.kill()
		}
	}()
	c.client.http.Transport = &http.Transport{TLSClientConfig: config}
	admin := principalJSON{Name: "bench", Grants: []grantJSON{{Role: "admin"}}}
	if err := c.addPrincipal(ctx, &admin); err != nil {
		return nil, err
	}
	c.client.token = admin.Token
	tokens := make([]string, guardedDevices+1)
	for i := range tokens {
		p := principalJSON{Name: fmt.Sprintf("loader-%d", i), Grants: []grantJSON{{Role: "device", Filter: benchDevices}}}
		if err := c.addPrincipal(ctx, &p); err != nil {
			return nil, err
		}
		tokens[i] = p.Token
	}
	c.link.tls = config
	c.link.login = func(index int) (name, password string) {
		if index == ofItsOwn {
			return "device", tokens[guardedDevices]
		}
		return "device", tokens[index%guardedDevices]
	}
	return c, nil
}

// benchDevices selects the entities that the connections of a load may report for.
const benchDevices = `id like "bench-%"`

// addPrincipal creates a principal, and sets p.Token to its token.
func (c *child) addPrincipal(ctx context.Context, p *principalJSON) error {
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return c.client.do(ctx, http.MethodPost, "/v1/principals", "application/json", string(body), p)
}

// benchCertificate creates files with a certificate for this machine and its key in a directory,
// and returns a TLS configuration for clients that trust it.
func benchCertificate(dir string) (cert, key string, config *tls.Config, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return "", "", nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", nil, err
	}
	cert, key = filepath.Join(dir, "bench-cert.pem"), filepath.Join(dir, "bench-key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(cert, text, 0o600); err != nil {
		return "", "", nil, err
	}
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return "", "", nil, err
	}
	config = &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool(),
		CurvePreferences: []tls.CurveID{tls.CurveP256}, // as small devices do; Go's own choice costs both sides four times as much
	}
	config.RootCAs.AppendCertsFromPEM(text)
	return cert, key, config, nil
}
