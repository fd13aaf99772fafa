package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// withoutTimes takes out of a document of AWS what differs from run to run.
func withoutTimes(t *testing.T, text string) string {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	stamps := 0
	var strip func(v any) any
	strip = func(v any) any {
		m, ok := v.(map[string]any)
		if !ok {
			return v
		}
		if ts, ok := m["timestamp"].(float64); ok {
			if ts < 1.7e9 || ts > 1e10 {
				t.Errorf("timestamp %v is none in seconds", ts)
			}
			stamps++
			if len(m) == 1 {
				return "T"
			}
			delete(m, "timestamp")
		}
		for name := range m {
			m[name] = strip(m[name])
		}
		return m
	}
	strip(doc)
	if stamps == 0 {
		t.Errorf("%s has no timestamp", text)
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// thing is a client of the shadow of a thing.
type thing struct {
	t      *testing.T
	c      mqtt311.Client
	prefix string
	got    <-chan message
}

func shadowOf(s *running, c mqtt311.Client, prefix string) *thing {
	s.t.Helper()
	return &thing{s.t, c, prefix, subscribe(s.t, c, prefix+"/+/accepted", prefix+"/+/rejected", prefix+"/update/delta", prefix+"/update/documents")}
}

// ask publishes a request and returns what it is sent, by what follows the prefix.
func (th *thing) ask(operation, payload string, answers ...string) map[string]string {
	th.t.Helper()
	await(th.t, th.c.Publish(th.prefix+"/"+operation, 1, false, payload))
	return th.next(answers...)
}

func (th *thing) next(answers ...string) map[string]string {
	th.t.Helper()
	got := map[string]string{}
	for range answers {
		m := receive(th.t, th.got, fmt.Sprintf("%v; there was %v", answers, got))
		got[strings.TrimPrefix(m.topic, th.prefix+"/")] = withoutTimes(th.t, m.payload)
	}
	return got
}

func TestShadowIsUpdatedReadAndDeleted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "/name/config"} {
		s := start(t, "")
		th := shadowOf(s, s.dial311("thing"), "$aws/things/lamp/shadow"+name)
		missing := "lamp"
		if name != "" {
			missing = "lamp~config"
		}
		same(t, "there is none", th.ask("get", ``, "a"), map[string]string{"get/rejected": `{"code":404,"message":"No shadow exists with name: '` + missing + `'"}`})
		same(t, "reported", th.ask("update", `{"state":{"reported":{"color":"red","size":{"w":1,"h":2}}},"clientToken":"t-1"}`, "a", "d"), map[string]string{
			"update/accepted":  `{"clientToken":"t-1","metadata":{"reported":{"color":"T","size":{"h":"T","w":"T"}}},"state":{"reported":{"color":"red","size":{"h":2,"w":1}}},"version":1}`,
			"update/documents": `{"clientToken":"t-1","current":{"metadata":{"reported":{"color":"T","size":{"h":"T","w":"T"}}},"state":{"reported":{"color":"red","size":{"h":2,"w":1}}},"version":1},"previous":{"metadata":{},"state":{},"version":0}}`,
		})
		same(t, "desired", th.ask("update", `{"state":{"desired":{"color":"blue","size":{"w":1}}},"version":1}`, "a", "d", "delta"), map[string]string{
			"update/accepted":  `{"metadata":{"desired":{"color":"T","size":{"w":"T"}}},"state":{"desired":{"color":"blue","size":{"w":1}}},"version":2}`,
			"update/documents": `{"current":{"metadata":{"desired":{"color":"T","size":{"w":"T"}},"reported":{"color":"T","size":{"h":"T","w":"T"}}},"state":{"desired":{"color":"blue","size":{"w":1}},"reported":{"color":"red","size":{"h":2,"w":1}}},"version":2},"previous":{"metadata":{"reported":{"color":"T","size":{"h":"T","w":"T"}}},"state":{"reported":{"color":"red","size":{"h":2,"w":1}}},"version":1}}`,
			"update/delta":     `{"metadata":{"color":"T"},"state":{"color":"blue"},"version":2}`,
		})
		same(t, "the whole", th.ask("get", `{"clientToken":"g"}`, "a"), map[string]string{
			"get/accepted": `{"clientToken":"g","metadata":{"desired":{"color":"T","size":{"w":"T"}},"reported":{"color":"T","size":{"h":"T","w":"T"}}},"state":{"delta":{"color":"blue"},"desired":{"color":"blue","size":{"w":1}},"reported":{"color":"red","size":{"h":2,"w":1}}},"version":2}`,
		})
		same(t, "an old version", th.ask("update", `{"state":{"reported":{"color":"green"}},"version":1,"clientToken":"t-2"}`, "a"), map[string]string{
			"update/rejected": `{"clientToken":"t-2","code":409,"message":"Version conflict"}`,
		})
		// What the device has done: no delta is left, and nothing is said of one.
		th.ask("update", `{"state":{"reported":{"color":"blue","size":{"h":null}},"desired":null}}`, "a", "d")
		same(t, "after it", th.ask("get", ``, "a"), map[string]string{
			"get/accepted": `{"metadata":{"reported":{"color":"T","size":{"w":"T"}}},"state":{"reported":{"color":"blue","size":{"w":1}}},"version":3}`,
		})
		same(t, "deleted", th.ask("delete", `{"clientToken":"d"}`, "a"), map[string]string{"delete/accepted": `{"clientToken":"d","version":4}`})
		same(t, "twice", th.ask("delete", ``, "a"), map[string]string{"delete/rejected": `{"code":404,"message":"No shadow exists with name: '` + missing + `'"}`})
	}
}

