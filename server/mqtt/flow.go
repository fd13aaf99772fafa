package mqtt

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/layout"
)

const (
	// maxHeld bounds the messages that a connection holds back. mochi has at most forwardQueue of
	// them in flight; there can be more only if it forgets one that is still held.
	maxHeld = 2 * forwardQueue
	// dupFlag is the DUP bit of a PUBLISH.
	dupFlag = 0x08
	// flowChunk is how many bytes of released messages are written with one call.
	flowChunk = 32 << 10
)

// flow respects a subscriber's Receive Maximum: at most that many QoS 1 and 2 messages are sent and
// not acknowledged (MQTT-3.3.4-9). More are held, and sent in order as acknowledgements arrive. All
// other packets pass.
//
// mochi's own send quota is switched off (see hook.OnConnect), because it has two defects. mochi
// 2.7.9 forgets a message that was held back when it finally sends it, so that its acknowledgement
// returns no quota and the subscription falls silent. And to find the next message it takes a read
// lock twice, which deadlocks if a writer arrives in between.
//
// The flow sees whole packets where mochi writes them, under the client's lock. The reader of the
// connection only marks what is acknowledged; a goroutine, which lives while there is something to
// send, writes the released messages. Messages that are held when the connection ends are still in
// flight for mochi, which sends them again when the session is resumed, in any order. Until
// OnSessionEstablished they are therefore gathered here, and then sorted.
type flow struct {
	conn *conn

	mu       sync.Mutex
	stage    stage
	maximum  int    // the client's Receive Maximum
	largest  uint32 // the client's Maximum Packet Size; 0: any
	version  byte
	unacked  int             // sent and not acknowledged
	pending  map[uint16]bool // by packet id: true if sent and not acknowledged, false if held
	held     []heldMessage
	draining bool // the drain goroutine is running
}

// stage is the stage of a connection.
type stage int

const (
	stageConnecting stage = iota // before CONNACK
	stageResuming                // messages in flight from before are being gathered
	stageOpen
	stageClosed
)

// heldMessage is a PUBLISH that waits for its turn.
type heldMessage struct {
	packet   []byte
	id       uint16
	expiryAt int   // the offset of the Message Expiry Interval in packet; 0 if there is none
	since    int64 // Unix time in seconds
}

// expired reports whether the message has waited for its whole interval.
func (m *heldMessage) expired(now int64) bool {
	return m.expiryAt > 0 && now-m.since >= int64(binary.BigEndian.Uint32(m.packet[m.expiryAt:]))
}

// age reduces the interval by the time that the message has waited (MQTT-3.3.2-6).
func (m *heldMessage) age(now int64) {
	if m.expiryAt > 0 && now > m.since {
		at := m.packet[m.expiryAt:]
		binary.BigEndian.PutUint32(at, binary.BigEndian.Uint32(at)-uint32(now-m.since)) //nolint:gosec // less than the interval
	}
}

// begin records the properties of CONNECT.
func (f *flow) begin(cl *mochi.Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.version = cl.Properties.ProtocolVersion
	f.largest = cl.Properties.Props.MaximumPacketSize
	f.maximum = int(cl.Properties.Props.ReceiveMaximum)
	if f.maximum == 0 {
		f.maximum = math.MaxUint16 // the default of MQTT 5, and the limit of MQTT 3.1.1
	}
	f.pending = map[uint16]bool{}
}

// open ends the gathering: messages in flight are sent in the order of their publication.
func (f *flow) open() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage == stageClosed {
		return
	}
	f.stage = stageOpen
	if len(f.held) > 1 {
		rank := ranks(f.conn.client)
		slices.SortStableFunc(f.held, func(a, b heldMessage) int { return cmp.Compare(rank[a.id], rank[b.id]) })
	}
	f.wake()
}

// close drops everything: mochi keeps the connection of a session that may be resumed.
func (f *flow) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stage = stageClosed
	f.held, f.pending = nil, nil
}

// release records that a message was acknowledged. It does not wait for a writer.
func (f *flow) release(id uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pending[id] {
		return // an answer to the PUBREL of an earlier connection, for example
	}
	delete(f.pending, id)
	f.unacked--
	f.wake()
}

// forget removes a held message that has expired, or whose session has ended.
func (f *flow) forget(id uint16) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sent, ok := f.pending[id]; sent || !ok {
		return
	}
	delete(f.pending, id)
	f.held = slices.DeleteFunc(f.held, func(m heldMessage) bool { return m.id == id })
}

