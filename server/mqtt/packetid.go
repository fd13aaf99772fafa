package mqtt

import (
	"cmp"
	"math"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Client and server number their packets independently (MQTT 5, 2.2.1), but mochi keeps both in one
// map: it would refuse a SUBSCRIBE, and forget a message to the client because of a PUBLISH or
// PUBREL with its packet id. If a client's packet id is taken, mochi is therefore given a stand-in,
// and the answer contains the client's id again.
//
// A QoS 2 exchange outlives its packet and the connection. Its stand-in is kept in the session, in
// the length of its PUBREC, which is computed when that is encoded.

// ownIDs is the offset of the client's packet id in the length of an acknowledgement.
const ownIDs = 1 << 16

// ownIDOf returns the client's packet id of an exchange that it has begun.
func ownIDOf(ack *packets.Packet) uint16 {
	if n := ack.FixedHeader.Remaining; n >= ownIDs {
		return uint16(n - ownIDs) //nolint:gosec // that is what was put there
	}
	return ack.PacketID
}

// renumber replaces a packet id of the client by the one that mochi should use, and records the
// client's id for the answer.
func (b *Broker) renumber(c *conn, cl *mochi.Client, pk *packets.Packet) {
	own, kind := pk.PacketID, pk.FixedHeader.Type
	c.ownID = 0
	if kind == packets.Publish && pk.FixedHeader.Qos == 0 {
		return
	}
	if kind == packets.Publish || kind == packets.Pubrel {
		id, open := c.exchange(cl, own)
		if open && (kind == packets.Pubrel || pk.FixedHeader.Qos == 2 && pk.FixedHeader.Dup) {
			c.ownID, pk.PacketID = own, id
			if kind == packets.Pubrel {
				delete(c.standIns, own) // the exchange or the connection ends
			}
			return
		}
		if open {
			b.forgetStale(c, cl, id)
			delete(c.standIns, own)
		}
	}
	c.ownID, pk.PacketID = own, c.outbox.begin(cl, own)
	if pk.PacketID != own && kind == packets.Publish && pk.FixedHeader.Qos == 2 {
		if c.standIns == nil {
			c.standIns = map[uint16]uint16{}
		}
		c.standIns[own] = pk.PacketID
	}
}

// idOf returns the client's id of the packet read last.
func (c *conn) idOf(pk *packets.Packet) uint16 { return cmp.Or(c.ownID, pk.PacketID) }

// exchange returns mochi's id of a QoS 2 exchange that the client has begun and not ended, and
// whether there is one.
func (c *conn) exchange(cl *mochi.Client, own uint16) (id uint16, open bool) {
	id = cmp.Or(c.standIns[own], own)
	ack, ok := cl.State.Inflight.Get(id)
	if ok && (ack.FixedHeader.Type == packets.Pubrec || ack.FixedHeader.Type == packets.Pubcomp) && ownIDOf(&ack) == own {
		return id, true
	}
	delete(c.standIns, own) // it has expired, or was refused
	return own, false
}

// resumeExchanges restores the stand-ins of a session.
func (c *conn) resumeExchanges(cl *mochi.Client) {
	for _, ack := range cl.State.Inflight.GetAll(false) {
		if own := ownIDOf(&ack); own != ack.PacketID && ack.FixedHeader.Type == packets.Pubrec {
			if c.standIns == nil {
				c.standIns = map[uint16]uint16{}
			}
			c.standIns[own] = ack.PacketID
		}
	}
}

// forgetStale ends an unfinished QoS 2 exchange whose packet id a client uses for another message:
// a device that was restarted resumes its session and counts from one again. mochi would answer the
// new message as if it were the old one, and it would never be committed.
func (b *Broker) forgetStale(c *conn, cl *mochi.Client, id uint16) {
	if cl.State.Inflight.Delete(id) {
		c.outbox.unreserve(id)
		cl.State.Inflight.IncreaseReceiveQuota()
		atomic.AddInt64(&b.server.Info.Inflight, -1)
	}
}

// numbered returns an acknowledgement with the client's packet id.
func (c *conn) numbered(cl *mochi.Client, ack packets.Packet) packets.Packet {
	if own := ownIDOf(&ack); own != ack.PacketID { // a retransmission in a later connection
		ack.PacketID = own
		return ack
	}
	if c.ownID == 0 || c.ownID == ack.PacketID {
		return ack
	}
	if ack.FixedHeader.Type == packets.Pubcomp {
		c.keepOwnID(cl, ack) // it stays in the session if it cannot be written
	}
	ack.PacketID = c.ownID
	return ack
}

// keepOwnID stores the client's packet id of an acknowledgement's exchange in the session, while
// the exchange exists.
func (c *conn) keepOwnID(cl *mochi.Client, ack packets.Packet) {
	kept, ok := cl.State.Inflight.Get(ack.PacketID)
	if ok && kept.FixedHeader.Type == ack.FixedHeader.Type && c.ownID != 0 && c.ownID != ack.PacketID {
		kept.FixedHeader.Remaining = ownIDs + int(c.ownID)
		cl.State.Inflight.Set(kept)
	}
}

// begin returns the packet id that mochi should use for a packet of the client: the client's own,
// or a stand-in if that is taken. No message to the client is assigned it before the next packet of
// the client.
func (o *outbox) begin(cl *mochi.Client, own uint16) uint16 {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = own
	if _, taken := cl.State.Inflight.Get(own); taken {
		for id := uint16(math.MaxUint16); id > 0; id-- {
			if _, taken := cl.State.Inflight.Get(id); !taken {
				o.begun = id
				break
			}
		}
	}
	return o.begun
}