func TestShadowRejectsAsAWSDoes(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	th := shadowOf(s, s.dial311("thing"), "$aws/things/lamp/shadow")
	for payload, want := range map[string]string{
		``:                              `{"code":400,"message":"Payload contains invalid json"}`,
		`{"state":`:                     `{"code":400,"message":"Payload contains invalid json"}`,
		`[]`:                            `{"code":400,"message":"Payload must be a JSON object"}`,
		`{}`:                            `{"code":400,"message":"Missing required node: state"}`,
		`{"state":1,"clientToken":"x"}`: `{"clientToken":"x","code":400,"message":"State node must be an object"}`,
		`{"state":{"desired":[]}}`:      `{"code":400,"message":"Desired node must be an object"}`,
		`{"state":{"reported":5}}`:      `{"code":400,"message":"Reported node must be an object"}`,
		`{"state":{"wished":{}}}`:       `{"code":400,"message":"State contains an invalid node: 'wished'"}`,
		`{"state":{},"version":"1"}`:    `{"code":400,"message":"Invalid version"}`,
		`{"state":{},"clientToken":7}`:  `{"code":400,"message":"Invalid clientToken"}`,
	} {
		before := s.refusedOver("invalid")
		same(t, payload, th.ask("update", payload, "a"), map[string]string{"update/rejected": want})
		same(t, "refusals over "+payload, s.refusedOver("invalid"), before+1)
	}
	named := shadowOf(s, th.c, "$aws/things/lamp/shadow/name/a b")
	if got := named.ask("get", ``, "a")["get/rejected"]; !strings.Contains(got, "Invalid shadow name") {
		t.Errorf("a name with a space: %s", got)
	}
	before := s.refusedOver("topic")
	await(t, th.c.Publish("$aws/things/lamp/shadow/update/accepted", 1, false, `{}`))
	await(t, th.c.Publish("$aws/things/lamp/jobs/get", 1, false, `{}`))
	same(t, "topics that take nothing", s.refusedOver("topic"), before+2)
}

func TestShadowFollowsEditsFromElsewhere(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	th := shadowOf(s, s.dial311("thing"), "$aws/things/lamp/shadow")
	named := shadowOf(s, th.c, "$aws/things/lamp/shadow/name/config")
	patch := func(body string) {
		t.Helper()
		if resp, text := s.do("PATCH", "/v1/entities/lamp/attributes/desired", body, "Content-Type", "application/merge-patch+json"); resp.StatusCode >= 300 {
			t.Fatal(resp.Status, text)
		}
	}
	patch(`{"color":"red","config":{"rate":5}}`)
	same(t, "the classic shadow", th.next("delta"), map[string]string{"update/delta": `{"metadata":{"color":"T","config":{"rate":"T"}},"state":{"color":"red","config":{"rate":5}},"version":1}`})
	same(t, "the named one", named.next("delta"), map[string]string{"update/delta": `{"metadata":{"rate":"T"},"state":{"rate":5},"version":1}`})
	s.post("lamp", `{"t":1}`)
	// What is reported and not desired says nothing new; what is desired is a part of the delta until it is reported.
	th.ask("update", `{"state":{"reported":{"rssi":-70}}}`, "a", "d")
	same(t, "a part", th.ask("update", `{"state":{"reported":{"color":"red"}}}`, "a", "d", "delta")["update/delta"], `{"metadata":{"config":{"rate":"T"}},"state":{"config":{"rate":5}},"version":3}`)
}

