package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/access"
)

// httpConns are the HTTP connections. They are bounded: at the limit a new one takes the place of
// the one that has rested for longest, so that connections that nobody uses keep nobody out. Where
// all are in use, it takes that of a stranger, over whose connection nobody has logged in: the oldest
// of the address that has most of these. Where all are in use by those who are known, it waits.
//
// What comes from a proxy is of as many addresses as there are connections: they are of many clients.
//
// Those that rest have sent nothing yet, or are idle between two requests. A shutdown of net/http
// waits five seconds for the former to be used; close ends both.
type httpConns struct {
	limit   int
	proxies proxies // set before the first connection

	mu      sync.Mutex
	left    sync.Cond                  // of mu: a connection was closed or has begun to rest, or the listener was closed
	open    int                        // guarded by mu; those that were accepted and not closed
	resting map[net.Conn]*list.Element // guarded by mu; of oldest
	oldest  list.List                  // guarded by mu; of net.Conn, the one that rests longest first
	unknown share.Pool[*limitedConn]   // guarded by mu; those of strangers
	closed  bool                       // guarded by mu; nobody waits for anything on those that rest
}

func newHTTPConns(limit int) *httpConns {
	c := &httpConns{limit: limit, resting: make(map[net.Conn]*list.Element)}
	c.left.L = &c.mu
	return c
}

// note is the server's ConnState.
func (c *httpConns) note(conn net.Conn, state http.ConnState) {
	rests := state == http.StateNew || state == http.StateIdle
	c.mu.Lock()
	c.forget(conn)
	ends := rests && c.closed
	if rests && !ends {
		c.resting[conn] = c.oldest.PushBack(conn)
		c.left.Signal()
	}
	c.mu.Unlock()
	if ends {
		hangUp(conn)
	}
}

// forget takes a connection out of those that rest. The caller holds mu.
func (c *httpConns) forget(conn net.Conn) {
	if e := c.resting[conn]; e != nil {
		c.oldest.Remove(e)
		delete(c.resting, conn)
	}
}

// close closes those that rest, and those that will.
func (c *httpConns) close() {
	c.mu.Lock()
	c.closed = true
	var conns []net.Conn
	for conn := range c.resting {
		conns = append(conns, conn)
	}
	c.mu.Unlock()
	for _, conn := range conns {
		hangUp(conn)
	}
}

// hangUp closes a connection without a word: that of TLS might be waited for.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close() // its owner finds it closed
}

// listener returns a listener of which no more connections than the limit are open. It is to be
// served with note as ConnState.
func (c *httpConns) listener(ln net.Listener) net.Listener {
	return &limitedListener{Listener: ln, conns: c}
}

type limitedListener struct {
	net.Listener
	conns  *httpConns
	closed bool // guarded by conns.mu
}

// Accept waits for the next connection, and for a place for it.
func (l *limitedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: nc, conns: l.conns}
	if !l.conns.enter(l, c) {
		_ = nc.Close() // it was not served
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close ends a wait for a place, too.
func (l *limitedListener) Close() error {
	l.conns.mu.Lock()
	l.closed = true
	l.conns.left.Broadcast()
	l.conns.mu.Unlock()
	return l.Listener.Close()
}

// enter takes a place for a connection, if need be that of another. It reports false if the listener
// was closed meanwhile.
func (c *httpConns) enter(l *limitedListener, next *limitedConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit {
		if l.closed {
			return false
		}
		old := c.dispensable()
		if old == nil {
			c.left.Wait()
			continue
		}
		c.mu.Unlock()
		hangUp(old) // which leaves
		c.mu.Lock()
	}
	c.open++
	next.stranger = c.unknown.Add(c.ownerOf(next), next)
	return true
}

// dispensable takes out the connection that is to give way, nil for none. The caller holds mu.
func (c *httpConns) dispensable() net.Conn {
	if e := c.oldest.Front(); e != nil {
		conn := e.Value.(net.Conn) //nolint:forcetypeassert // that is what is in it
		c.forget(conn)
		return conn
	}
	if it := c.unknown.Surplus(); it != nil {
		c.recognize(it.Value)
		return it.Value
	}
	return nil
}

// ownerOf returns by what a stranger is counted.
func (c *httpConns) ownerOf(conn net.Conn) string {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || c.proxies.has(from.Addr()) {
		return conn.RemoteAddr().String()
	}
	return access.AddressKey(from.Addr())
}

// recognize takes a connection out of those of strangers. The caller holds mu.
func (c *httpConns) recognize(conn *limitedConn) {
	if conn.stranger != nil {
		c.unknown.Remove(conn.stranger)
		conn.stranger = nil
	}
}

// leave gives a place back.
func (c *httpConns) leave(conn *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recognize(conn)
	c.open--
	c.left.Signal()
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	conns    *httpConns
	stranger *share.Item[*limitedConn] // guarded by conns.mu; nil: somebody has logged in
	closing  sync.Once
}

// Close gives the place back.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() { c.conns.leave(c) })
	return err
}

// connKey is the key of a request's context with its *limitedConn.
type connKey struct{}

// withConn is the server's ConnContext.
func withConn(ctx context.Context, conn net.Conn) context.Context {
	for {
		switch c := conn.(type) {
		case *limitedConn:
			return context.WithValue(ctx, connKey{}, c)
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return ctx
		}
	}
}

// recognized notes that who makes a request has logged in.
func recognized(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
		c.conns.mu.Lock()
		c.conns.recognize(c)
		c.conns.mu.Unlock()
	}
}
