package mqtt

import (
	"strconv"
	"strings"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// OnPublish handles a message of a client. For QoS 0 and 1 it returns ErrRejectPacket, which stops
// mochi from doing anything else: the message is acknowledged and forwarded after its commit, by
// the connection's own queue, and meanwhile the connection is read. With any other error mochi
// would acknowledge and forward the message.
func (h *hook) OnPublish(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	b := h.broker
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk, packets.ErrRejectPacket
	}
	b.received[pk.FixedHeader.Qos].Add(1)
	pk.TopicName = strings.TrimPrefix(pk.TopicName, reserved)
	to, refused := b.routeOf(pk.TopicName)
	if refused != nil {
		b.answer(c, &pk, refused)
		return pk, packets.ErrRejectPacket
	}
	if err := to.allows(b, c.who); err != nil {
		v := refusal.Judge(err)
		b.answer(c, &pk, &v)
		return pk, packets.ErrRejectPacket
	}
	pk.Origin = cl.ID
	if pk.FixedHeader.Qos == 2 {
		return b.takeExactlyOnce(c, pk, &to)
	}
	b.take(c, &pk, &to)
	return pk, packets.ErrRejectPacket
}

// clears reports whether a message only clears the retained one.
func clears(pk *packets.Packet) bool { return pk.FixedHeader.Retain && len(pk.Payload) == 0 }

// take passes a QoS 0 or 1 message to its route.
func (b *Broker) take(c *conn, pk *packets.Packet, to *route) {
	d := &delivery{conn: c, topic: pk.TopicName, packetID: c.idOf(pk), qos: pk.FixedHeader.Qos, excerpt: b.shownOf(pk), bytes: len(pk.Payload)}
	from := sendingOf(c, pk)
	if to.prepare(pk) && b.wanted(pk) {
		d.keep(pk)
	}
	c.acks.push(d)
	if to.layout == nil && from.clears {
		d.settle(nil)
	} else if err := to.receive(c, pk, from, d.committed, d.settle); err != nil {
		d.settle(err)
	}
}

// takeExactlyOnce is like take for QoS 2: it waits for the commit and forwards the message, after
// which mochi continues with PUBREC. Senders of QoS 2 do not expect speed.
//
// It also waits when the broker stops: the message counts as in flight until its PUBREC is written
// or its connection has ended, so that a client does not send it again, with another time, after it
// was stored.
func (b *Broker) takeExactlyOnce(c *conn, pk packets.Packet, to *route) (packets.Packet, error) {
	if !c.outbox.reserve(pk.PacketID) {
		b.answer(c, &pk, &refusal.Verdict{
			Cause: refusal.CauseSession, Code: packets.ErrQuotaExceeded.Code, Retry: c.client.Properties.ProtocolVersion < 5,
			Detail: "too many messages of QoS 2 wait for their PUBREL, or too much waits for all clients; end some with PUBREL",
		})
		return pk, packets.ErrRejectPacket
	}
	c.beginExactly()
	from := sendingOf(c, &pk)
	shared := to.prepare(&pk)
	if to.layout != nil || !from.clears {
		if err := to.wait(c, &pk, from); err != nil {
			v := refusal.Judge(err)
			b.answer(c, &pk, &v)
			c.endExactly()
			c.outbox.unreserve(pk.PacketID)
			return pk, packets.ErrRejectPacket
		}
	}
	if shared {
		b.forward(&pk)
	}
	pk.FixedHeader.Retain = false // forward has retained it
	return pk, packets.CodeSuccessIgnore
}

// sending identifies a message together with its payload, so that a retransmission is recognized.
// Only a message with DUP can be one, because clients reuse packet ids.
type sending struct {
	by            string // the name of the principal
	client, topic string
	packetID      uint16 // 0 if it cannot be sent again
	dup           bool
	will          bool // the message is a will
	clears        bool // it clears the retained message
}

// sendingOf must be called before the retain flag is changed.
func sendingOf(c *conn, pk *packets.Packet) sending {
	if pk.FixedHeader.Qos == 0 {
		return sending{by: c.who.Name(), clears: clears(pk)}
	}
	return sending{by: c.who.Name(), clears: clears(pk), client: c.client.ID, topic: pk.TopicName, packetID: c.idOf(pk), dup: pk.FixedHeader.Dup}
}

func (s *sending) once(payload []byte) entity.Once {
	if s.packetID == 0 {
		return entity.Once{By: s.by}
	}
	return entity.Once{By: s.by, Token: entity.TokenOf("mqtt", s.client, strconv.Itoa(int(s.packetID)), s.topic, string(payload)), Fresh: !s.dup}
}

// wait is like receive, but waits for the commit, and then sends subscribers the readings that a
// layout has derived from the message.
func (r *route) wait(c *conn, pk *packets.Packet, from sending) error {
	var made readings
	settled := make(chan error, 1)
	err := r.receive(c, pk, from, func(id string, payload []byte) { made.add(telemetryOf(id, payload, c.client.ID)) },
		func(err error) { settled <- err })
	if err != nil {
		return err
	}
	err = <-settled
	for _, reading := range made.take() {
		c.broker.forward(reading)
	}
	return err
}

// answer refuses a message: for QoS 0 and 1 in the order of the connection's acknowledgements, for
// QoS 2 at once.
func (b *Broker) answer(c *conn, pk *packets.Packet, v *refusal.Verdict) {
	if pk.FixedHeader.Qos < 2 {
		d := &delivery{conn: c, topic: pk.TopicName, packetID: c.idOf(pk), qos: pk.FixedHeader.Qos, excerpt: b.shownOf(pk)}
		c.acks.push(d)
		d.refuse(v)
		return
	}
	b.refusals.AddMessage(refusal.MQTT, v.Cause, pk.TopicName, c.client.ID, v.Detail, b.shownOf(pk))
	if v.Retry {
		b.hangUp(c.client, goodbye(v))
		return
	}
	// An error means that the connection is ending.
	_ = c.client.WritePacket(negative(packets.Pubrec, pk.PacketID, v))
}

// shownOf returns what may be kept of a refused message, to help people to write a template for it.
// It returns nil for topics of a convention, whose messages may contain secrets and need no
// template.
func (b *Broker) shownOf(pk *packets.Packet) []byte {
	if strings.HasPrefix(pk.TopicName, topicPrefix) || b.fixedLayoutOf(pk.TopicName) != nil {
		return nil
	}
	return pk.Payload
}

// negative returns an acknowledgement that refuses a message. For MQTT 3.1.1 it is encoded as an
// ordinary one.
func negative(kind byte, packetID uint16, v *refusal.Verdict) packets.Packet {
	return packets.Packet{
		FixedHeader: packets.FixedHeader{Type: kind},
		PacketID:    packetID,
		ReasonCode:  v.Code,
		Properties:  packets.Properties{ReasonString: text.Shorten(v.Detail, 1024)},
	}
}

// goodbye returns the reason code and text for ending a connection with a verdict.
func goodbye(v *refusal.Verdict) packets.Code {
	return packets.Code{Code: v.Code, Reason: text.Shorten(v.Detail, 1024)}
}
