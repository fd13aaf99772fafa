package keyed

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
)

const secret = "thirty-two random bytes of a test"

func config(t *testing.T, secret string) *tls.Config {
	t.Helper()
	c, err := TLS(secret, "one")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// shake returns how a handshake ends for the one that dials and the other one.
func shake(dials, answers *tls.Config) (client, server error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ended := make(chan error, 1)
	go func() {
		conn := tls.Server(b, answers)
		err := conn.Handshake()
		_ = b.Close()
		ended <- err
	}()
	conn := tls.Client(a, dials)
	client = conn.Handshake()
	if client == nil { // the other end may still refuse
		_, client = conn.Read(make([]byte, 1))
		if client.Error() == "EOF" {
			client = nil
		}
	}
	_ = a.Close()
	return client, <-ended
}

func TestBothEndsMustKnowTheSecret(t *testing.T) {
	t.Parallel()
	if client, server := shake(config(t, secret), config(t, secret)); client != nil || server != nil {
		t.Errorf("the same secret: %v, %v", client, server)
	}
	client, server := shake(config(t, secret), config(t, "another one, also of the length"))
	if !errors.Is(client, ErrOtherSecret) || server == nil {
		t.Errorf("another secret: %v, %v", client, server)
	}
	trusting := config(t, "another one, also of the length")
	trusting.VerifyConnection = nil
	if client, server := shake(trusting, config(t, secret)); client == nil || !errors.Is(server, ErrOtherSecret) {
		t.Errorf("one that dials and does not know it: %v, %v", client, server)
	}
	trusting.Certificates = nil
	if client, server := shake(trusting, config(t, secret)); client == nil || server == nil {
		t.Errorf("one without a certificate: %v, %v", client, server)
	}
}

func TestASecretHasALength(t *testing.T) {
	t.Parallel()
	if _, err := TLS("short"); err == nil || !strings.Contains(err.Error(), "at least 24 bytes, not 5") {
		t.Errorf("%v", err)
	}
}

func TestANameIsTheSameForAllWhoKnowTheSecret(t *testing.T) {
	t.Parallel()
	if Name(secret) != Name(strings.Clone(secret)) || Name(secret) == Name(secret+".") || len(Name(secret)) != 10 {
		t.Errorf("%q, %q, and of another secret %q", Name(secret), Name(secret), Name(secret+"."))
	}
}
