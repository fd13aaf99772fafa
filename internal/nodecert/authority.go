// Package nodecert makes the certificates by which nodes of package remote know each other:
// an authority for a cluster, and one certificate for each node.
package nodecert

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// scheme is that of the URIs of nodes.
const scheme = "greenroom"

// Node is what a certificate is of.
type Node struct{ Cluster, Name string }

// URI returns the node's name in a certificate: greenroom://cluster/node.
func (n Node) URI() *url.URL { return &url.URL{Scheme: scheme, Host: n.Cluster, Path: "/" + n.Name} }

// Nodes returns what a certificate is of. Most are of one node.
func Nodes(c *x509.Certificate) []Node {
	var nodes []Node
	for _, u := range c.URIs {
		if u.Scheme == scheme && len(u.Path) > 1 {
			nodes = append(nodes, Node{u.Host, u.Path[1:]})
		}
	}
	return nodes
}

// Pair is a certificate and its key, in PEM.
type Pair struct{ Certificate, Key []byte }

// Authority issues the certificates of a cluster's nodes.
type Authority struct {
	cluster     string
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Cluster returns the name of the cluster whose nodes the authority issues certificates for.
func (a *Authority) Cluster() string { return a.cluster }

// NewAuthority makes an authority that is valid from an hour before now, for clocks that
// differ, for a time after.
func NewAuthority(cluster string, now time.Time, valid time.Duration) (*Authority, Pair, error) {
	if err := check(Node{cluster, "node"}, valid); err != nil {
		return nil, Pair{}, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Greenroom cluster " + cluster},
		URIs:                  []*url.URL{{Scheme: scheme, Host: cluster}},
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, Pair{}, fmt.Errorf("make a key: %w", err)
	}
	pair, err := sign(template, template, key, key, now, valid)
	if err != nil {
		return nil, Pair{}, err
	}
	a, err := ReadAuthority(pair)
	return a, pair, err
}

// ReadAuthority reads what [NewAuthority] has returned.
func ReadAuthority(p Pair) (*Authority, error) {
	certificate, err := ReadCertificate(p.Certificate)
	if err != nil {
		return nil, err
	}
	if !certificate.IsCA || len(certificate.URIs) != 1 || certificate.URIs[0].Scheme != scheme {
		return nil, errors.New("the certificate must be that of a cluster's authority")
	}
	block, _ := pem.Decode(p.Key)
	if block == nil {
		return nil, errors.New("the key must be in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("the key must be that of the authority's certificate")
	}
	return &Authority{certificate.URIs[0].Host, certificate, key}, nil
}

// Issue makes the certificate of a node of the cluster, valid from an hour before now for a
// time after, at most as long as the authority's. Its key is a new one.
func (a *Authority) Issue(name string, now time.Time, valid time.Duration) (Pair, error) {
	n := Node{a.cluster, name}
	if err := check(n, valid); err != nil {
		return Pair{}, err
	}
	if rest := a.certificate.NotAfter.Sub(now); valid > rest {
		return Pair{}, fmt.Errorf("a certificate must end before its authority, in %v, not in %v", rest.Round(time.Hour), valid)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: n.Name},
		URIs:                  []*url.URL{n.URI()},
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	return sign(template, a.certificate, key, a.key, now, valid)
}

func check(n Node, valid time.Duration) error {
	switch {
	case !isName(n.Name):
		return fmt.Errorf("the name of a node must be 1 to 255 letters, digits, dots, hyphens and underscores, not %q", n.Name)
	case !isName(n.Cluster):
		return fmt.Errorf("the name of a cluster must be 1 to 255 letters, digits, dots, hyphens and underscores, not %q", n.Cluster)
	case valid <= 0:
		return fmt.Errorf("a certificate must be valid for a positive time, not %v", valid)
	}
	return nil
}

// isName reports whether a text stays the same in a URI.
func isName(s string) bool {
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 255
}

// sign completes a template and signs it.
func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey, now time.Time, valid time.Duration) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("make a serial number: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key: %w", err)
	}
	id := sha256.Sum256(public)
	template.SerialNumber, template.SubjectKeyId = serial, id[:20]
	template.NotBefore, template.NotAfter = now.Add(-time.Hour), now.Add(valid)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key: %w", err)
	}
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

// ReadCertificate reads a certificate in PEM.
func ReadCertificate(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the certificate must be in PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	return c, nil
}
