package mqtt

import (
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"
)

// begin publishes with QoS 2 what needs no commit: it takes back a retained message.
func (s *subscriber) begin(version byte, id uint16, dup byte) {
	s.t.Helper()
	s.write(packets.Publish<<4|4|1|dup, publishBody(version, id, ""))
}

// end sends a PUBREL.
func (s *subscriber) end(id uint16) {
	s.t.Helper()
	s.write(packets.Pubrel<<4|2, binary.BigEndian.AppendUint16(nil, id))
}

// only takes the packet that came in, and acknowledges the messages beside it: what the client
// publishes comes to it as well.
func (s *subscriber) only(t *testing.T, kind byte, id uint16) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	got := s.got
	s.got = nil
	s.mu.Unlock()
	n := 0
	for _, pk := range got {
		if pk.FixedHeader.Type == packets.Publish {
			s.ack(packets.Puback, pk.PacketID)
			continue
		}
		n++
		same(t, "packet", []any{pk.FixedHeader.Type, pk.PacketID}, []any{kind, id})
		if pk.ReasonCode >= packets.ErrUnspecifiedError.Code {
			t.Errorf("packet of type %d with the code %#x", kind, pk.ReasonCode)
		}
	}
	same(t, "packets but messages", n, 1)
}

// waits checks that a message waits for its PUBACK.
func (s *subscriber) waits(t *testing.T, b *Broker, id uint16) {
	t.Helper()
	synctest.Wait()
	cl, ok := b.server.Clients.Get("reader")
	if !ok {
		t.Fatal("the client is not there")
	}
	if pk, ok := cl.State.Inflight.Get(id); !ok || pk.FixedHeader.Type != packets.Publish {
		t.Errorf("message %d is gone before its PUBACK", id)
	}
}

// nothingLeft checks that nothing is in flight, and nothing charged.
func (s *subscriber) nothingLeft(t *testing.T, b *Broker) {
	t.Helper()
	synctest.Wait()
	cl, ok := b.server.Clients.Get("reader")
	if !ok {
		t.Fatal("the client is not there")
	}
	same(t, "packets in flight", cl.State.Inflight.Len(), 0)
	same(t, "bytes that wait", b.Stats().Queued, 0)
}

// A client may number a message of its own as the server has numbered one to it.
func TestAnExchangeOfTheClientHasNothingToDoWithAMessageToIt(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, _ *heldRuntime) {
		s := p.subscriber(t, version, 2, 1, nil)
		send(t, b, 1, 0, 3)
		_, ids := s.messages(t, 3)

		s.begin(version, ids[0], 0)
		s.only(t, packets.Pubrec, ids[0])
		s.end(ids[0])
		s.only(t, packets.Pubcomp, ids[0])
		s.waits(t, b, ids[0])
		s.ack(packets.Puback, ids[0])

		s.begin(version, ids[1], 0)
		s.only(t, packets.Pubrec, ids[1])
		s.ack(packets.Puback, ids[1]) // amid the exchange
		s.begin(version, ids[1], 8)   // again
		s.only(t, packets.Pubrec, ids[1])
		s.begin(version, ids[1], 0) // another message, as of a device that has forgotten
		s.only(t, packets.Pubrec, ids[1])
		s.end(ids[1])
		s.only(t, packets.Pubcomp, ids[1])

		s.end(ids[2]) // of an exchange that the server knows nothing of
		if got := s.next(t, packets.Pubcomp, 1)[0]; got.PacketID != ids[2] {
			t.Errorf("PUBCOMP %d, want %d", got.PacketID, ids[2])
		}
		s.waits(t, b, ids[2])
		s.ack(packets.Puback, ids[2])
		s.nothingLeft(t, b)
	})
}

// The stand-in of an exchange stays with the session.
func TestAnExchangeWithTheIDOfAMessageOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, _ *heldRuntime) {
		var properties []byte
		if version == 5 {
			properties = keepSession
		}
		s := p.subscriber(t, version, 0, 1, properties)
		send(t, b, 1, 0, 2)
		_, ids := s.messages(t, 2)
		s.begin(version, ids[0], 0)
		s.only(t, packets.Pubrec, ids[0])
		s.waits(t, b, ids[0])
		s.begin(version, 65535, 0) // which is the stand-in of the first
		s.only(t, packets.Pubrec, 65535)
		_ = s.nc.Close()
		synctest.Wait()

		s = p.subscriber(t, version, 0, 1, properties)
		synctest.Wait()
		again, pubrecs := map[uint16]string{}, map[uint16]int{}
		s.mu.Lock()
		for _, pk := range s.got {
			if pk.FixedHeader.Type == packets.Pubrec {
				pubrecs[pk.PacketID]++
			} else if len(pk.Payload) > 0 {
				again[pk.PacketID] = string(pk.Payload)
			}
		}
		s.got = nil
		s.mu.Unlock()
		same(t, "messages that are sent again", again, map[uint16]string{ids[0]: "0", ids[1]: "1"})
		same(t, "PUBRECs that are sent again", pubrecs, map[uint16]int{ids[0]: 1, 65535: 1})
		s.begin(version, ids[0], 8)
		s.only(t, packets.Pubrec, ids[0])
		s.end(ids[0])
		s.only(t, packets.Pubcomp, ids[0])
		s.end(65535)
		s.only(t, packets.Pubcomp, 65535)
		for _, id := range ids {
			s.ack(packets.Puback, id)
		}
		s.nothingLeft(t, b)
	})
}

// A message to the client that comes while the client begins an exchange does not get its id.
func TestNoMessageGetsThePacketIDOfWhatTheClientBegins(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, version, 2, 1, nil)
		s.write(packets.Publish<<4|4, publishBody(version, firstID, `{"t":1}`))
		synctest.Wait()
		same(t, "readings on their way", h.held(), 1)
		send(t, b, 1, 0, 1)
		_, ids := s.messages(t, 1)
		if ids[0] == firstID {
			t.Error("the message has the id of the exchange")
		}
		h.settle(0, nil)
		s.only(t, packets.Pubrec, firstID)
		s.ack(packets.Puback, ids[0])
		s.end(firstID)
		s.only(t, packets.Pubcomp, firstID)
		s.nothingLeft(t, b)
	})
}
