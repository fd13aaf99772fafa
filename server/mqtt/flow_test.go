package mqtt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/layout"
)

// receiveMaximum and others are properties of a CONNECT.
func receiveMaximum(n uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{packets.PropReceiveMaximum}, n)
}

func maximumPacketSize(n uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{packets.PropMaximumPacketSize}, n)
}

var keepSession = []byte{packets.PropSessionExpiryInterval, 0, 0, 1, 0}

// subscriber is a raw client that takes every packet at once and acknowledges what
// the test says.
type subscriber struct {
	*rawClient
	version byte
	present bool

	mu  sync.Mutex
	got []packets.Packet // what was not looked at yet
}

// subscriber connects, and subscribes to e/# unless the session is there.
func (p *pipes) subscriber(t *testing.T, version, flags, qos byte, properties ...[]byte) *subscriber {
	t.Helper()
	c, present := p.dialWith(t, "reader", version, flags, slices.Concat(properties...))
	s := &subscriber{rawClient: c, version: version, present: present}
	go s.take()
	if !present {
		s.subscribe(1, qos)
		synctest.Wait()
		if got := s.next(t, packets.Suback, 1); got[0].ReasonCodes[0] != qos {
			t.Fatalf("SUBACK: %+v", got)
		}
	}
	return s
}

func (s *subscriber) subscribe(id uint16, qos byte) {
	s.t.Helper()
	body := binary.BigEndian.AppendUint16(nil, id)
	if s.version == 5 {
		body = append(body, 0)
	}
	s.write(0x82, append(body, 0, 3, 'e', '/', '#', qos))
}

func (s *subscriber) take() {
	for {
		var fh packets.FixedHeader
		kind, err := s.in.ReadByte()
		if err == nil {
			err = fh.Decode(kind)
		}
		if err == nil {
			fh.Remaining, _, err = packets.DecodeLength(s.in)
		}
		pk := packets.Packet{FixedHeader: fh, ProtocolVersion: s.version}
		body := make([]byte, fh.Remaining)
		if err == nil {
			_, err = io.ReadFull(s.in, body)
		}
		if err != nil {
			return
		}
		switch fh.Type {
		case packets.Publish:
			err = pk.PublishDecode(body)
		case packets.Suback:
			err = pk.SubackDecode(body)
		case packets.Unsuback:
			err = pk.UnsubackDecode(body)
		case packets.Puback:
			err = pk.PubackDecode(body)
		case packets.Pubrel:
			err = pk.PubrelDecode(body)
		case packets.Pubrec:
			err = pk.PubrecDecode(body)
		case packets.Pubcomp:
			err = pk.PubcompDecode(body)
		default:
		}
		if err != nil {
			s.t.Errorf("packet % x: %v", body, err)
		}
		s.mu.Lock()
		s.got = append(s.got, pk)
		s.mu.Unlock()
	}
}

// next returns what came in since the last call, which must be n packets of a kind.
func (s *subscriber) next(t *testing.T, kind byte, n int) []packets.Packet {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	got := s.got
	s.got = nil
	s.mu.Unlock()
	if len(got) != n {
		t.Fatalf("%d packets came in, want %d: %+v", len(got), n, got)
	}
	for i := range got {
		if got[i].FixedHeader.Type != kind {
			t.Fatalf("packet of type %d, want %d", got[i].FixedHeader.Type, kind)
		}
	}
	return got
}

// messages returns the payloads of the n messages that came in, and their ids.
func (s *subscriber) messages(t *testing.T, n int) (payloads string, ids []uint16) {
	t.Helper()
	var all []string
	for _, pk := range s.next(t, packets.Publish, n) {
		all, ids = append(all, string(pk.Payload)), append(ids, pk.PacketID)
	}
	return strings.Join(all, " "), ids
}

// ack sends a PUBACK, PUBREC or PUBCOMP.
func (s *subscriber) ack(kind byte, id uint16) {
	s.t.Helper()
	s.write(kind<<4, binary.BigEndian.AppendUint16(nil, id))
}

// send publishes payloads, numbers, to all subscribers.
func send(t *testing.T, b *Broker, qos byte, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		b.publish("e/a/telemetry", []byte(strconv.Itoa(i)), qos)
		synctest.Wait() // mochi's own queue is not what is tested
	}
}

func (s *subscriber) flow(b *Broker) *flow {
	s.t.Helper()
	cl, ok := b.server.Clients.Get("reader")
	if !ok {
		s.t.Fatal("the client is not there")
	}
	return &cl.Net.Conn.(*conn).flow
}

