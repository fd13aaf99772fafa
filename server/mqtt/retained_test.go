package mqtt

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// retain retains messages of so many kilobytes.
func retain(b *Broker, n, size int) {
	for i := range n {
		b.forward(&packets.Packet{
			FixedHeader: packets.FixedHeader{Qos: 1, Retain: true}, TopicName: fmt.Sprintf("e/%02d/telemetry", i), Payload: kilobytes(i, size),
		})
	}
}

// What a subscription is sent of retained messages counts as what is published does.
func TestRetainedMessagesOfASessionAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	inBubbleWith(t, Limits{SessionBytes: limit}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		retain(b, 40, 3)
		s, _ := p.dialWith(t, "reader", 5, 0, keepSession)
		s.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', 1})
		s.read()
		synctest.Wait()
		_ = s.nc.Close()
		synctest.Wait()
		if queued := b.Stats().Queued; queued > limit || queued < limit/2 {
			t.Errorf("%d bytes wait, want up to %d", queued, limit)
		}
		if n := lost(b)["reader"]; n == 0 || n >= 40 {
			t.Errorf("%d messages were told to be lost", n)
		}
		c := p.dial(t, "reader", 5) // which starts anew
		_ = c.nc.Close()
		synctest.Wait()
		same(t, "bytes that wait for nobody", b.Stats().Queued, 0)
	})
}

// MQTT 5 says when a subscription is sent what is retained.
func TestRetainHandling(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		retain(b, 3, 0)
		c := p.dial(t, "reader", 5)
		for i, try := range []struct {
			handling byte
			want     int
		}{{1, 3}, {1, 0}, {0, 3}, {2, 0}} {
			c.write(0x82, []byte{0, byte(i + 1), 2, 0x0b, byte(i + 7), 0, 3, 'e', '/', '#', try.handling << 4})
			if kind, _ := c.read(); kind != 0x90 {
				t.Fatalf("try %d: the answer is %x", i, kind)
			}
			synctest.Wait()
			b.publish("e/end/telemetry", []byte("end"), 0)
			got := 0
			for {
				kind, body := c.read()
				if string(body[len(body)-3:]) == "end" {
					break
				}
				same(t, "the flags", kind, byte(0x31))
				properties := 2 + int(body[1])
				same(t, "the subscription identifier", body[properties+int(body[properties])], byte(i+7))
				got++
			}
			same(t, fmt.Sprint("retained messages, try ", i), got, try.want)
		}
	})
}

// A value that is too large to be retained takes the place of the one before: new
// subscribers get none, and not one that is out of date.
func TestAMessageThatIsNotRetainedEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, _ *pipes, _ *heldRuntime) {
		retain(b, 1, 1)
		same(t, "the small one is retained", isRetained(b, "e/00/telemetry"), true)
		retain(b, 1, 65)
		same(t, "one is retained after the large one", isRetained(b, "e/00/telemetry"), false)
		same(t, "refused", b.refusals.Counts(), map[refusal.Key]uint64{{Source: refusal.MQTT, Cause: refusal.CauseRetain}: 1})
	})
}

// A message takes as many places of 4 KiB as it needs, and leaves them when it goes.
func TestLargeRetainedMessagesTakeTheRoomOfSmallOnes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, _ *pipes, _ *heldRuntime) {
		const places = 40
		b.retainers.places = places + b.server.Topics.Retained.Len() // mochi has some of its own
		keep := func(n, size int) bool {
			topic := fmt.Sprintf("e/%d/telemetry", n)
			b.forward(&packets.Packet{FixedHeader: packets.FixedHeader{Retain: true}, TopicName: topic, Payload: kilobytes(n, size)})
			return isRetained(b, topic)
		}
		for i, want := range []bool{true, true, false} { // 16 places each
			same(t, fmt.Sprint("large message ", i), keep(i, 63), want)
		}
		n := 0
		for keep(10+n, 1) {
			n++
		}
		same(t, "small ones beside them", n, places-32)
		same(t, "a small one in place of a large one", keep(0, 1), true)
		same(t, "the large one again", keep(0, 63), true)
		same(t, "a larger one in place of a small one", keep(10, 5), false)
		same(t, "the small one is gone with it", isRetained(b, "e/10/telemetry"), false)
		same(t, "one in its place", keep(10, 1), true)
		for i := range 100 {
			keep(i, 0)
		}
		same(t, "places beyond one each", b.retainers.extra, 0)
		same(t, "what is noted", len(b.retainers.of), places)
	})
}

