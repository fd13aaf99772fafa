package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// message is what a client was sent.
type message struct{ topic, payload string }

// asUser sets the user name of a client, which is its token where it must log in.
func asUser(name string) func(*mqtt311.ClientOptions) {
	return func(o *mqtt311.ClientOptions) { o.SetUsername(name) }
}

// subscribe returns what a client is sent for some filters.
func subscribe(t *testing.T, c mqtt311.Client, filters ...string) <-chan message {
	t.Helper()
	got := make(chan message, 100)
	for _, filter := range filters {
		await(t, c.Subscribe(filter, 1, func(_ mqtt311.Client, m mqtt311.Message) { got <- message{m.Topic(), string(m.Payload())} }))
	}
	return got
}

// reported returns what a device reports of itself.
func (r *running) section(id, section string) string {
	r.t.Helper()
	_, text := r.do("GET", "/v1/entities/"+id+"/attributes/"+section, "")
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		r.t.Fatalf("%s of %s: %s", section, id, text)
	}
	compact, err := json.Marshal(v)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(compact)
}

func TestThingsBoardDeviceReportsByItsToken(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	device := s.dial311("esp", asUser(tokens["room-1"]))
	watch := subscribe(t, s.dial311("watch", asUser(tokens["viewer"])), "e/room-1/telemetry")

	for i, payload := range []string{
		`{"t":21}`, `[{"t":22},{"h":60}]`, `{"ts":1451649600512,"values":{"t":23}}`, `[{"ts":1451649600513,"values":{"t":24}}]`,
	} {
		topic := []string{"v1/devices/me/telemetry", "v2/t", "v2/t/j"}[i%3]
		await(t, device.Publish(topic, byte(i%3), false, payload))
		same(t, "what subscribers of the entity get", receive(t, watch, "the reading"), message{"e/room-1/telemetry", payload})
	}
	var page struct {
		Points []struct {
			TS    int64
			Value json.Number
		}
	}
	s.get("/v1/entities/room-1/telemetry/t?to=1451649600514", &page)
	same(t, "history", page.Points, "[{1000 1} {1451649600512 23} {1451649600513 24}]")
	same(t, "latest", s.latest("room-1"), "map[h:60 t:22]")

	await(t, device.Publish("v1/devices/me/attributes", 1, false, `{"fw":"1.2","cfg":{"a":1,"b":2}}`))
	await(t, device.Publish("v2/a", 1, false, `{"cfg":{"a":3}}`))
	same(t, "reported: the whole attribute is replaced", s.section("room-1", "reported"), `{"cfg":{"a":3},"fw":"1.2"}`)
}

func TestThingsBoardDeviceIsToldOfSharedAttributes(t *testing.T) {
	t.Parallel()
	for _, style := range []struct{ updates, request, response string }{
		{"v1/devices/me/attributes", "v1/devices/me/attributes/request/7", "v1/devices/me/attributes/response/+"},
		{"v2/a", "v2/a/req/7", "v2/a/res/+"},
	} {
		s := start(t, "")
		c := s.dial311("esp", asUser("pump")) // where nobody has to log in
		got := subscribe(t, c, style.updates, style.response)
		patch := func(body string) {
			t.Helper()
			if resp, text := s.do("PATCH", "/v1/entities/pump/attributes/desired", body, "Content-Type", "application/merge-patch+json"); resp.StatusCode >= 300 {
				t.Fatal(resp.Status, text)
			}
		}
		patch(`{"limit":5,"led":{"on":true,"color":"red"},"a/b":1}`)
		same(t, "set", receive(t, got, "an update"), message{style.updates, `{"a/b":1,"led":{"color":"red","on":true},"limit":5}`})
		patch(`{"led":{"on":false}}`)
		same(t, "a part of one", receive(t, got, "an update"), message{style.updates, `{"led":{"color":"red","on":false}}`})
		patch(`{"limit":null,"led":{"color":null}}`)
		same(t, "removed", receive(t, got, "an update"), message{style.updates, `{"deleted":["limit"],"led":{"on":false}}`})

		await(t, c.Publish("v1/devices/me/attributes", 1, false, `{"fw":"1.2","rssi":-70}`))
		answer := strings.Replace(style.response, "+", "7", 1)
		for payload, want := range map[string]string{
			`{"clientKeys":"fw, none","sharedKeys":"led"}`: `{"client":{"fw":"1.2"},"shared":{"led":{"on":false}}}`,
			`{"sharedKeys":"a/b"}`:                         `{"shared":{"a/b":1}}`,
			`{}`:                                           `{"client":{"fw":"1.2","rssi":-70},"shared":{"a/b":1,"led":{"on":false}}}`,
			`{"clientKeys":"none"}`:                        `{}`,
		} {
			await(t, c.Publish(style.request, 1, false, payload))
			same(t, "the answer to "+payload, receive(t, got, "an answer"), message{answer, want})
		}
	}
}

func TestThingsBoardDeviceAsksTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("esp", asUser("pump"))
	got := subscribe(t, c, "v1/devices/me/rpc/response/+")
	before := time.Now().UnixMilli()
	await(t, c.Publish("v1/devices/me/rpc/request/12", 1, false, `{"method":"getTime","params":{}}`))
	m := receive(t, got, "the time")
	var now struct{ Time int64 }
	if err := json.Unmarshal([]byte(m.payload), &now); err != nil || m.topic != "v1/devices/me/rpc/response/12" || now.Time < before || now.Time > time.Now().UnixMilli() {
		t.Errorf("the time: %+v, %v", m, err)
	}
	await(t, c.Publish("v1/devices/me/rpc/request/13", 1, false, `{"method":"dance"}`))
	same(t, "another method", receive(t, got, "an answer"), message{"v1/devices/me/rpc/response/13", `{"error":"the server answers getTime, not \"dance\""}`})
}

func TestThingsBoardGatewaySpeaksForItsDevices(t *testing.T) {
	t.Parallel()
	s, _ := startGuarded(t)
	token := s.principal(`{"name":"gateway","grants":[{"role":"device","filter":"id like \"Device %\""}]}`)
	c := s.dial311("gw", asUser(token))
	watch := subscribe(t, s.dial311("watch", asUser(s.token)), "e/+/telemetry")
	got := subscribe(t, c, "v1/gateway/attributes", "v1/gateway/attributes/response")

	await(t, c.Publish("v1/gateway/telemetry", 1, false, `{"Device A":[{"ts":1483228800000,"values":{"t":42}}],"Device B":[{"ts":1483228800000,"values":{"t":43}},{"t":44}]}`))
	for range 2 {
		m := receive(t, watch, "a reading")
		want := map[string]string{"e/Device A/telemetry": `[{"ts":1483228800000,"values":{"t":42}}]`, "e/Device B/telemetry": `[{"ts":1483228800000,"values":{"t":43}},{"t":44}]`}
		same(t, m.topic, m.payload, want[m.topic])
	}
	same(t, "A", s.latest("Device%20A"), "map[t:42]")
	same(t, "B", s.latest("Device%20B"), "map[t:44]")

	await(t, c.Publish("v1/gateway/connect", 1, false, `{"device":"Device C","type":"unknown"}`))
	same(t, "a device that is new", s.section("Device%20C", "reported"), `{}`)
	await(t, c.Publish("v1/gateway/connect", 1, false, `{"device":"Device A"}`))
	await(t, c.Publish("v1/gateway/attributes", 1, false, `{"Device A":{"fw":1},"Device C":{"fw":2,"hw":3}}`))
	same(t, "reported", s.section("Device%20C", "reported"), `{"fw":2,"hw":3}`)

	desire := func(id, body string) {
		t.Helper()
		if resp, text := s.do("PATCH", "/v1/entities/"+id+"/attributes/desired", body, "Content-Type", "application/merge-patch+json"); resp.StatusCode >= 300 {
			t.Fatal(resp.Status, text)
		}
	}
	desire("Device%20B", `{"x":0}`) // is not connected
	desire("Device%20A", `{"x":1}`)
	same(t, "an update", receive(t, got, "an update"), message{"v1/gateway/attributes", `{"device":"Device A","data":{"x":1}}`})
	await(t, c.Publish("v1/gateway/disconnect", 1, false, `{"device":"Device A"}`))
	desire("Device%20A", `{"x":2}`)
	desire("Device%20C", `{"x":3,"y":4}`)
	same(t, "an update", receive(t, got, "an update"), message{"v1/gateway/attributes", `{"device":"Device C","data":{"x":3,"y":4}}`})

	for payload, want := range map[string]string{
		`{"id":1,"device":"Device C","client":true,"key":"hw"}`:           `{"id":1,"device":"Device C","value":3}`,
		`{"id":2,"device":"Device C","client":false,"keys":["x","y"]}`:    `{"id":2,"device":"Device C","values":{"x":3,"y":4}}`,
		`{"id":3,"device":"Device C","client":false,"keys":["x"]}`:        `{"id":3,"device":"Device C","values":{"x":3}}`,
		`{"id":4,"device":"Device C","client":true,"key":"none"}`:         `{"id":4,"device":"Device C"}`,
		`{"id":5,"device":"Device nowhere","client":true,"key":"\u0022"}`: `{"id":5,"device":"Device nowhere"}`,
	} {
		await(t, c.Publish("v1/gateway/attributes/request", 1, false, payload))
		same(t, payload, receive(t, got, "an answer"), message{"v1/gateway/attributes/response", want})
	}
}