// acknowledged releases the message that a packet of the client acknowledges.
func (f *flow) acknowledged(pk *packets.Packet) {
	switch pk.FixedHeader.Type {
	case packets.Puback, packets.Pubcomp:
		f.release(pk.PacketID)
	case packets.Pubrec:
		if pk.ReasonCode >= packets.ErrUnspecifiedError.Code || !pk.ReasonCodeValid() {
			f.release(pk.PacketID) // refused, which ends the exchange (MQTT-4.3.3-4)
		}
	default:
	}
}

// wake starts drain if messages may be sent. The caller holds mu.
func (f *flow) wake() {
	if f.stage == stageOpen && len(f.held) > 0 && f.unacked < f.maximum && !f.draining {
		f.draining = true
		go f.drain()
	}
}

// drain writes released messages until there are none. It holds the client's lock between taking
// and writing them, so that their order is kept.
func (f *flow) drain() {
	var buf []byte
	for {
		f.conn.client.Lock()
		buf = f.take(buf[:0])
		if len(buf) > 0 {
			_, _ = f.conn.write(buf) // an error closes the connection, and then take returns nothing
		}
		f.conn.client.Unlock()
		if len(buf) == 0 {
			return
		}
	}
}

// take appends the packets that may be sent to buf. If there are none, it marks drain as finished.
func (f *flow) take(buf []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now().Unix()
	for len(f.held) > 0 && f.unacked < f.maximum && len(buf) < flowChunk {
		m := f.held[0]
		f.held[0] = heldMessage{}
		f.held = f.held[1:]
		if m.expired(now) {
			delete(f.pending, m.id)
			continue
		}
		if !f.conn.outbox.wanted(m.id) { // a command that has ended meanwhile
			delete(f.pending, m.id)
			f.withdraw(m.id, layout.ErrGone)
			continue
		}
		m.age(now)
		f.pending[m.id] = true
		f.unacked++
		buf = append(buf, m.packet...)
	}
	if len(f.held) == 0 {
		f.held = nil // release the memory after a burst
	}
	f.draining = len(buf) > 0
	return buf
}

// admit returns those of the packets in p that may be written now.
func (f *flow) admit(p []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stage == stageClosed {
		return nil, net.ErrClosed
	}
	passed, all := p, true
	for rest := p; len(rest) > 0; {
		packet, tail, ok := cutPacket(rest)
		if !ok {
			packet, tail = rest, nil
		}
		switch {
		case ok && !f.passes(packet):
			if all {
				passed, all = slices.Clone(p[:len(p)-len(rest)]), false
			}
		case !all:
			passed = append(passed, packet...)
		}
		rest = tail
	}
	return passed, nil
}

// passes reports whether a packet may be written now. If not, it is held or dropped.
func (f *flow) passes(packet []byte) bool {
	switch packet[0] >> 4 {
	case packets.Connack:
		if f.stage == stageConnecting {
			f.stage = stageResuming
		}
		return true
	case packets.Publish:
	default:
		return true
	}
	m, qos, ok := parsePublish(packet, f.version)
	switch {
	case !ok:
		return true
	case f.largest > 0 && len(packet) > int(f.largest):
		f.discard(m.id)
		return false
	case qos == 0:
		return f.stage != stageConnecting // CONNACK must be the first packet (MQTT-3.2.0-1)
	}
	if _, twice := f.pending[m.id]; twice {
		// It was published while the session was resumed, and reached the flow twice. Then it is
		// not a duplicate for the client.
		if i := slices.IndexFunc(f.held, func(h heldMessage) bool { return h.id == m.id }); i >= 0 {
			f.held[i].packet[0] &= packet[0] | ^byte(dupFlag)
		}
		return false
	}
	if f.stage == stageOpen && len(f.held) == 0 && f.unacked < f.maximum {
		f.pending[m.id] = true
		f.unacked++
		return true
	}
	f.hold(m)
	return false
}

// hold keeps a message for later.
func (f *flow) hold(m heldMessage) {
	m.since = time.Now().Unix()
	if len(f.held) >= maxHeld {
		f.held = slices.DeleteFunc(f.held, func(h heldMessage) bool {
			if h.expired(m.since) {
				delete(f.pending, h.id)
				return true
			}
			return false
		})
	}
	if len(f.held) >= maxHeld {
		atomic.AddInt64(&f.conn.broker.server.Info.MessagesDropped, 1)
		return
	}
	m.packet = slices.Clone(m.packet)
	f.pending[m.id] = false
	f.held = append(f.held, m)
}

