package mqtt

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"
)

// request subscribes to one filter with QoS 1, with user properties of a number of bytes, and returns
// the code of the answer.
func (c *rawClient) request(filter string, extra int) byte {
	c.t.Helper()
	body := binary.BigEndian.AppendUint16(nil, 1)
	properties := userProperty(extra)
	body = append(binary.AppendUvarint(body, uint64(len(properties))), properties...)
	body = append(binary.BigEndian.AppendUint16(body, uint16(len(filter))), filter...)
	c.write(0x82, append(body, 1))
	kind, answer := c.read()
	if kind != 0x90 {
		c.t.Fatalf("packet %x % x, want SUBACK", kind, answer)
	}
	return answer[len(answer)-1]
}

// userProperty returns a user property with a value of n bytes, nothing for 0.
func userProperty(n int) []byte {
	if n == 0 {
		return nil
	}
	list := []byte{0x26, 0, 1, 'k'}
	list = binary.BigEndian.AppendUint16(list, uint16(n))
	return append(list, strings.Repeat("x", n)...)
}

func TestWhatClientsNameIsShort(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		long := strings.Repeat("x", maxNameBytes+1)
		for version, want := range map[byte]byte{4: 0x02, 5: 0x85} {
			c := p.connect(t)
			body := []byte{0, 4, 'M', 'Q', 'T', 'T', version, 2, 0, 60}
			if version == 5 {
				body = append(body, 0)
			}
			c.write(0x10, append(binary.BigEndian.AppendUint16(body, uint16(len(long))), long...))
			if kind, answer := c.read(); kind != 0x20 || answer[1] != want {
				t.Errorf("a long client id in version %d: packet %x % x, want the code %x", version, kind, answer, want)
			}
		}
		c := p.dial(t, long[1:], 5)
		same(t, "the code for a long filter", c.request(long, 0), 0x8f)
		same(t, "the code for one that is just short enough", c.request(long[1:], 0), 1)
		body := append(binary.BigEndian.AppendUint16(nil, uint16(len(long))), long...)
		c.write(0x30, append(body, 3, 0x23, 0, 1)) // with the alias 1
		if _, err := c.in.ReadByte(); err == nil {
			t.Error("a long topic got an alias")
		}
	})
}

func TestTheMemoryOfAllSubscriptionsIsBounded(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	inBubbleWith(t, Limits{FilterBytes: most}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		filters := 0
		fill := func(c *rawClient) (n int) {
			for ; n < maxSubscriptions; n++ {
				filters++
				if code := c.request(fmt.Sprintf("e/%d/#", filters), 0); code != 1 {
					same(t, "the code beyond the limit", code, 0x97)
					break
				}
			}
			return n
		}
		clients := make([]*rawClient, 5)
		for i := range clients {
			c, _ := p.dialWith(t, fmt.Sprint("client-", i), 5, 0, keepSession)
			clients[i] = c
			if got, reserved := fill(c), int(filterReserve/costOf("e/10/#")); got < reserved {
				t.Errorf("client %d has %d subscriptions, and should have at least %d", i, got, reserved)
			}
		}
		if got := b.filters.bytes(); got > most+int64(len(clients))*filterReserve || got < most/2 {
			t.Errorf("all subscriptions take %d bytes", got)
		}
		same(t, "the code for a filter that the client has", clients[0].request("e/1/#", 0), 1)
		for _, c := range clients {
			_ = c.nc.Close()
		}
		synctest.Wait()
		if b.filters.bytes() == 0 {
			t.Error("the subscriptions of sessions that are kept take nothing")
		}
		for i := range clients { // a clean start ends the session
			p.dial(t, fmt.Sprint("client-", i), 5)
		}
		synctest.Wait()
		same(t, "bytes after the sessions have ended", b.filters.bytes(), 0)
	})
}

