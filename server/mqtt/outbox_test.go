package mqtt

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// kilobytes is a message with a number and so many kilobytes.
func kilobytes(i, n int) []byte { return []byte(strconv.Itoa(i) + strings.Repeat(" ", n<<10)) }

// numbers returns the numbers of messages of kilobytes.
func numbers(got []packets.Packet) (list []string) {
	for i := range got {
		list = append(list, strings.TrimSpace(string(got[i].Payload)))
	}
	return list
}

// lost returns how many messages were told to be lost, by subscriber.
func lost(b *Broker) map[string]uint64 {
	told := map[string]uint64{}
	for _, r := range b.refusals.Latest() {
		if r.Cause == refusal.CauseForward {
			told[r.Client] += r.Count
		}
	}
	return told
}

func TestWhatWaitsForASubscriberThatIsAwayIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 250 << 10 // twelve messages of 10 kB, which count twice
	inBubbleWith(t, Limits{SessionBytes: limit}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		s := p.subscriber(t, 5, 0, 1, keepSession)
		_ = s.nc.Close()
		synctest.Wait()
		const all, kept = 100, 11
		for i := range all {
			b.publish("e/a/telemetry", kilobytes(i, 10), 1)
		}
		if queued := b.Stats().Queued; queued > limit || queued < limit/2 {
			t.Errorf("%d bytes wait, want up to %d", queued, limit)
		}
		same(t, "dropped", b.Stats().ForwardDropped, all-kept)
		same(t, "told", lost(b), map[string]uint64{"reader": all - kept})
		s = p.subscriber(t, 5, 0, 1, keepSession)
		got := s.next(t, packets.Publish, kept)
		same(t, "what was kept", numbers(got), "[0 1 2 3 4 5 6 7 8 9 10]")
		for _, pk := range got {
			s.ack(packets.Puback, pk.PacketID)
		}
		synctest.Wait()
		same(t, "bytes that wait after the acknowledgements", b.Stats().Queued, 0)
		b.publish("e/a/telemetry", kilobytes(all, 10), 1)
		same(t, "the next message", numbers(s.next(t, packets.Publish, 1)), "[100]")
	})
}

func TestWhatWaitsForAllSubscribersIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 500 << 10
	inBubbleWith(t, Limits{QueueBytes: limit}, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		for i := range 4 {
			c, _ := p.dialWith(t, fmt.Sprint("reader-", i), 5, 0, keepSession)
			c.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', 1})
			c.read()
			_ = c.nc.Close()
		}
		synctest.Wait()
		for i := range 50 {
			b.publish("e/a/telemetry", kilobytes(i, 10), 1)
		}
		if queued := b.Stats().Queued; queued > limit || queued < limit/2 {
			t.Errorf("%d bytes wait, want up to %d", queued, limit)
		}
		same(t, "subscribers that were told", len(lost(b)), 4)
		// A reading is taken in all the same.
		c := p.dial(t, "sensor", 5)
		c.publish(5, 1, `{"t":1}`)
		synctest.Wait()
		h.settle(0, nil)
		same(t, "acknowledged", c.readAck(), 1)
		for i := range 4 { // who starts anew gives back what waited
			p.dial(t, fmt.Sprint("reader-", i), 5)
		}
		synctest.Wait()
		same(t, "bytes that wait for nobody", b.Stats().Queued, 0)
	})
}

func TestASubscriberThatDoesNotReadIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	for qos := range byte(3) {
		t.Run(fmt.Sprint("QoS ", qos), func(t *testing.T) {
			t.Parallel()
			inBubbleWith(t, Limits{SessionBytes: limit}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
				c := p.dial(t, "deaf", 4)
				c.write(0x82, []byte{0, 1, 0, 3, 'e', '/', '#', qos})
				c.read()
				for i := range 100 { // it reads no more
					b.publish("e/a/telemetry", kilobytes(i, 10), qos)
				}
				if queued := b.Stats().Queued; queued > limit || queued < limit/2 {
					t.Errorf("%d bytes wait, want up to %d", queued, limit)
				}
				if n := lost(b)["deaf"]; n == 0 || int64(n) != b.Stats().ForwardDropped {
					t.Errorf("%d messages were told, %d dropped", n, b.Stats().ForwardDropped)
				}
				_ = c.nc.Close()
				synctest.Wait()
				same(t, "bytes that wait after the end", b.Stats().Queued, 0)
			})
		})
	}
}

