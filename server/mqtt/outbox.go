package mqtt

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Defaults of Limits.
const (
	DefaultSessionBytes = 16 << 20
	DefaultQueueBytes   = 256 << 20
	DefaultSessions     = 10_000
)

// Limits bounds the memory of the broker for subscribers and sessions. The zero value means the
// defaults.
type Limits struct {
	// SessionBytes bounds the messages that wait for one subscriber, connected or not:
	// unacknowledged ones, and ones not yet written. Beyond it the subscriber loses messages. A QoS
	// 1 or 2 message counts twice, because it is kept until it is acknowledged even while it is
	// being sent. The default is DefaultSessionBytes.
	SessionBytes int64

	// QueueBytes bounds the messages that wait for all subscribers together, messages to be
	// forwarded after their commit, and wills. Beyond it subscribers lose messages and clients with
	// a will are refused, except for the first 8 KiB of each. Readings are still committed. The
	// default is DefaultQueueBytes.
	QueueBytes int64

	// Sessions bounds the sessions of disconnected clients. For a new one, the session of a client
	// that has been away longest is discarded. The default is DefaultSessions.
	Sessions int

	// FilterBytes bounds the memory for the subscriptions of all sessions together, except for the
	// first 16 KiB of each. A principal may use as much of it as it leaves for others; beyond that,
	// its subscriptions are refused. The default is DefaultFilterBytes.
	FilterBytes int64
}

func (l Limits) withDefaults() Limits {
	if l.SessionBytes <= 0 {
		l.SessionBytes = DefaultSessionBytes
	}
	if l.QueueBytes <= 0 {
		l.QueueBytes = DefaultQueueBytes
	}
	if l.Sessions <= 0 {
		l.Sessions = DefaultSessions
	}
	if l.FilterBytes <= 0 {
		l.FilterBytes = DefaultFilterBytes
	}
	return l
}

// sessionReserve is what each session may use beyond QueueBytes. A client with little waiting
// therefore never loses a message, is never refused a QoS 2 message, and can always connect with a
// will, however much is waiting for others.
const sessionReserve = 8 << 10

// budget is a shared number of bytes.
type budget struct {
	used atomic.Int64
	max  int64
}

