// Package keyed has TLS between processes that know the same secret, with no certificates to distribute.
package keyed

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// MinSecret is the length of the shortest secret, in bytes. Whoever answers at an address shows a public key
// that is made of the secret, so that guesses can be tried on it: it must be random.
const MinSecret = 24

// ErrOtherSecret says that the process at the other end of a connection knows another secret, or none.
var ErrOtherSecret = errors.New("the other end does not know the same secret")

// TLS returns a configuration for both ends of connections. The two prove to each other that they
// know the secret: the key of a certificate is derived from it, and each end takes only that key.
// The one that dials fails with ErrOtherSecret otherwise, and the other one with the alert that it
// gets; if only that one finds out, the first one gets the alert with its first read. It fails if
// the secret is shorter than MinSecret.
func TLS(secret string, protocols ...string) (*tls.Config, error) {
	if len(secret) < MinSecret {
		return nil, fmt.Errorf("the secret must be random and have at least %d bytes, not %d", MinSecret, len(secret))
	}
	seed, err := hkdf.Key(sha256.New, []byte(secret), nil, "greenroom cluster TLS 1", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := private.Public()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	own, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		ClientAuth:   tls.RequireAnyClientCert,
		// The key is what is checked, by VerifyConnection.
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) != 1 || !bytes.Equal(state.PeerCertificates[0].RawSubjectPublicKeyInfo, own) {
				return ErrOtherSecret
			}
			return nil
		},
	}, nil
}

// Name returns a short text that is the same for all who know a secret, and says nothing about it.
func Name(secret string) string {
	text, err := hkdf.Key(sha256.New, []byte(secret), nil, "greenroom cluster name 1", 5)
	if err != nil {
		panic(err) // only if more bytes are asked for than there are
	}
	return hex.EncodeToString(text)
}
