package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/internal/nodecert"
)

// TLS is how a node shows who it is and knows others.
type TLS struct {
	// Certificate is the node's, for client and server authentication, with its name as a
	// URI, greenroom://cluster/node.
	Certificate tls.Certificate
	// Roots are the authorities whose certificates of nodes are taken.
	Roots *x509.CertPool
}

// verify checks the certificates of the other end against the roots.
func (t *TLS) verify(certificates []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time) error {
	if len(certificates) == 0 {
		return errors.New("the other end shows no certificate")
	}
	intermediates := x509.NewCertPool()
	for _, c := range certificates[1:] {
		intermediates.AddCert(c)
	}
	_, err := certificates[0].Verify(x509.VerifyOptions{
		Roots: t.Roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage}, CurrentTime: now,
	})
	if err != nil {
		return fmt.Errorf("verify the certificate of the other end: %w", err)
	}
	return nil
}

// check reports the mistakes that would otherwise show at the first connection.
func (t *TLS) check(own nodecert.Node, now time.Time) error {
	if t.Roots == nil {
		return errors.New("TLS needs Roots, the authorities whose certificates are taken")
	}
	if len(t.Certificate.Certificate) == 0 {
		return errors.New("TLS needs a Certificate")
	}
	leaf, err := x509.ParseCertificate(t.Certificate.Certificate[0])
	if err != nil {
		return fmt.Errorf("parse the certificate: %w", err)
	}
	if !slices.Contains(nodecert.Nodes(leaf), own) {
		return fmt.Errorf("the certificate must have the URI %s, not %v", own.URI(), leaf.URIs)
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate must be valid, and has expired on %v", leaf.NotAfter.Format(time.DateOnly))
	}
	return nil
}
