package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/refusal"
)

func TestAcknowledgedReadingOfMQTT311IsThere(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("sensor")
	for qos := range byte(3) {
		id := fmt.Sprintf("room-%d", qos)
		stream := s.changes(id)
		await(t, c.Publish("e/"+id+"/telemetry", qos, false, `{"ts":1451649600512,"values":{"temperature":21.5,"open":true,"note":"so","n":9007199254740993}}`))
		if qos == 0 { // is not acknowledged
			receive(t, stream, "the change")
		}
		same(t, fmt.Sprintf("latest after QoS %d", qos), s.latest(id), map[string]string{"temperature": "21.5", "open": "true", "note": `"so"`, "n": "9007199254740993"})
	}
	same(t, "messages of QoS 2", s.metric(`greenroom_mqtt_messages_total{qos="2"}`), "1")
}

func TestPayloadMayBeAnArrayAndHaveNoTime(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("sensor")
	before := time.Now().UnixMilli()
	await(t, c.Publish("e/a b%c/telemetry", 1, false, `[{"ts":1000,"values":{"t":1}},{"t":2}]`))
	var page struct {
		Points []struct{ TS, Value int64 }
	}
	s.get("/v1/entities/"+url.PathEscape("a b%c")+"/telemetry/t", &page)
	if len(page.Points) != 2 || page.Points[0].TS != 1000 || page.Points[1].TS < before || page.Points[1].TS > time.Now().UnixMilli() {
		t.Errorf("points: %+v", page.Points)
	}
}

// client5 is an MQTT 5 connection.
func (r *running) dial5(id string, router func(*paho.Publish), options ...func(*autopaho.ClientConfig)) *autopaho.ConnectionManager {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cfg := autopaho.ClientConfig{
		ServerUrls: []*url.URL{{Scheme: "mqtt", Host: r.MQTTAddr()}}, KeepAlive: 30, CleanStartOnInitialConnection: true,
		ClientConfig: paho.ClientConfig{ClientID: id, PacketTimeout: patience},
	}
	if router != nil {
		cfg.OnPublishReceived = []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			router(p.Packet)
			return true, nil
		}}
	}
	for _, option := range options {
		option(&cfg)
	}
	cm, err := autopaho.NewConnection(ctx, cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		leaving, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = cm.Disconnect(leaving) // the server may be gone by now
		cancel()
	})
	waiting, done := context.WithTimeout(ctx, patience)
	defer done()
	if err := cm.AwaitConnection(waiting); err != nil {
		r.t.Fatal(err)
	}
	return cm
}

func TestAcknowledgedReadingOfMQTT5IsThere(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial5("sensor", nil)
	for qos := byte(1); qos <= 2; qos++ {
		resp, err := c.Publish(t.Context(), &paho.Publish{QoS: qos, Topic: "e/room/telemetry", Payload: fmt.Appendf(nil, `{"t":%d}`, qos)})
		if err != nil || resp.ReasonCode != 0 {
			t.Fatalf("publish with QoS %d: %v, %+v", qos, err, resp)
		}
		same(t, "latest", s.latest("room"), fmt.Sprintf("map[t:%d]", qos))
	}
}