// mochi asks for permission to send each message of $SYS, as it does for each subscription.
func TestMessagesOfMochiAreNotSubscriptions(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Limits{FilterBytes: 1}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		c := p.dial(t, "monitor", 5)
		same(t, "the code", c.request("$SYS/#", 0), 1)
		same(t, "bytes after subscribing", b.filters.bytes(), costOf("$SYS/#"))
		uptimes := map[string]bool{}
		for len(uptimes) < 3 { // the first is retained, and each later one is sent with all others of $SYS
			kind, body := c.read()
			same(t, "the kind of packet", kind&0xf0, 0x30)
			if _, uptime, ok := strings.Cut(string(body), "$SYS/broker/uptime"); ok {
				uptimes[uptime] = true
			}
		}
		synctest.Wait()
		same(t, "bytes after the messages", b.filters.bytes(), costOf("$SYS/#"))
	})
}

func TestEachSubscriptionIsChargedOnce(t *testing.T) {
	t.Parallel()
	inBubbleWith(t, Limits{FilterBytes: 1}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		subscribe := func(c *rawClient, filters ...string) []byte {
			body := []byte{0, 1, 0}
			for _, filter := range filters {
				body = append(binary.BigEndian.AppendUint16(body, uint16(len(filter))), filter...)
				body = append(body, 0)
			}
			c.write(0x82, body)
			_, answer := c.read()
			return answer[3:]
		}
		first, _ := p.dialWith(t, "client", 5, 0, keepSession)
		large := strings.Repeat("/", 12) // there is room for one such filter
		other := "x" + large[1:]
		long := strings.Repeat("x", maxNameBytes+1)
		same(t, "the codes", fmt.Sprintf("%x", subscribe(first, "a/#/b", large, long, large)), "8f008f00")
		same(t, "bytes with a subscription", b.filters.bytes(), costOf(large))
		for range 2 {
			same(t, "the codes beyond the limit", fmt.Sprintf("%x", subscribe(first, other, "a", other, large)), "97009700")
			same(t, "bytes with another one", b.filters.bytes(), costOf(large)+costOf("a"))
		}
		_, present := p.dialWith(t, "client", 5, 0, keepSession)
		same(t, "whether the session is taken over", present, true)
		synctest.Wait()
		same(t, "bytes after the takeover", b.filters.bytes(), costOf(large)+costOf("a"))
		last := p.dial(t, "client", 5)
		synctest.Wait()
		same(t, "bytes after a clean start", b.filters.bytes(), 0)
		subscribe(last, large, "a")
		last.write(0xa2, append([]byte{0, 1, 0, 0, byte(len(large))}, large...))
		last.read()
		same(t, "bytes after unsubscribing", b.filters.bytes(), costOf("a"))
		_ = last.nc.Close()
		synctest.Wait()
		same(t, "bytes after the end", b.filters.bytes(), 0)
	})
}

// A connection may handle a SUBSCRIBE while another one takes its session over.
func TestTheSessionOfTheLatestConnectionIsCharged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		p.dialWith(t, "client", 5, 0, keepSession)
		synctest.Wait()
		old, _ := b.server.Clients.Get("client")
		c, _ := p.dialWith(t, "client", 5, 0, keepSession)
		same(t, "the code", c.request("a", 0), 1)
		h := &hook{broker: b}
		late := func() {
			pk := packets.Packet{Filters: packets.Subscriptions{{Filter: "late/b"}}}
			old.State.Subscriptions.Add("late/b", pk.Filters[0])
			h.OnSubscribed(old, h.OnSubscribe(old, pk), []byte{0})
		}
		late()
		same(t, "bytes", b.filters.bytes(), costOf("a"))
		p.dial(t, "client", 5).write(0xe0, nil)
		synctest.Wait()
		late()
		same(t, "bytes after the end of the session", b.filters.bytes(), 0)
	})
}

// A filter is decoded as a part of its packet, which must not stay in memory with it.
func TestASubscriptionDoesNotKeepItsPacket(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		c := p.dial(t, "wasteful", 5)
		heap := func() int64 {
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		const subscriptions, extra = 400, 60 << 10
		before := heap()
		for i := range subscriptions {
			same(t, "the code", c.request(fmt.Sprintf("e/%d/#", i), extra), 1)
		}
		if more := heap() - before; more > subscriptions*extra/4 {
			t.Errorf("%d subscriptions with %d bytes of properties each take %d bytes", subscriptions, extra, more)
		}
	})
}
