package mqtt

import (
	"math"
	"strings"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// What mochi 2.7.9 does wrong, and what is done about it. Each of these can go, with its
// call, once it is mended there. The largest one has a file of its own, flow.go.

// maxKeepalive is where 1.5 times the keepalive still fits into the 16 bits in which
// mochi computes it; beyond, it would hang up at once.
const maxKeepalive = math.MaxUint16 / 3 * 2

// reserved marks a topic that begins with '$' until OnPublish refuses it. mochi
// drops those without an answer, and a QoS 1 client would wait for it forever.
const reserved = "\x00"

// takeOver switches off what is broken in mochi: the send quota, for which see flow, and
// topic aliases, which it uses also for a message that comes after others were lost, or
// in a later connection, where the client does not know the alias.
func takeOver(cl *mochi.Client) {
	cl.Properties.Props.ReceiveMaximum = 0 // mochi resets the quota to it when a session is resumed
	cl.State.Inflight.ResetSendQuota(0)
	cl.Properties.Props.TopicAliasMaximum = 0
	if cl.State.Keepalive > maxKeepalive {
		cl.State.Keepalive, cl.State.ServerKeepalive = maxKeepalive, true
	}
	// What mochi decodes are parts of the packet, which would stay as long as the session.
	cl.ID = strings.Clone(cl.ID)
	cl.Properties.Username = nil
	cl.Properties.Props.User, cl.Properties.Props.AuthenticationData = nil, nil
}

// allowEmptyPassword takes an empty password for none: mochi would refuse it, although it may be
// empty (MQTT 3.1.1, 3.1.3.5), and clients whose user name is a token send one.
func allowEmptyPassword(pk *packets.Packet) {
	if len(pk.Connect.Password) == 0 {
		pk.Connect.PasswordFlag = false
	}
}

// liftReceiveQuota lifts mochi's receive quota for MQTT 3.1.1, which knows no receive
// maximum: mochi would close the connection of a client that has more QoS 2 messages
// under way than it was never told.
func liftReceiveQuota(cl *mochi.Client) {
	if cl.Properties.ProtocolVersion < 5 {
		cl.State.Inflight.ResetReceiveQuota(1 << 16)
	}
}

// forgetStale ends an unfinished QoS 2 exchange whose packet id a client uses for
// another message: a device that has been restarted resumes its session and counts from
// one again. mochi would answer the new message as if it were the old one, and it would
// never be taken in.
func (b *Broker) forgetStale(c *conn, cl *mochi.Client, pk *packets.Packet) {
	qos := pk.FixedHeader.Qos
	if qos == 0 || qos == 2 && pk.FixedHeader.Dup {
		return
	}
	in, ok := cl.State.Inflight.Get(pk.PacketID)
	if ok && in.FixedHeader.Type == packets.Pubrec && cl.State.Inflight.Delete(pk.PacketID) {
		c.outbox.unreserve(pk.PacketID)
		cl.State.Inflight.IncreaseReceiveQuota()
		atomic.AddInt64(&b.server.Info.Inflight, -1)
	}
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