// refusedMessages are messages that nothing can be made of.
var refusedMessages = []struct {
	name, topic, payload string
	code                 byte
	cause, reason        string
}{
	{"not JSON", "e/room/telemetry", `temperature=21`, 0x99, entity.CauseShape, "object"},
	{"half of JSON", "e/room/telemetry", `{"t":1`, 0x99, entity.CauseSyntax, ""},
	{"empty", "e/room/telemetry", ``, 0x99, entity.CauseEmpty, ""},
	{"number alone", "e/room/telemetry", `21.5`, 0x99, entity.CauseShape, `{"temperature":21.5}`},
	{"null", "e/room/telemetry", `{"t":null}`, 0x99, entity.CauseNull, ""},
	{"time in nanoseconds", "e/room/telemetry", `{"ts":1451649600512000000,"values":{"t":1}}`, 0x99, entity.CauseTime, "milliseconds"},
	{"second reading bad", "e/room/telemetry", `[{"t":1},{"t":null}]`, 0x99, entity.CauseNull, ""},
	{"typo in the topic", "e/room/telemetri", `{"t":1}`, 0x90, refusal.CauseTopic, "e/{id}/telemetry"},
	{"no id", "e//telemetry", `{"t":1}`, 0x90, refusal.CauseID, "1 to 256 bytes"},
	{"id with a slash", "e/a/b/telemetry", `{"t":1}`, 0x90, refusal.CauseID, "/"},
	{"reserved topic", "$SYS/broker/version", `{"t":1}`, 0x90, refusal.CauseTopic, "e/{id}/telemetry"},
	{"other reserved topic", "$share", `{"t":1}`, 0x90, refusal.CauseTopic, "e/{id}/telemetry"},
}

func TestRefusedMessageIsAnsweredWithAReasonOverMQTT5(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial5("sensor", nil)
	for _, tt := range refusedMessages {
		for qos := byte(1); qos <= 2; qos++ {
			resp, err := c.Publish(t.Context(), &paho.Publish{QoS: qos, Topic: tt.topic, Payload: []byte(tt.payload)})
			if resp == nil {
				t.Fatalf("%s with QoS %d: %v", tt.name, qos, err)
			}
			if resp.ReasonCode != tt.code {
				t.Errorf("%s with QoS %d: code %#x, want %#x", tt.name, qos, resp.ReasonCode, tt.code)
			}
			if resp.Properties == nil || resp.Properties.ReasonString == "" || !strings.Contains(resp.Properties.ReasonString, tt.reason) {
				t.Errorf("%s with QoS %d: reason %+v, want one with %q", tt.name, qos, resp.Properties, tt.reason)
			}
		}
	}
	var page struct{ Entities []any }
	s.get("/v1/entities", &page)
	if len(page.Entities) != 0 {
		t.Errorf("there are entities of refused messages: %v", page.Entities)
	}
	same(t, "refused over their payload's null", s.metric(`greenroom_refused_total{cause="null",source="mqtt"}`), "4")
	if n := strings.Count(s.log.String(), "cause=null"); n != 1 {
		t.Errorf("the cause null was logged %d times", n)
	}
	// The connection still works.
	if _, err := c.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "e/room/telemetry", Payload: []byte(`{"t":1}`)}); err != nil {
		t.Errorf("publish after refusals: %v", err)
	}
}

func TestRefusedMessageIsAcknowledgedAndCountedOverMQTT311(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("sensor")
	for _, tt := range refusedMessages {
		await(t, c.Publish(tt.topic, 1, false, tt.payload))
		await(t, c.Publish(tt.topic, 2, false, tt.payload))
	}
	want := map[string]int{}
	for _, tt := range refusedMessages {
		want[tt.cause] += 2
	}
	for cause, n := range want {
		same(t, "refused for "+cause, s.metric(fmt.Sprintf(`greenroom_refused_total{cause=%q,source="mqtt"}`, cause)), n)
	}
	var system struct{ Ingest struct{ Rejected int } }
	s.get("/v1/system", &system)
	same(t, "rejected", system.Ingest.Rejected, 2*len(refusedMessages))
}

func TestTooManyKeysAreAQuota(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial5("sensor", nil)
	var last *paho.PublishResponse
	for part := range entity.MaxEntityKeys/entity.MaxReadingKeys + 1 {
		var b strings.Builder
		for i := range entity.MaxReadingKeys {
			fmt.Fprintf(&b, `,"k%d_%d":1`, part, i)
		}
		last, _ = c.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "e/room/telemetry", Payload: []byte("{" + b.String()[1:] + "}")})
	}
	if last == nil || last.ReasonCode != 0x97 {
		t.Errorf("the keys beyond the limit: %+v", last)
	}
}

