package mqtt

import (
	"math"
	"strings"

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
