package mqtt

import (
	"bytes"
	"encoding/binary"
	"testing"
	"testing/synctest"

	"github.com/mochi-mqtt/server/v2/packets"
)

// withString appends a text as MQTT encodes it.
func withString(to []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(to, uint16(len(s))), s...)
}

func TestResponseTopicWithAWildcardEndsTheConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, h *heldRuntime) {
		for _, topic := range []string{"#", "answers/+/x"} {
			property := withString([]byte{packets.PropResponseTopic}, topic)
			for qos := range byte(3) {
				c := p.dial(t, "asks", 5)
				body := withString(nil, "e/a/telemetry")
				if qos > 0 {
					body = append(body, 0, 7)
				}
				body = append(append(body, byte(len(property))), property...)
				c.write(0x30|qos<<1, append(body, `{"t":1}`...))
				if kind, answer := c.read(); kind != 0xe0 || answer[0] != 0x82 {
					t.Errorf("QoS %d, the response topic %s: packet %x % x, want DISCONNECT with 82", qos, topic, kind, answer)
				}
				if _, err := c.in.ReadByte(); err == nil {
					t.Errorf("QoS %d, the response topic %s: the connection goes on", qos, topic)
				}
			}
			if kind, answer := p.connect(t).connectWithWill("e/a/telemetry", property); kind != 0x20 || answer[1] != 0x82 {
				t.Errorf("a will with the response topic %s: packet %x % x, want CONNACK with 82", topic, kind, answer)
			}
		}
		synctest.Wait()
		same(t, "messages that were ingested", h.held(), 0)
	})
}

// connectWithWill connects with MQTT 5 and a will, and returns the answer.
func (c *rawClient) connectWithWill(topic string, properties []byte) (kind byte, answer []byte) {
	c.t.Helper()
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', 5, 2 | 4, 0, 60, 0}
	body = withString(body, "leaves")
	body = append(append(body, byte(len(properties))), properties...)
	c.write(0x10, withString(withString(body, topic), `{"t":1}`))
	return c.read()
}

func TestAWillKeepsItsProperties(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, h *heldRuntime) {
		reader := p.dial(t, "reader", 5)
		reader.request("e/a/telemetry", 0)
		properties := []byte{packets.PropPayloadFormat, 1, packets.PropMessageExpiryInterval, 0, 0, 0, 100}
		properties = withString(append(properties, packets.PropContentType), "application/json")
		properties = withString(append(properties, packets.PropResponseTopic), "answers/a")
		properties = withString(append(properties, packets.PropCorrelationData), "question")
		properties = withString(withString(append(properties, packets.PropUser), "k"), "v")
		c := p.connect(t)
		if kind, answer := c.connectWithWill("e/a/telemetry", properties); kind != 0x20 || answer[1] != 0 {
			t.Fatalf("packet %x % x, want CONNACK", kind, answer)
		}
		_ = c.nc.Close()
		synctest.Wait()
		h.settle(0, nil)
		kind, body := reader.read()
		pk := packets.Packet{ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Publish, Remaining: len(body)}}
		if err := pk.PublishDecode(body); err != nil || kind>>4 != packets.Publish {
			t.Fatalf("packet %x: %v", kind, err)
		}
		got := &pk.Properties
		if got.PayloadFormat != 1 || got.MessageExpiryInterval != 100 || got.ContentType != "application/json" || got.ResponseTopic != "answers/a" ||
			!bytes.Equal(got.CorrelationData, []byte("question")) || len(got.User) != 1 || got.User[0] != (packets.UserProperty{Key: "k", Val: "v"}) {
			t.Errorf("the properties of the will: %+v", got)
		}
	})
}

func TestASessionWithoutAClientIDIsRefusedByTheCodesOfTheProtocol(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		c := p.connect(t)
		c.write(0x10, []byte{0, 4, 'M', 'Q', 'T', 'T', 4, 0, 0, 60, 0, 0})
		if kind, answer := c.read(); kind != 0x20 || answer[1] != 2 {
			t.Errorf("packet %x % x, want CONNACK with 02, identifier rejected", kind, answer)
		}
	})
}

func TestWhatMQTT5ForbidsIsRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		method := withString([]byte{packets.PropAuthenticationMethod}, "SCRAM-SHA-1")
		c := p.connect(t)
		body := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, byte(len(method))}, method...)
		c.write(0x10, withString(body, "knows-more"))
		if kind, answer := c.read(); kind != 0x20 || answer[1] != 0x8c {
			t.Errorf("an authentication method: packet %x % x, want CONNACK with 8c", kind, answer)
		}
		c = p.dial(t, "reads", 5)
		c.write(0x82, append(withString([]byte{0, 1, 0}, "e/a/telemetry"), 0x30))
		if kind, answer := c.read(); kind != 0xe0 || answer[0] != 0x82 {
			t.Errorf("retain handling 3: packet %x % x, want DISCONNECT with 82", kind, answer)
		}
	})
}