func TestSubscriberGetsNoMoreThanItsReceiveMaximum(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, 5, 2, 1, receiveMaximum(3))
		send(t, b, 1, 0, 8)
		got, ids := s.messages(t, 3)
		same(t, "the first", got, "0 1 2")
		send(t, b, 0, 100, 101)
		got, _ = s.messages(t, 1)
		same(t, "of QoS 0, which always passes", got, "100")
		s.ack(packets.Puback, ids[1])
		s.ack(packets.Puback, ids[1]) // a second time it means nothing
		s.ack(packets.Puback, 4711)
		got, more := s.messages(t, 1)
		same(t, "after one acknowledgement", got, "3")
		for _, id := range []uint16{more[0], ids[2], ids[0]} {
			s.ack(packets.Puback, id)
		}
		got, ids = s.messages(t, 3)
		same(t, "after three more", got, "4 5 6")
		for _, id := range ids {
			s.ack(packets.Puback, id)
		}
		got, ids = s.messages(t, 1)
		same(t, "the last", got, "7")
		s.ack(packets.Puback, ids[0])
		send(t, b, 1, 8, 9)
		got, _ = s.messages(t, 1)
		same(t, "a late one", got, "8")
	})
}

// A command that has expired or was canceled while its device had too much to acknowledge must
// not be carried out late.
func TestWhatIsNotWantedAnyMoreIsNotSentWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		s := p.subscriber(t, 5, 2, 1, receiveMaximum(1))
		cl, ok := b.server.Clients.Get("reader")
		if !ok {
			t.Fatal("the client is not there")
		}
		ended := atomic.Bool{}
		outcomes := make(chan error, 3)
		for i := range 3 {
			receipt := &layout.Receipt{Settled: func(err error) { outcomes <- err }}
			if i == 1 {
				receipt.Wanted = func() bool { return !ended.Load() }
			}
			if err := cl.Net.Conn.(*conn).Send("e/a/commands", fmt.Append(nil, i), receipt); err != nil {
				t.Fatal(err)
			}
		}
		got, ids := s.messages(t, 1)
		same(t, "the first", got, "0")
		ended.Store(true)
		s.ack(packets.Puback, ids[0])
		got, ids = s.messages(t, 1)
		same(t, "after the end of the second", got, "2")
		s.ack(packets.Puback, ids[0])
		synctest.Wait()
		gone := 0
		for range 3 {
			if err := <-outcomes; errors.Is(err, layout.ErrGone) {
				gone++
			} else if err != nil {
				t.Errorf("one was settled with %v", err)
			}
		}
		same(t, "how many were not sent", gone, 1)
		same(t, "messages in flight", cl.State.Inflight.Len(), 0)
	})
}

// The same holds for a command that waits because the client does not read.
func TestWhatIsNotWantedAnyMoreIsNotSentWhenTheClientReadsAgain(t *testing.T) {
	t.Parallel()
	for qos := range byte(2) {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
				c, _ := p.dialWith(t, "reader", 5, 2, nil)
				c.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', qos})
				c.read()
				cl, ok := b.server.Clients.Get("reader")
				if !ok {
					t.Fatal("the client is not there")
				}
				ended := atomic.Bool{}
				var outcomes [3]chan error
				for i := range outcomes {
					outcomes[i] = make(chan error, 1)
					receipt := &layout.Receipt{Settled: func(err error) { outcomes[i] <- err }}
					if i == 1 {
						receipt.Wanted = func() bool { return !ended.Load() }
					}
					if err := cl.Net.Conn.(*conn).Send("e/a/commands", fmt.Append(nil, i), receipt); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait() // the first is being written
				ended.Store(true)
				s := &subscriber{rawClient: c, version: 5}
				go s.take()
				got, ids := s.messages(t, 2)
				same(t, "what is sent", got, "0 2")
				if qos > 0 {
					for _, id := range ids {
						s.ack(packets.Puback, id)
					}
				}
				for i, want := range []error{nil, layout.ErrGone, nil} {
					if err := <-outcomes[i]; !errors.Is(err, want) {
						t.Errorf("message %d was settled with %v, want %v", i, err, want)
					}
				}
				synctest.Wait()
				same(t, "messages in flight", cl.State.Inflight.Len(), 0)
				same(t, "bytes that wait", b.Stats().Queued, 0)
			})
		})
	}
}

