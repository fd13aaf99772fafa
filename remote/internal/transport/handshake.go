package transport

import (
	"context"
	"crypto/hmac"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/internal/nodecert"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// security is how a node secures its connections: by certificates, by a secret, by both, or
// not at all.
type security struct {
	tls      *TLS
	secret   string
	insecure bool
	own      nodecert.Node
	cert     tls.Certificate // throw-away, unless there is a TLS
}

func newSecurity(c *Config, own nodecert.Node, now time.Time) (*security, error) {
	s := &security{tls: c.TLS, secret: c.Secret, insecure: c.Insecure, own: own}
	if s.secret != "" && len(s.secret) < minSecret {
		return nil, fmt.Errorf("the secret must have at least %d bytes, not %d", minSecret, len(s.secret))
	}
	if s.tls != nil {
		s.cert = s.tls.Certificate
		return s, s.tls.check(own, now)
	}
	var err error
	if s.secret != "" {
		s.cert, err = throwAway()
	}
	return s, err
}

// encrypted reports whether connections are by TLS.
func (s *security) encrypted() bool { return s.tls != nil || s.secret != "" }

// local reports whether a connection does not leave the machine.
func local(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// secure returns the connection on which frames go, after the handshake of TLS.
func (s *security) secure(ctx context.Context, conn net.Conn, dialed bool) (net.Conn, error) {
	if !s.encrypted() {
		if !s.insecure && (!local(conn.LocalAddr()) || !local(conn.RemoteAddr())) {
			return nil, fmt.Errorf("a connection with %v needs a secret or certificates", conn.RemoteAddr())
		}
		return conn, nil
	}
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{s.cert},
		InsecureSkipVerify: true, // names are URIs, which VerifyConnection compares; or a secret says who it is
	}
	usage := x509.ExtKeyUsageServerAuth
	if !dialed {
		usage = x509.ExtKeyUsageClientAuth
	}
	if s.tls != nil {
		config.ClientAuth = tls.RequireAnyClientCert
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return s.tls.verify(state.PeerCertificates, usage, time.Now())
		}
	}
	secured := tls.Server(conn, config)
	if dialed {
		secured = tls.Client(conn, config)
	}
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake of TLS: %w", err)
	}
	return secured, nil
}

// greeting is a hello as it is on the wire, with the proof that follows it.
type greeting struct {
	hello wire.Hello
	body  []byte
	proof []byte // nil: none
}

// frames returns the frames of a greeting.
func (g greeting) frames() []byte {
	frames := wire.AppendFrame(nil, wire.KindHello, g.body)
	if g.proof != nil {
		frames = wire.AppendFrame(frames, wire.KindProof, g.proof)
	}
	return frames
}

// greet makes the greeting of a hello: after is the greeting that it answers, nil where it
// is the first.
func (s *security) greet(conn net.Conn, hello wire.Hello, after *greeting) (greeting, error) {
	if s.secret != "" {
		hello.Features |= wire.FeatureProof
	}
	g := greeting{hello: hello, body: wire.AppendHello(nil, &hello)}
	proof, err := s.proof(conn, g, after)
	g.proof = proof
	return g, err
}

// proof returns what must follow a greeting, nil where there is no secret.
func (s *security) proof(conn net.Conn, g greeting, after *greeting) ([]byte, error) {
	secured, ok := conn.(*tls.Conn)
	if s.secret == "" || !ok {
		return nil, nil
	}
	state := secured.ConnectionState()
	if after == nil {
		return prove(s.secret, &state, g.body)
	}
	return prove(s.secret, &state, after.body, g.body)
}

// meet checks a greeting of the other end. The error is a [*wire.Refusal] where the other
// end is to be told.
func (s *security) meet(conn net.Conn, g greeting, after *greeting) error {
	want, err := s.proof(conn, g, after)
	if err != nil {
		return err
	}
	if (g.proof == nil) != (want == nil) || !hmac.Equal(want, g.proof) {
		return wire.Refuse(wire.CodeBadSecret, "both nodes must have the same secret, or none")
	}
	if s.tls != nil {
		state := conn.(*tls.Conn).ConnectionState()
		says := nodecert.Node{Cluster: g.hello.Cluster, Name: g.hello.Node}
		if !slices.Contains(nodecert.Nodes(state.PeerCertificates[0]), says) {
			return wire.Refuse(wire.CodeNotAllowed, "the certificate must have the URI %s", says.URI())
		}
	}
	return nil
}

// refusedError is a refusal of the other end.
type refusedError struct {
	refusal *wire.Refusal
	body    []byte // as it is on the wire
	proved  bool   // by the node that was dialed
}

func (e *refusedError) Error() string { return "the other end has " + e.refusal.Error() }

