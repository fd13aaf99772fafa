package server

import (
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
)

// Who was away while the server was restarted has the messages of before and after.
func TestSessionsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	got := make(chan message, 100)
	lasting := func(o *mqtt311.ClientOptions) {
		o.SetCleanSession(false).SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { got <- message{m.Topic(), string(m.Payload())} })
	}
	reader := s.dial311("reader", lasting)
	subscribe(t, reader, "e/+/telemetry")
	reader.Disconnect(0)
	eventually(t, "the client to be away", func() bool { return s.broker.Stats().Sessions == 1 })
	sensor := s.dial311("sensor")
	await(t, sensor.Publish("e/a/telemetry", 1, false, `{"n":1}`))
	await(t, sensor.Publish("e/b/telemetry", 1, false, `{"n":2}`))
	await(t, sensor.Publish("e/c/telemetry", 1, true, `{"n":3}`))
	for range 2 { // the second time it has seen nothing in between
		if err := s.stopped(t); err != nil {
			t.Fatal(err)
		}
		s = start(t, dir)
	}
	reader = s.dial311("reader", lasting)
	if left, err := s.runtime.Items(t.Context(), entity.ItemsQuery{Kind: "mqtt-saved"}); err != nil || len(left) > 0 {
		t.Errorf("%d items are left, %v", len(left), err)
	}
	for _, want := range []message{{"e/a/telemetry", `{"n":1}`}, {"e/b/telemetry", `{"n":2}`}, {"e/c/telemetry", `{"n":3}`}} {
		same(t, "message of before", receive(t, got, "a message of before"), want)
	}
	await(t, s.dial311("sensor").Publish("e/d/telemetry", 1, false, `{"n":4}`))
	same(t, "message of now", receive(t, got, "a message of now"), message{"e/d/telemetry", `{"n":4}`})
	same(t, "the retained message", receive(t, subscribe(t, s.dial311("late"), "e/+/telemetry"), "the retained message"), message{"e/c/telemetry", `{"n":3}`})
}

// What changes between the end of the one server and the beginning of the next one is told as well.
func TestDesiredStateOfAroundARestartIsTold(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	got := make(chan message, 100)
	lasting := func(o *mqtt311.ClientOptions) {
		o.SetCleanSession(false).SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { got <- message{m.Topic(), string(m.Payload())} })
	}
	reader := s.dial311("reader", lasting)
	subscribe(t, reader, "e/+/desired")
	s.post("lamp", `{"t":1}`)
	s.broker.Stop() // from here on nothing is told
	s.send(200, "PATCH", "/v1/entities/lamp/attributes/desired", mediaMergePatch, `{"on":true}`)
	if err := s.stopped(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	s.dial311("reader", lasting)
	same(t, "what is desired", receive(t, got, "what is desired"), message{"e/lamp/desired", `{"on":true}`})
}