func TestReceiveMaximumCountsAQoS2MessageUntilItsEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, 5, 2, 2, receiveMaximum(2))
		send(t, b, 2, 0, 5)
		got, ids := s.messages(t, 2)
		same(t, "the first", got, "0 1")
		s.ack(packets.Pubrec, ids[0])
		s.next(t, packets.Pubrel, 1) // and no message
		s.ack(packets.Pubcomp, ids[0])
		got, more := s.messages(t, 1)
		same(t, "after PUBCOMP", got, "2")
		s.write(packets.Pubrec<<4, append(binary.BigEndian.AppendUint16(nil, ids[1]), packets.ErrUnspecifiedError.Code))
		got, _ = s.messages(t, 1)
		same(t, "after a PUBREC that refuses", got, "3")
		s.ack(packets.Pubrec, more[0])
		s.next(t, packets.Pubrel, 1)
		s.ack(packets.Pubcomp, more[0])
		got, _ = s.messages(t, 1)
		same(t, "the last", got, "4")
	})
}

func TestResumedSessionObeysItsReceiveMaximum(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, 5, 0, 1, keepSession, receiveMaximum(3))
		send(t, b, 1, 0, 20)
		got, ids := s.messages(t, 3)
		same(t, "before", got, "0 1 2")
		s.ack(packets.Puback, ids[0])
		s.messages(t, 1)
		_ = s.nc.Close()
		synctest.Wait()
		send(t, b, 1, 20, 25) // meanwhile
		s = p.subscriber(t, 5, 0, 1, keepSession, receiveMaximum(7))
		send(t, b, 1, 25, 45) // beyond the maximum again
		want := 1
		for n := 7; n > 0; n = min(7, 45-want) { // in the order in which they were published
			got := s.next(t, packets.Publish, n)
			for _, pk := range got {
				same(t, "message", string(pk.Payload), strconv.Itoa(want))
				same(t, "marked as sent again", pk.FixedHeader.Dup, want < 25)
				want++
			}
			for _, pk := range got {
				s.ack(packets.Puback, pk.PacketID)
			}
		}
		same(t, "messages in all", want, 45)
		send(t, b, 1, 45, 46)
		got, _ = s.messages(t, 1)
		same(t, "a late one", got, "45")
	})
}

func TestSubscriberThatNeverAcknowledgesHoldsUpNobody(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, _ *heldRuntime) {
		var properties []byte
		sent := forwardQueue
		if version == 5 {
			properties, sent = receiveMaximum(1), 1
		}
		s := p.subscriber(t, version, 2, 1, properties)
		const all = forwardQueue + 10
		send(t, b, 1, 0, all)
		s.messages(t, sent)
		f := s.flow(b)
		same(t, "messages held", len(f.held), forwardQueue-sent)
		same(t, "messages counted as dropped", atomic.LoadInt64(&b.server.Info.InflightDropped), int64(all-forwardQueue))
		s.write(0xc0, nil)
		s.next(t, packets.Pingresp, 1)
		_ = s.nc.Close()
		synctest.Wait()
		same(t, "messages held after the end", len(f.held)+len(f.pending), 0)
	})
}

func TestHeldMessageExpires(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, 5, 2, 1, receiveMaximum(1))
		for i, seconds := range []uint32{1000, 10, 100} {
			b.forward(&packets.Packet{
				FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, ProtocolVersion: 5, PacketID: 1,
				TopicName: "e/a/telemetry", Payload: []byte(strconv.Itoa(i)),
				Properties: packets.Properties{MessageExpiryInterval: seconds, PayloadFormat: 1, PayloadFormatFlag: true},
			})
			synctest.Wait()
		}
		got := s.next(t, packets.Publish, 1)
		same(t, "interval of the first", got[0].Properties.MessageExpiryInterval, uint32(1000))
		time.Sleep(20 * time.Second)
		s.ack(packets.Puback, got[0].PacketID)
		got = s.next(t, packets.Publish, 1)
		same(t, "the next", string(got[0].Payload), "2")
		same(t, "its interval", got[0].Properties.MessageExpiryInterval, uint32(80))
		same(t, "messages that are held", len(s.flow(b).pending), 1)
	})
}

func TestMessageTooLargeForASubscriberIsLeftOut(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		s := p.subscriber(t, 5, 0, 1, keepSession, maximumPacketSize(60))
		for _, payload := range []string{strings.Repeat("x", 60), "1"} {
			b.publish("e/a/telemetry", []byte(payload), 1)
			synctest.Wait()
		}
		got, _ := s.messages(t, 1)
		same(t, "what fits", got, "1")
		same(t, "messages dropped", atomic.LoadInt64(&b.server.Info.MessagesDropped), int64(1))
		same(t, "messages in flight", s.flow(b).conn.client.State.Inflight.Len(), 1)
		_ = s.nc.Close()
		synctest.Wait()
		b.publish("e/a/telemetry", []byte(strings.Repeat("y", 60)), 1)
		s = p.subscriber(t, 5, 0, 1, keepSession, maximumPacketSize(60))
		same(t, "a session", s.present, true)
		got, _ = s.messages(t, 1)
		same(t, "what fits, again", got, "1")
	})
}

