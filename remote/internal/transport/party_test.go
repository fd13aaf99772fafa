package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/nodecert"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/remote/internal/wire"
)

// party is a node of a test: a transport, and a Handler that books what it gets.
type party struct {
	name string
	*Transport

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced when something arrives
	got      map[string][]int
	answered map[*asking]string
	opened   int
	losses   []*session.Loss
	hold     chan struct{} // Messages waits for it; nil: it does not
	panics   bool          // in Messages and in Lost
	exits    bool          // Messages ends the goroutine
}

type asking struct{ text string }

func (*asking) Over() bool { return false }

// someone is the sender of a test.
type someone struct{ name string }

func (s someone) Address() string { return s.name + "~1/sender#1" }

func newParty(name string) *party {
	return &party{name: name, changed: make(chan struct{}), got: map[string][]int{}, answered: map[*asking]string{}}
}

// book changes the book of a party.
func (p *party) book(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits until something is true of a party's book.
func (p *party) await(t testing.TB, what string, is func() bool) {
	t.Helper()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		ok, changed := is(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			t.Fatalf("%s: there is never %s", p.name, what)
		}
	}
}

func (p *party) Messages(s *session.Session, to *session.Known, run []session.Received) {
	if p.hold != nil {
		<-p.hold
	}
	if p.panics {
		panic("a decoder")
	}
	if p.exits {
		runtime.Goexit()
	}
	p.book(func() {
		for _, m := range run {
			n, _ := strconv.Atoi(string(m.Payload[:8]))
			p.got[to.Text] = append(p.got[to.Text], n)
		}
	})
	for _, m := range run {
		if m.Ask != 0 {
			s.Answer(m.Ask, m.Payload)
		}
	}
}

func (p *party) Answer(_ *session.Session, ask session.Asker, payload []byte) {
	p.book(func() { p.answered[ask.(*asking)] = string(payload) })
}

func (p *party) Fail(_ *session.Session, ask session.Asker, f wire.Failure) {
	p.book(func() { p.answered[ask.(*asking)] = f.Text })
}
func (p *party) Cancel(*session.Session, any)                               {}
func (p *party) Signal(*session.Session, wire.Kind, session.ReceivedSignal) {}
func (p *party) Request(s *session.Session, _ wire.Kind, r session.ReceivedRequest) {
	s.Answer(r.Ask, r.Payload)
}
func (p *party) Missed(*session.Session, *session.Loss) {}
func (p *party) Opened(*session.Session)                { p.book(func() { p.opened++ }) }
func (p *party) Lost(_ *session.Session, l *session.Loss) {
	p.book(func() { p.losses = append(p.losses, l) })
}

// lost returns the only loss of a party.
func (p *party) lost(t testing.TB) *session.Loss {
	t.Helper()
	p.await(t, "a loss", func() bool { return len(p.losses) > 0 })
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.losses) > 1 {
		t.Errorf("%s: %d losses, want 1", p.name, len(p.losses))
	}
	return p.losses[0]
}

var quiet = slog.New(slog.DiscardHandler)

// listen starts a node. It is closed with the test.
func listen(t testing.TB, name string, inc uint32, c Config, sc session.Config) *party {
	t.Helper()
	p := newParty(name)
	start(t, p, inc, c, sc)
	return p
}

func start(t testing.TB, p *party, inc uint32, c Config, sc session.Config) {
	t.Helper()
	sc.Node, sc.Incarnation, c.Log = p.name, inc, quiet
	if sc.Cluster == "" {
		sc.Cluster = "test"
	}
	tr, err := Listen(c, sc, p)
	if err != nil {
		t.Fatal(err)
	}
	p.Transport = tr
	tr.Start()
	t.Cleanup(func() { p.end(t) })
}

// end ends a node without waiting for its peers.
func (p *party) end(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := p.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("%s: %v", p.name, err)
	}
}

// send sends the messages from to before another to an actor of a peer, and waits where
// there is no room.
func (p *party) send(t testing.TB, peer, actor string, from, to int) {
	t.Helper()
	name := session.NewName(actor)
	filler := make([]byte, 100)
	for n := from; n < to; n++ {
		m := &session.Message{
			To: name, From: session.Sender{ID: 1, Of: someone{p.name}}, Type: "number",
			Payload: append(fmt.Appendf(nil, "%08d", n), filler...), Patient: true,
		}
		for {
			s := p.Session(peer)
			v := s.Tell(m)
			if v == session.Wait {
				<-s.Room()
				continue
			}
			if v != session.Sent {
				t.Errorf("%s: verdict %d for message %d", p.name, v, n)
				return
			}
			break
		}
	}
}

// ask asks an actor of a peer and waits for the answer.
func (p *party) ask(t testing.TB, peer, actor, text string) string {
	t.Helper()
	q := &asking{text}
	m := &session.Message{To: session.NewName(actor), Type: "number", Payload: []byte(text)}
	if v := p.Session(peer).Ask(m, q, time.Minute); v != session.Sent {
		t.Fatalf("verdict %d", v)
	}
	p.await(t, "an answer", func() bool { return p.answered[q] != "" })
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered[q]
}

// inOrder waits until a party has n messages of an actor, and checks their order.
func (p *party) inOrder(t testing.TB, actor string, n int) {
	t.Helper()
	p.await(t, fmt.Sprintf("%d messages", n), func() bool { return len(p.got[actor]) >= n })
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, got := range p.got[actor] {
		if got != i {
			t.Fatalf("%s: message %d came as the %dth", p.name, got, i)
		}
	}
	if len(p.got[actor]) != n {
		t.Errorf("%s: %d messages, want %d", p.name, len(p.got[actor]), n)
	}
}

// authority issues the certificates of tests.
type authority struct {
	*nodecert.Authority
	roots *x509.CertPool
}

func newAuthority(t testing.TB, cluster string) *authority {
	t.Helper()
	a, root, err := nodecert.NewAuthority(cluster, time.Now(), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(root.Certificate)
	return &authority{a, roots}
}

func (a *authority) tls(t testing.TB, node string) *TLS {
	t.Helper()
	pair, err := a.Issue(node, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return &TLS{certificate, a.roots}
}

// pipes is a network of net.Pipe.
type pipes struct {
	mu        sync.Mutex
	listeners map[string]*pipeListener
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (n *pipes) listen(addr string) *pipeListener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*pipeListener{}
	}
	l := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

func (n *pipes) dial(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("nobody listens on %s", addr)
	}
	mine, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return mine, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
