package server

import (
	"cmp"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// hook is where mochi asks us. Its methods run on the goroutine that reads the
// connection: while one blocks, that connection is not read.
type hook struct {
	mqtt.HookBase
	broker *broker
}

// ID names the hook.
func (h *hook) ID() string { return "greenroom" }

// Provides lists the methods below.
func (h *hook) Provides(b byte) bool {
	switch b {
	case mqtt.OnConnectAuthenticate, mqtt.OnACLCheck, mqtt.OnConnect, mqtt.OnSessionEstablished, mqtt.OnDisconnect,
		mqtt.OnPacketRead, mqtt.OnPacketEncode, mqtt.OnPacketSent, mqtt.OnPublish, mqtt.OnQosPublish, mqtt.OnSubscribed,
		mqtt.OnWill, mqtt.OnWillSent:
		return true
	default:
		return false
	}
}

// OnConnectAuthenticate lets everyone in: only this machine can connect.
func (h *hook) OnConnectAuthenticate(*mqtt.Client, packets.Packet) bool { return true }

// OnACLCheck lets everyone subscribe to everything. What may be published is
// decided in OnPublish, which can say why not.
func (h *hook) OnACLCheck(*mqtt.Client, string, bool) bool { return true }

// OnConnect ties mochi's client to our connection, and takes over from mochi what is
// broken there: the send quota, for which see flow, and topic aliases, which it uses
// also for a message that comes after others were lost, or in a later connection,
// where the client does not know the alias.
func (h *hook) OnConnect(cl *mqtt.Client, _ packets.Packet) error {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.client = cl
		c.flow.begin(cl)
	}
	cl.Properties.Props.ReceiveMaximum = 0 // mochi resets the quota to it when a session is resumed
	cl.State.Inflight.ResetSendQuota(0)
	cl.Properties.Props.TopicAliasMaximum = 0
	if cl.State.Keepalive > maxKeepalive {
		cl.State.Keepalive, cl.State.ServerKeepalive = maxKeepalive, true
	}
	return nil
}

// OnSessionEstablished lifts mochi's receive quota for MQTT 3.1.1, which knows
// no receive maximum: mochi would close the connection of a client that has more
// QoS 2 messages under way than it was never told. And what was in flight may go out.
func (h *hook) OnSessionEstablished(cl *mqtt.Client, _ packets.Packet) {
	if cl.Properties.ProtocolVersion < 5 {
		cl.State.Inflight.ResetReceiveQuota(1 << 16)
	}
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.flow.open()
	}
}

// OnPacketSent ends the wait for a QoS 2 message whose PUBREC is on its way, and
// answers a subscription that was acknowledged with the documents of now.
func (h *hook) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return
	}
	switch pk.FixedHeader.Type {
	case packets.Pubrec:
		c.endExactly()
	case packets.Suback:
		if len(c.present) > 0 {
			h.broker.shadow.sendPresent(c)
		}
	default:
	}
}

// OnDisconnect counts the clients that were put out over a packet's size.
func (h *hook) OnDisconnect(cl *mqtt.Client, err error, _ bool) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.endExactly()
	}
	if errors.Is(err, packets.ErrPacketTooLarge) {
		h.broker.refusals.add(sourceMQTT, causePacketSize, cl.ID,
			"a packet larger than the payload limit; send the readings in smaller arrays")
	}
}

// reserved marks a topic that begins with '$' until OnPublish refuses it. mochi
// drops those without an answer, and a QoS 1 client would wait for it forever.
const reserved = "\x00"

// OnPacketRead sees each packet before mochi acts on it.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk, nil
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		h.forgetStale(cl, &pk)
		if pk.FixedHeader.Qos == 1 {
			c.avoidCollision(&pk)
		}
		if strings.HasPrefix(pk.TopicName, "$") {
			pk.TopicName = reserved + pk.TopicName
		}
	case packets.Subscribe, packets.Unsubscribe:
		c.avoidCollision(&pk)
	default:
		c.flow.acknowledged(&pk)
	}
	return pk, nil
}

