package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// untilValue reads a stream until it says that v has a value, and returns the id of that event. It fails if it hears
// of a later value before, since nothing must be left out.
func untilValue(t *testing.T, lines <-chan string, want int) (id string) {
	t.Helper()
	for {
		line := receive(t, lines, fmt.Sprintf("the value %d", want))
		if rest, ok := strings.CutPrefix(line, "id:"); ok {
			id = strings.TrimSpace(rest)
		}
		if strings.HasPrefix(line, "data:") && strings.Contains(line, fmt.Sprintf(`"v":%d`, want)) {
			return id
		}
		if strings.Contains(line, fmt.Sprintf(`"v":%d`, want+1)) || strings.Contains(line, "reset") {
			t.Fatalf("before the value %d: %s", want, line)
		}
	}
}

// socket opens a WebSocket with the events of an entity.
func (n *testNode) socket(cursor string) *websocket.Conn {
	n.t.Helper()
	at := "ws://" + n.HTTPAddr() + "/v1/ws?entity=room"
	if cursor != "" {
		at += "&cursor=" + cursor
	}
	ws, resp, err := websocket.Dial(n.t.Context(), at, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close()
	}
	n.t.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

// socketUntil is untilValue for a WebSocket. The cursor is "" if the connection ends before.
func socketUntil(t *testing.T, ws *websocket.Conn, want int) (cursor string) {
	t.Helper()
	for {
		_, text, err := ws.Read(t.Context())
		if err != nil {
			return ""
		}
		var e struct {
			Event, Cursor string
			Data          json.RawMessage
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Data), fmt.Sprintf(`"v":%d`, want)) {
			return e.Cursor
		}
		if strings.Contains(string(e.Data), fmt.Sprintf(`"v":%d`, want+1)) {
			t.Fatalf("before the value %d: %s", want, text)
		}
	}
}

// TestClientsResumeWithTheNextOwner where they were, on another node and with nothing left out: streams of events, WebSockets
// and sessions of MQTT.
func TestClientsResumeWithTheNextOwner(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1, b)
	b.post("room", 1)
	events, ws := b.events("/v1/stream?entity=room"), b.socket("")
	got, lasting := lastingReader()
	lost := make(chan struct{})
	reader := b.client("reader", "tcp://"+b.MQTTAddr(), func() { close(lost) }, lasting)
	await(t, reader.Subscribe("e/room/telemetry", 1, nil))
	sensor := a.client("sensor", "tcp://"+a.MQTTAddr(), func() {})
	publish := func(v int) { await(t, sensor.Publish("e/room/telemetry", 1, false, fmt.Sprintf(`{"v":%d}`, v))) }
	publish(2)
	id, cursor := untilValue(t, events, 2), socketUntil(t, ws, 2)
	same(t, "message", receive(t, got, "a message"), message{"e/room/telemetry", `{"v":2}`})
	if id == "" || cursor == "" {
		t.Fatalf("the events have the cursors %q and %q", id, cursor)
	}
	reader.Disconnect(0) // while others publish
	eventually(t, "the reader to be away", func() bool { return a.now.local.broker.Stats().Sessions == 1 })
	publish(3)

	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range events { // until the stream has ended
	}
	if _, _, err := ws.Read(t.Context()); err == nil {
		for err == nil {
			_, _, err = ws.Read(t.Context())
		}
	}
	b.own(2, a)
	sensor = b.client("sensor", "tcp://"+b.MQTTAddr(), func() {})
	publish(4)

	a.client("reader", "tcp://"+a.MQTTAddr(), func() {}, lasting)
	for _, v := range []int{3, 4} {
		m := receive(t, got, "a message of while it was away")
		if m.payload == `{"v":2}` { // its acknowledgement was lost
			m = receive(t, got, "a message of while it was away")
		}
		same(t, "message", m, message{"e/room/telemetry", fmt.Sprintf(`{"v":%d}`, v)})
	}
	events, ws = a.events("/v1/stream?entity=room", "Last-Event-ID", id), a.socket(cursor)
	for _, v := range []int{3, 4} {
		untilValue(t, events, v)
		if socketUntil(t, ws, v) == "" {
			t.Fatalf("the WebSocket has ended before the value %d", v)
		}
	}
}

// TestANodeThatPassesOnHasMetricsOfItsOwn, for those who may read the owner's.
func TestANodeThatPassesOnHasMetricsOfItsOwn(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(7, b)
	token := a.guarded()
	scrape := func(n *testNode) string {
		t.Helper()
		status, text := n.do("GET", metricsPath, "", "Authorization", "Bearer "+token)
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		return text
	}
	b.do("GET", "/v1/system", "", "Authorization", "Bearer "+token)
	has := func(text string, yes bool, lines ...string) {
		t.Helper()
		for _, line := range lines {
			if strings.Contains(text, line) != yes {
				t.Errorf("%q is there: %v, in\n%s", line, !yes, text)
			}
		}
	}
	passed := scrape(b)
	has(passed, true, `greenroom_node_forwarded_total{protocol="http",result="passed"} 1`, "greenroom_node_owns 0", "greenroom_node_owner_epoch 7", "greenroom_node_kept_bytes 0",
		`greenroom_node_connections{of="http"}`, "greenroom_node_owner_wait_seconds_count 2", "greenroom_build_info", "go_goroutines", "process_cpu_seconds_total")
	has(passed, false, "greenroom_http_requests_total")
	has(scrape(a), true, "greenroom_node_owns 1", "greenroom_node_links_refused_total 0", "greenroom_http_requests_total", `greenroom_node_connections{of="nodes"}`)

	few := a.principal(token, `{"name":"few","grants":[{"role":"viewer","filter":"id = \"room\""}]}`)
	for _, header := range []string{"", "Bearer " + few} {
		status, text := b.do("GET", metricsPath, "", "Authorization", header)
		if status != http.StatusUnauthorized && status != http.StatusForbidden || strings.Contains(text, "greenroom_node") {
			t.Errorf("with %q: %d %s", header, status, text)
		}
	}
	failed := a.now.local.book.Stats().Failed
	if status, text := b.do("GET", metricsPath, "", "Authorization", "Bearer wrong"); status != http.StatusUnauthorized || !strings.Contains(text, `"status":401`) {
		t.Errorf("with a wrong token: %d %s", status, text)
	}
	if n := a.now.local.book.Stats().Failed - failed; n != 1 {
		t.Errorf("a wrong token counts %d times", n)
	}
	a.Abandon()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.answers(ctx, nil); err == nil {
		t.Error("there is an owner for a request that has been given up")
	}
}
