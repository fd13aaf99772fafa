package access_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

func TestACertificateWithSeveralCommonNamesIsOfNobody(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, c := range []struct {
		what  string
		names []string
		want  string
	}{
		{"one name", []string{"pump"}, "pump"},
		{"the principal last", []string{"nobody", "pump"}, ""},
		{"the principal first", []string{"pump", "nobody"}, ""},
		{"the same name twice", []string{"pump", "pump"}, ""},
	} {
		cert := certificateNamed(t, c.names, now)
		state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
		if name, _ := access.CertificateOf(state, now); name != c.want {
			t.Errorf("%s: it is the certificate of %q, not %q", c.what, name, c.want)
		}
	}
}

// certificateNamed returns a certificate of a few minutes whose subject has the common names, in order.
func certificateNamed(t *testing.T, names []string, now time.Time) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	subject := pkix.Name{Organization: []string{"pumps"}}
	for _, name := range names {
		subject.ExtraNames = append(subject.ExtraNames, pkix.AttributeTypeAndValue{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: name})
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: subject, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(5 * time.Minute)}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
