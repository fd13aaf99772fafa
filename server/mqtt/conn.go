package mqtt

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"golang.org/x/time/rate"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// writeTimeout bounds each write to a client. Who does not take bytes for so
// long is put out: mochi holds a lock while it writes, and a reconnecting client
// or a shutdown would wait for it.
const writeTimeout = 5 * time.Second

// connectTimeout is how long a new connection may take to say CONNECT.
const connectTimeout = 10 * time.Second

// conn is an MQTT connection. mochi reads and writes it as a net.Conn.
type conn struct {
	net.Conn
	broker    *Broker
	client    *mochi.Client     // set on CONNECT, before the first message
	who       *access.Principal // set on CONNECT, before client
	newcomer  bool              // it has no credentials and may only ask for some; set on CONNECT, before client
	user      string            // the user name, set on CONNECT
	leave     func()            // ends the watch over who; of the goroutine that reads, nil before CONNECT
	acks      ackQueue
	buf       bytes.Buffer // of the goroutine that drains acks
	flow      flow
	outbox    outbox
	receiving receiving
	speaking  speaking
	will      *will              // of the goroutine that reads; nil: none
	greeting  *share.Item[*conn] // of listener.greeting; guarded by listener.mu
	hello     hello              // of the goroutine that reads
	reads     atomic.Uint64      // odd while the goroutine that reads waits for the client
	closing   sync.Once
	gone      chan struct{} // closed by Close
	// disconnected says that OnDisconnect was called; of the goroutine that reads.
	disconnected bool
	changes      bool          // what was read may change the session; counted in broker.changing; of the goroutine that reads
	revived      *savedSession // what it was before a restart, where its client has not come back since; not changed

	layouts  []string          // filters of layouts that are to be acknowledged; of the goroutine that reads
	present  []string          // topics whose present documents are wanted; of the goroutine that reads
	retained []retained        // what a subscription is sent when it is acknowledged; of the goroutine that reads
	ownID    uint16            // the packet id that the client gave to what is being read; of the goroutine that reads
	standIns map[uint16]uint16 // by packet ids of exchanges of QoS 2, see renumber; of the goroutine that reads
	filters  *rate.Limiter     // of the goroutine that reads; nil until the first SUBSCRIBE, and of a principal that has a pace
	exactly  atomic.Bool       // a QoS 2 message waits for its PUBREC; counted in broker.flight
}

// beginExactly and endExactly bracket a QoS 2 message until its PUBREC is written.
// endExactly may be called more often than needed.
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
	// An error here shows again at the first read.
	_ = nc.SetReadDeadline(time.Now().Add(connectTimeout))
	return c
}

// SetDeadline is how mochi sets the keepalive, on each packet it reads. It must
// not lengthen a write.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// Read is how mochi reads.
func (c *conn) Read(p []byte) (int, error) {
	c.reads.Add(1)
	n, err := c.Conn.Read(p)
	c.reads.Add(1)
	if !c.hello.take(p[:n]) {
		c.broker.refusals.Add(refusal.MQTT, refusal.CausePacketSize, "", addressOf(c.RemoteAddr()).String(),
			fmt.Sprintf("a CONNECT of more than %d bytes", maxConnectBytes))
		return 0, packets.ErrPacketTooLarge
	}
	return n, err
}

// maxConnectBytes bounds a CONNECT: what one needs for a will, and as much again. mochi
// makes room for a whole packet when it has read how long it is, and who has not logged in is to cost little.
const maxConnectBytes = 128 << 10

// hello is the length of the first packet of a connection as far as it has come.
type hello struct {
	bytes  uint8 // of its fixed header, which have come
	known  bool
	length uint32
}

// take looks at the next bytes, and reports whether the first packet may go on.
func (h *hello) take(p []byte) bool {
	for _, b := range p {
		if h.known {
			break
		}
		if h.bytes > 0 { // MQTT 5, 1.5.5: seven bits a byte, the least significant ones first
			h.length |= uint32(b&0x7f) << (7 * (h.bytes - 1))
			h.known = b < 0x80 || h.bytes == 4
		}
		h.bytes++
	}
	return h.length <= maxConnectBytes
}

// Write takes whole packets and writes those that the client can take now. mochi
// calls it under the client's lock.
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

// write writes within writeTimeout or closes the connection: after half of a
// packet there is nothing sensible to write.
func (c *conn) write(p []byte) (n int, err error) {
	if err = c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err == nil {
		n, err = c.Conn.Write(p)
	}
	if err != nil {
		_ = c.Close() // the error of the write says more
	}
	return n, err
}

// Close also lets go of a reader that waits for room among the unanswered
// messages, or for its turn to subscribe: nobody will be answered any more.
func (c *conn) Close() error {
	c.closing.Do(func() { close(c.gone) })
	c.acks.close()
	c.flow.close()
	c.outbox.close()
	c.receiving.end()
	c.speaking.end(c.broker)
	return c.Conn.Close()
}
