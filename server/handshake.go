package server

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// handshakes limits concurrent TLS handshakes: each costs CPU time at the expense of clients that
// are already connected. A few proceed at a time, and the others wait.
type handshakes struct {
	turns chan struct{} // a semaphore for the computation
}

// handshakePatience bounds a connection's wait for its turn. It is less than headerTimeout, after
// which the answer would be useless.
const handshakePatience = 4 * time.Second

var errHandshakes = errors.New("too many connections are being made")

func newHandshakes() *handshakes {
	return &handshakes{turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// listener returns a listener whose connections take turns.
func (h *handshakes) listener(ln net.Listener) net.Listener { return &turnListener{ln, h} }

type turnListener struct {
	net.Listener
	handshakes *handshakes
}

// Accept waits for the next connection.
func (l *turnListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &turnConn{Conn: nc, handshakes: l.handshakes}, nil
}

// turnConn is a connection below TLS. It holds its turn from the client's hello until the server
// begins to answer, when the expensive part has been computed; from then on the server waits for
// the client. A client that must repeat its hello (HelloRetryRequest) gets another turn for the
// signature.
type turnConn struct {
	net.Conn
	handshakes *handshakes
	has        atomic.Bool
}

// NetConn returns the underlying connection.
func (c *turnConn) NetConn() net.Conn { return c.Conn }

// take waits for the turn, unless the connection holds it.
func (c *turnConn) take() error {
	if c.has.Load() {
		return nil
	}
	timer := time.NewTimer(handshakePatience)
	defer timer.Stop()
	select {
	case c.handshakes.turns <- struct{}{}:
		c.has.Store(true)
		return nil
	case <-timer.C:
		return errHandshakes
	}
}

// give ends the turn, if the connection holds it.
func (c *turnConn) give() {
	if c.has.Load() && c.has.Swap(false) {
		<-c.handshakes.turns
	}
}

// Write ends the turn.
func (c *turnConn) Write(p []byte) (int, error) {
	c.give()
	return c.Conn.Write(p)
}

// Close ends the turn of a connection that was not answered.
func (c *turnConn) Close() error {
	c.give()
	return c.Conn.Close()
}
