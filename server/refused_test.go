package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// meterType is a type with bounds, in telemetry and in what a device reports.
const meterType = `{"id":"Meter","telemetry":{"power":{"type":"number","max":100}},"properties":{"level":{"type":"integer","max":10}}}`

// startWithMeter runs a server with an entity m that has a type.
func startWithMeter(t *testing.T) *running {
	t.Helper()
	s := start(t, "")
	if resp, text := s.do("PUT", "/v1/types/Meter", meterType, "Content-Type", "application/json"); resp.StatusCode/100 != 2 {
		t.Fatalf("PUT the type: %s %s", resp.Status, text)
	}
	if resp, text := s.do("POST", "/v1/entities", `{"id":"m","type":"Meter"}`, "Content-Type", "application/json"); resp.StatusCode/100 != 2 {
		t.Fatalf("POST the entity: %s %s", resp.Status, text)
	}
	return s
}

// outOfBounds are messages that the type of m refuses, and ones that it does not.
var outOfBounds = []struct{ topic, bad, good string }{
	{"e/m/telemetry", `{"power":101}`, `{"power":%d}`},
	{"e/m/attributes", `{"level":11}`, `{"level":1,"note":%d}`},
}

func TestAMessageThatATypeRefusesDoesNotCostTheConnectionOverMQTT311(t *testing.T) {
	t.Parallel()
	s := startWithMeter(t)
	for _, tt := range outOfBounds {
		for qos := range byte(3) {
			lost := make(chan error, 1)
			c := s.dial311(fmt.Sprintf("sensor-%d", qos), func(o *mqtt311.ClientOptions) {
				o.SetConnectionLostHandler(func(_ mqtt311.Client, err error) { lost <- err })
			})
			stream := s.changes("m", "other")
			refused := c.Publish(tt.topic, qos, false, tt.bad)
			var tokens []mqtt311.Token
			for i := range 20 {
				tokens = append(tokens, c.Publish(tt.topic, qos, false, fmt.Sprintf(tt.good, i)))
			}
			tokens = append(tokens, refused, c.Publish("e/other/telemetry", qos, false, `{"t":1}`))
			for _, token := range tokens {
				await(t, token)
			}
			receive(t, stream, "the readings")
			eventually(t, "the last message", func() bool { return strings.Contains(fmt.Sprint(s.latestOrNone("other")), "1") })
			select {
			case err := <-lost:
				t.Errorf("%s with QoS %d: the connection was lost: %v", tt.topic, qos, err)
			default:
			}
			s.do("DELETE", "/v1/entities/other", "")
		}
	}
	same(t, "latest", s.latest("m"), map[string]string{"power": "19"})
	same(t, "refused over the type", s.metric(`greenroom_refused_total{cause="type",source="mqtt"}`), "6")
}

func TestAMessageThatATypeRefusesDoesNotCostTheConnectionOverMQTT5(t *testing.T) {
	t.Parallel()
	s := startWithMeter(t)
	down := make(chan string, 1)
	c := s.dial5("sensor", nil, func(cfg *autopaho.ClientConfig) {
		cfg.OnServerDisconnect = func(d *paho.Disconnect) { down <- fmt.Sprintf("%#x", d.ReasonCode) }
		cfg.OnClientError = func(err error) { down <- err.Error() }
	})
	for _, tt := range outOfBounds {
		for qos := range byte(3) {
			resp, err := c.Publish(t.Context(), &paho.Publish{QoS: qos, Topic: tt.topic, Payload: []byte(tt.bad)})
			if qos > 0 && (resp == nil || resp.ReasonCode != 0x99 || resp.Properties == nil || !strings.Contains(resp.Properties.ReasonString, `must be`)) {
				t.Errorf("%s with QoS %d: %+v, %v; want the code 0x99 and what the value must be", tt.topic, qos, resp, err)
			}
			for i := range 20 {
				resp, err := c.Publish(t.Context(), &paho.Publish{QoS: qos, Topic: tt.topic, Payload: fmt.Appendf(nil, tt.good, i)})
				if err != nil || qos > 0 && resp.ReasonCode != 0 {
					t.Fatalf("%s with QoS %d: message %d after the refusal: %+v, %v", tt.topic, qos, i, resp, err)
				}
			}
		}
	}
	select {
	case why := <-down:
		t.Errorf("the connection was lost: %s", why)
	default:
	}
	same(t, "refused over the type", s.metric(`greenroom_refused_total{cause="type",source="mqtt"}`), "6")
}

// latestOrNone is latest, and empty for an entity that does not exist.
func (r *running) latestOrNone(id string) map[string]string {
	r.t.Helper()
	if resp, _ := r.do("GET", "/v1/entities/"+id, ""); resp.StatusCode != http.StatusOK {
		return nil
	}
	return r.latest(id)
}

func TestTheLatestRefusalsCanBeRead(t *testing.T) {
	t.Parallel()
	s := startWithMeter(t)
	c := s.dial311("sensor-7")
	for range 3 {
		await(t, c.Publish("e/m/telemetry", 1, false, `{"power":101}`))
	}
	await(t, c.Publish("e/m/telemetry", 1, false, `temperature=21`))
	s.do("POST", "/v1/entities/m/telemetry", `{"power":102}`, "Content-Type", "application/json")
	var list struct {
		Total  int
		Recent []refusalJSON
	}
	s.get("/v1/refusals", &list)
	if list.Total != 5 || len(list.Recent) != 3 {
		t.Fatalf("%d refused, %d to read; want 5 and 3: %+v", list.Total, len(list.Recent), list.Recent)
	}
	for i, want := range []refusalJSON{
		{Source: "http", Cause: "type", Where: "/v1/entities/m/telemetry", Count: 1, Detail: "102"},
		{Source: "mqtt", Cause: "shape", Where: "e/m/telemetry", Client: "sensor-7", Count: 1, Detail: "where an object is expected"},
		{Source: "mqtt", Cause: "type", Where: "e/m/telemetry", Client: "sensor-7", Count: 3, Detail: "must be a number up to 100, not 101"},
	} {
		got := list.Recent[i]
		if !strings.Contains(got.Detail, want.Detail) || got.First == 0 || got.Last < got.First {
			t.Errorf("refusal %d: %+v; the detail must contain %q", i, got, want.Detail)
		}
		got.Detail, got.First, got.Last = want.Detail, 0, 0
		same(t, fmt.Sprint("refusal ", i), got, want)
	}
}
