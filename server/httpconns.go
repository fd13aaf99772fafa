package server

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// httpConns are the HTTP connections. They are bounded: at the limit a new one takes the place of
// the one that has rested for longest, so that connections that nobody uses keep nobody out. Where
// all are in use, it waits.
//
// Those that rest have sent nothing yet, or are idle between two requests. A shutdown of net/http
// waits five seconds for the former to be used; close ends both.
type httpConns struct {
	limit int

	mu      sync.Mutex
	left    sync.Cond                  // of mu: a connection was closed or has begun to rest, or the listener was closed
	open    int                        // guarded by mu; those that were accepted and not closed
	resting map[net.Conn]*list.Element // guarded by mu; of oldest
	oldest  list.List                  // guarded by mu; of net.Conn, the one that rests longest first
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
	if !l.conns.enter(l) {
		_ = nc.Close() // it was not served
		return nil, net.ErrClosed
	}
	return &limitedConn{Conn: nc, leave: sync.OnceFunc(l.conns.leave)}, nil
}

// Close ends a wait for a place, too.
func (l *limitedListener) Close() error {
	l.conns.mu.Lock()
	l.closed = true
	l.conns.left.Broadcast()
	l.conns.mu.Unlock()
	return l.Listener.Close()
}

// enter takes a place, if need be that of the connection that has rested longest. It reports false
// if the listener was closed meanwhile.
func (c *httpConns) enter(l *limitedListener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open >= c.limit {
		switch e := c.oldest.Front(); {
		case l.closed:
			return false
		case e == nil:
			c.left.Wait()
		default:
			conn := e.Value.(net.Conn)
			c.forget(conn)
			c.mu.Unlock()
			hangUp(conn) // which leaves
			c.mu.Lock()
		}
	}
	c.open++
	return true
}

// leave gives a place back.
func (c *httpConns) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	c.left.Signal()
}

// limitedConn gives its place back when it is closed.
type limitedConn struct {
	net.Conn
	leave func() // does something once
}

// Close gives the place back.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
