package nodecert

import (
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const year = 365 * 24 * time.Hour

func TestAnAuthorityIssuesWhatItsRootVerifies(t *testing.T) {
	_, root, err := NewAuthority("shop", now, 2*year)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadAuthority(root) // as another process does
	if err != nil {
		t.Fatal(err)
	}
	node := Node{"shop", "orders-1"}
	if again.Cluster() != "shop" {
		t.Errorf("the authority is of the cluster %q", again.Cluster())
	}
	pair, err := again.Issue("orders-1", now, year)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.Certificate, pair.Key); err != nil {
		t.Errorf("the key is not the certificate's: %v", err)
	}
	c, err := ReadCertificate(pair.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if got := Nodes(c); !slices.Equal(got, []Node{node}) || c.URIs[0].String() != "greenroom://shop/orders-1" {
		t.Errorf("the certificate is of %v", got)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root.Certificate)
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}); err != nil {
			t.Errorf("usage %v: %v", usage, err)
		}
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now.Add(year + time.Hour)}); err == nil {
		t.Error("the certificate does not expire")
	}
	_, other, err := NewAuthority("shop", now, year)
	if err != nil {
		t.Fatal(err)
	}
	others := x509.NewCertPool()
	others.AppendCertsFromPEM(other.Certificate)
	if _, err := c.Verify(x509.VerifyOptions{Roots: others, CurrentTime: now}); err == nil {
		t.Error("another authority of the same name verifies it")
	}
}

func TestWhatNoCertificateCanBeMadeOf(t *testing.T) {
	a, root, err := NewAuthority("shop", now, year)
	if err != nil {
		t.Fatal(err)
	}
	for want, issue := range map[string]func() error{
		`not "a/b"`:                   func() error { _, err := a.Issue("a/b", now, year); return err },
		`not ""`:                      func() error { _, _, err := NewAuthority("", now, year); return err },
		"must end before its":         func() error { _, err := a.Issue("a", now, 2*year); return err },
		"for a positive time, not 0s": func() error { _, err := a.Issue("a", now, 0); return err },
		`not "the shop"`:              func() error { _, _, err := NewAuthority("the shop", now, year); return err },
		"must be in PEM":              func() error { _, err := ReadAuthority(Pair{}); return err },
		"the key must be in PEM":      func() error { _, err := ReadAuthority(Pair{root.Certificate, nil}); return err },
		"must be that of the authority": func() error {
			_, other, err := NewAuthority("shop", now, year)
			if err == nil {
				_, err = ReadAuthority(Pair{root.Certificate, other.Key})
			}
			return err
		},
		"must be that of a cluster's": func() error {
			pair, err := a.Issue("a", now, time.Hour)
			if err == nil {
				_, err = ReadAuthority(pair)
			}
			return err
		},
	} {
		if err := issue(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
