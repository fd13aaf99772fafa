package mqtt

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/refusal"
)

// delivery is a message between its PUBLISH and its answer.
type delivery struct {
	conn     *conn
	topic    string
	packetID uint16
	qos      byte             // 0: no answer
	forward  *packets.Packet  // nil: nobody wants it; charged to the budget
	readings readings         // what a layout has made of it, for subscribers
	excerpt  []byte           // of what is kept if it is refused
	bytes    int              // of the payload
	settled  bool             // guarded by the queue's mu; what follows is set before it
	verdict  *refusal.Verdict // nil: committed
}

// keep keeps a message until it can be forwarded. Where too much waits already, its
// subscribers lose it.
func (d *delivery) keep(pk *packets.Packet) {
	if !d.charge(pk) {
		return
	}
	forwarded := *pk
	d.forward = &forwarded
}

// charge takes what a message occupies from the budget.
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

// committed keeps readings that a layout has made of the message until it is answered.
func (d *delivery) committed(id string, payload []byte) {
	b := d.conn.broker
	if !b.Subscribed() {
		return
	}
	if pk := telemetryOf(id, payload, d.conn.client.ID); d.charge(pk) {
		d.readings.add(pk)
	}
}

// settle is the runtime's answer. It does not block.
func (d *delivery) settle(err error) {
	if err != nil {
		v := refusal.Judge(err)
		d.refuse(&v)
		return
	}
	d.excerpt = nil // it may wait for those before it, and the budget does not have it
	d.conn.acks.settle(d)
}

func (d *delivery) refuse(v *refusal.Verdict) {
	d.conn.broker.refusals.AddMessage(refusal.MQTT, v.Cause, d.topic, d.conn.client.ID, v.Detail, d.excerpt)
	d.excerpt, d.verdict = nil, v
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
// The queue is bounded by MaxInFlight and MaxInFlightBytes: push, on the goroutine that
// reads the connection, waits for room, which is the back-pressure on a client that sends
// faster than the disk writes, or does not read.
type ackQueue struct {
	conn *conn

	mu       sync.Mutex
	room     sync.Cond // on mu: size or bytes went down, or closed
	queue    []*delivery
	size     int  // of queue and of what is being written
	bytes    int  // of the payloads of these
	draining bool // there is a goroutine
	closed   bool // the connection is; nobody waits for room
}

// len returns how many messages are not answered.
func (q *ackQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}

// push adds a delivery, waiting for room.
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
	acks, hangUp := 0, (*refusal.Verdict)(nil)
	for _, d := range batch {
		if d.verdict != nil && d.verdict.Retry {
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
