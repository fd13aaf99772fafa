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