func TestThingsBoardRefusesWhatMayNotBe(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	device, viewer := s.dial311("esp", asUser(tokens["room-1"])), s.dial311("people", asUser(tokens["guest"]))
	for _, tt := range []struct {
		c              mqtt311.Client
		topic, payload string
		cause          string
	}{
		{viewer, "v1/devices/me/telemetry", `{"t":1}`, "forbidden"},
		{viewer, "v1/gateway/attributes", `{"room-1":{"a":1}}`, "forbidden"},
		{device, "v1/gateway/telemetry", `{"room-1":[{"t":5}],"room-2":[{"t":5}]}`, "forbidden"},
		{device, "v1/gateway/connect", `{"device":"room-9"}`, "forbidden"},
		{device, "v1/gateway/attributes/request", `{"id":1,"device":"room-2","client":true,"key":"a"}`, "forbidden"},
		{device, "v1/devices/me/telemetry", `{"t":`, "syntax"},
		{device, "v1/devices/me/telemetry", ``, "empty"},
		{device, "v1/devices/me/attributes", `[1]`, "invalid"},
		{device, "v1/devices/me/attributes", `{"a":1,"a":2}`, "invalid"},
		{device, "v1/devices/me/attributes", `{"a":null}`, "null"},
		{device, "v1/devices/me/attributes", `{}`, "invalid"},
		{device, "v1/devices/me/attributes", `{"a":1} x`, "invalid"},
		{device, "v1/devices/me/attributes/request/1", `{"clientKeys":["a"]}`, "invalid"},
		{device, "v1/devices/me/attributes/request/x", `{}`, "topic"},
		{device, "v1/devices/me/rpc/request/1", `{"params":1}`, "invalid"},
		{device, "v1/devices/me/firmware", `{}`, "topic"},
		{device, "v1/gateway/telemetry", `{"a/b":[{"t":1}]}`, "invalid"},
		{device, "v1/gateway/telemetry", `{"room-1":[{"t":null}]}`, "null"},
		{device, "v2/x", `{}`, "topic"},
	} {
		before := s.refusedOver(tt.cause)
		await(t, tt.c.Publish(tt.topic, 1, false, tt.payload))
		if now := s.refusedOver(tt.cause); now != before+1 {
			t.Errorf("%s %s: %d refusals over %s, want 1; log:\n%s", tt.topic, tt.payload, now-before, tt.cause, s.log)
		}
	}
	same(t, "nothing was written", s.latest("room-1"), "map[t:1]")
	same(t, "nothing was reported", s.section("room-1", "reported"), `{}`)
	await(t, device.Publish("v1/devices/me/telemetry", 1, false, `{"t":2}`))
	same(t, "the connection is there", s.latest("room-1"), "map[t:2]")
}

