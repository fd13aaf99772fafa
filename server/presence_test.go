package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
)

// presenceOf returns the presence of an entity.
func (r *running) presenceOf(id string) (p presenceJSON) {
	r.t.Helper()
	var e struct{ Presence presenceJSON }
	r.get("/v1/entities/"+id, &e)
	return e.Presence
}

// comesTo waits until a presence has a state.
func (r *running) comesTo(id, state string) presenceJSON {
	r.t.Helper()
	var p presenceJSON
	eventually(r.t, id+" to be "+state, func() bool {
		p = r.presenceOf(id)
		return p.State == state
	})
	return p
}

// startPresent starts a server whose devices are soon offline.
func startPresent(t *testing.T) *running {
	t.Helper()
	return startWith(t, Config{Entity: entity.Config{PresenceTimeout: 700 * time.Millisecond, PresenceGrace: 300 * time.Millisecond}})
}

func TestPresenceIsSeenWhereverAnEntityIs(t *testing.T) {
	t.Parallel()
	s := startPresent(t)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"quiet"}`)
	same(t, "the presence of who was never heard of", s.presenceOf("quiet"), presenceJSON{State: "unknown"})
	stream := s.open("/v1/stream?kinds=presence")
	filtered := s.open("/v1/stream?kinds=presence&q=" + url.QueryEscape("not presence.online"))
	watcher := s.dial311("watcher")
	got := make(chan string, 10)
	await(t, watcher.Subscribe("e/pump/presence", 1, func(_ mqtt311.Client, m mqtt311.Message) { got <- string(m.Payload()) }))
	published := func(what string) { // after the document that the subscriber is sent at first, if there was one by then
		t.Helper()
		for text := ""; !strings.HasPrefix(text, what); {
			text = receive(t, got, what+" over MQTT")
		}
	}
	s.post("pump", `{"t":1}`)
	stream.mustBe("presence", `{"entity":"pump","ts":`)
	published(`{"state":"online","connected":false,"since_ms":`)
	stream.mustBe("presence", `"presence":{"state":"offline","connected":false,"since_ms":`)
	filtered.mustBe("presence", `{"entity":"pump","ts":`)
	published(`{"state":"offline"`)
	p := s.presenceOf("pump")
	if p.State != "offline" || p.Since == 0 || p.Seen == 0 || p.Seen > p.Since {
		t.Errorf("it is %+v", p)
	}
	late := make(chan mqtt311.Message, 1)
	await(t, s.dial311("late").Subscribe("e/pump/presence", 1, func(_ mqtt311.Client, m mqtt311.Message) { late <- m }))
	if m := receive(t, late, "the present document"); !m.Retained() || !strings.HasPrefix(string(m.Payload()), `{"state":"offline"`) {
		t.Errorf("a new subscriber gets %s", m.Payload())
	}
	for query, want := range map[string]string{
		`not presence.online`: "pump quiet ", `exists presence.since`: "pump ", `presence.online`: "", `presence.since > now - 1h and presence.seen < now`: "pump ",
	} {
		var page struct {
			Entities []struct {
				ID       string
				Presence presenceJSON
			}
		}
		s.get("/v1/entities?q="+url.QueryEscape(query), &page)
		found := ""
		for _, e := range page.Entities {
			found += e.ID + " "
			if e.ID == "pump" && e.Presence.State != "offline" {
				t.Errorf("in a list it is %+v", e.Presence)
			}
		}
		same(t, query, found, want)
	}
	same(t, "devices online", s.metric("greenroom_devices_online"), "0")
	same(t, "times offline", s.metric("greenroom_devices_went_offline_total"), "1")
}

func TestAnMQTTDeviceIsOnlineWhileItIsConnected(t *testing.T) {
	t.Parallel()
	s := startPresent(t)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"pump"}`)
	stream := s.open("/v1/stream?kinds=presence")
	_, cut := s.dialCut("pump") // nobody has to log in: the client id is the device
	if p := s.comesTo("pump", "online"); !p.Connected || p.Seen != 0 {
		t.Errorf("connected it is %+v", p)
	}
	for range 3 { // reconnects: who comes with the same id takes the place of the one before
		next, again := s.dialCut("pump")
		await(t, next.Publish("e/pump/telemetry", 1, false, `{"t":1}`))
		cut = again
	}
	if p := s.presenceOf("pump"); p.State != "online" || !p.Connected || p.Seen == 0 {
		t.Errorf("after reconnects it is %+v", p)
	}
	cut()
	stream.mustBe("presence", `"presence":{"state":"online","connected":true`)
	stream.mustBe("presence", `"presence":{"state":"offline","connected":false`)
}

func TestAGatewayIsTheConnectionOfThoseItSpeaksFor(t *testing.T) {
	t.Parallel()
	s := startWith(t, Config{Entity: entity.Config{PresenceTimeout: time.Hour, PresenceGrace: 300 * time.Millisecond}})
	gateway, cut := s.dialCut("gw")
	for _, topic := range []string{"e/a/telemetry", "e/b/attributes", "v1/gateway/telemetry"} {
		await(t, gateway.Publish(topic, 1, false, map[string]string{"v1/gateway/telemetry": `{"c":[{"t":1}]}`}[topic]+map[bool]string{true: `{"t":1}`}[topic[0] == 'e']))
	}
	await(t, gateway.Publish("v1/gateway/connect", 1, false, `{"device":"d"}`))
	for _, id := range []string{"a", "b", "c", "d"} {
		if p := s.comesTo(id, "online"); !p.Connected {
			t.Errorf("%s is %+v", id, p)
		}
	}
	await(t, gateway.Publish("v1/gateway/disconnect", 1, false, `{"device":"d"}`))
	s.comesTo("d", "offline")
	s.post("a", `{"t":2}`) // by another way as well
	cut()
	for _, id := range []string{"b", "c"} { // their timeout goes on
		eventually(t, id+" to have no connection", func() bool { return !s.presenceOf(id).Connected })
		same(t, id+" without its gateway", s.presenceOf(id).State, "online")
	}
}

func TestOnlyWhatADeviceSaysMakesItOnline(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t) // which has posted as anybody
	s.send(201, "PATCH", "/v1/entities/made/attributes/attributes", typeMergeHeader, `{"floor":1}`)
	s.send(200, "PATCH", "/v1/entities/room-2/attributes/attributes", typeMergeHeader, `{"floor":1}`)
	operator := s.dial311("desk", func(o *mqtt311.ClientOptions) { o.SetUsername(tokens["operator"]) })
	await(t, operator.Publish("e/made/telemetry", 1, false, `{"t":1}`))
	s.send(204, "POST", "/v1/entities/made/telemetry", typeJSONHeader, `{"t":1}`, "Authorization", "Bearer "+tokens["operator"])
	device := s.dial311("desk", func(o *mqtt311.ClientOptions) { o.SetUsername(tokens["room-1"]) })
	eventually(t, "the device of its name to be connected", func() bool { return s.presenceOf("room-1").Connected })
	same(t, "what an operator has posted for", s.presenceOf("made"), presenceJSON{State: "unknown"})
	_ = device
	token := s.principal(`{"name":"gate","grants":[{"role":"device","filter":"id like \"gate-%\""}]}`)
	s.send(204, "POST", "/v1/entities/gate-1/telemetry", typeJSONHeader, `{"t":1}`, "Authorization", "Bearer "+token)
	if p := s.comesTo("gate-1", "online"); p.Connected || p.Seen == 0 {
		t.Errorf("who posts is %+v", p)
	}
}

func TestAPublisherThatLeavesAtOnceWasThere(t *testing.T) {
	t.Parallel()
	s := startPresent(t)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"pump"}`)
	for i := range 5 {
		c := s.dial311(fmt.Sprintf("shot-%d", i))
		c.Publish("e/pump/telemetry", 0, false, `{"t":1}`)
		c.Disconnect(5)
	}
	s.comesTo("pump", "online")
	s.comesTo("pump", "offline")
}

func TestPresenceOfATypeIsChecked(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/types/A", typeJSONHeader, `{"id":"A"}`)
	for body, want := range map[string]string{
		`{"id":"A","presence":{"timeout":"5x"}}`:              `type "A".presence.timeout: invalid type: must be a duration from 1s to 366d or "none", not "5x"`,
		`{"id":"A","presence":{"timeout":"10ms"}}`:            `from 1s to 366d`,
		`{"id":"A","presence":{"grace":"2d"}}`:                `type "A".presence.grace: invalid type: must be a duration from 0s to 1d, not "2d"`,
		`{"id":"A","presence":{"after":"2d"}}`:                `after`,
		`{"id":"A","presence":{"timeout":"none"}}`:            "",
		`{"id":"A","presence":{"timeout":"1h","grace":"0s"}}`: "",
	} {
		resp, text := s.do("PUT", "/v1/types/A", body, "Content-Type", mediaJSON, "If-Match", "*")
		if ok := resp.StatusCode < 300; ok != (want == "") {
			t.Errorf("%s: %s %s", body, resp.Status, text)
			continue
		}
		var problem struct{ Detail string }
		if err := json.Unmarshal([]byte(text), &problem); err != nil || !strings.Contains(problem.Detail, want) {
			t.Errorf("%s: %s, want %s", body, problem.Detail, want)
		}
	}
	if resp, text := s.do("GET", "/v1/types/A", ""); resp.StatusCode != http.StatusOK || !strings.Contains(text, `"presence":{"timeout":`) {
		t.Errorf("the type is %s", text)
	}
	s.send(400, "GET", "/v1/stream?kinds=presences", typeJSONHeader, "")
}

func TestBirthsAndDeathsOfSparkplugArePresences(t *testing.T) {
	t.Parallel()
	s := startWith(t, Config{Entity: entity.Config{PresenceTimeout: 200 * time.Millisecond, PresenceGrace: 100 * time.Millisecond}})
	payload := func(seq byte) []byte { return []byte{8, 1, 24, seq} } // the timestamp 1, and the sequence number
	edge, cut := s.dialCut("edge")
	await(t, edge.Publish("spBv1.0/plant/NBIRTH/line", 0, false, payload(0)))
	await(t, edge.Publish("spBv1.0/plant/DBIRTH/line/press", 0, false, payload(1)))
	node, device := url.PathEscape("plant|line"), url.PathEscape("plant|line|press")
	eventually(t, "both to be born", func() bool {
		resp, _ := s.do("GET", "/v1/entities/"+device, "")
		return resp.StatusCode == http.StatusOK && s.presenceOf(device).Connected && s.presenceOf(node).Connected
	})
	await(t, edge.Publish("spBv1.0/plant/DDEATH/line/press", 0, false, payload(2)))
	s.comesTo(device, "offline")
	if p := s.presenceOf(node); p.State != "online" || !p.Connected { // silent for longer than the timeout
		t.Errorf("its edge node is %+v", p)
	}
	cut()
	s.comesTo(node, "offline")
}