// errTooLarge is returned for a message that exceeds the client's Maximum Packet Size.
var errTooLarge = errors.New("the client takes no packets as large as the message")

// discard drops a message that is too large for the client, as if it had been sent and acknowledged
// (MQTT-3.1.2-25). mochi would keep it in flight, and a session with such a message could not be
// resumed.
func (f *flow) discard(id uint16) {
	info := f.conn.broker.server.Info
	atomic.AddInt64(&info.MessagesDropped, 1)
	if id != 0 {
		f.withdraw(id, errTooLarge)
	}
}

// withdraw takes a message out of what is in flight that is not sent.
func (f *flow) withdraw(id uint16, why error) {
	if f.conn.client.State.Inflight.Delete(id) {
		atomic.AddInt64(&f.conn.broker.server.Info.Inflight, -1)
		go f.conn.outbox.release(id, why) // it calls others, and the caller may hold mu
	}
}

// cutPacket cuts the first packet off p. It reports false if the packet is incomplete.
func cutPacket(p []byte) (packet, rest []byte, ok bool) {
	body, length := fixedHeader(p)
	if body == 0 || length > len(p)-body {
		return nil, nil, false
	}
	return p[:body+length], p[body+length:], true
}

// fixedHeader returns the offset and the length of a packet's body, or 0, 0 if p does not begin
// with a complete fixed header.
func fixedHeader(p []byte) (body, length int) {
	if len(p) < 2 {
		return 0, 0
	}
	n, size := binary.Uvarint(p[1:min(len(p), 5)])
	if size <= 0 {
		return 0, 0
	}
	return 1 + size, int(n) //nolint:gosec // four bytes of seven bits
}

// parsePublish parses the parts of a PUBLISH that the flow needs; the id is 0 with QoS 0.
func parsePublish(packet []byte, version byte) (m heldMessage, qos byte, ok bool) {
	m.packet = packet
	at, _ := fixedHeader(packet)
	if at == 0 || len(packet) < at+2 {
		return m, 0, false
	}
	qos = packet[0] >> 1 & 3
	at += 2 + int(binary.BigEndian.Uint16(packet[at:]))
	if qos == 0 {
		return m, 0, at <= len(packet)
	}
	if len(packet) < at+2 {
		return m, 0, false
	}
	m.id = binary.BigEndian.Uint16(packet[at:])
	if version == 5 {
		m.expiryAt = findExpiry(packet, at+2)
	}
	return m, qos, true
}

// findExpiry returns the offset of the Message Expiry Interval in a packet whose properties start
// at at, or 0. mochi writes it first, or after the Payload Format Indicator.
func findExpiry(packet []byte, at int) int {
	n, size := binary.Uvarint(packet[at:])
	if size <= 0 || n > uint64(len(packet)-at-size) { //nolint:gosec // not negative
		return 0
	}
	start := at + size
	properties := packet[start : start+int(n)] //nolint:gosec // as much as the packet
	skip := 0
	if len(properties) > 2 && properties[0] == packets.PropPayloadFormat {
		skip = 2
	}
	if len(properties) < skip+5 || properties[skip] != packets.PropMessageExpiryInterval {
		return 0
	}
	return start + skip + 1
}

// ranks returns the order of publication of the messages in flight to a client, by packet id.
func ranks(cl *mochi.Client) map[uint16]int {
	rank := map[uint16]int{}
	for _, pk := range cl.State.Inflight.GetAll(false) {
		rank[pk.PacketID] = pk.FixedHeader.Remaining
	}
	return rank
}

// OnQosPublish numbers the messages that mochi keeps in flight, because packet ids restart with
// each connection, and mochi orders messages by time in seconds. The number is stored in place of
// the packet's length, which is computed when the packet is encoded.
func (h *hook) OnQosPublish(cl *mochi.Client, pk packets.Packet, _ int64, _ int) {
	if c, ok := cl.Net.Conn.(*conn); ok && pk.FixedHeader.Type == packets.Pubrec {
		c.keepOwnID(cl, pk)
	}
	if pk.FixedHeader.Type != packets.Publish || pk.FixedHeader.Dup {
		return // an acknowledgement, or a retransmission
	}
	pk.FixedHeader.Remaining = int(h.broker.published.Add(1))
	cl.State.Inflight.Set(pk)
}