// refusedOver returns how many messages of MQTT were refused for a cause.
func (r *running) refusedOver(cause string) (n int) {
	r.t.Helper()
	_, _ = fmt.Sscan(r.metric(fmt.Sprintf(`greenroom_refused_total{cause=%q,source="mqtt"}`, cause)), &n) // 0 where there is none
	return n
}

func TestThingsBoardDeviceThatComesBackIsToldAgain(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	kept := func(o *mqtt311.ClientOptions) { o.SetCleanSession(false).SetUsername("pump") }
	got := make(chan message, 10)
	handler := func(o *mqtt311.ClientOptions) {
		o.SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { got <- message{m.Topic(), string(m.Payload())} })
	}
	c, cut := s.dialCut("esp", kept)
	await(t, c.Subscribe("v1/devices/me/attributes", 1, nil))
	cut()
	s.dial311("esp", kept, handler) // the session has the subscription
	if resp, text := s.do("PATCH", "/v1/entities/pump/attributes/desired", `{"x":1}`, "Content-Type", "application/merge-patch+json"); resp.StatusCode >= 300 {
		t.Fatal(resp.Status, text)
	}
	same(t, "an update", receive(t, got, "an update"), message{"v1/devices/me/attributes", `{"x":1}`})
}

// sendCommand sends a command by the API of the runtime, and returns it.
func (r *running) sendCommand(id, name string, request value.Value) entity.Command {
	r.t.Helper()
	c, err := r.runtime.Command(r.t.Context(), id, entity.NewCommand{Name: name, Request: request})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// becomes waits until a command is in a state.
func (r *running) becomes(c *entity.Command, want entity.CommandState) entity.Command {
	r.t.Helper()
	var now entity.Command
	eventually(r.t, fmt.Sprintf("command %s to be %v", c.Name, want), func() bool {
		var err error
		if now, err = r.runtime.FindCommand(r.t.Context(), c.Entity, c.ID); err != nil {
			r.t.Fatal(err)
		}
		return now.State == want
	})
	return now
}

func TestThingsBoardDeviceGetsCommands(t *testing.T) {
	t.Parallel()
	for _, style := range []struct{ requests, answers string }{
		{"v1/devices/me/rpc/request/", "v1/devices/me/rpc/response/"}, {"v2/r/req/", "v2/r/res/"},
	} {
		s := start(t, "")
		s.post("pump", `{"t":1}`)
		first := s.sendCommand("pump", "setGpio", value.JSON(`{"pin":23,"value":1}`))
		second := s.sendCommand("pump", "reboot", value.Value{})
		c := s.dial311("esp", asUser("pump")) // it has slept
		got := subscribe(t, c, style.requests+"+")
		m := receive(t, got, "the first command")
		same(t, "the call", m.payload, `{"method":"setGpio","params":{"pin":23,"value":1}}`)
		number, ok := strings.CutPrefix(m.topic, style.requests)
		if n, err := strconv.ParseInt(number, 10, 32); !ok || err != nil || n < 0 {
			t.Errorf("the topic %s has no number that fits into an int", m.topic)
		}
		s.becomes(&first, entity.CommandDelivered)
		await(t, c.Publish(style.answers+number, 1, false, `{"ok":true}`))
		same(t, "the result", s.becomes(&first, entity.CommandDone).Result, `{"ok":true}`)
		await(t, c.Publish(style.answers+number, 1, false, `{"ok":false}`)) // too late
		same(t, "the result", s.becomes(&first, entity.CommandDone).Result, `{"ok":true}`)
		m = receive(t, got, "the second command")
		same(t, "the call", m.payload, `{"method":"reboot","params":{}}`)
		await(t, c.Publish(style.answers+strings.TrimPrefix(m.topic, style.requests), 1, false, ``))
		s.becomes(&second, entity.CommandDone)
		same(t, "what is refused", s.refusedOver("not_found")+s.refusedOver("syntax"), 0)
		await(t, c.Publish(style.answers+"5", 1, false, `{"ok":`))
		same(t, "what is refused", s.refusedOver("syntax"), 1)
	}
}

// A device whose connection is cut before it has acknowledged a command gets it once more, and
// not from the session of the broker as well.
func TestThingsBoardDeviceGetsACommandOnceWhereItsConnectionIsCut(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	kept := func(o *mqtt311.ClientOptions) { o.SetCleanSession(false).SetUsername("pump").SetAutoAckDisabled(true) }
	c, cut := s.dialCut("esp", kept)
	got := subscribe(t, c, "v1/devices/me/rpc/request/+") // which acknowledges nothing
	command := s.sendCommand("pump", "reboot", value.Value{})
	first := receive(t, got, "the command")
	cut()
	s.becomes(&command, entity.CommandQueued)
	again := make(chan message, 10)
	s.dial311("esp", func(o *mqtt311.ClientOptions) { o.SetCleanSession(false).SetUsername("pump") }, func(o *mqtt311.ClientOptions) {
		o.SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { again <- message{m.Topic(), string(m.Payload())} })
	})
	same(t, "the command", receive(t, again, "the command"), first)
	s.becomes(&command, entity.CommandDelivered)
	next, err := s.runtime.Command(t.Context(), "pump", entity.NewCommand{Name: "next", Parallel: true})
	if err != nil {
		t.Fatal(err)
	}
	if m := receive(t, again, "the next command"); !strings.Contains(m.payload, "next") {
		t.Errorf("before the next command, %+v is sent", m)
	}
	s.becomes(&next, entity.CommandDelivered)
}

