package mqtt

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/refusal"
)

// delivery is a message between its PUBLISH and its acknowledgement.
type delivery struct {
	conn     *conn
	topic    string
	packetID uint16
	qos      byte             // 0: not acknowledged
	forward  *packets.Packet  // nil: no subscriber; charged to the budget
	readings readings         // that a layout has derived from it, for subscribers
	excerpt  []byte           // the beginning to keep if it is refused
	bytes    int              // of the payload
	settled  bool             // guarded by the queue's mu; the fields below are set before it
	verdict  *refusal.Verdict // nil: committed
}

// keep keeps a message until it can be forwarded. If too much is waiting already, its subscribers
// lose it.
func (d *delivery) keep(pk *packets.Packet) {
	if !d.charge(pk) {
		return
	}
	forwarded := *pk
	d.forward = &forwarded
}

// charge charges the budget for a message.
func (d *delivery) charge(pk *packets.Packet) bool {
	b := d.conn.broker
	size := sizeOf(pk)
	if b.queued.take(size, size*int64(d.conn.acks.len()+1) <= sessionReserve) {
		return true
	}
	atomic.AddInt64(&b.server.Info.MessagesDropped, 1)
	b.refusals.Add(refusal.MQTT, refusal.CauseForward, d.topic, pk.Origin, "too much waits for the subscribers of all topics, and those of this one have lost the message, which is stored; /v1/stream loses none")
	return false
}

// committed keeps readings that a layout has derived from the message until it is acknowledged.
func (d *delivery) committed(id string, payload []byte) {
	b := d.conn.broker
	if !b.Subscribed() {
		return
	}
	if pk := telemetryOf(id, payload, d.conn.client.ID); d.charge(pk) {
		d.readings.add(pk)
	}
}

// settle receives the result from the runtime. It does not block.
func (d *delivery) settle(err error) {
	if err != nil {
		v := refusal.Judge(err)
		d.refuse(&v)
		return
	}
	d.excerpt = nil // it may wait for earlier messages, and is not charged to the budget
	d.conn.acks.settle(d)
}

func (d *delivery) refuse(v *refusal.Verdict) {
	d.conn.broker.refusals.AddMessage(refusal.MQTT, v.Cause, d.topic, d.conn.client.ID, v.Detail, d.excerpt)
	d.excerpt, d.verdict = nil, v
	d.conn.acks.settle(d)
}

// ackQueue holds the unacknowledged messages of a connection, in the order of their arrival, which
// is the order that MQTT requires for the acknowledgements (MQTT-4.6.0-2).
//
// The naive design, writing the PUBACK in the runtime's callback, would let a client that does not
// read its socket block everybody's commits. Instead the callback only marks the delivery. A
// goroutine, which lives while there is something to write, takes settled deliveries from the front
// and writes the acknowledgements of a whole batch with one call. An idle connection has no such
// goroutine.
//
// The queue is bounded by MaxInFlight and MaxInFlightBytes: push, called by the goroutine that
// reads the connection, waits for room. This is the back-pressure on a client that sends faster
// than the disk writes, or does not read.
type ackQueue struct {
	conn *conn

	mu       sync.Mutex
	room     sync.Cond // on mu: size or bytes decreased, or closed was set
	queue    []*delivery
	size     int  // of queue and of the batch being written
	bytes    int  // of their payloads
	draining bool // the drain goroutine is running
	closed   bool // the connection is closed; nobody waits for room
}

// len returns the number of unacknowledged messages.
func (q *ackQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// push adds a delivery. It waits for room.
func (q *ackQueue) push(d *delivery) {
	q.conn.broker.flight.add(1)
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.size >= MaxInFlight || q.size > 0 && q.bytes+d.bytes > MaxInFlightBytes) && !q.closed {
		q.room.Wait()
	}
	q.size++
	q.bytes += d.bytes
	q.queue = append(q.queue, d)
}

func (q *ackQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.room.Signal()
}

// settle marks a delivery as settled, and starts drain if needed. It must be called once for each
// delivery.
func (q *ackQueue) settle(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	d.settled = true
	if q.queue[0].settled && !q.draining {
		q.draining = true
		go q.drain()
	}
}

// drain acknowledges settled deliveries until there are none.
func (q *ackQueue) drain() {
	var batch []*delivery
	for {
		batch = q.takeSettled(batch[:0])
		if len(batch) == 0 {
			return
		}
		q.conn.answer(batch)
		n, bytes := len(batch), 0
		for _, d := range batch {
			bytes += d.bytes
		}
		clear(batch)
		q.mu.Lock()
		q.size -= n
		q.bytes -= bytes
		q.room.Signal() // only the connection's reader waits
		q.mu.Unlock()
		q.conn.broker.flight.add(-n)
	}
}

// takeSettled moves the settled deliveries at the front of the queue to batch. If there are none,
// it marks drain as finished.
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

// answer writes the acknowledgements of a batch and forwards its messages. It must not be called
// concurrently.
func (c *conn) answer(batch []*delivery) {
	c.buf.Reset()
	acks, hangUp := 0, (*refusal.Verdict)(nil)
	for _, d := range batch {
		if d.verdict != nil && d.verdict.Retry {
			hangUp = d.verdict // later ones are not acknowledged either
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
		for _, pk := range d.readings.take() {
			c.broker.forward(pk)
			c.broker.queued.give(sizeOf(pk))
		}
		if d.forward == nil {
			continue
		}
		if d.verdict == nil {
			c.broker.forward(d.forward)
		}
		c.broker.queued.give(sizeOf(d.forward))
	}
	if hangUp != nil {
		c.broker.hangUp(c.client, goodbye(hangUp))
	}
}

func (c *conn) encodeAck(d *delivery) {
	if d.verdict == nil || c.client.Properties.ProtocolVersion < 5 {
		c.buf.Write([]byte{packets.Puback << 4, 2, byte(d.packetID >> 8), byte(d.packetID)})
		return
	}
	props := &c.client.Properties.Props
	pk := negative(packets.Puback, d.packetID, d.verdict)
	pk.ProtocolVersion = 5
	pk.Mods.MaxSize = props.MaximumPacketSize // beyond it the text is omitted
	pk.Mods.DisallowProblemInfo = props.RequestProblemInfoFlag && props.RequestProblemInfo == 0
	_ = pk.PubackEncode(&c.buf) // it returns no error
}

// writeAcks writes buf without mochi's WritePacket, which would make a system call for each
// acknowledgement, but holding its lock, so that packets do not mix.
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

// flight counts the deliveries of all connections, so that a shutdown can wait until all are
// acknowledged.
type flight struct {
	n       atomic.Int64
	waiting atomic.Bool
	zero    chan struct{} // with capacity 1: n became 0 while wait was running
}

func (f *flight) add(n int) {
	if f.n.Add(int64(n)) == 0 && f.waiting.Load() {
		select {
		case f.zero <- struct{}{}:
		default:
		}
	}
}

// wait returns when all deliveries are acknowledged, or ctx ends.
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
