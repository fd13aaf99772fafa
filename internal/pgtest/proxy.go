package pgtest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy passes connections on to a server, and can cut them. Make it with NewProxy.
type Proxy struct {
	ln     net.Listener
	socket string

	// After so many bytes to the server, or from it, all connections are cut.
	// Negative for never.
	ToServer, FromServer atomic.Int64
	// Silent has connections stay open that would be cut: nothing of that direction passes any more, for good, and
	// nobody is told, as when a host has lost its power.
	Silent atomic.Bool

	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	wg    sync.WaitGroup
}

// NewProxy starts a proxy to the server of a database, which ends with the test.
func NewProxy(tb testing.TB, direct string) *Proxy {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{ln: ln, socket: socketIn(u.Query().Get("host"))}
	p.Heal()
	p.wg.Go(p.serve)
	tb.Cleanup(func() {
		_ = ln.Close() // which ends serve
		p.cut()
		p.wg.Wait()
	})
	return p
}

// URL returns the URL of a database by way of the proxy.
func (p *Proxy) URL(tb testing.TB, direct string) string {
	tb.Helper()
	u, err := url.Parse(direct)
	if err != nil {
		tb.Fatal(err)
	}
	u.Host, u.RawQuery = p.ln.Addr().String(), "sslmode=disable"
	return u.String()
}

// Heal lets everything pass again.
func (p *Proxy) Heal() {
	p.Silent.Store(false)
	p.ToServer.Store(-1)
	p.FromServer.Store(-1)
}

func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close() // the other half may have been faster
	}
	p.conns = nil
}

func (p *Proxy) serve() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.socket) //nolint:noctx // a socket of this machine is there, or not
		if err != nil {
			_ = client.Close() // as if nobody listened
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client, &p.ToServer) })
		p.wg.Go(func() { p.pass(client, server, &p.FromServer) })
	}
}

// pass copies bytes until one side ends or the allowance does.
func (p *Proxy) pass(to io.WriteCloser, from io.ReadCloser, left *atomic.Int64) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for silent := false; ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if silent {
			continue
		}
		some, cut := buf[:n], false
		if allowed := left.Load(); allowed >= 0 {
			some = buf[:min(int64(n), allowed)]
			cut = int64(n) >= allowed
			left.Store(max(0, allowed-int64(n)))
		}
		if _, err := to.Write(some); err != nil {
			return
		}
		if silent = cut && p.Silent.Load(); cut && !silent {
			p.cut()
			return
		}
	}
}