func TestPacketIDsOfTheTwoSidesAreApart(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, _ *heldRuntime) {
		var properties []byte
		if version == 5 {
			properties = keepSession
		}
		s := p.subscriber(t, version, 0, 1, properties)
		send(t, b, 1, 0, 3)
		_, ids := s.messages(t, 3)
		s.subscribe(ids[0], 1)
		if got := s.next(t, packets.Suback, 1)[0]; got.PacketID != ids[0] || got.ReasonCodes[0] != 1 {
			t.Errorf("SUBACK: %+v", got)
		}
		filter := []byte{0, 1, 'x'}
		if version == 5 {
			filter = slices.Concat([]byte{0}, filter)
		}
		s.write(0xa2, append(binary.BigEndian.AppendUint16(nil, ids[0]), filter...))
		if got := s.next(t, packets.Unsuback, 1)[0]; got.PacketID != ids[0] || version == 5 && got.ReasonCodes[0] != packets.CodeNoSubscriptionExisted.Code {
			t.Errorf("UNSUBACK: %+v", got)
		}
		s.publish(version, ids[1], `nonsense`)
		same(t, "id of the refusal", s.next(t, packets.Puback, 1)[0].PacketID, ids[1])
		s.write(0x33, publishBody(version, ids[2], "")) // takes back a retained message
		synctest.Wait()
		s.mu.Lock()
		for _, pk := range s.got {
			if pk.FixedHeader.Type == packets.Puback {
				same(t, "id of the acknowledgement", pk.PacketID, ids[2])
			}
		}
		s.got = nil
		s.mu.Unlock()
		_ = s.nc.Close()
		synctest.Wait()
		s = p.subscriber(t, version, 0, 1, properties)
		got, _ := s.messages(t, 4)
		same(t, "sent again", got, "0 1 2 ")
	})
}

// bareConn is a connection that mochi knows nothing of, and its other end.
func bareConn(t *testing.T, b *Broker, maximum uint16) (*conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { _ = ours.Close() })
	c := newConn(theirs, b)
	c.client = b.server.NewClient(c, listenerID, "reader", false)
	c.client.Properties.Props.ReceiveMaximum = maximum
	c.flow.begin(c.client)
	return c, ours
}

// admitted returns those of some packets that may be written now.
func (c *conn) admitted(t *testing.T, p ...[]byte) string {
	t.Helper()
	now, err := c.flow.admit(bytes.Join(p, nil))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("% x", now)
}

// written reads what must come over a connection.
func written(t *testing.T, nc net.Conn, want ...[]byte) {
	t.Helper()
	all := bytes.Join(want, nil)
	got := make([]byte, len(all))
	if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, all) {
		t.Errorf("written: % x, %v; want % x", got, err, all)
	}
}

func TestNoMessageComesBeforeCONNACK(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c, ours := bareConn(t, b, 0)
		message := func(qos byte, id uint16) []byte { return publishPacket(t, 4, qos, id, 0, false, "x") }
		connack, pingresp := []byte{0x20, 2, 1, 0}, []byte{0xd0, 0}
		same(t, "before CONNACK", c.admitted(t, message(0, 0), message(1, 7)), "")
		same(t, "with CONNACK", c.admitted(t, message(1, 8), connack, message(1, 9), pingresp), fmt.Sprintf("% x", slices.Concat(connack, pingresp)))
		same(t, "sent again what was published meanwhile", c.admitted(t, message(1, 7)), "")
		c.flow.open()
		written(t, ours, message(1, 7), message(1, 8), message(1, 9))
		same(t, "and once more", c.admitted(t, message(1, 7)), "")
		_ = c.Close()
		if _, err := c.Write(message(1, 10)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v, want net.ErrClosed", err)
		}
	})
}

