package server

import (
	"net"
	"net/http"
	"sync"
)

// unusedConns are the HTTP connections that nothing was sent on yet: browsers and HTTP
// clients open some ahead of time. A shutdown of net/http waits five seconds for them to
// be used; this closes them, as it closes idle ones.
type unusedConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// note is the server's ConnState.
func (u *unusedConns) note(conn net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, conn)
	case u.closed:
		_ = conn.Close() // nobody waits for anything on it
	default:
		if u.conns == nil {
			u.conns = make(map[net.Conn]struct{})
		}
		u.conns[conn] = struct{}{}
	}
}

// close closes those that there are, and those that come.
func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for conn := range u.conns {
		_ = conn.Close() // likewise
	}
}
