package clienttest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certs is a directory with ca.pem, server.pem and server.key, and those of a client.
type certs struct {
	t   *testing.T
	dir string
}

func (c certs) file(name string) string { return filepath.Join(c.dir, name) }

func (c certs) text(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(c.file(name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

// certificates makes a CA, and certificates of a server and a client.
func certificates(t *testing.T, host, client string) certs {
	t.Helper()
	c := certs{t, t.TempDir()}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey := c.sign("ca", ca, ca, nil)
	c.sign("server", &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	c.sign(client, &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: client}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	return c
}

// sign makes a key and a certificate of it, by a CA or, without its key, by itself.
func (c certs) sign(name string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) *ecdsa.PrivateKey {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	if caKey == nil {
		caKey = key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		c.t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(c.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return key
}