func TestThingsBoardGatewayGetsCommandsOfItsDevices(t *testing.T) {
	t.Parallel()
	s, _ := startGuarded(t)
	c := s.dial311("gw", asUser(s.principal(`{"name":"gateway","grants":[{"role":"device","filter":"id like \"Device %\""}]}`)))
	await(t, c.Publish("v1/gateway/connect", 1, false, `{"device":"Device A"}`))
	early := s.sendCommand("Device A", "early", value.Int(1))
	got := subscribe(t, c, "v1/gateway/rpc")
	answer := func(command *entity.Command) {
		t.Helper()
		var call struct {
			Device string
			Data   struct {
				ID     int64
				Method string
			}
		}
		m := receive(t, got, "the command")
		if err := json.Unmarshal([]byte(m.payload), &call); err != nil || call.Device != command.Entity || call.Data.Method != command.Name {
			t.Fatalf("%s: %v", m.payload, err)
		}
		await(t, c.Publish("v1/gateway/rpc", 1, false, fmt.Sprintf(`{"device":%q,"id":%d,"data":{"success":true}}`, call.Device, call.Data.ID)))
		same(t, "the result", s.becomes(command, entity.CommandDone).Result, `{"success":true}`)
	}
	answer(&early)
	await(t, c.Publish("v1/gateway/connect", 1, false, `{"device":"Device B"}`))
	late := s.sendCommand("Device B", "late", value.String("x"))
	answer(&late)
	await(t, c.Publish("v1/gateway/disconnect", 1, false, `{"device":"Device B"}`))
	queued := s.sendCommand("Device B", "queued", value.Value{})
	await(t, c.Unsubscribe("v1/gateway/rpc"))
	other := s.sendCommand("Device A", "other", value.Value{})
	s.becomes(&queued, entity.CommandQueued)
	s.becomes(&other, entity.CommandQueued)
	select {
	case m := <-got:
		t.Errorf("the gateway was sent %+v", m)
	default:
	}
}