func TestPacketBeyondTheLimitEndsTheConnectionOnly(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	lost := make(chan error, 1)
	c := s.dial311("sensor", func(o *mqtt311.ClientOptions) {
		o.SetConnectionLostHandler(func(_ mqtt311.Client, err error) { lost <- err })
	})
	c.Publish("e/room/telemetry", 1, false, strings.Repeat(" ", entity.MaxPayloadBytes+64<<10))
	if err := receive(t, lost, "the end of the connection"); err == nil {
		t.Error("the connection ended without an error")
	}
	eventually(t, "the refusal over the size to be counted", func() bool { // after the end of the connection
		return s.metric(`greenroom_refused_total{cause="packet_size",source="mqtt"}`) == "1"
	})
	await(t, s.dial311("other").Publish("e/room/telemetry", 1, false, `{"t":1}`))
}

func TestSubscribersGetCommittedMessages(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	type got struct {
		topic, payload string
		retained       bool
	}
	messages := make(chan got, 10)
	sub := s.dial311("reader")
	await(t, sub.Subscribe("e/+/telemetry", 1, func(_ mqtt311.Client, m mqtt311.Message) {
		messages <- got{m.Topic(), string(m.Payload()), m.Retained()}
	}))
	c := s.dial311("sensor")
	await(t, c.Publish("e/a/telemetry", 1, false, `{"t":null}`)) // refused, not forwarded
	for qos := range byte(3) {
		payload := fmt.Sprintf(`{"qos":%d}`, qos)
		await(t, c.Publish("e/a/telemetry", qos, true, payload))
		same(t, "forwarded", receive(t, messages, "the message"), got{"e/a/telemetry", payload, false})
	}
	late := make(chan got, 1)
	await(t, s.dial311("late").Subscribe("e/a/telemetry", 1, func(_ mqtt311.Client, m mqtt311.Message) {
		late <- got{m.Topic(), string(m.Payload()), m.Retained()}
	}))
	same(t, "retained", receive(t, late, "the retained message"), got{"e/a/telemetry", `{"qos":2}`, true})
	await(t, c.Publish("e/a/telemetry", 1, true, "")) // takes it back, and is forwarded after its acknowledgement
	same(t, "forwarded", receive(t, messages, "the empty message"), got{"e/a/telemetry", "", false})
	same(t, "latest", s.latest("a"), map[string]string{"qos": "2"})
	later := make(chan got, 1)
	await(t, s.dial311("later").Subscribe("e/a/telemetry", 1, func(_ mqtt311.Client, m mqtt311.Message) {
		later <- got{m.Topic(), string(m.Payload()), m.Retained()}
	}))
	await(t, c.Publish("e/a/telemetry", 1, false, `{"new":1}`))
	same(t, "after it was taken back", receive(t, later, "the new message"), got{"e/a/telemetry", `{"new":1}`, false})
}

func TestNoLocalSubscriberDoesNotGetItsOwn(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	messages := make(chan string, 10)
	c := s.dial5("both", func(p *paho.Publish) { messages <- string(p.Payload) })
	if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "e/+/telemetry", QoS: 1, NoLocal: true}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "e/a/telemetry", Payload: []byte(`{"mine":1}`)}); err != nil {
		t.Fatal(err)
	}
	await(t, s.dial311("other").Publish("e/a/telemetry", 1, false, `{"theirs":1}`))
	same(t, "the first message", receive(t, messages, "a message"), `{"theirs":1}`)
}

func TestWillOnATelemetryTopicIsAReading(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	stream := s.changes("sensor")
	c, cut := s.dialCut("dying", func(o *mqtt311.ClientOptions) {
		o.SetWill("e/sensor/telemetry", `{"online":false}`, 1, false)
	})
	if !c.IsConnected() {
		t.Fatal("not connected")
	}
	cut()
	receive(t, stream, "the will")
	same(t, "latest", s.latest("sensor"), map[string]string{"online": "false"})
}

