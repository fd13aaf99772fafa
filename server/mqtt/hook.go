package mqtt

import (
	"cmp"
	"errors"
	"strings"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/refusal"
)

// hook is where mochi calls us. Its methods run on the goroutine that reads the
// connection: while one blocks, that connection is not read.
type hook struct {
	mochi.HookBase
	broker *Broker
}

// ID names the hook.
func (h *hook) ID() string { return "greenroom" }

// Provides lists the methods below.
func (h *hook) Provides(b byte) bool {
	switch b {
	case mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnConnect, mochi.OnSessionEstablished, mochi.OnDisconnect,
		mochi.OnPacketRead, mochi.OnPacketEncode, mochi.OnPacketSent, mochi.OnPublish, mochi.OnQosPublish, mochi.OnSubscribed,
		mochi.OnWill, mochi.OnWillSent:
		return true
	default:
		return false
	}
}

// OnConnectAuthenticate lets everyone in: only this machine can connect.
func (h *hook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck lets everyone subscribe to everything. What may be published is
// decided in OnPublish, which can say why not.
func (h *hook) OnACLCheck(*mochi.Client, string, bool) bool { return true }

// OnConnect ties mochi's client to our connection.
func (h *hook) OnConnect(cl *mochi.Client, _ packets.Packet) error {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.client = cl
		c.flow.begin(cl)
	}
	takeOver(cl)
	return nil
}

// OnSessionEstablished lets go out what was in flight.
func (h *hook) OnSessionEstablished(cl *mochi.Client, _ packets.Packet) {
	liftReceiveQuota(cl)
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.flow.open()
	}
}

// OnPacketSent ends the wait for a QoS 2 message whose PUBREC is on its way, and
// answers a subscription that was acknowledged with the documents of now.
func (h *hook) OnPacketSent(cl *mochi.Client, pk packets.Packet, _ []byte) {
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

// OnSubscribed notes which documents are wanted.
func (h *hook) OnSubscribed(cl *mochi.Client, pk packets.Packet, codes []byte) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		h.broker.shadow.subscribed(c, &pk, codes)
	}
}

// OnDisconnect counts the clients that were put out over a packet's size.
func (h *hook) OnDisconnect(cl *mochi.Client, err error, _ bool) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.endExactly()
	}
	if errors.Is(err, packets.ErrPacketTooLarge) {
		h.broker.refusals.Add(refusal.MQTT, refusal.CausePacketSize, "", cl.ID,
			"a packet larger than the payload limit; send the readings in smaller arrays")
	}
}

// OnPacketRead sees each packet before mochi acts on it.
func (h *hook) OnPacketRead(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk, nil
	}
	switch pk.FixedHeader.Type {
	case packets.Publish:
		h.broker.forgetStale(cl, &pk)
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

// OnPacketEncode tells an MQTT 5 client the limits that mochi keeps to itself, and
// corrects what mochi writes.
func (h *hook) OnPacketEncode(cl *mochi.Client, pk packets.Packet) packets.Packet {
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