// take takes n bytes. If fewer are left it takes none and reports false, unless they are reserved.
func (b *budget) take(n int64, reserved bool) bool {
	if b.used.Add(n) <= b.max || reserved {
		return true
	}
	b.used.Add(-n)
	return false
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// packetOverhead is the approximate memory of a message without its texts.
const packetOverhead = 700

// sizeOf returns the approximate memory of a message.
func sizeOf(pk *packets.Packet) int64 {
	p := &pk.Properties
	n := packetOverhead + len(pk.TopicName) + len(pk.Payload) + len(p.CorrelationData) + len(p.ContentType) + len(p.ResponseTopic)
	return int64(n) + sizeOfUser(p.User)
}

func sizeOfUser(list []packets.UserProperty) int64 {
	n := 0
	for i := range list {
		n += 32 + len(list[i].Key) + len(list[i].Val)
	}
	return int64(n)
}

// outbox holds the messages that wait for a subscriber: a queue of those not yet written, and, by
// packet id, the bytes charged for QoS 1 and 2 messages until they are acknowledged. mochi's own
// queue is bounded by a count, and copies each message for each subscriber; here all share one
// payload.
//
// A goroutine, which lives while the queue is not empty, writes it. For a client that is away, only
// the messages in flight are kept.
type outbox struct {
	conn *conn

	mu       sync.Mutex
	queue    []outgoing
	charged  map[uint16]int64           // bytes, by packet id
	receipts map[uint16]*layout.Receipt // called when the message is settled, by packet id; nil if there is none
	lastID   uint16
	begun    uint16 // the packet id that the client is beginning to use
	bytes    int64  // charged for queue and charged
	draining bool   // the drain goroutine is running
	closed   bool   // the connection is closed
	ended    bool   // the session has ended, or has another connection: nothing is accepted any more

	// While another connection takes over the session, mochi copies the messages in flight. Those
	// that come later wait in moving, and then go to the heir.
	handing bool
	moving  []packets.Packet
	heir    *outbox
}

// outgoing is a message that is not written yet. Its receipt may be nil.
type outgoing struct {
	packet  packets.Packet
	receipt *layout.Receipt
}

// put queues a message for a client, and assigns its packet id. It reports false if there is no
// room; then the subscriber has lost it.
//
// A message with a receipt is for this connection only: it is not kept for the session's next one.
// Its Settled is called once, when the message is acknowledged, or with an error when it will not
// be; a QoS 0 message counts as acknowledged once it is written.
func (o *outbox) put(cl *mochi.Client, pk packets.Packet, receipt *layout.Receipt) bool {
	b := o.conn.broker
	size := sizeOf(&pk)
	o.mu.Lock()
	if heir := o.heir; heir != nil && receipt == nil && pk.FixedHeader.Qos > 0 {
		o.mu.Unlock()
		return heir.put(heir.conn.client, pk, nil)
	}
	defer o.mu.Unlock()
	if receipt != nil && (o.ended || o.closed) {
		return false
	}
	if o.handing && receipt == nil && pk.FixedHeader.Qos > 0 {
		return o.keep(pk, cl.State.Inflight.Len())
	}
	if o.ended || o.closed && pk.FixedHeader.Qos == 0 {
		return true // there is no subscriber, or it is away and the message is not kept
	}
	if pk.FixedHeader.Qos == 0 {
		if len(o.queue) >= forwardQueue || !o.charge(size) {
			atomic.AddInt64(&b.server.Info.MessagesDropped, 1)
			return false
		}
		o.push(outgoing{pk, receipt})
		return true
	}
	if cl.State.Inflight.Len() >= forwardQueue || !o.charge(2*size) {
		atomic.AddInt64(&b.server.Info.InflightDropped, 1)
		return false
	}
	pk.PacketID = o.nextID(cl)
	pk.FixedHeader.Remaining = int(b.published.Add(1)) // the order of publication, see OnQosPublish
	o.charged[pk.PacketID] += 2 * size                 // an id that mochi dropped silently is still charged
	if receipt != nil {
		if o.receipts == nil {
			o.receipts = map[uint16]*layout.Receipt{}
		}
		o.receipts[pk.PacketID] = receipt
	}
	if fresh := cl.State.Inflight.Set(pk); fresh {
		atomic.AddInt64(&b.server.Info.Inflight, 1)
	}
	if !o.closed {
		o.push(outgoing{pk, receipt})
	}
	return true
}

// keep keeps a message for the connection that is taking over the session with so many messages in
// flight. It reports false if there is no room. The caller holds mu.
func (o *outbox) keep(pk packets.Packet, inFlight int) bool {
	b := o.conn.broker
	if inFlight+len(o.moving) >= forwardQueue || !o.charge(2*sizeOf(&pk)) {
		atomic.AddInt64(&b.server.Info.InflightDropped, 1)
		return false
	}
	pk.FixedHeader.Remaining = int(b.published.Add(1)) // the order of publication, see OnQosPublish
	o.moving = append(o.moving, pk)
	return true
}

// reserve charges for a QoS 2 exchange that a client begins. It lasts until its PUBREL, even while
// the client is away. It reports false if there is no room.
func (o *outbox) reserve(id uint16) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.charge(packetOverhead) {
		return false
	}
	o.charged[id] += packetOverhead
	return true
}

// firstID is the first packet id for messages to clients: mochi keeps the ids of both sides in one
// map, and clients count from 1.
const firstID = 1 << 15

// nextID returns a free packet id. mochi's own method waits for writers to the client, so that a
// slow client would block the publisher. The caller holds mu, and has checked that there are free
// ids.
func (o *outbox) nextID(cl *mochi.Client) uint16 {
	for {
		o.lastID = max(o.lastID+1, firstID)
		if _, taken := cl.State.Inflight.Get(o.lastID); !taken && o.lastID != 0 && o.lastID != o.begun {
			return o.lastID
		}
	}
}

// charge charges n bytes. The caller holds mu.
func (o *outbox) charge(n int64) bool {
	b := o.conn.broker
	if o.bytes+n > b.limits.SessionBytes || !b.queued.take(n, o.bytes+n <= sessionReserve) {
		return false
	}
	o.bytes += n
	return true
}

// discharge returns n bytes. The caller holds mu.
func (o *outbox) discharge(n int64) {
	o.bytes -= n
	o.conn.broker.queued.give(n)
}

// push queues a message that has been charged. The caller holds mu.
func (o *outbox) push(m outgoing) {
	o.queue = append(o.queue, m)
	if !o.draining {
		o.draining = true
		go o.drain()
	}
}

// drain writes the queue until it is empty. It leaves out what is no longer wanted: a client that
// does not read may keep messages waiting for long.
func (o *outbox) drain() {
	for {
		m, ok := o.next()
		if !ok {
			return
		}
		wanted, err := isWanted(m.receipt), layout.ErrGone
		if wanted && o.conn.client.WritePacket(m.packet) == nil { // an error means that the connection is ending
			err = nil
		}
		switch {
		case m.packet.FixedHeader.Qos == 0:
			o.mu.Lock()
			o.discharge(sizeOf(&m.packet))
			o.mu.Unlock()
			if m.receipt != nil {
				m.receipt.Settled(err)
			}
		case !wanted:
			o.conn.flow.forget(m.packet.PacketID)
			o.conn.flow.withdraw(m.packet.PacketID, err)
		}
	}
}

