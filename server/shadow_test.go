package server

import (
	"net/http"
	"testing"

	"github.com/eclipse/paho.golang/paho"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// document is a message that a device got.
type document struct {
	topic, payload string
	retained       bool
}

// follow subscribes a device and returns what it gets.
func follow(t *testing.T, c mqtt311.Client, topic string) <-chan document {
	t.Helper()
	got := make(chan document, 100)
	await(t, c.Subscribe(topic, 1, func(_ mqtt311.Client, m mqtt311.Message) {
		got <- document{m.Topic(), string(m.Payload()), m.Retained()}
	}))
	return got
}

func TestDeviceReportsItsAttributes(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("device")
	const path = "/v1/entities/lamp/attributes/reported"
	for qos := range byte(3) {
		await(t, c.Publish("e/lamp/attributes", qos, false, `{"a":{"b":1},"qos":`+string('0'+qos)+`}`))
		if qos > 0 {
			same(t, "reported", s.document(path), `{"a":{"b":1},"qos":`+string('0'+qos)+`}`)
		}
	}
	await(t, c.Publish("e/lamp/attributes", 1, false, `{"a":null,"qos":null,"on":true}`))
	same(t, "reported", s.document(path), `{"on":true}`)

	five := s.dial5("device5", nil)
	for payload, code := range map[string]byte{`[1]`: 0x99, `{"a":`: 0x99, ``: 0x99} {
		resp, err := five.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: "e/lamp/attributes", Payload: []byte(payload)})
		if resp == nil || resp.ReasonCode != code {
			t.Errorf("%s: %+v %v", payload, resp, err)
		}
	}
	for _, topic := range []string{"e/lamp/desired", "e/lamp/delta"} {
		resp, err := five.Publish(t.Context(), &paho.Publish{QoS: 1, Topic: topic, Payload: []byte(`{}`)})
		if resp == nil || resp.ReasonCode != 0x90 {
			t.Errorf("%s: %+v %v", topic, resp, err)
		}
	}
	same(t, "reported after all of this", s.document(path), `{"on":true}`)
}

func TestDeviceIsToldWhatItShouldBe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	s.send(201, "PATCH", "/v1/entities/lamp/attributes/desired", typeMergeHeader, `{"on":true,"dim":5}`)
	c := s.dial311("device")
	desired, delta, all := follow(t, c, "e/lamp/desired"), follow(t, s.dial311("delta"), "e/lamp/delta"), follow(t, s.dial311("all"), "e/+/desired")
	same(t, "the present document", receive(t, desired, "desired"), document{"e/lamp/desired", `{"dim":5,"on":true}`, true})
	same(t, "the present delta", receive(t, delta, "delta"), document{"e/lamp/delta", `{"dim":5,"on":true}`, true})

	await(t, c.Publish("e/lamp/attributes", 1, false, `{"on":true}`))
	same(t, "the delta after a report", receive(t, delta, "delta"), document{"e/lamp/delta", `{"dim":5}`, false})
	await(t, c.Publish("e/lamp/attributes", 1, false, `{"rssi":-70}`)) // is not desired
	s.send(200, "PATCH", "/v1/entities/lamp/attributes/desired", typeMergeHeader, `{"dim":7}`)
	same(t, "desired after an edit", receive(t, desired, "desired"), document{"e/lamp/desired", `{"dim":7,"on":true}`, false})
	same(t, "for a wildcard", receive(t, all, "desired"), document{"e/lamp/desired", `{"dim":7,"on":true}`, false})
	same(t, "delta after an edit", receive(t, delta, "delta"), document{"e/lamp/delta", `{"dim":7}`, false})

	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	again := follow(t, s.dial311("device"), "e/lamp/delta")
	same(t, "after a restart", receive(t, again, "delta"), document{"e/lamp/delta", `{"dim":7}`, true})
	s.send(204, "DELETE", "/v1/entities/lamp", typeJSONHeader, "")
	same(t, "after the end", receive(t, again, "delta"), document{"e/lamp/delta", `{}`, false})
}

func TestWillReportsThatADeviceIsGone(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	stream := s.open("/v1/stream?kinds=edits")
	c, cut := s.dialCut("device", func(o *mqtt311.ClientOptions) { o.SetWill("e/lamp/attributes", `{"online":false}`, 1, false) })
	await(t, c.Publish("e/lamp/attributes", 1, false, `{"online":true}`))
	stream.mustBe("edit", `"path":"/online","value":true`)
	cut()
	stream.mustBe("edit", `"path":"/online","value":false`)
	if resp, body := s.do("GET", "/v1/entities/lamp", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the entity: %s %s", resp.Status, body)
	}
}

func TestWhoSubscribesToTelemetryGetsEachReading(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/mappings/double", "text/plain", "insert into lamp select a.x * 2 as double")
	got := follow(t, s.dial311("reader"), "e/lamp/telemetry")
	wild := follow(t, s.dial311("all"), "e/+/telemetry")
	sent := func(topic, payload string) {
		t.Helper()
		same(t, "all", receive(t, wild, "the message for all"), document{topic, payload, false})
		if topic == "e/lamp/telemetry" {
			same(t, "one", receive(t, got, "the message"), document{topic, payload, false})
		}
	}
	s.post("lamp", `{"ts":1000,"values":{"t":1}}`)
	sent("e/lamp/telemetry", `{"ts":1000,"values":{"t":1}}`)
	await(t, s.dial311("sensor").Publish("e/lamp/telemetry", 1, false, `{"t":2}`))
	sent("e/lamp/telemetry", `{"t":2}`)
	s.post("a", `{"ts":2000,"values":{"x":21}}`)
	sent("e/a/telemetry", `{"ts":2000,"values":{"x":21}}`)
	sent("e/lamp/telemetry", `{"ts":2000,"values":{"double":42}}`)
	if resp, text := s.do("POST", "/v1/import?what=history", `{"entity":"lamp","ts":3000,"values":{"t":3}}`, "Content-Type", "application/x-ndjson"); resp.StatusCode != http.StatusOK {
		t.Fatalf("import: %s %s", resp.Status, text)
	}
	sent("e/lamp/telemetry", `{"ts":3000,"values":{"t":3}}`)
	if resp, _ := s.do("POST", "/v1/entities/lamp/telemetry", `{"t":null}`, "Content-Type", "application/json"); resp.StatusCode != http.StatusBadRequest {
		t.Fatal(resp.Status)
	}
	s.post("lamp", `{"ts":4000,"values":{"t":4}}`) // the refused one was not forwarded
	sent("e/lamp/telemetry", `{"ts":4000,"values":{"t":4}}`)
}
