package server

import (
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// lastingReader returns the option of a client whose session lasts, and where its messages come.
func lastingReader() (got chan message, lasting func(*mqtt311.ClientOptions)) {
	got = make(chan message, 100)
	return got, func(o *mqtt311.ClientOptions) {
		o.SetCleanSession(false).SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { got <- message{m.Topic(), string(m.Payload())} })
	}
}

// Who was away while the server was restarted has the messages of before and after.
func TestSessionsSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	got, lasting := lastingReader()
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
	s.dial311("reader", lasting)
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
	got, lasting := lastingReader()
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

// loseCursor makes the cursor from which the stopped server's broker would go on one of another
// store.
func loseCursor(t *testing.T, dir string) {
	t.Helper()
	address := pgtest.Address(t, dir)
	if address == "" {
		address = dir
	}
	store, err := openStore(t.Context(), address, slog.New(slog.DiscardHandler), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	items, err := store.Items(t.Context(), entity.ItemsQuery{Kind: "mqtt-saved", Limit: 1})
	if err == nil && len(items) == 1 {
		cursor := regexp.MustCompile(`"place":"[^"]*"`)
		if !cursor.Match(items[0].Body) {
			t.Fatalf("no place in %s", items[0].Body)
		}
		items[0].Body = cursor.ReplaceAll(items[0].Body, []byte(`"place":"other-1"`))
		err = store.PutItems(t.Context(), items)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// A broker whose place is not in the log, as in a store that was restored, tells what is now.
func TestMissedChangesAreMadeUpForAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	got, lasting := lastingReader()
	reader := s.dial311("reader", lasting)
	subscribe(t, reader, "e/lamp/desired", "e/lamp/delta", "e/gone/desired", "e/anew/desired")
	ids := []string{"lamp", "gone", "anew"}
	for _, id := range ids {
		s.send(201, "PATCH", "/v1/entities/"+id+"/attributes/desired", mediaMergePatch, `{"on":false,"dim":1}`)
	}
	for _, id := range ids {
		await(t, reader.Publish("e/"+id+"/telemetry", 1, true, `{"t":1}`))
	}
	s.broker.Stop() // from here on nothing is told
	s.send(200, "PATCH", "/v1/entities/lamp/attributes/desired", mediaMergePatch, `{"on":true,"dim":null}`)
	for _, id := range ids[1:] {
		s.send(204, "DELETE", "/v1/entities/"+id, mediaJSON, "")
	}
	for at := time.Now().UnixMilli(); time.Now().UnixMilli() <= at; { // when an entity came to be is known to the millisecond
		runtime.Gosched()
	}
	s.send(201, "PATCH", "/v1/entities/anew/attributes/desired", mediaMergePatch, `{"new":1}`)
	if err := s.stopped(t); err != nil {
		t.Fatal(err)
	}
	loseCursor(t, dir)

	s = start(t, dir)
	s.dial311("reader", lasting)
	want := []message{{"e/lamp/desired", `{"on":true}`}, {"e/lamp/delta", `{"on":true}`}, {"e/gone/desired", `{}`}, {"e/anew/desired", `{"new":1}`}}
	for len(want) > 0 {
		m := receive(t, got, fmt.Sprint("all of ", want))
		want = slices.DeleteFunc(want, func(w message) bool { return w == m })
	}
	late := subscribe(t, s.dial311("late"), "e/+/telemetry")
	same(t, "what is retained", receive(t, late, "what is retained"), message{"e/lamp/telemetry", `{"t":1}`})
	s.post("other", `{"t":2}`) // as the next message, since nothing else is retained
	same(t, "the next message", receive(t, late, "the next message"), message{"e/other/telemetry", `{"t":2}`})
}
