package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/nodecert"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// The limits of a transport.
const (
	// MaxHandshakes is how many accepted connections may be in their handshake. A further
	// one takes the place of the oldest that has not proved itself.
	MaxHandshakes = 64
	// HandshakeTimeout is how long a handshake may take.
	HandshakeTimeout = 5 * time.Second
	// DialTimeout is how long connecting to an address may take.
	DialTimeout = 3 * time.Second

	minBackoff = 50 * time.Millisecond
	maxBackoff = 2 * time.Second
	farewell   = time.Second // for a refusal to be written
)

// Reasons for which a transport loses a session.
var (
	// ErrDisconnected is that of [Transport.Disconnect].
	ErrDisconnected = errors.New("disconnected")
	// ErrPanic is wrapped with the value with which a Handler has panicked.
	ErrPanic = errors.New("a handler of what arrived has panicked")
)

// Config says how a node reaches others. Its zero value neither listens nor dials.
type Config struct {
	// Addr is the TCP address to listen on, "" for none.
	Addr string
	// Secret is known to all nodes of the cluster, at least 16 bytes. Connections are
	// encrypted. TLS, if given, holds besides.
	Secret string
	// TLS has the certificates by which the nodes know each other.
	TLS *TLS
	// Insecure allows connections beyond the machine with neither Secret nor TLS.
	Insecure bool
	// Resolve returns the address at which to dial a peer; ok is false for one that dials
	// itself. It must not block.
	Resolve func(peer string) (addr string, ok bool)
	// Dial connects to an address, by TCP if nil.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// Listener accepts connections in place of Addr.
	Listener net.Listener
	// Ended waits until nothing of the node runs any more. If it is not nil, the node keeps its address
	// for as long, see [Transport.Close].
	Ended func()
	// Log gets what an operator should know, [slog.Default] if nil.
	Log *slog.Logger
}

// Transport runs the sessions of a node. Its methods are safe for concurrent use.
type Transport struct {
	config   Config
	host     *session.Host
	frame    int // the longest
	security *security
	listener net.Listener
	ctx      context.Context //nolint:containedctx // ends what dials and waits when the transport is closed
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // the listener, handshakes, dials
	runners  sync.WaitGroup // of sessions
	gate     gate           // the handshakes of accepted connections

	mu      sync.Mutex
	started bool
	closed  bool // no session begins any more
	peers   map[*session.Session]*peer
	counts  map[string]uint64
}

// Listen makes the transport of a node. It accepts connections from [Transport.Start] on.
func Listen(c Config, node session.Config, handler session.Handler) (*Transport, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}
	if c.Resolve == nil {
		c.Resolve = func(string) (string, bool) { return "", false }
	}
	security, err := newSecurity(&c, nodecert.Node{Cluster: node.Cluster, Name: node.Node}, time.Now())
	if err != nil {
		return nil, err
	}
	t := &Transport{
		config: c, security: security, listener: c.Listener,
		peers: map[*session.Session]*peer{}, counts: map[string]uint64{},
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if t.frame = node.Frame; t.frame == 0 {
		t.frame = wire.DefaultFrame
	}
	node.Hooks = t.hooks
	t.host = session.NewHost(node, handler)
	if t.listener == nil && c.Addr != "" {
		if t.listener, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", c.Addr); err != nil {
			t.cancel()
			return nil, fmt.Errorf("listen: %w", err)
		}
	}
	if t.listener != nil && !security.encrypted() && !c.Insecure && !local(t.listener.Addr()) {
		t.cancel()
		_ = t.listener.Close()
		return nil, fmt.Errorf("the address must be one of the machine itself, not %v, without a secret or certificates", t.listener.Addr())
	}
	return t, nil
}

// Start lets the transport accept connections. It is called once, before Close.
func (t *Transport) Start() {
	t.mu.Lock()
	t.started = true
	t.mu.Unlock()
	if t.listener != nil {
		t.tasks.Go(t.accept)
	}
}