// forgetStale ends an unfinished QoS 2 exchange whose packet id a client uses for
// another message: a device that has been restarted resumes its session and counts from
// one again. mochi would answer the new message as if it were the old one, and it would
// never be taken in.
func (h *hook) forgetStale(cl *mqtt.Client, pk *packets.Packet) {
	qos := pk.FixedHeader.Qos
	if qos == 0 || qos == 2 && pk.FixedHeader.Dup {
		return
	}
	in, ok := cl.State.Inflight.Get(pk.PacketID)
	if ok && in.FixedHeader.Type == packets.Pubrec && cl.State.Inflight.Delete(pk.PacketID) {
		cl.State.Inflight.IncreaseReceiveQuota()
		atomic.AddInt64(&h.broker.server.Info.Inflight, -1)
	}
}

// OnPacketEncode tells an MQTT 5 client the limits that mochi keeps to itself, and
// corrects what mochi writes.
func (h *hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	switch pk.FixedHeader.Type {
	case packets.Connack:
		if pk.ReasonCode == packets.CodeSuccess.Code {
			pk.Properties.MaximumPacketSize = maxPacketBytes
			pk.Properties.TopicAliasMaximum = maxTopicAliases
		}
	case packets.Pubrec:
		if pk.ReasonCode == packets.ErrPacketIdentifierInUse.Code {
			pk.ReasonCode = packets.CodeSuccess.Code // a redelivery of what is committed is no failure
		}
	case packets.Publish:
		pk.Mods.MaxSize = 0 // the flow discards what is too large
	case packets.Suback, packets.Unsuback, packets.Puback: // mochi writes them while it handles what is being read
		if c, ok := cl.Net.Conn.(*conn); ok {
			pk.PacketID = cmp.Or(c.ownID, pk.PacketID)
		}
	default:
	}
	return pk
}

// OnPublish takes a message in. For QoS 0 and 1 it returns ErrRejectPacket,
// which tells mochi to do nothing further: the acknowledgement and the
// forwarding come after the commit, from the connection's own queue, and
// meanwhile the connection is read on. Any other error would make mochi
// acknowledge and forward the message, whatever it says.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	if cl.Net.Inline { // one of ours, being forwarded
		return pk, nil
	}
	b := h.broker
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk, packets.ErrRejectPacket
	}
	b.received[pk.FixedHeader.Qos].Add(1)
	pk.TopicName = strings.TrimPrefix(pk.TopicName, reserved)
	id, kind, err := parseTopic(pk.TopicName)
	if err != nil {
		b.answer(c, &pk, judgeTopic(err))
		return pk, packets.ErrRejectPacket
	}
	if pk.FixedHeader.Retain {
		if len(pk.Payload) == 0 { // not a reading: it takes back the retained message
			return pk, nil
		}
		if !b.mayRetain(pk.TopicName, pk.Payload) {
			pk.FixedHeader.Retain = false
			b.refusals.add(sourceMQTT, causeRetain, pk.TopicName, "too many or too large retained messages; what they say is kept, new subscribers do not get them")
		}
	}
	if kind == topicAttributes {
		return b.takeAttributes(c, pk, id)
	}
	readings, err := entity.ParseReadings(pk.Payload, time.Now())
	if err != nil {
		b.answer(c, &pk, judge(err))
		return pk, packets.ErrRejectPacket
	}
	if pk.FixedHeader.Qos == 2 {
		return b.takeExactlyOnce(c, pk, id, readings)
	}
	b.take(c, &pk, id, readings)
	return pk, packets.ErrRejectPacket
}

// takeAttributes merges what a device reports about itself into the entity. It
// waits for the commit, so that patches of one device keep their order.
func (b *broker) takeAttributes(c *conn, pk packets.Packet, id string) (packets.Packet, error) {
	if pk.FixedHeader.Qos == 2 {
		c.beginExactly()
		if err := b.report(id, pk.Payload); err != nil {
			b.answer(c, &pk, judge(err))
			c.endExactly()
			return pk, packets.ErrRejectPacket
		}
		return pk, nil
	}
	d := b.newDelivery(c, &pk)
	c.acks.push(d)
	d.settle(b.report(id, pk.Payload))
	return pk, packets.ErrRejectPacket
}

// report merges into what an entity reports.
func (b *broker) report(id string, patch []byte) error {
	_, err := b.runtime.Edit(b.running, id, entity.Edits{Patches: []entity.Patch{{Section: entity.Reported, Body: patch}}})
	return err
}

