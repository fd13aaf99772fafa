package mqtt

import (
	"math"
	"strings"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Workarounds for defects of mochi 2.7.9. Each can be removed, with its call, once mochi is fixed.
// The largest one has its own file, flow.go.

// maxKeepalive is the largest keepalive of which 1.5 times still fits into the 16 bits in which
// mochi computes it; with a larger one, mochi would close the connection at once.
const maxKeepalive = math.MaxUint16 / 3 * 2

// reserved marks a topic that begins with '$' until OnPublish refuses it. mochi drops such messages
// without an answer, and a QoS 1 client would wait forever.
const reserved = "\x00"

// takeOver switches off broken parts of mochi: the send quota, for which see flow, and topic
// aliases, which mochi also uses for a message after others were lost, or in a later connection,
// when the client does not know the alias.
func takeOver(cl *mochi.Client) {
	cl.Properties.Props.ReceiveMaximum = 0 // mochi resets the quota to it when a session is resumed
	cl.State.Inflight.ResetSendQuota(0)
	cl.Properties.Props.TopicAliasMaximum = 0
	if cl.State.Keepalive > maxKeepalive {
		cl.State.Keepalive, cl.State.ServerKeepalive = maxKeepalive, true
	}
	// mochi decodes into slices of the packet, which would stay in memory as long as the session.
	cl.ID = strings.Clone(cl.ID)
	cl.Properties.Username = nil
	cl.Properties.Props.User, cl.Properties.Props.AuthenticationData, cl.Properties.Props.AuthenticationMethod = nil, nil, ""
}

// allowEmptyPassword treats an empty password like none. mochi would refuse it, although it is
// permitted (MQTT 3.1.1, 3.1.3.5), and clients with a token as user name send one.
func allowEmptyPassword(pk *packets.Packet) {
	if len(pk.Connect.Password) == 0 {
		pk.Connect.PasswordFlag = false
	}
}

// liftReceiveQuota lifts mochi's receive quota for MQTT 3.1.1, which has no Receive Maximum: mochi
// would close the connection of a client that exceeds a number it was never sent.
func liftReceiveQuota(cl *mochi.Client) {
	if cl.Properties.ProtocolVersion < 5 {
		cl.State.Inflight.ResetReceiveQuota(1 << 16)
	}
}
