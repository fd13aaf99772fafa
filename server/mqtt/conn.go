package mqtt

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"golang.org/x/time/rate"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/access"
)

// writeTimeout bounds each write to a client. The connection of a client that takes longer is
// closed: mochi holds a lock while it writes, and a reconnecting client or a shutdown would wait
// for it.
const writeTimeout = 5 * time.Second

// connectTimeout bounds the time until a new connection has sent CONNECT.
const connectTimeout = 10 * time.Second

// conn is an MQTT connection. mochi uses it as a net.Conn.
type conn struct {
	net.Conn
	broker    *Broker
	client    *mochi.Client     // set on CONNECT, before the first message
	who       *access.Principal // set on CONNECT, before client
	newcomer  bool              // it may only request credentials; set on CONNECT, before client
	user      string            // the user name, set on CONNECT
	number    int64             // of broker.begun, set on CONNECT
	former    *conn             // whose session it takes over, until it has; owned by the reading goroutine
	leave     func()            // unregisters from who; owned by the reading goroutine, nil before CONNECT
	acks      ackQueue
	buf       bytes.Buffer // owned by the goroutine that drains acks
	flow      flow
	outbox    outbox
	receiving receiving
	speaking  speaking
	will      *will              // nil: none; owned by the reading goroutine
	greeting  *share.Item[*conn] // of listener.greeting; guarded by listener.mu
	receipt   receipt            // owned by the reading goroutine
	readBy    time.Time          // the read deadline, zero for none; owned by the reading goroutine
	reads     atomic.Uint64      // odd while the reading goroutine waits for the client
	closing   sync.Once
	gone      chan struct{} // closed by Close
	// disconnected is set by OnDisconnect; owned by the reading goroutine.
	disconnected bool
	changes      bool          // the packet read last may change the session; counted in broker.changing; owned by the reading goroutine
	revived      *savedSession // the session before a restart, if its client has not returned since; immutable

	layouts  []string          // filters of layouts that are not yet acknowledged; owned by the reading goroutine
	present  []string          // topics whose current documents are to be sent; owned by the reading goroutine
	retained []retained        // to be sent when a subscription is acknowledged; owned by the reading goroutine
	ownID    uint16            // the client's packet id in the packet read last; owned by the reading goroutine
	standIns map[uint16]uint16 // by packet ids of QoS 2 exchanges, see renumber; owned by the reading goroutine
	filters  *rate.Limiter     // nil before the first SUBSCRIBE, and if the principal has a pace; owned by the reading goroutine
	exactly  atomic.Bool       // a QoS 2 message waits for its PUBREC; counted in broker.flight
}

// beginExactly and endExactly bracket the time until the PUBREC of a QoS 2 message is written.
// Redundant calls of endExactly have no effect.
func (c *conn) beginExactly() {
	if !c.exactly.Swap(true) {
		c.broker.flight.add(1)
	}
}

func (c *conn) endExactly() {
	if c.exactly.Swap(false) {
		c.broker.flight.add(-1)
	}
}

func newConn(nc net.Conn, b *Broker) *conn {
	c := &conn{Conn: nc, broker: b, gone: make(chan struct{})}
	c.acks.conn = c
	c.acks.room.L = &c.acks.mu
	c.flow.conn = c
	c.outbox.conn, c.outbox.charged = c, map[uint16]int64{}
	// An error will recur at the first read.
	_ = nc.SetReadDeadline(time.Now().Add(connectTimeout))
	return c
}

// SetDeadline is called by mochi for the keepalive, with each packet that it reads. It must not
// extend a write deadline.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy = t
	return c.Conn.SetReadDeadline(t)
}

// Write receives whole packets, and writes those that the client can accept now. mochi calls it
// under the client's lock.
func (c *conn) Write(p []byte) (int, error) {
	now, err := c.flow.admit(p)
	if err == nil && len(now) > 0 {
		_, err = c.write(now)
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// write writes p within writeTimeout, or closes the connection: after part of a packet nothing
// useful can follow.
func (c *conn) write(p []byte) (n int, err error) {
	if err = c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		_ = c.Close() // the error of the write says more
	}
	return n, err
}

// Close also releases the reader if it waits for room among the unacknowledged messages, or for its
// turn to subscribe.
func (c *conn) Close() error {
	c.closing.Do(func() { close(c.gone) })
	c.acks.close()
	c.flow.close()
	c.outbox.close()
	c.receiving.end()
	c.speaking.end(c.broker)
	return c.Conn.Close()
}