// newDelivery makes a delivery of a QoS 0 or QoS 1 message.
func (b *broker) newDelivery(c *conn, pk *packets.Packet) *delivery {
	d := &delivery{conn: c, topic: pk.TopicName, packetID: c.idOf(pk), qos: pk.FixedHeader.Qos}
	if b.wanted(pk) {
		forwarded := *pk
		forwarded.Properties.TopicAlias, forwarded.Properties.TopicAliasFlag = 0, false
		d.forward = &forwarded
	}
	return d
}

// take gives the readings of a QoS 0 or QoS 1 message to the runtime and returns
// when they are in its window.
func (b *broker) take(c *conn, pk *packets.Packet, id string, readings []entity.Reading) {
	d := b.newDelivery(c, pk)
	c.acks.push(d)
	if err := b.runtime.Ingest(b.running, id, readings, len(pk.Payload), d.settle); err != nil {
		d.settle(err)
	}
}

// takeExactlyOnce is take for QoS 2: it waits for the commit, after which mochi
// goes on with PUBREC and the forwarding. Who sends QoS 2 does not ask for speed.
//
// What the window has taken is waited for also when the broker stops: the message
// counts as under way until its PUBREC is written or its connection has ended, so that a
// client does not send again, with a time of its own, what is stored.
func (b *broker) takeExactlyOnce(c *conn, pk packets.Packet, id string, readings []entity.Reading) (packets.Packet, error) {
	c.beginExactly()
	settled := make(chan error, 1)
	err := b.runtime.Ingest(b.running, id, readings, len(pk.Payload), func(err error) { settled <- err })
	if err == nil {
		err = <-settled
	}
	if err != nil {
		b.answer(c, &pk, judge(err))
		c.endExactly()
		return pk, packets.ErrRejectPacket
	}
	return pk, nil
}

// answer refuses a message: QoS 0 and 1 in the order of the connection's
// acknowledgements, QoS 2 at once.
func (b *broker) answer(c *conn, pk *packets.Packet, v verdict) {
	if pk.FixedHeader.Qos < 2 {
		d := &delivery{conn: c, topic: pk.TopicName, packetID: c.idOf(pk), qos: pk.FixedHeader.Qos}
		c.acks.push(d)
		d.refuse(v)
		return
	}
	b.refusals.add(sourceMQTT, v.cause, pk.TopicName, v.detail)
	if v.again {
		b.hangUp(c.client, v.code)
		return
	}
	// The error is that of a connection that is going away.
	_ = c.client.WritePacket(negative(packets.Pubrec, pk.PacketID, v))
}

// negative is an acknowledgement that says no. For MQTT 3.1.1 it encodes to a
// plain one.
func negative(kind byte, packetID uint16, v verdict) packets.Packet {
	return packets.Packet{
		FixedHeader: packets.FixedHeader{Type: kind},
		PacketID:    packetID,
		ReasonCode:  v.code.Code,
		Properties:  packets.Properties{ReasonString: shorten(v.detail, 1024)},
	}
}

// OnWill keeps the retained wills within the limit. The message itself goes its
// way in mochi.
func (h *hook) OnWill(_ *mqtt.Client, will mqtt.Will) (mqtt.Will, error) {
	if will.Retain && !h.broker.mayRetain(will.TopicName, will.Payload) {
		will.Retain = false
	}
	return will, nil
}

// OnWillSent takes in a will that is telemetry or a patch. Nobody waits for an
// answer, and the caller may be the loop that sends all delayed wills.
func (h *hook) OnWillSent(_ *mqtt.Client, pk packets.Packet) {
	id, kind, err := parseTopic(pk.TopicName)
	if err != nil {
		return // a will may have any topic
	}
	b := h.broker
	go func() {
		err := b.takeWill(id, kind, pk.Payload)
		if err != nil {
			v := judge(err)
			b.refusals.add(sourceMQTT, v.cause, pk.TopicName, v.detail)
		}
	}()
}

func (b *broker) takeWill(id, kind string, payload []byte) error {
	if kind == topicAttributes {
		return b.report(id, payload)
	}
	readings, err := entity.ParseReadings(payload, time.Now())
	if err != nil {
		return err
	}
	return b.runtime.Write(b.running, id, readings, len(payload))
}
