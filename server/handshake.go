package server

import (
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"time"
)

// handshakes has the TLS handshakes of strangers take turns: what one costs to compute, others pay
// for who have connected already. A few are computed at a time, the rest waits.
type handshakes struct {
	turns chan struct{} // one for each that is computed
}

// handshakePatience is how long a connection waits for its turn: less than headerTimeout, after which
// nobody would take the answer.
const handshakePatience = 4 * time.Second

var errHandshakes = errors.New("too many connections are being made")

func newHandshakes() *handshakes {
	return &handshakes{turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
}

// listener returns a listener whose connections can take turns.
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

// turnConn is a connection below TLS. It has its turn from when the client has said what it wants
// until the server begins to answer, which is when the costly part has been computed; then it is the
// client that is waited for. Who has to say it again (HelloRetryRequest) gets another turn for the signature.
type turnConn struct {
	net.Conn
	handshakes *handshakes
	has        atomic.Bool
}

// NetConn returns the connection below.
func (c *turnConn) NetConn() net.Conn { return c.Conn }

// take waits for the turn, unless the connection has it.
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

// give ends the turn, if there is one.
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

// Close ends the turn of a connection that has got no answer.
func (c *turnConn) Close() error {
	c.give()
	return c.Conn.Close()
}