func TestKeepaliveBeyondWhatTheBrokerComputesIsLowered(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("patient", func(o *mqtt311.ClientOptions) { o.SetKeepAlive(60_000 * time.Second) })
	await(t, c.Publish("e/a/telemetry", 1, false, `{"t":1}`))
	await(t, c.Publish("e/a/telemetry", 1, false, `{"t":2}`))
}

// changes subscribes to an entity and passes its changes on.
func (r *running) changes(ids ...string) <-chan entity.Change {
	r.t.Helper()
	sub, err := r.runtime.Changes(r.t.Context(), entity.ChangesQuery{Entities: ids})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(sub.Close)
	out := make(chan entity.Change, 100)
	go func() {
		for {
			c, err := sub.Next(context.Background())
			if err != nil {
				return
			}
			out <- c
		}
	}()
	return out
}

func TestBurstReachesASlowSubscriberWhole(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const burst, ahead = 5000, 512 // of the 1024 that a subscriber may be behind
	room, got := make(chan struct{}, ahead), make(chan string, burst)
	sub := s.dial5("reader", func(p *paho.Publish) {
		got <- string(p.Payload)
		<-room
	}, func(cfg *autopaho.ClientConfig) {
		cfg.ConnectPacketBuilder = func(cp *paho.Connect, _ *url.URL) (*paho.Connect, error) {
			maximum := uint16(20)
			cp.Properties = &paho.ConnectProperties{ReceiveMaximum: &maximum}
			return cp, nil
		}
	})
	if _, err := sub.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "e/+/telemetry", QoS: 1}}}); err != nil {
		t.Fatal(err)
	}
	c := s.dial311("sensor")
	for i := range burst {
		select {
		case room <- struct{}{}:
		case <-time.After(patience):
			t.Fatalf("after %d messages the subscriber gets no more", len(got))
		}
		c.Publish("e/a/telemetry", 1, false, fmt.Sprintf(`{"n":%d}`, i))
	}
	for i := range burst {
		same(t, "message", receive(t, got, "a message"), fmt.Sprintf(`{"n":%d}`, i))
	}
	room <- struct{}{}
	await(t, c.Publish("e/a/telemetry", 1, false, `{"late":1}`))
	same(t, "the late one", receive(t, got, "the late one"), `{"late":1}`)
	same(t, "messages dropped", s.metric("greenroom_mqtt_forward_dropped_total"), "0")
}

// Clients whose user name is a token send an empty password.
func TestAnEmptyPasswordIsNone(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	nc, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.MQTTAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	token := tokens["room-1"]
	connect := append([]byte("\x00\x04MQTT\x04\xc2\x00\x3c\x00\x01x\x00"), byte(len(token)))
	connect = append(append(connect, token...), 0, 0)
	if _, err := nc.Write(append([]byte{0x10, byte(len(connect))}, connect...)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4)
	if _, err := io.ReadFull(nc, answer); err != nil || answer[3] != 0 {
		t.Errorf("CONNACK % x, %v", answer, err)
	}
}

// What an entity has left behind as retained is not for who may read its successor.
func TestRetainedMessagesEndWithTheirEntity(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	c := s.dial311("sensor")
	await(t, c.Publish("e/old/telemetry", 1, true, `{"secret":1}`))
	await(t, c.Publish("e/other/telemetry", 1, true, `{"t":1}`))
	s.send(204, "DELETE", "/v1/entities/old", "", "", "If-Match", "*")
	s.post("old", `{"t":2}`)
	eventually(t, "the end of the retained message", func() bool {
		probe := s.dial311("probe")
		defer probe.Disconnect(0)
		got := subscribe(t, probe, "e/old/telemetry") // what is retained comes first
		await(t, c.Publish("e/old/telemetry", 1, false, `{"t":3}`))
		return receive(t, got, "a message").payload == `{"t":3}`
	})
	m := receive(t, subscribe(t, s.dial311("late"), "e/+/telemetry"), "the retained message")
	same(t, "what is retained", m, message{"e/other/telemetry", `{"t":1}`})
}