// What a client begins with QoS 2 and does not end stays for as long as its session, and is
// bounded in bytes.
func TestExchangesThatAreNotEndedAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	const room = 10
	inBubbleWith(t, Limits{SessionBytes: room * packetOverhead}, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c, _ := p.dialWith(t, "sensor", 5, 0, keepSession)
		publish := func(id uint16) (code byte) {
			t.Helper()
			before := h.held()
			c.write(0x34, publishBody(5, id, `{"t":1}`))
			synctest.Wait()
			if h.held() > before {
				h.settle(before, nil)
			}
			kind, body := c.read()
			same(t, "the answer", kind, byte(0x50))
			if len(body) > 2 {
				code = body[2]
			}
			return code
		}
		for id := range uint16(room) {
			same(t, "code of a first message", publish(id+1), 0)
		}
		same(t, "code beyond the limit", publish(100), packets.ErrQuotaExceeded.Code)
		_ = c.nc.Close()
		synctest.Wait()
		same(t, "bytes of the session", b.Stats().Queued, room*packetOverhead)
		c, _ = p.dialWith(t, "sensor", 5, 0, keepSession)
		for range room { // mochi sends them again
			kind, _ := c.read()
			same(t, "what is sent again", kind, byte(0x50))
		}
		c.write(0x62, []byte{0, 1})
		c.read()
		synctest.Wait()
		same(t, "code of a message after one was ended", publish(100), 0)
		c = p.dial(t, "sensor", 5)
		synctest.Wait()
		same(t, "bytes that wait for nobody", b.Stats().Queued, 0)
	})
}

// What waits for others takes nothing from who has little waiting.
func TestSomeRoomIsLeftForEachClient(t *testing.T) {
	t.Parallel()
	const limit = 200 << 10
	inBubbleWith(t, Limits{QueueBytes: limit}, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		away, _ := p.dialWith(t, "away", 5, 0, keepSession)
		away.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#', 1})
		away.read()
		_ = away.nc.Close()
		synctest.Wait()
		for size := 10; size > 0; size-- {
			for i := range 20 {
				b.publish("e/b/telemetry", kilobytes(i, size), 1)
			}
		}
		for range 200 {
			b.publish("e/b/telemetry", []byte("1"), 1)
		}
		reader := p.dial(t, "reader", 5)
		reader.write(0x82, []byte{0, 1, 0, 0, 13, 'e', '/', 'a', '/', 't', 'e', 'l', 'e', 'm', 'e', 't', 'r', 'y', 1})
		reader.read()
		lamp, code := p.dialWithWill(t, "lamp", "e/lamp/telemetry", `{"on":0}`, false, nil)
		if code != 0 {
			t.Fatalf("code of a client with a will: %#x", code)
		}
		lamp.write(0xe0, nil)
		sensor := p.dial(t, "sensor", 5)
		for qos := range byte(3) {
			before := h.held()
			if qos == 0 {
				sensor.write(0x30, append(append([]byte{0, 13}, "e/a/telemetry"...), "\x00{\"t\":1}"...))
			} else {
				sensor.write(0x30|qos<<1, publishBody(5, uint16(qos), `{"t":1}`))
			}
			synctest.Wait()
			if h.held() == before {
				t.Fatalf("a message of QoS %d was not taken", qos)
			}
			h.settle(before, nil)
			if qos > 0 {
				if _, body := sensor.read(); len(body) > 2 && body[2] != 0 {
					t.Errorf("code of a message of QoS %d: %#x", qos, body[2])
				}
			}
			if kind, _ := reader.read(); kind>>4 != packets.Publish {
				t.Errorf("the reader of a message of QoS %d was sent %#x", qos, kind)
			}
		}
		same(t, "lost to the reader", lost(b)["reader"], uint64(0))
	})
}

// noDocs is a store without principals.
type noDocs struct{ access.Store }

func (noDocs) Docs(context.Context, string) ([]entity.Doc, error) { return nil, nil }

func TestAPrincipalLeavesPlacesOfRetainedMessagesForOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, _ *pipes, _ *heldRuntime) {
		book, err := access.Open(t.Context(), noDocs{}, access.Config{Required: true})
		if err != nil {
			t.Fatal(err)
		}
		b.access = book
		const places = 100
		b.retainers.places = places + b.server.Topics.Retained.Len() // mochi has some of its own
		keep := func(by string, n int, payload string) bool {
			topic := fmt.Sprintf("e/%s-%d/telemetry", by, n)
			b.forward(&packets.Packet{FixedHeader: packets.FixedHeader{Retain: true}, TopicName: topic, Payload: []byte(payload), Origin: by + "/client"})
			return isRetained(b, topic)
		}
		fill := func(by string) (n int) {
			for keep(by, n, "1") {
				n++
			}
			return n
		}
		same(t, "messages of one principal", fill("gateway"), places/2)
		same(t, "messages of a second one", fill("second"), places/4)
		same(t, "one of a third one", keep("third", 0, "1"), true)
		same(t, "one again", keep("gateway", 0, "2"), true)
		for i := range places / 2 {
			keep("gateway", i, "") // takes it back
		}
		same(t, "principals that have retained something", len(b.retainers.count), 2)
		same(t, "messages of the second one, with the room of the first", fill("second"), places/2)
	})
}
