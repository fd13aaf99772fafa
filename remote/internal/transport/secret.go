package transport

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	"time"
)

// minSecret is the length of the shortest secret, in bytes. Whoever answers at an address
// gets a proof that was made with the secret, and may try texts on it.
const minSecret = 16

// exporterLabel separates what is derived from a TLS connection here from what others
// derive.
const exporterLabel = "EXPORTER-greenroom-remote"

// prove returns what only a node with the secret can say on this TLS connection: it cannot
// be relayed to another one, whose exporter differs. The one that dials proves its own
// hello, the other one both.
func prove(secret string, state *tls.ConnectionState, hellos ...[]byte) ([]byte, error) {
	bound, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	if err != nil {
		return nil, fmt.Errorf("derive from the TLS connection: %w", err)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(bound)
	for _, hello := range hellos {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(hello))))
		mac.Write(hello)
	}
	return mac.Sum(nil), nil
}

// throwAway returns a certificate that says nothing. It lets TLS encrypt where a secret
// says who is at the other end.
func throwAway() (tls.Certificate, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, nil
}
