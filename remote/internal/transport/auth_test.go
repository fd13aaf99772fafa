package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

const secret = "correct horse battery"

func (p *party) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened > 0
}

func TestNodesThatMustNotMeetDoNot(t *testing.T) {
	t.Parallel()
	ours, theirs := newAuthority(t, "test"), newAuthority(t, "test")
	for name, c := range map[string]struct {
		listener, dialer Config
		cluster          string
		want             string // what the dialing node says
	}{
		"another secret": {
			listener: Config{Secret: secret}, dialer: Config{Secret: "another horse battery"}, want: "bad secret",
		},
		"no secret beside certificates": {
			listener: Config{TLS: ours.tls(t, "a"), Secret: secret}, dialer: Config{TLS: ours.tls(t, "b")}, want: "bad secret",
		},
		"a secret that the other has not": {
			listener: Config{TLS: ours.tls(t, "a")}, dialer: Config{TLS: ours.tls(t, "b"), Secret: secret}, want: "bad secret",
		},
		"another cluster": {
			listener: Config{Secret: secret}, dialer: Config{Secret: secret}, cluster: "another", want: "wrong cluster",
		},
		"another authority": {
			listener: Config{TLS: ours.tls(t, "a")}, dialer: Config{TLS: theirs.tls(t, "b")}, want: "certificate",
		},
		"plain text to TLS": {
			listener: Config{Secret: secret}, dialer: Config{}, want: "read the hello",
		},
		"TLS to plain text": {
			listener: Config{}, dialer: Config{Secret: secret}, want: "TLS",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.listener.Addr = "127.0.0.1:0"
			a := listen(t, "a", 1, c.listener, session.Config{})
			c.dialer.Resolve = func(string) (string, bool) { return a.Addr().String(), true }
			b := newParty("b")
			start(t, b, 2, c.dialer, session.Config{Cluster: c.cluster})
			err := b.failure(t, "a")
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if b.isOpen() || a.isOpen() {
				t.Error("the nodes have met")
			}
		})
	}
}

// failure waits until a party has dialed in vain, and returns why.
func (p *party) failure(t *testing.T, peer string) error {
	t.Helper()
	s := p.Session(peer)
	for {
		state, err := s.State()
		if err != nil {
			return err
		}
		if state == session.Open {
			t.Fatal("the nodes have met")
		}
		select {
		case <-t.Context().Done():
			t.Fatal("nothing happens")
		case <-s.Room(): // there always is
		}
	}
}

func TestANodeMustBeTheOneOfItsCertificate(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "test")
	for name, c := range map[string]struct {
		own  *TLS
		want string
	}{
		"another node's":    {ours.tls(t, "c"), "must have the URI greenroom://test/b"},
		"another cluster's": {newAuthority(t, "other").tls(t, "b"), "must have the URI greenroom://test/b"},
		"no roots":          {&TLS{Certificate: ours.tls(t, "b").Certificate}, "needs Roots"},
		"nothing":           {&TLS{Roots: ours.roots}, "needs a Certificate"},
	} {
		_, err := Listen(Config{TLS: c.own}, session.Config{Node: "b", Cluster: "test", Incarnation: 1}, newParty("b"))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	// One that does not look at its own certificate is refused by the other.
	a := listen(t, "a", 1, Config{Addr: "127.0.0.1:0", TLS: ours.tls(t, "a")}, session.Config{})
	b := listen(t, "b", 2, Config{
		TLS:     ours.tls(t, "b"),
		Resolve: func(string) (string, bool) { return a.Addr().String(), true },
	}, session.Config{})
	b.security.cert = ours.tls(t, "c").Certificate
	if err := b.failure(t, "a"); !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("got %v", err)
	}
	// An address where another node of the cluster answers.
	d := listen(t, "d", 3, Config{
		TLS:     ours.tls(t, "d"),
		Resolve: func(string) (string, bool) { return a.Addr().String(), true },
	}, session.Config{})
	if err := d.failure(t, "e"); !strings.Contains(err.Error(), "the node must be e, not a") {
		t.Errorf("got %v", err)
	}
}