// Unwrap returns the refusal if it is proved. A session, which some refusals end for good,
// takes any other for a dial in vain: whoever answers at an address may send one.
func (e *refusedError) Unwrap() error {
	if !e.proved {
		return nil
	}
	return e.refusal
}

// readGreeting reads the greeting of the other end. What comes after it stays in frames. A
// refusal of the other end is a [*refusedError].
func readGreeting(conn net.Conn, frames *wire.Splitter) (greeting, error) {
	f, err := readFrame(conn, frames)
	if err != nil {
		return greeting{}, err
	}
	switch f.Kind {
	case wire.KindRefuse:
		refusal, err := wire.ReadRefusal(f.Body)
		if err != nil {
			return greeting{}, err
		}
		return greeting{}, &refusedError{refusal: refusal, body: slices.Clone(f.Body)}
	case wire.KindHello:
	default:
		return greeting{}, unexpected(f)
	}
	g := greeting{body: slices.Clone(f.Body)}
	if g.hello, err = wire.ReadHello(g.body); err != nil {
		return greeting{}, err
	}
	if g.hello.Features&wire.FeatureProof != 0 {
		if f, err = readFrame(conn, frames); err != nil {
			return greeting{}, err
		}
		if f.Kind != wire.KindProof {
			return greeting{}, unexpected(f)
		}
		g.proof = slices.Clone(f.Body)
	}
	return g, nil
}

func unexpected(f wire.Frame) error {
	return &wire.ViolationError{Cause: "handshake", Text: fmt.Sprintf("a connection must begin with a hello, not with %s", f.Kind)}
}

func readFrame(conn net.Conn, frames *wire.Splitter) (wire.Frame, error) {
	for {
		f, ok, err := frames.Next()
		if err != nil || ok {
			return f, err
		}
		n, err := conn.Read(frames.Space())
		frames.Fill(n)
		if err != nil && n == 0 {
			return wire.Frame{}, fmt.Errorf("read the hello of the other end: %w", err)
		}
	}
}

// refuse tells the other end why the connection ends, unless the other end has said so.
func refuse(conn net.Conn, err error) {
	if refusal := refusalOf(err); refusal != nil {
		part(conn, wire.AppendFrame(nil, wire.KindRefuse, wire.AppendRefusal(nil, refusal)))
	}
}

// refuse tells a node whose greeting was met why the connection ends, and proves it.
func (s *security) refuse(conn net.Conn, err error, met *greeting) {
	refusal := refusalOf(err)
	if refusal == nil {
		return
	}
	body := wire.AppendRefusal(nil, refusal)
	frames := wire.AppendFrame(nil, wire.KindRefuse, body)
	if proof, err := s.proveRefusal(conn, s.own, met, body); err == nil && proof != nil {
		frames = wire.AppendFrame(frames, wire.KindProof, proof) // an older node does not read it
	}
	part(conn, frames)
}

// proveRefusal returns what must follow the refusal by a node of a greeting, nil where there
// is no secret. The name says that not just any node with the secret refuses.
func (s *security) proveRefusal(conn net.Conn, by nodecert.Node, met *greeting, body []byte) ([]byte, error) {
	secured, ok := conn.(*tls.Conn)
	if s.secret == "" || !ok {
		return nil, nil
	}
	state := secured.ConnectionState()
	return prove(s.secret, &state, met.body, body, []byte(by.URI().String()))
}

// refusedBy reports whether a refusal of what this node has said on a connection is proved to
// be that of a node. Without encryption a refusal is believed, as a hello is.
func (s *security) refusedBy(conn net.Conn, by nodecert.Node, said *greeting, body []byte, frames *wire.Splitter) bool {
	if s.tls != nil {
		state := conn.(*tls.Conn).ConnectionState()
		if !slices.Contains(nodecert.Nodes(state.PeerCertificates[0]), by) {
			return false
		}
	}
	want, err := s.proveRefusal(conn, by, said, body)
	if err != nil || want == nil {
		return err == nil
	}
	f, err := readFrame(conn, frames)
	return err == nil && f.Kind == wire.KindProof && hmac.Equal(want, f.Body)
}

// refusalOf returns what the other end is to be told, nil for nothing.
func refusalOf(err error) *wire.Refusal {
	var theirs *refusedError
	var refusal *wire.Refusal
	var violation *wire.ViolationError
	switch {
	case errors.As(err, &theirs):
		return nil
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &violation):
		return wire.Refuse(wire.CodeProtocol, "%s", violation.Text)
	default:
		return nil
	}
}

// part writes the last frames of a connection.
func part(conn net.Conn, frames []byte) {
	_ = conn.SetWriteDeadline(time.Now().Add(farewell))
	_, _ = conn.Write(frames)
}
