package transport

import (
	"net"
	"slices"
	"sync"
)

// gate holds the accepted connections that are in their handshake, MaxHandshakes at most. It
// is safe for concurrent use.
type gate struct {
	mu      sync.Mutex
	entered []*entrant // the oldest first
}

// entrant is a connection in its handshake.
type entrant struct {
	conn   net.Conn
	proved bool // it is a node's; guarded by the gate's mutex
}

// enter lets a connection in. Where there is no room it returns the connection to be closed:
// the oldest that has not proved itself, so that silent ones shut nobody out, or the new one
// itself, with a nil entrant, if all have.
func (g *gate) enter(conn net.Conn) (e *entrant, over net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.entered) >= MaxHandshakes {
		i := slices.IndexFunc(g.entered, func(e *entrant) bool { return !e.proved })
		if i < 0 {
			return nil, conn
		}
		over = g.entered[i].conn
		g.entered = slices.Delete(g.entered, i, i+1)
	}
	e = &entrant{conn: conn}
	g.entered = append(g.entered, e)
	return e, over
}

// prove says that a connection is a node's. It is false for one that had to make room.
func (g *gate) prove(e *entrant) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	e.proved = slices.Contains(g.entered, e)
	return e.proved
}

// leave ends the handshake of a connection.
func (g *gate) leave(e *entrant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.entered, e); i >= 0 {
		g.entered = slices.Delete(g.entered, i, i+1)
	}
}