func TestAnOpenAddressNeedsASecretOrCertificates(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config Config
		want   string // "": none
	}{
		"loopback": {Config{Addr: "127.0.0.1:0"}, ""},
		"anywhere": {Config{Addr: "0.0.0.0:0"}, "must be one of the machine itself"},
		"insecure": {Config{Addr: "0.0.0.0:0", Insecure: true}, ""},
		"secret":   {Config{Addr: "0.0.0.0:0", Secret: secret}, ""},
		"short":    {Config{Secret: "123"}, "at least 16 bytes, not 3"},
	} {
		tr, err := Listen(c.config, session.Config{Node: "a", Cluster: "test", Incarnation: 1}, newParty("a"))
		if err == nil {
			_ = tr.Close(t.Context())
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

// A secret proves that the node at the other end of this connection knows it, so somebody in
// between, who ends TLS himself, gets nowhere with what the nodes say.
func TestAProofCannotBeRelayed(t *testing.T) {
	t.Parallel()
	a := listen(t, "a", 1, Config{Addr: "127.0.0.1:0", Secret: secret}, session.Config{})
	cert, err := throwAway()
	if err != nil {
		t.Fatal(err)
	}
	between, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = between.Close() })
	go relay(between, a.Addr().String())
	b := listen(t, "b", 2, Config{
		Secret:  secret,
		Resolve: func(string) (string, bool) { return between.Addr().String(), true },
	}, session.Config{})
	if err := b.failure(t, "a"); !strings.Contains(err.Error(), "bad secret") {
		t.Errorf("got %v", err)
	}
	if a.Counts()["refused: bad secret"] == 0 || a.isOpen() || b.isOpen() {
		t.Errorf("counted: %v", a.Counts())
	}
}

// relay passes on what comes over TLS, over TLS.
func relay(l net.Listener, to string) {
	for {
		mine, err := l.Accept()
		if err != nil {
			return
		}
		theirs, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(context.Background(), "tcp", to)
		if err != nil {
			_ = mine.Close()
			return
		}
		go func() {
			_, _ = io.Copy(theirs, mine)
			_ = theirs.Close()
		}()
		go func() {
			_, _ = io.Copy(mine, theirs)
			_ = mine.Close()
		}()
	}
}

// Whoever answers at the address of a node may refuse, but only the node itself is believed:
// after some refusals a session is lost.
func TestARefusalIsBelievedOfTheNodeOnly(t *testing.T) {
	t.Parallel()
	ours := newAuthority(t, "test")
	for name, config := range map[string]func(node string) Config{
		"secret":       func(string) Config { return Config{Secret: secret} },
		"certificates": func(node string) Config { return Config{TLS: ours.tls(t, node)} },
		"both":         func(node string) Config { return Config{TLS: ours.tls(t, node), Secret: secret} },
	} {
		c := config("a")
		c.Addr = "127.0.0.1:0"
		a, b := listen(t, "a", 1, c, session.Config{}), listen(t, "b", 2, config("b"), session.Config{})
		for _, peer := range []string{"a", "another"} {
			err := b.refusal(t, peer, a.Addr().String())
			var theirs *refusedError
			if !errors.As(err, &theirs) || theirs.refusal.Code != wire.CodeUnknownSession {
				t.Fatalf("%s: got %v", name, err)
			}
			var refusal *wire.Refusal
			if believed := errors.As(err, &refusal); believed != (peer == "a") {
				t.Errorf("%s: a refuses a hello to %s: believed %v", name, peer, believed)
			}
		}
	}
}

// refusal resumes a session that the node at an address does not have, and returns its answer.
func (p *party) refusal(t *testing.T, peer, addr string) error {
	t.Helper()
	s := p.Session(peer)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	secured, err := p.security.secure(t.Context(), conn, true)
	if err != nil {
		t.Fatal(err)
	}
	call := s.Dial(time.Now())
	defer s.Fault(call, nil)
	hello := call.Hello
	hello.Resume = true
	var frames wire.Splitter
	_, err = p.peer(s).exchange(secured, hello, &frames)
	return err
}

// Somebody without the secret, to whom a session is nothing, cannot end it.
func TestARefusalWithoutTheSecretEndsNoSession(t *testing.T) {
	t.Parallel()
	cert, err := throwAway()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stranger.Close() })
	go func() {
		for {
			conn, err := stranger.Accept()
			if err != nil {
				return
			}
			var frames wire.Splitter
			_, _ = readGreeting(conn, &frames)
			refuse(conn, wire.Refuse(wire.CodeUnknownSession, "what session?"))
			_ = conn.Close()
		}
	}()
	b := listen(t, "b", 2, Config{
		Secret:  secret,
		Resolve: func(string) (string, bool) { return stranger.Addr().String(), true },
	}, session.Config{})
	s := b.Session("a")
	if err := b.failure(t, "a"); !strings.Contains(err.Error(), "what session?") {
		t.Errorf("got %v", err)
	}
	if state, _ := s.State(); state != session.Dialing {
		t.Errorf("the session is %v", state)
	}
}

// A peer that thinks of codes is counted under one cause.
func TestUnknownCodesAreCountedTogether(t *testing.T) {
	t.Parallel()
	a := listen(t, "a", 1, Config{}, session.Config{})
	for code := range wire.Code(100) {
		a.count(&refusedError{refusal: wire.Refuse(1000+code, "")})
	}
	a.count(&refusedError{refusal: wire.Refuse(wire.CodeBusy, "")})
	if got := a.Counts(); len(got) != 2 || got["refused by peer: unknown code"] != 100 || got["refused by peer: busy"] != 1 {
		t.Errorf("counted: %v", got)
	}
}
