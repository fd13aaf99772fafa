package server

import (
	"bytes"
	"context"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
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
	broker *broker
	client *mqtt.Client // set on CONNECT, before the first message
	relay  *mqtt.Client // stands for the client where its messages are forwarded; made when needed
	acks   ackQueue
	buf    bytes.Buffer // of the goroutine that drains acks
	flow   flow

	present []string    // topics whose present documents are wanted; of the goroutine that reads
	ownID   uint16      // the packet id of what is being read, where it has a stand-in; of the goroutine that reads
	exactly atomic.Bool // a QoS 2 message waits for its PUBREC; counted in broker.flight
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

func newConn(nc net.Conn, b *broker) *conn {
	c := &conn{Conn: nc, broker: b}
	c.acks.conn = c
	c.acks.room.L = &c.acks.mu
	c.flow.conn = c
	// An error here shows again at the first read.
	_ = nc.SetReadDeadline(time.Now().Add(connectTimeout))
	return c
}

// SetDeadline is how mochi sets the keepalive, on each packet it reads. It must
// not lengthen a write.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

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
// messages: nobody will be answered any more.
func (c *conn) Close() error {
	c.acks.close()
	c.flow.close()
	return c.Conn.Close()
}

// avoidCollision gives a packet of the client a stand-in for its packet id when a
// message to the client has the same one in flight. The two sides number
// independently (MQTT 5, 2.2.1), but mochi keeps both in one map: it would refuse the
// SUBSCRIBE and forget the message for the PUBLISH. With QoS 2 the id has to outlive
// the packet, and mochi's way remains.
func (c *conn) avoidCollision(pk *packets.Packet) {
	c.ownID = 0
	inflight := c.client.State.Inflight
	if _, taken := inflight.Get(pk.PacketID); !taken {
		return
	}
	for id := uint16(math.MaxUint16); id > 0; id-- {
		if _, taken := inflight.Get(id); !taken {
			c.ownID, pk.PacketID = pk.PacketID, id
			return
		}
	}
}

// idOf is the packet id that the client gave a packet.
func (c *conn) idOf(pk *packets.Packet) uint16 {
	if c.ownID != 0 && pk.FixedHeader.Qos < 2 {
		return c.ownID
	}
	return pk.PacketID
}

// delivery is a message between its PUBLISH and its answer.
type delivery struct {
	conn     *conn
	topic    string
	packetID uint16
	qos      byte            // 0: no answer
	forward  *packets.Packet // nil: nobody wants it
	settled  bool            // guarded by the queue's mu; what follows is set before it
	verdict  *verdict        // nil: committed
}

// settle is the runtime's answer. It does not block.
func (d *delivery) settle(err error) {
	if err != nil {
		d.refuse(judge(err))
		return
	}
	d.conn.acks.settle(d)
}

func (d *delivery) refuse(v verdict) {
	d.conn.broker.refusals.add(sourceMQTT, v.cause, d.topic, v.detail)
	d.verdict = &v
	d.conn.acks.settle(d)
}

// ackQueue holds the messages of a connection that are not answered, in the order
// in which they came, which is the order in which MQTT wants the answers
// (MQTT-4.6.0-2).
//
// The naive design, to write the PUBACK in the runtime's callback, would let a
// client that does not read its socket hold up the commits of all. So the
// callback only marks the delivery; a goroutine that lives while there is
// something to write takes what is settled from the front and writes the
// acknowledgements of a whole batch with one call. An idle connection has no
// goroutine for it.
//
// The queue is bounded by MaxInFlight: push, on the goroutine that reads the
// connection, waits for room, which is the back-pressure on a client that sends
// and does not read.
type ackQueue struct {
	conn *conn

	mu       sync.Mutex
	room     sync.Cond // on mu: size went below MaxInFlight, or closed
	queue    []*delivery
	size     int  // of queue and of what is being written
	draining bool // there is a goroutine
	closed   bool // the connection is; nobody waits for room
}

// push adds a delivery, waiting for room.
func (q *ackQueue) push(d *delivery) {
	q.conn.broker.flight.add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= MaxInFlight && !q.closed {
		q.room.Wait()
	}
	q.size++
	q.queue = append(q.queue, d)
}

func (q *ackQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Signal()
}

// settle marks a delivery as settled and sees to it that someone writes. Each
// delivery is settled once.
func (q *ackQueue) settle(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.settled = true
	if q.queue[0].settled && !q.draining {
		q.draining = true
		go q.drain()
	}
}

// drain answers what is settled until there is nothing more.
func (q *ackQueue) drain() {
	var batch []*delivery
	for {
		batch = q.takeSettled(batch[:0])
		if len(batch) == 0 {
			return
		}
		q.conn.answer(batch)
		n := len(batch)
		clear(batch)
		q.mu.Lock()
		q.size -= n
		q.room.Signal() // only the connection's reader waits
		q.mu.Unlock()
		q.conn.broker.flight.add(-n)
	}
}

// takeSettled moves the settled ones from the front of the queue to batch; with
// none, the caller is no longer draining.
func (q *ackQueue) takeSettled(batch []*delivery) []*delivery {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.queue) && q.queue[n].settled {
		n++
	}
	batch = append(batch, q.queue[:n]...)
	rest := copy(q.queue, q.queue[n:])
	clear(q.queue[rest:])
	q.queue = q.queue[:rest]
	q.draining = n > 0
	return batch
}

