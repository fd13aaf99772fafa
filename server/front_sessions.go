package server

import (
	"context"
	"net"
)

// linkActors is what the sessions of package remote speak between nodes (ALPN).
const linkActors = "greenroom-actors"

// Sessions returns what connects the actor systems of the nodes by their links: a listener of what
// others dial, and what dials the link of another one. Both ends of a connection know the secret. A
// later call replaces the listener.
func (f *Front) Sessions() (net.Listener, func(ctx context.Context, link string) (net.Conn, error)) {
	next := newHanded(f.linkLn.Addr())
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sessions != nil {
		_ = f.sessions.Close() // it returns nil
	}
	if f.sessions = next; f.running.Err() != nil {
		_ = next.Close() // it returns nil
	}
	return next, func(ctx context.Context, link string) (net.Conn, error) { return f.dial(ctx, link, linkActors) }
}

// takeSession takes a connection of the actor system of another node.
func (f *Front) takeSession(conn net.Conn) {
	f.mu.Lock()
	sessions := f.sessions
	f.mu.Unlock()
	if sessions == nil || !sessions.hand(conn) {
		_ = conn.Close() // nobody is here for it
	}
}
