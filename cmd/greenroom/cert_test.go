package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCertificatesOfNodesAreMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "certs")
	cert := func(code int, args ...string) (string, string) {
		return command(t, code, append([]string{"cert"}, args...)...)
	}
	if _, text := cert(exitFailed, "node", "--name", "a", "--dir", dir); !strings.Contains(text, "greenroom cert authority") {
		t.Errorf("without an authority: %s", text)
	}
	cert(0, "authority", "--cluster", "shop", "--dir", dir)
	out, _ := cert(0, "node", "--name", "orders-1", "--dir", dir)
	certificate, key := filepath.Join(dir, "orders-1.pem"), filepath.Join(dir, "orders-1-key.pem")
	if out != certificate+"\n"+key+"\n" {
		t.Errorf("the files are said to be\n%s", out)
	}
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(root) {
		t.Fatal("ca.pem is no certificate")
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots}); err != nil || leaf.URIs[0].String() != "greenroom://shop/orders-1" {
		t.Errorf("the certificate of %v: %v", leaf.URIs, err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	if shown, _ := cert(0, "show", "--file", certificate); !strings.HasPrefix(shown, "greenroom://shop/orders-1, valid from ") {
		t.Errorf("show: %s", shown)
	}
	if _, text := cert(exitFailed, "node", "--name", "orders-1", "--dir", dir); !strings.Contains(text, "exists") {
		t.Errorf("again: %s", text)
	}
	cert(0, "node", "--name", "orders-1", "--dir", dir, "--replace")
	if next, err := tls.LoadX509KeyPair(certificate, key); err != nil || string(next.Certificate[0]) == string(pair.Certificate[0]) {
		t.Errorf("the files were not replaced: %v", err)
	}
	if _, text := cert(exitFailed, "authority", "--cluster", "shop", "--dir", dir); !strings.Contains(text, "exists") {
		t.Errorf("a second authority: %s", text)
	}
	for want, args := range map[string][]string{
		"--cluster must":     {"authority"},
		"--name must name":   {"node"},
		"--name must not be": {"node", "--name", "ca"},
		"not 0":              {"node", "--name", "a", "--days", "0"},
		"--file must":        {"show"},
	} {
		if _, text := cert(exitUsage, args...); !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %s", args, text, want)
		}
	}
}