func TestThingsBoardDeviceOverHTTP(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	token := tokens["room-1"]
	admin := s.token
	s.token = "" // the token is in the path
	do := func(method, path, body string, status int) string {
		t.Helper()
		resp, text := s.do(method, "/api/v1/"+path, body, "Content-Type", mediaJSON)
		if resp.StatusCode != status {
			t.Errorf("%s %s: %s %s, want %d", method, path, resp.Status, text, status)
		}
		return strings.TrimSpace(text)
	}
	do("POST", token+"/telemetry", `[{"ts":1451649600512,"values":{"t":9}},{"t":10}]`, 200)
	do("POST", token+"/attributes", `{"fw":"1.2","cfg":{"a":1}}`, 200)
	same(t, "attributes", do("GET", token+"/attributes?clientKeys=fw", "", 200), `{"client":{"fw":"1.2"}}`)
	if text := do("POST", token+"/telemetry", `{"t":`, 400); strings.Contains(text, token) {
		t.Errorf("a problem shows the token: %s", text)
	}
	do("POST", "gr_room-1_wrong/telemetry", `{"t":1}`, 401)
	do("POST", tokens["guest"]+"/telemetry", `{"t":1}`, 403)
	do("GET", token+"/rpc?timeout=1", "", 408)
	s.token = admin
	same(t, "latest", s.latest("room-1")["t"], 10)
	_, refusals := s.do("GET", "/v1/refusals", "")
	if strings.Contains(refusals, token) || !strings.Contains(refusals, "/api/v1/{token}/telemetry") {
		t.Errorf("the refusals show a token, or not what was refused: %s", refusals)
	}
	s.token = ""

	command := s.sendCommand("room-1", "setGpio", value.JSON(`{"pin":1}`))
	var call struct {
		ID     int64
		Method string
		Params json.RawMessage
	}
	for range 2 { // until it is answered
		if err := json.Unmarshal([]byte(do("GET", token+"/rpc?timeout=20000", "", 200)), &call); err != nil || call.Method != "setGpio" || string(call.Params) != `{"pin":1}` {
			t.Errorf("the command: %+v, %v", call, err)
		}
	}
	do("POST", fmt.Sprintf("%s/rpc/%d", token, call.ID), `{"ok":true}`, 200)
	same(t, "the result", s.becomes(&command, entity.CommandDone).Result, `{"ok":true}`)
	if text := do("POST", token+"/rpc", `{"method":"getTime","params":{}}`, 200); !strings.HasPrefix(text, `{"time":`) {
		t.Errorf("the time: %s", text)
	}
}

func TestThingsBoardDeviceWaitsForItsAttributesOverHTTP(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	path := "/api/v1/" + tokens["room-1"] + "/attributes/updates"
	others := s.runtime.Stats().Subscriptions
	if resp, text := s.as("").do("GET", path+"?timeout=1", ""); resp.StatusCode != http.StatusRequestTimeout {
		t.Errorf("nothing has changed: %s %s", resp.Status, text)
	}
	for _, edit := range []struct{ section, patch, want string }{
		{"desired", `{"period":5,"cfg":{"a":1}}`, `{"cfg":{"a":1},"period":5}`},
		{"desired", `{"period":null,"cfg":{"a":2}}`, `{"deleted":["period"],"cfg":{"a":2}}`},
	} {
		got := make(chan string, 1)
		go func() {
			_, text := s.as("").do("GET", path+"?timeout=20000", "")
			got <- strings.TrimSpace(text)
		}()
		eventually(t, "the request to wait", func() bool { return s.runtime.Stats().Subscriptions > others })
		s.send(200, "PATCH", "/v1/entities/room-2/attributes/desired", mediaMergePatch, edit.patch) // another device's
		s.send(200, "PATCH", "/v1/entities/room-1/attributes/reported", mediaMergePatch, edit.patch)
		s.send(200, "PATCH", "/v1/entities/room-1/attributes/"+edit.section, mediaMergePatch, edit.patch)
		same(t, "the update", receive(t, got, "the update"), edit.want)
		eventually(t, "the wait to end", func() bool { return s.runtime.Stats().Subscriptions == others })
	}
}
