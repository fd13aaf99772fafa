package server

import (
	"bufio"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/internal/soaktest"
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

// Readings of one key without a time that come faster than a millisecond each are all there, in the
// order in which they were sent.
func TestEachOf5000PipelinedReadingsIsInTheHistory(t *testing.T) {
	t.Parallel()
	const n = 5000
	s := start(t, "")
	t.Run("MQTT", func(t *testing.T) {
		c := s.dial311("sensor")
		tokens := make([]mqtt311.Token, n)
		for i := range tokens {
			tokens[i] = c.Publish("e/mqtt/telemetry", 1, false, fmt.Sprintf(`{"t":%d}`, i))
		}
		for _, token := range tokens {
			await(t, token)
		}
		s.numbered(t, "mqtt", n)
	})
	t.Run("HTTP", func(t *testing.T) {
		requests := soaktest.Rounds(t, 200, n) // each waits for the disk
		conn := s.raw("")
		go func() {
			for i := range requests {
				body := fmt.Sprintf(`{"t":%d}`, i)
				_, _ = fmt.Fprintf(conn, "POST /v1/entities/http/telemetry HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
		}()
		answers := bufio.NewReader(conn)
		for i := range requests {
			resp, err := http.ReadResponse(answers, nil)
			if err != nil || resp.StatusCode != http.StatusNoContent {
				t.Fatal(i, resp, err)
			}
			_ = resp.Body.Close() // it has none
		}
		s.numbered(t, "http", requests)
	})
	t.Run("HTTP, in one request", func(t *testing.T) {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `,{"t":%d}`, i)
		}
		s.post("array", "["+all.String()[1:]+"]")
		s.numbered(t, "array", n)
	})
}

// numbered checks that the history of t has the numbers from 0 on.
func (r *running) numbered(t *testing.T, id string, n int) {
	t.Helper()
	var page struct{ Points []struct{ TS, Value int64 } }
	r.get(fmt.Sprintf("/v1/entities/%s/telemetry/t?limit=%d", id, 2*n), &page)
	if len(page.Points) != n {
		t.Errorf("%d readings are there, want %d", len(page.Points), n)
	}
	for i, p := range page.Points {
		if p.Value != int64(i) || i > 0 && p.TS < page.Points[i-1].TS {
			t.Fatalf("%+v is in the place of %d", p, i)
		}
	}
	same(t, "the latest", r.latest(id)["t"], n-1)
}

// The keys of one principal are not those of another: neither is answered with what the other has
// sent, or prevented from sending.
func TestIdempotencyKeysAreOfTheirPrincipal(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	var made []string
	for _, who := range []string{"operator", "keeper", "operator"} {
		c, _ := s.as(tokens[who]).command("room-1", `{"name":"open"}`, "Idempotency-Key", "k")
		if c.By != who {
			t.Errorf("%s sent the command of %s", who, c.By)
		}
		made = append(made, c.ID)
		for range 2 {
			s.as(tokens[who]).send(204, "POST", "/v1/entities/room-2/telemetry", mediaJSON, `{"counted":1}`, "Idempotency-Key", "k")
		}
		resp, text := s.as(tokens[who]).do("POST", "/v1/bulk", `{"filter":"id = \"room-2\"","command":{"name":"update"}}`, "Content-Type", mediaJSON, "Idempotency-Key", "k")
		if want := http.StatusAccepted; who == "operator" && resp.StatusCode != want {
			t.Fatalf("%s %s", resp.Status, text)
		}
	}
	if made[0] == made[1] || made[0] != made[2] {
		t.Errorf("the commands are %v", made)
	}
	if got := s.as(tokens["admin"]).historyOf("room-2", "counted"); got != "1 1" {
		t.Errorf("the history is %q", got)
	}
}

// Who may not see an entity does not learn from its ETag whether it has changed.
func TestETagsTellNothingToOthers(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	resp, _ := s.as(tokens["admin"]).do("GET", "/v1/entities/other", "")
	tag := resp.Header.Get("ETag")
	if resp, text := s.as(tokens["admin"]).do("GET", "/v1/entities/other", "", "If-None-Match", tag); tag == "" || resp.StatusCode != http.StatusNotModified {
		t.Fatalf("the control with %s: %s %s", tag, resp.Status, text)
	}
	for _, name := range []string{"guest", "keeper", "room-1", "elsewhere", "nobody"} {
		for _, condition := range [][2]string{{"If-None-Match", tag}, {"If-None-Match", `"9"`}, {"If-Match", tag}, {"If-Match", `"9"`}} {
			for _, method := range []string{"GET", "PATCH", "DELETE"} {
				resp, text := s.as(tokens[name]).do(method, "/v1/entities/other", `{}`, condition[0], condition[1], "Content-Type", mediaMergePatch)
				if resp.StatusCode != http.StatusForbidden && resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s %s by %s with %v: %s %s", method, "other", name, condition, resp.Status, text)
				}
			}
		}
	}
}
