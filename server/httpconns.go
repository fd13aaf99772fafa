package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/access"
)

// httpConns holds the HTTP connections, whose number is bounded. At the limit, a new one displaces
// the connection that has been idle longest, so that unused connections keep nobody out. If all are
// in use, it displaces a stranger's, on which nobody has logged in: the oldest one of the address
// with most of them. If somebody has logged in on each, it waits.
//
// Connections from a proxy are treated as if each had its own address, because they carry many
// clients.
//
// A [Front] bounds its connections with others as well. Those of MQTT and of its link are never idle.
//
// A connection is idle if it has sent nothing yet, or is between two requests. A shutdown of
// net/http waits five seconds for the former to be used; close ends both.
type httpConns struct {
	limit       int
	proxies     proxies       // set before the first connection
	knownWithin time.Duration // see recognizedLater; set before the first connection

	mu      sync.Mutex
	left    sync.Cond                  // on mu: a connection was closed or became idle, or the listener was closed
	open    int                        // guarded by mu; accepted and not closed
	resting map[net.Conn]*list.Element // guarded by mu; elements of oldest
	oldest  list.List                  // guarded by mu; of net.Conn, longest idle first
	unknown share.Pool[*limitedConn]   // guarded by mu; strangers' connections
	closed  bool                       // guarded by mu; idle connections are closed
}

func newHTTPConns(limit int) *httpConns {
	c := &httpConns{limit: limit, knownWithin: knownWithin, resting: make(map[net.Conn]*list.Element)}
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

// forget removes a connection from the idle ones. The caller holds mu.
func (c *httpConns) forget(conn net.Conn) {
	if e := c.resting[conn]; e != nil {
		c.oldest.Remove(e)
		delete(c.resting, conn)
	}
}

// close closes idle connections, and those that become idle later.
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

// hangUp closes a connection abruptly, because closing TLS might block.
func hangUp(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close() // its owner finds it closed
}

// listener returns a listener that keeps to the limit. It must be served with note as ConnState.
func (c *httpConns) listener(ln net.Listener) net.Listener {
	return &limitedListener{Listener: ln, conns: c}
}

type limitedListener struct {
	net.Listener
	conns  *httpConns
	closed bool // guarded by conns.mu
}

// Accept waits for the next connection, and for room for it.
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

// Close also ends a wait for room.
func (l *limitedListener) Close() error {
	l.conns.mu.Lock()
	l.closed = true
	l.conns.left.Broadcast()
	l.conns.mu.Unlock()
	return l.Listener.Close()
}

// enter waits for room for a connection, or displaces another. It reports false if the listener was
// closed meanwhile.
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
		hangUp(old) // which calls leave
		c.mu.Lock()
	}
	c.open++
	next.stranger = c.unknown.Add(c.ownerOf(next), next)
	return true
}

// dispensable removes the connection to displace and returns it, or nil if there is none. The
// caller holds mu.
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

// ownerOf returns the key by which a stranger's connections are counted.
func (c *httpConns) ownerOf(conn net.Conn) string {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || c.proxies.has(from.Addr()) {
		return conn.RemoteAddr().String()
	}
	return access.AddressKey(from.Addr())
}

// recognize removes a connection from those of strangers. The caller holds mu.
func (c *httpConns) recognize(conn *limitedConn) {
	if conn.stranger != nil {
		c.unknown.Remove(conn.stranger)
		conn.stranger = nil
	}
}

// count returns the number of connections.
func (c *httpConns) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// leave removes a connection.
func (c *httpConns) leave(conn *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recognize(conn)
	c.open--
	c.left.Signal()
}

// limitedConn is a connection that counts towards the limit until it is closed.
type limitedConn struct {
	net.Conn
	conns    *httpConns
	stranger *share.Item[*limitedConn] // guarded by conns.mu; nil if somebody has logged in
	closing  sync.Once
}

// Close gives the place back.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.closing.Do(func() { c.conns.leave(c) })
	return err
}

// below returns the connection that was accepted.
func below(conn net.Conn) net.Conn {
	if c, ok := conn.(*limitedConn); ok {
		return c.Conn
	}
	return conn
}

// pass gives the place of a connection back that continues to be open: it counts elsewhere.
func pass(conn net.Conn) {
	if c, ok := conn.(*limitedConn); ok {
		c.closing.Do(func() { c.conns.leave(c) })
	}
}

// connKey is the context key of a request's *limitedConn.
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

// knownKey is the context key of the header of an answer to another node, which is told that the caller has
// logged in.
type knownKey struct{}

// recognized records that the caller of a request has logged in.
func recognized(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
		c.conns.recognizeNow(c)
	}
}

func (c *httpConns) recognizeNow(conn *limitedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recognize(conn)
}

// recognizedLater records that somebody has logged in on a connection that is still open after knownWithin.
func recognizedLater(conn net.Conn) (stop func()) {
	c, ok := conn.(*limitedConn)
	if !ok {
		return func() {}
	}
	timer := time.AfterFunc(c.conns.knownWithin, func() { c.conns.recognizeNow(c) })
	return func() { timer.Stop() }
}