// Addr returns the address that the transport listens on, nil if it does not.
func (t *Transport) Addr() net.Addr {
	if t.listener == nil {
		return nil
	}
	return t.listener.Addr()
}

// Host returns the node's sessions.
func (t *Transport) Host() *session.Host { return t.host }

// Session returns the session with a peer. If there is none it is made, and dials where the
// peer's address is known. After [Transport.Close] it is lost.
func (t *Transport) Session(peer string) *session.Session { return t.host.Session(peer, time.Now()) }

// Disconnect ends the session with a peer, whose incarnation is not spoken to any more.
func (t *Transport) Disconnect(peer string) {
	for _, s := range t.host.Sessions() {
		if s.Peer() == peer {
			s.Lose(ErrDisconnected)
		}
	}
}

// Counts returns how many connections and sessions have ended, by cause: "refused: wrong
// cluster" for those that this node refused, "refused by peer: busy", "violation: kind".
func (t *Transport) Counts() map[string]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.counts)
}

// count counts why a connection has ended.
func (t *Transport) count(err error) {
	var theirs *refusedError
	var refusal *wire.Refusal
	var violation *wire.ViolationError
	cause := ""
	switch {
	case errors.As(err, &theirs):
		cause = "refused by peer: unknown code" // one key for all that a peer may think of
		if code := theirs.refusal.Code; code.Known() {
			cause = "refused by peer: " + code.String()
		}
	case errors.As(err, &refusal):
		cause = "refused: " + refusal.Code.String()
	case errors.As(err, &violation):
		cause = "violation: " + violation.Cause
	default:
		return
	}
	t.mu.Lock()
	t.counts[cause]++
	t.mu.Unlock()
}

// hooks are those of a new session, which has a goroutine from then on.
func (t *Transport) hooks(s *session.Session) session.Hooks {
	p := &peer{t: t, s: s, due: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(t.ctx)
	return session.Hooks{Write: p.wakeWriter, Tick: func() { wake(p.due) }, Start: func() { t.start(p) }}
}

func (t *Transport) start(p *peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		p.s.Lose(session.ErrClosed) // and stays so
		return
	}
	t.peers[p.s] = p
	t.runners.Go(p.run)
}

// wake sends to a channel with room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// peer returns who runs a session, nil for one that is over.
func (t *Transport) peer(s *session.Session) *peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peers[s]
}

func (t *Transport) forget(s *session.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.peers, s)
}

// accept accepts connections until the listener is closed.
func (t *Transport) accept() {
	for backoff := time.Duration(0); ; {
		conn, err := t.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed), t.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil: // no file descriptor is left, for example
			backoff = min(2*backoff+minBackoff, maxBackoff)
			t.config.Log.Warn("connections cannot be accepted", slog.Any("error", err))
			t.pause(backoff)
			continue
		}
		backoff = 0
		e, over := t.gate.enter(conn)
		if over != nil {
			t.count(wire.Refuse(wire.CodeBusy, "too many connections"))
			_ = over.Close()
		}
		if e != nil {
			t.tasks.Go(func() {
				defer t.gate.leave(e)
				t.welcome(e)
			})
		}
	}
}

// pause waits for a time or until the transport is closed.
func (t *Transport) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.ctx.Done():
	}
}

