package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/remote/internal/session"
)

// networks are the ways in which nodes can be connected: each must pass the suite. They
// return how a node listens, and how its address is found.
var networks = map[string]func(t *testing.T) *network{
	"tcp": func(t *testing.T) *network { return tcp(t, func(string) Config { return Config{} }) },
	"secret": func(t *testing.T) *network {
		return tcp(t, func(string) Config { return Config{Secret: "correct horse battery"} })
	},
	"certificates": func(t *testing.T) *network {
		a := newAuthority(t, "test")
		return tcp(t, func(node string) Config { return Config{TLS: a.tls(t, node)} })
	},
	"both": func(t *testing.T) *network {
		a := newAuthority(t, "test")
		return tcp(t, func(node string) Config { return Config{TLS: a.tls(t, node), Secret: "correct horse battery"} })
	},
	"pipe": func(*testing.T) *network { return piped() },
}

func piped() *network {
	var p pipes
	return newNetwork(func(node string) Config { return Config{Listener: p.listen(node)} }, p.dial,
		func(p *party) string { return p.name })
}

// network connects parties, and can cut their connections.
type network struct {
	config  func(node string) Config
	dial    func(ctx context.Context, addr string) (net.Conn, error)
	addr    func(p *party) string
	session session.Config

	mu    sync.Mutex
	addrs map[string]string
	conns []net.Conn
	apart bool
}

func newNetwork(config func(string) Config, dial func(context.Context, string) (net.Conn, error), addr func(*party) string) *network {
	return &network{config: config, dial: dial, addr: addr, addrs: map[string]string{}}
}

func tcp(t *testing.T, config func(node string) Config) *network {
	t.Helper()
	return newNetwork(func(node string) Config {
		c := config(node)
		c.Addr = "127.0.0.1:0"
		return c
	}, func(ctx context.Context, addr string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}, func(p *party) string { return p.Addr().String() })
}

func (n *network) connect(ctx context.Context, addr string) (net.Conn, error) {
	n.mu.Lock()
	apart := n.apart
	n.mu.Unlock()
	if apart {
		return nil, errors.New("the nodes are apart")
	}
	conn, err := n.dial(ctx, addr)
	if err == nil {
		n.mu.Lock()
		n.conns = append(n.conns, conn)
		n.mu.Unlock()
	}
	return conn, err
}

// cut closes all connections; apart also lets none be made until it is called with false.
func (n *network) cut(apart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns, n.apart = nil, apart
}

// start starts a node. dials are the peers that it dials.
func (n *network) start(t *testing.T, name string, inc uint32, dials ...string) *party {
	t.Helper()
	p := newParty(name)
	c := n.config(name)
	c.Dial = n.connect
	c.Resolve = func(peer string) (string, bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		addr, ok := n.addrs[peer]
		if !slices.Contains(dials, peer) {
			return "", false
		}
		return addr, ok
	}
	start(t, p, inc, c, n.session)
	n.mu.Lock()
	n.addrs[name] = n.addr(p)
	n.mu.Unlock()
	return p
}

// everywhere runs a test over all networks.
func everywhere(t *testing.T, test func(t *testing.T, n *network)) {
	for name, open := range networks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func openedOnce(t *testing.T, parties ...*party) {
	t.Helper()
	for _, p := range parties {
		p.mu.Lock()
		if p.opened != 1 {
			t.Errorf("%s has opened %d sessions, want 1", p.name, p.opened)
		}
		p.mu.Unlock()
	}
}

func TestMessagesArriveInOrderBothWays(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := n.start(t, "a", 1), n.start(t, "b", 2, "a")
		const messages = 3000
		b.send(t, "a", "a~1/x", 0, messages)
		a.inOrder(t, "a~1/x", messages)
		a.send(t, "b", "b~2/y", 0, messages)
		b.inOrder(t, "b~2/y", messages)
		if got := b.ask(t, "a", "a~1/z", "00000000 what"); got != "00000000 what" {
			t.Errorf("the answer is %q", got)
		}
		openedOnce(t, a, b)
	})
}

func TestWhatACutConnectionHeldIsSentAgain(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := n.start(t, "a", 1, "b"), n.start(t, "b", 2, "a")
		const messages, cuts = 20_000, 5
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.send(t, "a", "a~1/x", 0, messages)
		}()
		for i := range cuts {
			at := messages * (i + 1) / (cuts + 2)
			a.await(t, "a part of the messages", func() bool { return len(a.got["a~1/x"]) >= at })
			a.send(t, "b", "b~2/y", i, i+1)
			n.cut(false)
		}
		<-done
		a.inOrder(t, "a~1/x", messages)
		b.inOrder(t, "b~2/y", cuts)
		if st := b.Session("a").Stats(); st.Reconnects == 0 {
			t.Error("the connection was never made again")
		}
	})
}

func TestNodesThatDialEachOtherHaveOneSession(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := n.start(t, "a", 1, "b"), n.start(t, "b", 2, "a")
		var both sync.WaitGroup
		both.Go(func() { a.send(t, "b", "b~2/y", 0, 500) })
		both.Go(func() { b.send(t, "a", "a~1/x", 0, 500) })
		both.Wait()
		a.inOrder(t, "a~1/x", 500)
		b.inOrder(t, "b~2/y", 500)
		openedOnce(t, a, b)
	})
}

func TestANodeThatLeavesLosesNothing(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := n.start(t, "a", 1), n.start(t, "b", 2, "a")
		const messages = 5000
		b.send(t, "a", "a~1/x", 0, messages)
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.mu.Lock()
		if got := len(a.got["a~1/x"]); got != messages {
			t.Errorf("after Close %d of %d messages have arrived", got, messages)
		}
		a.mu.Unlock()
		l := b.lost(t)
		if !errors.Is(l.Err, session.ErrClosed) || l.Sent != messages || l.Dropped+l.Unknown != 0 {
			t.Errorf("the leaver's loss: %v, %d sent, %d dropped, %d unknown", l.Err, l.Sent, l.Dropped, l.Unknown)
		}
		if l := a.lost(t); !errors.Is(l.Err, session.ErrLeft) {
			t.Errorf("the other's loss: %v", l.Err)
		}
		if v := b.Session("a").Tell(&session.Message{To: session.NewName("x"), Type: "t"}); v != session.Gone {
			t.Errorf("a closed transport takes a message: %d", v)
		}
	})
}

func TestAReaderThatWaitsMakesSendersWait(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := newParty("a"), n.start(t, "b", 2)
		a.hold = make(chan struct{})
		c := n.config("a")
		c.Dial = n.connect
		c.Resolve = func(string) (string, bool) { return n.addr(b), true }
		start(t, a, 1, c, n.session)
		a.Session("b")
		b.await(t, "a connection", func() bool { return b.opened > 0 })
		m := &session.Message{To: session.NewName("a~1/x"), Type: "number", Payload: make([]byte, 10_000), Patient: true}
		copy(m.Payload, "00000000")
		sent := 0
		s := b.Session("a")
		var v session.Verdict
		for v = s.Tell(m); v == session.Sent; v = s.Tell(m) {
			sent++
			if sent > 100_000 {
				t.Fatal("there is always room")
			}
		}
		if v != session.Wait {
			t.Errorf("verdict %d, want Wait", v)
		}
		close(a.hold)
		<-s.Room()
		a.await(t, "all messages", func() bool { return len(a.got["a~1/x"]) == sent })
	})
}