func (o *outbox) next() (m outgoing, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue, o.draining = nil, false // release the memory after a burst
		return m, false
	}
	m = o.queue[0]
	o.queue[0] = outgoing{}
	o.queue = o.queue[1:]
	return m, true
}

// forget removes a message that has expired, or whose session has ended. It must not stay in the
// queue once it is discharged.
func (o *outbox) forget(id uint16) {
	o.mu.Lock()
	o.queue = slices.DeleteFunc(o.queue, func(m outgoing) bool {
		return m.packet.FixedHeader.Qos > 0 && m.packet.PacketID == id
	})
	settled := o.giveBack(id)
	o.mu.Unlock()
	if settled != nil {
		settled(errDropped)
	}
}

// errDropped is passed to settled if a message was dropped although the connection is open.
var errDropped = errors.New("the client has not acknowledged the message for a day, or has refused it")

// isClosed reports whether the connection has ended.
func (o *outbox) isClosed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed || o.ended
}

// release discharges a message in flight that is settled; a nil err means that it was acknowledged.
func (o *outbox) release(id uint16, err error) {
	o.mu.Lock()
	settled := o.giveBack(id)
	o.mu.Unlock()
	if settled != nil {
		settled(err)
	}
}

// unreserve reverts reserve.
func (o *outbox) unreserve(id uint16) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, ok := o.charged[id]; ok {
		delete(o.charged, id)
		o.discharge(n)
	}
}

// giveBack discharges a message in flight. It returns its settled function, or nil. The caller
// holds mu.
func (o *outbox) giveBack(id uint16) (settled func(error)) {
	if n, ok := o.charged[id]; ok {
		delete(o.charged, id)
		o.discharge(n)
	}
	if receipt := o.receipts[id]; receipt != nil {
		settled = receipt.Settled
		delete(o.receipts, id)
	}
	return settled
}

// wanted reports whether a message in flight is still to be sent.
func (o *outbox) wanted(id uint16) bool {
	o.mu.Lock()
	receipt := o.receipts[id]
	o.mu.Unlock()
	return isWanted(receipt)
}

// isWanted reports whether a message is still to be sent. The caller does not hold mu.
func isWanted(receipt *layout.Receipt) bool {
	return receipt == nil || receipt.Wanted == nil || receipt.Wanted()
}

// inherit charges for messages that were in flight before the connection, beyond any limit: the
// previous connection was charged, and has been discharged.
func (o *outbox) inherit(cl *mochi.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pk := range cl.State.Inflight.GetAll(false) {
		if _, ok := o.charged[pk.PacketID]; ok {
			continue
		}
		n := int64(packetOverhead) // for an exchange that the client has begun
		if pk.FixedHeader.Type == packets.Publish {
			n = 2 * sizeOf(&pk)
		}
		o.charged[pk.PacketID] = n
		o.bytes += n
		o.conn.broker.queued.used.Add(n)
	}
}

// close drops the queue. mochi keeps the messages in flight, except those for this connection only.
func (o *outbox) close() {
	for _, settled := range o.closeQueue() {
		settled(layout.ErrGone)
	}
}

func (o *outbox) closeQueue() (waiting []func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for i := range o.queue {
		if m := &o.queue[i]; m.packet.FixedHeader.Qos == 0 {
			o.discharge(sizeOf(&m.packet))
			if m.receipt != nil {
				waiting = append(waiting, m.receipt.Settled)
			}
		}
	}
	o.queue = nil
	for id := range o.receipts {
		if o.conn.client.State.Inflight.Delete(id) {
			atomic.AddInt64(&o.conn.broker.server.Info.Inflight, -1)
		}
		waiting = append(waiting, o.giveBack(id))
	}
	return waiting
}

// end discharges the messages in flight, and accepts no more.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for id, n := range o.charged {
		delete(o.charged, id)
		o.discharge(n)
	}
}

// handOver begins to keep messages for the connection that takes over the session.
func (o *outbox) handOver() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handing = !o.ended
}

// handTo ends that: it returns the messages that were kept, and sends later ones to the heir.
func (o *outbox) handTo(heir *outbox) (moving []packets.Packet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	moving = o.moving
	for i := range moving {
		o.discharge(2 * sizeOf(&moving[i]))
	}
	o.moving = nil
	if o.handing {
		o.handing, o.heir = false, heir
	}
	return moving
}

