package server

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// historyOf returns the values of a key, oldest first.
func (r *running) historyOf(id, key string) string {
	r.t.Helper()
	var page struct {
		Points []struct{ Value int }
	}
	r.get("/v1/entities/"+id+"/telemetry/"+key, &page)
	var list []string
	for _, p := range page.Points {
		list = append(list, strconv.Itoa(p.Value))
	}
	return strings.Join(list, " ")
}

func TestAMessageThatIsSentAgainIsInTheHistoryOnce(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	const again = 4 // DUP
	nc := mqttConnect(t, r.MQTTAddr(), 1)
	publish(t, nc, 1, `{"a":1}`)
	readPacket(t, nc, 0x40)
	if err := nc.Close(); err != nil {
		t.Fatal(err)
	}
	nc = mqttConnect(t, r.MQTTAddr(), 1)
	defer nc.Close()
	for _, m := range []struct {
		qos     byte
		payload string
	}{{1 | again, `{"a":1}`}, {1, `{"a":1}`}, {1 | again, `{"a":2}`}, {1 | again, `{"a":2}`}, {1, `{"a":3}`}} {
		publish(t, nc, m.qos, m.payload)
		readPacket(t, nc, 0x40)
	}
	if got := r.historyOf("d", "a"); got != "1 1 2 3" {
		t.Errorf("the history is %s", got)
	}
}

func TestARequestWithTheSameIdempotencyKeyIsKeptOnce(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	for _, req := range [][2]string{{"k1", `{"a":1}`}, {"k1", `{"a":1}`}, {"k2", `{"a":1}`}, {"k1", `[{"a":2},{"a":3}]`}, {"k1", `[{"a":2},{"a":3}]`}} {
		resp, body := r.do("POST", "/v1/entities/d/telemetry", req[1], "Content-Type", "application/json", "Idempotency-Key", req[0])
		if resp.StatusCode != http.StatusNoContent {
			t.Fatal(resp.Status, body)
		}
	}
	if got := r.historyOf("d", "a"); got != "1 1 2 3" {
		t.Errorf("the history is %s", got)
	}
}
