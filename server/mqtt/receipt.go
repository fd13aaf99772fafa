package mqtt

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// mochi allocates a whole packet once it has read its length. A connection costs little otherwise,
// so that many of them which begin packets and do not end them could fill the memory. Therefore a
// connection that is about to read the length of a large packet waits for room.
const (
	// maxIntake bounds the large packets that are being received or handled.
	maxIntake = 64 << 20
	// maxStrangerIntake is maxIntake for connections that have not logged in, which must not keep
	// out those that have.
	maxStrangerIntake = 16 << 20
	// smallPacket is the size up to which a packet needs no room.
	smallPacket = 4 << 10
	// maxConnectBytes bounds a CONNECT: what it needs for a will, and as much again. Clients that
	// have not logged in must not be expensive.
	maxConnectBytes = 128 << 10
	// intakePatience bounds the wait for room, and then, with a second for each slowBytes, the time
	// in which a large packet must arrive.
	intakePatience = 30 * time.Second
	slowBytes      = 8 << 10
)

// receipt is what a connection is receiving.
type receipt struct {
	frames frames
	ahead  []byte       // was read from the network, and not by mochi
	stay   *intake.Stay // of the packet that is being read or handled, nil for a small one
}

// end gives back what the packet needed.
func (r *receipt) end() {
	if r.stay != nil {
		r.stay.Leave()
		r.stay = nil
	}
}

// Read is called by mochi. It stops before the last byte of the length of a large packet, so that
// what is before it is handled, and then waits for room. It also stops at the end of a large packet,
// so that its room is given back before what follows has to wait.
func (c *conn) Read(p []byte) (n int, err error) {
	r := &c.receipt
	if !r.frames.large { // mochi has handled what it has
		r.end()
	}
	if len(r.ahead) > 0 {
		n = copy(p, r.ahead)
		r.ahead = r.ahead[n:]
	} else {
		c.reads.Add(1)
		n, err = c.Conn.Read(p)
		c.reads.Add(1)
	}
	at, length := r.frames.next(p[:n])
	if err := c.payFor(0); err != nil {
		return 0, err
	}
	if length > 0 && at == 0 {
		if length <= maxPacketBytes { // mochi refuses others
			if err := c.payFor(r.frames.cost(length)); err != nil {
				return 0, err
			}
		}
		if err := c.admit(length); err != nil {
			return 0, err
		}
		r.frames.begin(length)
		at, _ = r.frames.next(p[1:n])
		at++
	}
	if at == n {
		return n, err
	}
	r.ahead = append(slices.Clone(p[at:n]), r.ahead...)
	return at, nil // an error will recur
}

// admit waits until there is room for a large packet.
func (c *conn) admit(length uint32) error {
	from := access.AddressKey(addressOf(c.RemoteAddr()))
	if !c.receipt.frames.begun && length > maxConnectBytes {
		c.broker.refusals.Add(refusal.MQTT, refusal.CausePacketSize, "", from, fmt.Sprintf("a CONNECT of more than %d bytes", maxConnectBytes))
		return packets.ErrPacketTooLarge
	}
	if length > maxPacketBytes {
		return nil // mochi refuses it
	}
	room := c.broker.intake
	switch {
	case c.client == nil:
		room = c.broker.strangers
	case c.broker.access.Guarded():
		from = "principal " + c.who.Name()
	}
	c.receipt.stay = room.Enter(from, int64(length))
	timeout := time.NewTimer(intakePatience)
	defer timeout.Stop()
	select {
	case <-c.receipt.stay.Granted():
	case <-c.gone:
		return net.ErrClosed
	case <-timeout.C:
		c.broker.refusals.Add(refusal.MQTT, refusal.CauseBusy, "", from, "too many large messages are on their way from there; send fewer at a time")
		return packets.ErrServerBusy
	}
	if c.client == nil {
		return nil // connectTimeout keeps running
	}
	return c.SetDeadline(time.Now().Add(intakePatience + time.Duration(length/slowBytes)*time.Second))
}

// frames follows the packets of a connection.
type frames struct {
	header uint8  // bytes of the fixed header that were taken, 0 between packets
	length uint32 // of the packet, as far as its header is known
	left   uint32 // bytes of the packet that are still to come
	large  bool   // these are of a large packet
	begun  bool   // the header of the first packet is complete
	kind   byte   // the first byte of the packet
	owed   int64  // what packets that have begun cost, and is not paid
}

// next takes bytes, up to the last byte of the length of a large packet, or the end of one. at is how
// many it has taken, and large the length of a packet that begins, otherwise 0.
func (f *frames) next(p []byte) (at int, large uint32) {
	for at < len(p) {
		switch {
		case f.left > 0:
			n := min(len(p)-at, int(f.left))
			at += n
			f.left -= uint32(n) //nolint:gosec // at most f.left
			if f.large && f.left == 0 {
				f.large = false
				return at, 0
			}
			continue
		case f.header == 0:
			f.header, f.length, f.kind = 1, 0, p[at]
		default: // MQTT 5, 1.5.5: seven bits per byte, least significant first
			length := f.length | uint32(p[at]&0x7f)<<(7*(f.header-1))
			switch complete := p[at] < 0x80 || f.header == 4; {
			case complete && length > smallPacket:
				return at, length
			case complete:
				f.begin(length)
				f.owed += f.cost(length)
			default:
				f.length = length
				f.header++
			}
		}
		at++
	}
	return at, 0
}

// begin takes the last byte of the length of a packet.
func (f *frames) begin(length uint32) {
	f.header, f.left, f.large, f.begun = 0, length, length > smallPacket, true
}