// adopt takes messages that were published for the session while this connection took it over,
// beyond any limit as inherit does. It is called before mochi sends the messages in flight again, these
// included.
func (o *outbox) adopt(cl *mochi.Client, list []packets.Packet) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, pk := range list {
		n := 2 * sizeOf(&pk)
		pk.PacketID = o.nextID(cl)
		o.charged[pk.PacketID] = n
		o.bytes += n
		o.conn.broker.queued.used.Add(n)
		if fresh := cl.State.Inflight.Set(pk); fresh {
			atomic.AddInt64(&o.conn.broker.server.Info.Inflight, 1)
		}
	}
}

// stamp sets the times of a message's publication and expiry.
func stamp(pk *packets.Packet) {
	pk.Created = time.Now().Unix()
	pk.Expiry = pk.Created + sessionSeconds
	if interval := int64(pk.Properties.MessageExpiryInterval); interval > 0 {
		pk.Expiry = pk.Created + min(interval, sessionSeconds)
	}
}

// publish publishes a message of the server's own.
func (b *Broker) publish(topic string, payload []byte, qos byte) {
	b.forward(&packets.Packet{FixedHeader: packets.FixedHeader{Qos: qos}, TopicName: topic, Payload: payload})
}

// forward sends a committed message to the subscribers of its topic, and retains it if requested.
// Origin is its publisher, for subscriptions with No Local. The message must not be changed
// afterwards.
func (b *Broker) forward(pk *packets.Packet) {
	message := *pk
	message.FixedHeader = packets.FixedHeader{Type: packets.Publish, Qos: pk.FixedHeader.Qos, Retain: pk.FixedHeader.Retain}
	message.PacketID = 0
	message.Properties.TopicAlias, message.Properties.TopicAliasFlag = 0, false
	message.Properties.SubscriptionIdentifier = nil
	stamp(&message)
	if message.FixedHeader.Retain {
		kept := message
		if !clears(pk) && !b.mayRetain(pk) { // the previous one is out of date, and not retained any more either
			kept.Payload, message.FixedHeader.Retain = nil, false
			b.refusals.Add(refusal.MQTT, refusal.CauseRetain, pk.TopicName, pk.Origin, "too many or too large retained messages; what they say is kept, new subscribers do not get them")
		}
		b.prolong(&kept)
		b.retain(kept, time.Now().UnixMilli())
	}
	b.deliver(message, b.recipients(message.TopicName))
}

// recipients are the subscribers of a topic at one moment.
type recipients struct {
	*mochi.Subscribers
	begun int64 // how many connections had begun
}

func (b *Broker) recipients(topic string) recipients {
	r := recipients{begun: b.begun.Load()}
	r.Subscribers = b.server.Topics.Subscribers(topic)
	b.leaveOut(r.Subscribers, topic)
	b.leaveDevices(r.Subscribers, topic)
	if len(r.Shared) > 0 {
		r.SelectShared()
		r.MergeSharedSelected()
	}
	return r
}

// deliver sends a message to the recipients, except for those that have meanwhile begun a new
// session, which has not the subscription.
func (b *Broker) deliver(message packets.Packet, to recipients) {
	for id, sub := range to.Subscriptions {
		cl, ok := b.server.Clients.Get(id)
		if !ok || sub.NoLocal && message.Origin == cl.ID {
			continue
		}
		if c, ok := cl.Net.Conn.(*conn); ok && c.number > to.begun && cl.Properties.Clean {
			continue
		}
		b.send(cl, &sub, message)
	}
}

// send sends a message to one subscriber, according to its subscription.
func (b *Broker) send(cl *mochi.Client, sub *packets.Subscription, pk packets.Packet) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return
	}
	b.sendAs(c, sub, pk, pk.FixedHeader.Retain && cl.Properties.ProtocolVersion == 5 && sub.RetainAsPublished)
}

func (b *Broker) sendAs(c *conn, sub *packets.Subscription, pk packets.Packet, retain bool) {
	if !c.outbox.put(c.client, as(sub, pk, retain), nil) {
		b.refusals.Add(refusal.MQTT, refusal.CauseForward, pk.TopicName, c.client.ID,
			"a subscriber is too far behind, or too much waits for all subscribers, and it has lost the message, which is stored; /v1/stream loses none")
	}
}

// as returns a message in the form for a subscription.
func as(sub *packets.Subscription, pk packets.Packet, retain bool) packets.Packet {
	pk.FixedHeader.Qos = min(pk.FixedHeader.Qos, sub.Qos)
	pk.FixedHeader.Retain = retain
	for _, id := range sub.Identifiers {
		pk.Properties.SubscriptionIdentifier = append(pk.Properties.SubscriptionIdentifier, id)
	}
	return pk
}