// A message may be on its way to its subscribers when one of them begins a new session.
func TestANewSessionGetsNothingOfTheOneBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		for _, again := range []struct {
			flags []byte
			bytes int64
		}{{nil, 0}, {keepSession, 2 * (packetOverhead + int64(len("e/a/telemetry")) + 1)}} {
			c, _ := p.dialWith(t, "reader", 5, 0, keepSession)
			c.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', 1})
			c.read()
			to := b.recipients("e/a/telemetry")
			_ = c.nc.Close()
			clean := byte(2)
			if again.flags != nil {
				clean = 0
			}
			p.dialWith(t, "reader", 5, clean, again.flags)
			synctest.Wait()
			b.deliver(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: "e/a/telemetry", Payload: []byte("1")}, to)
			same(t, "bytes that wait for the reader", b.Stats().Queued, again.bytes)
		}
	})
}

// mochi copies what is in flight to a session for the connection that takes it over, and then makes
// that the one that messages go to. What is published in between, and what was on its way to the
// connection before, is not lost.
func TestASessionThatIsTakenOverLosesNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		p.subscriber(t, 5, 0, 1, keepSession)
		b.publish("e/a/telemetry", []byte("0"), 1)
		synctest.Wait()
		cl, _ := b.server.Clients.Get("reader")
		before := &cl.Net.Conn.(*conn).outbox
		to := b.recipients("e/a/telemetry")
		before.handOver()
		b.publish("e/a/telemetry", []byte("1"), 1)
		next := p.subscriber(t, 5, 0, 1, keepSession)
		for id, sub := range to.Subscriptions {
			if id == "reader" && !before.put(cl, as(&sub, packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: "e/a/telemetry", Payload: []byte("2")}, false), nil) {
				t.Error("the message is lost")
			}
		}
		got := next.next(t, packets.Publish, 3)
		same(t, "messages", numbers(got), "[0 1 2]")
		for i := range got {
			next.ack(packets.Puback, got[i].PacketID)
		}
		synctest.Wait()
		same(t, "bytes that wait", b.Stats().Queued, 0)
	})
}

func TestTheNumberOfSessionsIsBounded(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Limits{Sessions: 3}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		dial := func(i int) (c *rawClient, present bool) {
			return p.dialWith(t, fmt.Sprint("client-", i), 5, 0, keepSession)
		}
		for i := range 10 {
			c, _ := dial(i)
			c.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', 1})
			c.read()
			b.publish("e/a/telemetry", []byte("1"), 1)
			c.read()
			_ = c.nc.Close()
			synctest.Wait()
		}
		same(t, "sessions", b.Stats().Sessions, 3)
		same(t, "subscriptions", b.Stats().Subscriptions, 3)
		same(t, "sessions that were given up", b.refusals.Counts()[refusal.Key{Source: refusal.MQTT, Cause: refusal.CauseSession}], 7)
		for i, want := range map[int]bool{0: false, 9: true} {
			_, present := dial(i)
			same(t, fmt.Sprint("session ", i), present, want)
		}
	})
}

func TestTheSubscriptionsOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		c := p.dial(t, "greedy", 5)
		for i := range maxSubscriptions + 1 {
			filter := fmt.Sprintf("e/%04d/#", i)
			c.write(0x82, append(append([]byte{0, 1, 0, 0, byte(len(filter))}, filter...), 1))
			_, body := c.read()
			if want := byte(1); i < maxSubscriptions && body[len(body)-1] != want || i == maxSubscriptions && body[len(body)-1] != 0x97 {
				t.Fatalf("subscription %d: code %#x", i, body[len(body)-1])
			}
		}
	})
}

// dialWithWill connects with a will.
func (p *pipes) dialWithWill(t *testing.T, id, topic, payload string, retain bool, properties []byte) (c *rawClient, code byte) {
	t.Helper()
	c = p.connect(t)
	c.write(0x10, connectWithWill(id, topic, payload, retain, keepSession, properties))
	kind, body := c.read()
	if kind != 0x20 {
		t.Fatalf("packet %x % x", kind, body)
	}
	return c, body[1]
}

// connectWithWill is the body of a CONNECT.
func connectWithWill(id, topic, payload string, retain bool, properties, willProperties []byte) []byte {
	flags := byte(0x04 | 1<<3)
	if retain {
		flags |= 0x20
	}
	body := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 5, flags, 0, 60, byte(len(properties))}, properties...)
	body = append(append(body, 0, byte(len(id))), id...)
	body = append(append(body, byte(len(willProperties))), willProperties...)
	body = append(append(body, 0, byte(len(topic))), topic...)
	return append(binary.BigEndian.AppendUint16(body, uint16(len(payload))), payload...)
}

