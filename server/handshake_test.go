package server

import (
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"
)

// stalled is a client that has said what it wants and takes no answer.
type stalled struct {
	net.Conn
	said chan struct{} // closed after its first packet
	once sync.Once
	end  chan struct{}
}

func (s *stalled) Write(p []byte) (int, error) {
	defer s.once.Do(func() { close(s.said) })
	return s.Conn.Write(p)
}

func (s *stalled) Read([]byte) (int, error) {
	<-s.end
	return 0, net.ErrClosed
}

// A turn is for what is computed: neither a client that stalls nor one that is refused keeps it.
func TestNobodyKeepsTheTurnOfAHandshake(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", []string{"127.0.0.1"}, false)
	certs, err := newCertificates(TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := certs.listener(plain, nil)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = ln.Close() })
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(patience))
				_, _ = nc.Read(make([]byte, 1)) // the handshake, and what the client says
			})
		}
	})
	turns := cap(certs.turns.turns)
	dial := func(c *tls.Config) error {
		nc, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", plain.Addr().String())
		if err == nil {
			_ = nc.Close()
		}
		return err
	}
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	for range 2 * turns {
		nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", plain.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = nc.Close() })
		s := &stalled{Conn: nc, said: make(chan struct{}), end: end}
		wg.Go(func() { _ = tls.Client(s, ca.client("")).HandshakeContext(t.Context()) })
		<-s.said
	}
	old := ca.client("")
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	for range 2 * turns {
		if dial(old) == nil {
			t.Error("TLS 1.1 is let in")
		}
	}
	began := time.Now()
	for range 2 * turns {
		if err := dial(ca.client("")); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(began); took >= handshakePatience {
		t.Errorf("the others waited for %v", took)
	}
}

func TestAHandshakeWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	h := &handshakes{turns: make(chan struct{}, 1)}
	ours, theirs := net.Pipe()
	defer theirs.Close()
	first, second := &turnConn{Conn: ours, handshakes: h}, &turnConn{Conn: ours, handshakes: h}
	if err := first.take(); err != nil {
		t.Fatal(err)
	}
	took := make(chan error, 1)
	go func() { took <- second.take() }()
	select {
	case err := <-took:
		t.Fatalf("the second did not wait: %v", err)
	case <-time.After(10 * time.Millisecond):
	}
	_ = first.Close()
	if err := <-took; err != nil {
		t.Error(err)
	}
	_ = first.Close() // gives nothing back that it has not got
	if len(h.turns) != 1 {
		t.Errorf("%d turns are taken, want 1", len(h.turns))
	}
}