// welcome lets an accepted connection become a session's, or refuses it.
func (t *Transport) welcome(e *entrant) {
	conn := e.conn
	ctx, cancel := context.WithTimeout(t.ctx, HandshakeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	secured, err := t.security.secure(ctx, conn, false)
	if err != nil {
		stop()
		_ = conn.Close()
		t.config.Log.Debug("a connection was not secured", slog.Any("from", conn.RemoteAddr()), slog.Any("error", err))
		return
	}
	var frames wire.Splitter
	met, err := t.admit(e, secured, &frames, stop)
	if err == nil {
		return
	}
	stop()
	t.count(err)
	t.config.Log.Debug("a connection was refused", slog.Any("from", conn.RemoteAddr()), slog.Any("error", err))
	if met != nil {
		t.security.refuse(secured, err, met)
	} else {
		refuse(secured, err)
	}
	_ = secured.Close()
}

// admit reads the hello of who has connected and gives the connection to its session. stop
// ends the deadline of the handshake. met is the greeting of a node that has proved itself.
func (t *Transport) admit(e *entrant, conn net.Conn, frames *wire.Splitter, stop func() bool) (met *greeting, err error) {
	first, err := readGreeting(conn, frames)
	if err != nil {
		return nil, err
	}
	if err := t.security.meet(conn, first, nil); err != nil {
		return nil, err
	}
	if !t.gate.prove(e) {
		return nil, net.ErrClosed
	}
	s, refusal := t.host.Accept(&first.hello, time.Now())
	if refusal != nil {
		return &first, refusal
	}
	p := t.peer(s)
	if p == nil {
		return &first, wire.Refuse(wire.CodeBusy, "the session is ending")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.detach()
	hello, c, refusal := s.Accept(&first.hello, time.Now())
	if refusal != nil {
		return &first, refusal
	}
	answer, err := t.security.greet(conn, hello, &first)
	if err != nil || !stop() {
		s.Break(c, errors.Join(err, t.ctx.Err()), time.Now())
		_ = conn.Close()
		return nil, nil // the session knows
	}
	p.attach(conn, c, frames, answer.frames())
	return nil, nil //nolint:nilnil // nothing is refused
}

// Close tells the peers that this node leaves, and waits until they have what was sent, or their addresses
// refuse connections. When ctx is over, it ends the sessions as they are. All calls of the Handler have
// returned when it returns; what was not confirmed was reported as lost. The error is that of ctx if
// it was over before.
//
// An address that refuses connections says that the node has ended. So connections are accepted and closed
// until Config.Ended has returned, for which Close waits as long as ctx lasts. That of a node that was not
// started is given up at once. A second call changes nothing of that.
func (t *Transport) Close(ctx context.Context) error {
	t.mu.Lock()
	first := !t.closed
	t.closed = true
	keep, _ := t.listener.(deadliner)
	if t.config.Ended == nil || !t.started {
		keep = nil
	}
	t.mu.Unlock()
	if first && t.listener != nil && keep == nil {
		_ = t.listener.Close()
	}
	for _, s := range t.host.Sessions() {
		s.Bye()
	}
	over := make(chan struct{})
	go func() {
		t.runners.Wait()
		close(over)
	}()
	var err error
	select {
	case <-over:
	case <-ctx.Done():
		err = ctx.Err()
		for _, s := range t.host.Sessions() {
			s.Lose(session.ErrClosed)
		}
		<-over
	}
	t.cancel()
	if first && keep != nil {
		_ = keep.SetDeadline(time.Now()) // for accept to return
		t.tasks.Wait()
		ended := make(chan struct{})
		go keepAddress(keep)
		go func() {
			defer close(ended)
			t.config.Ended()
			_ = keep.Close()
		}()
		select {
		case <-ended:
		case <-ctx.Done():
		}
	}
	t.tasks.Wait()
	return err
}

// isClosed reports whether Close was called.
func (t *Transport) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// deadliner is a listener whose Accept can be interrupted.
type deadliner interface {
	net.Listener
	SetDeadline(t time.Time) error
}

// keepAddress closes the connections that come, until the listener is closed.
func keepAddress(l deadliner) {
	_ = l.SetDeadline(time.Time{})
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			_ = conn.Close()
		case errors.Is(err, net.ErrClosed):
			return
		default: // no file descriptor is left, for example
			time.Sleep(minBackoff) //nolint:forbidigo // Accept says when the listener is closed, and nothing says when there is a descriptor again
		}
	}
}