func TestNoMessageOvertakesAHeldOne(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c, ours := bareConn(t, b, 1)
		message := func(id uint16) []byte { return publishPacket(t, 4, 1, id, 0, false, "x") }
		c.flow.open()
		same(t, "the first", c.admitted(t, message(1)), fmt.Sprintf("% x", message(1)))
		same(t, "the second", c.admitted(t, message(2)), "")
		c.client.Lock() // as mochi when it writes
		c.flow.release(1)
		same(t, "the third, when there is room but not yet the second", c.admitted(t, message(3)), "")
		c.client.Unlock()
		written(t, ours, message(2))
		c.flow.release(2)
		written(t, ours, message(3))
	})
}

func TestSubscriberThatComesAndGoesGetsItsMessagesInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		const publishers, messages, maximum = 3, 300, 5
		s := p.subscriber(t, 5, 0, 1, keepSession, receiveMaximum(maximum))
		var busy sync.WaitGroup
		for i := range publishers {
			busy.Go(func() {
				for n := range messages {
					b.publish("e/a/telemetry", fmt.Appendf(nil, "%d %d", i, n), 1)
					time.Sleep(time.Millisecond)
				}
			})
		}
		seen := [publishers]map[int]bool{{}, {}, {}}
		var newest [publishers]int
		note := func(got []packets.Packet) {
			if len(got) > maximum {
				t.Fatalf("%d messages at once", len(got))
			}
			for _, pk := range got {
				var i, n int
				if _, err := fmt.Sscan(string(pk.Payload), &i, &n); err != nil {
					t.Fatal(err)
				}
				if n < newest[i] && !seen[i][n] {
					t.Errorf("publisher %d: message %d after %d", i, n, newest[i])
				}
				seen[i][n], newest[i] = true, max(newest[i], n)
			}
		}
		for round, quiet := 0, false; !quiet; round++ {
			synctest.Wait()
			s.mu.Lock()
			got := s.got
			s.got = nil
			s.mu.Unlock()
			note(got)
			for _, pk := range got {
				s.ack(packets.Puback, pk.PacketID)
			}
			if quiet = len(got) == 0 && newest == [publishers]int{messages - 1, messages - 1, messages - 1}; round%7 == 6 {
				_ = s.nc.Close()
				s = p.subscriber(t, 5, 0, 1, keepSession, receiveMaximum(maximum))
			}
			if round > 10*messages {
				t.Fatalf("the last messages were %v", newest)
			}
			time.Sleep(time.Millisecond)
		}
		busy.Wait()
	})
}

// publishPacket encodes a PUBLISH as mochi does.
func publishPacket(t testing.TB, version, qos byte, id uint16, expiry uint32, format bool, payload string) []byte {
	t.Helper()
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos}, ProtocolVersion: version, PacketID: id,
		TopicName: "e/a/telemetry", Payload: []byte(payload),
		Properties: packets.Properties{MessageExpiryInterval: expiry, PayloadFormatFlag: format, ContentType: payload},
	}
	var buf bytes.Buffer
	if err := pk.PublishEncode(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func FuzzFlowReadsWhatTheBrokerWrites(f *testing.F) {
	f.Add(byte(5), byte(1), uint16(7), uint32(60), true, "payload", []byte{0x32, 0xff, 0xff, 0xff, 0x7f})
	f.Add(byte(4), byte(0), uint16(1), uint32(0), false, "", []byte{0x32, 5, 0, 0, 0, 1, 9})
	f.Fuzz(func(t *testing.T, version, qos byte, id uint16, expiry uint32, format bool, payload string, rest []byte) {
		version, qos, id = 4+version%2, qos%3, max(id, 1)
		if len(payload) > 1<<16-1 {
			return // no content type is as long
		}
		p := publishPacket(t, version, qos, id, expiry, format, payload)
		packet, tail, ok := cutPacket(slices.Concat(p, rest))
		if !ok || !bytes.Equal(packet, p) || !bytes.Equal(tail, rest) {
			t.Fatalf("cut % x from % x", packet, p)
		}
		m, gotQos, ok := parsePublish(packet, version)
		if !ok || gotQos != qos || qos > 0 && m.id != id {
			t.Fatalf("parsed %+v with QoS %d, %v", m, gotQos, ok)
		}
		if qos > 0 && version == 5 && expiry > 0 && (m.expiryAt == 0 || binary.BigEndian.Uint32(packet[m.expiryAt:]) != expiry) {
			t.Fatalf("the interval of %d s is not at %d of % x", expiry, m.expiryAt, packet)
		}
		if (version < 5 || expiry == 0) && m.expiryAt != 0 {
			t.Fatalf("an interval in % x", packet)
		}
		if packet, _, ok := cutPacket(rest); ok { // anything
			_, _, _ = parsePublish(packet, version)
		}
	})
}