// A CONNACK that the client says it cannot take ends a connection between OnConnect and
// OnSessionEstablished.
func TestAConnectionThatFailsAtItsConnackLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Limits{}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		for i := range 5 {
			c := p.connect(t)
			properties := append(slices.Clone(keepSession), packets.PropMaximumPacketSize, 0, 0, 0, 4)
			if i > 2 {
				properties = properties[len(keepSession):] // its session ends with it
			}
			c.write(0x10, connectWithWill(fmt.Sprint("client-", i), "e/lamp/telemetry", strings.Repeat("x", 10<<10), false, properties, nil))
			if n, err := c.nc.Read(make([]byte, 100)); err == nil {
				t.Fatalf("%d bytes came", n)
			}
		}
		synctest.Wait()
		same(t, "bytes that wait", b.Stats().Queued, 0)
		same(t, "sessions of clients that are away", b.sessions.len(), 3)
		same(t, "clients", b.server.Clients.Len(), 3+1) // mochi's own is one
	})
}

func isRetained(b *Broker, topic string) bool {
	_, ok := b.server.Topics.Retained.Get(topic)
	return ok
}

func TestAWillObeysTheRulesOfAPublish(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, topic, payload string
		settle               error
		cause                string // "": it is taken and forwarded
	}{
		{"to a topic for devices", "e/lamp/delta", `{"on":true}`, nil, refusal.CauseTopic},
		{"to no topic of an entity", "lamps/1", `{"on":true}`, nil, refusal.CauseTopic},
		{"that cannot be read", "e/lamp/telemetry", `nonsense`, nil, entity.CauseShape},
		{"that its type refuses", "e/lamp/telemetry", `{"power":101}`, entity.ErrMismatch, refusal.CauseType},
		{"that is a reading", "e/lamp/telemetry", `{"power":1}`, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
				s := p.subscriber(t, 5, 2, 1)
				all := p.dial(t, "all", 5)
				all.write(0x82, []byte{0, 1, 0, 0, 1, '#', 1})
				all.read()
				c, _ := p.dialWithWill(t, "dying", tt.topic, tt.payload, true, nil)
				_ = c.nc.Close()
				synctest.Wait()
				if h.held() > 0 {
					h.settle(0, tt.settle)
					synctest.Wait()
				}
				if tt.cause == "" {
					same(t, "the will", string(s.next(t, packets.Publish, 1)[0].Payload), tt.payload)
					same(t, "retained", isRetained(b, tt.topic), true)
				} else {
					s.next(t, packets.Publish, 0)
					same(t, "retained", isRetained(b, tt.topic), false)
					same(t, "refused", b.refusals.Counts(), map[refusal.Key]uint64{{Source: refusal.MQTT, Cause: tt.cause}: 1})
				}
			})
		})
	}
}

func TestADelayedWillIsTakenBackByItsClient(t *testing.T) {
	t.Parallel()
	delay := []byte{packets.PropWillDelayInterval, 0, 0, 0, 30}
	for _, back := range []bool{true, false} {
		inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
			c, _ := p.dialWithWill(t, "dying", "e/lamp/telemetry", `{"t":1}`, false, delay)
			_ = c.nc.Close()
			synctest.Wait()
			same(t, "readings at once", h.held(), 0)
			want := 1
			if back {
				p.dialWith(t, "dying", 5, 0, keepSession)
				want = 0
			}
			time.Sleep(31 * time.Second)
			synctest.Wait()
			same(t, fmt.Sprint("readings after the delay, with the client back: ", back), h.held(), want)
			for i := range want {
				h.settle(i, nil)
			}
			synctest.Wait()
			same(t, "bytes that wait", b.Stats().Queued, 0)
		})
	}
}

func TestTheWillsOfAllClientsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	inBubbleWith(t, Limits{QueueBytes: limit}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		taken := 0
		var clients []*rawClient
		for i := range 20 {
			c, code := p.dialWithWill(t, fmt.Sprint("client-", i), "e/lamp/telemetry", strings.Repeat("x", 10<<10), false, nil)
			if code == 0 {
				taken++
				clients = append(clients, c)
			} else if code != 0x97 {
				t.Fatalf("code %#x", code)
			}
		}
		if queued := b.Stats().Queued; taken != 9 || queued > limit {
			t.Errorf("%d wills of %d bytes", taken, queued)
		}
		for _, c := range clients {
			c.write(0xe0, nil) // they take their leave
			_ = c.nc.Close()
		}
		synctest.Wait()
		same(t, "bytes that wait", b.Stats().Queued, 0)
	})
}