// answer writes the acknowledgements of a batch and forwards its messages. Only
// one goroutine at a time calls it.
func (c *conn) answer(batch []*delivery) {
	c.buf.Reset()
	acks, hangUp := 0, (*verdict)(nil)
	for _, d := range batch {
		if d.verdict != nil && d.verdict.again {
			hangUp = d.verdict // what comes after is not acknowledged either
			break
		}
		if d.qos > 0 {
			c.encodeAck(d)
			acks++
		}
	}
	if acks > 0 {
		c.writeAcks(acks)
	}
	for _, d := range batch {
		if d.forward != nil && d.verdict == nil {
			c.broker.forward(c.relayClient(), d.forward)
		}
	}
	if hangUp != nil {
		c.broker.hangUp(c.client, hangUp.code)
	}
}

func (c *conn) encodeAck(d *delivery) {
	if d.verdict == nil || c.client.Properties.ProtocolVersion < 5 {
		c.buf.Write([]byte{packets.Puback << 4, 2, byte(d.packetID >> 8), byte(d.packetID)})
		return
	}
	props := &c.client.Properties.Props
	pk := negative(packets.Puback, d.packetID, *d.verdict)
	pk.ProtocolVersion = 5
	pk.Mods.MaxSize = props.MaximumPacketSize // beyond it the text is left out
	pk.Mods.DisallowProblemInfo = props.RequestProblemInfoFlag && props.RequestProblemInfo == 0
	_ = pk.PubackEncode(&c.buf) // it has no error to return
}

// writeAcks writes buf past mochi's WritePacket, which would make a call to the
// kernel for each acknowledgement, but under its lock and between its packets.
func (c *conn) writeAcks(acks int) {
	c.client.Lock()
	n, err := c.write(c.buf.Bytes())
	c.client.Unlock()
	info := c.broker.server.Info
	atomic.AddInt64(&info.BytesSent, int64(n))
	if err == nil {
		atomic.AddInt64(&info.PacketsSent, int64(acks))
	}
}

// relayClient is the client in whose name messages are forwarded: without a
// connection, so that mochi does not answer, but with the id of the publisher, so
// that a subscription with "no local" works.
func (c *conn) relayClient() *mqtt.Client {
	if c.relay == nil {
		c.relay = c.broker.server.NewClient(nil, mqtt.LocalListener, c.client.ID, true)
		c.relay.Properties.ProtocolVersion = c.client.Properties.ProtocolVersion
	}
	return c.relay
}

// flight counts the deliveries of all connections, so that a shutdown can wait
// until the last one is answered.
type flight struct {
	n       atomic.Int64
	waiting atomic.Bool
	zero    chan struct{} // with room for one: n became 0 while someone waits
}

func (f *flight) add(n int) {
	if f.n.Add(int64(n)) == 0 && f.waiting.Load() {
		select {
		case f.zero <- struct{}{}:
		default:
		}
	}
}

// wait returns when all is answered or ctx ends.
func (f *flight) wait(ctx context.Context) {
	f.waiting.Store(true)
	for f.n.Load() > 0 {
		select {
		case <-f.zero:
		case <-ctx.Done():
			return
		}
	}
}