func TestShadowIsSeenByThoseWhoMay(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	device := shadowOf(s, s.dial311("d", asUser(tokens["room-1"])), "$aws/things/room-1/shadow")
	guest := shadowOf(s, s.dial311("g", asUser(tokens["guest"])), "$aws/things/room-1/shadow")
	device.ask("update", `{"state":{"reported":{"a":1},"desired":{"a":2}}}`, "a", "d", "delta")
	guest.next("a", "d", "delta")
	before := s.refusedOver("forbidden")
	await(t, guest.c.Publish("$aws/things/room-1/shadow/update", 1, false, `{"state":{"reported":{"a":5}}}`))
	await(t, device.c.Publish("$aws/things/room-2/shadow/update", 1, false, `{"state":{"reported":{"a":5}}}`))
	await(t, device.c.Publish("$aws/things/room-2/shadow/get", 1, false, ``))
	same(t, "forbidden", s.refusedOver("forbidden"), before+3)
	token := device.c.Subscribe("$aws/things/room-2/shadow/update/accepted", 1, nil)
	token.WaitTimeout(patience)
	same(t, "the subscription to another's shadow", token.(*mqtt311.SubscribeToken).Result(), map[string]byte{"$aws/things/room-2/shadow/update/accepted": 0x80})
	wide := subscribe(t, device.c, "$aws/things/#")
	keeper := s.dial311("k", asUser(tokens["keeper"]))
	await(t, keeper.Publish("$aws/things/room-2/shadow/update", 1, false, `{"state":{"reported":{"a":5}}}`))
	device.ask("update", `{"state":{"reported":{"b":1}}}`)
	var log struct {
		Entries []struct{ Who, Action, What string }
	}
	s.get("/v1/audit?limit=1", &log)
	same(t, "what is in the audit log of it", log.Entries, "[{keeper updateShadow $aws/things/room-2/shadow/update}]")
	if m := receive(t, wide, "its own"); !strings.HasPrefix(m.topic, "$aws/things/room-1/") {
		t.Errorf("a device is sent what is about another: %+v", m)
	}
}

func TestShadowsOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	do := func(method, path, body string, status int) string {
		t.Helper()
		resp, text := s.do(method, path, body, "Content-Type", mediaJSON)
		if resp.StatusCode != status {
			t.Errorf("%s %s: %s %s", method, path, resp.Status, text)
		}
		if status != http.StatusOK {
			return text
		}
		return withoutTimes(t, text)
	}
	same(t, "update", do("POST", "/things/lamp/shadow?name=config", `{"state":{"desired":{"rate":5}},"clientToken":"x"}`, 200), `{"clientToken":"x","metadata":{"desired":{"rate":"T"}},"state":{"desired":{"rate":5}},"version":1}`)
	same(t, "get", do("GET", "/things/lamp/shadow?name=config", ``, 200), `{"metadata":{"desired":{"rate":"T"}},"state":{"delta":{"rate":5},"desired":{"rate":5}},"version":1}`)
	do("POST", "/things/lamp/shadow", `{"state":{"reported":{"on":true}}}`, 200)
	_, text := s.do("GET", "/api/things/shadow/ListNamedShadowsForThing/lamp", "")
	if !strings.Contains(text, `"results":["config"]`) {
		t.Errorf("the named shadows: %s", text)
	}
	if text := do("POST", "/things/lamp/shadow", `{"state":{"reported":{"on":false}},"version":1}`, 409); !strings.Contains(text, `"detail":"Version conflict"`) {
		t.Errorf("an old version: %s", text)
	}
	same(t, "delete", do("DELETE", "/things/lamp/shadow", ``, 200), `{"version":3}`)
	do("GET", "/things/lamp/shadow", ``, 404)
}
