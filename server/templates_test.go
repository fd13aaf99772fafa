package server

import (
	"net/http"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// template puts a template.
func (r *running) template(name, body string) {
	r.t.Helper()
	if resp, text := r.do("PUT", "/v1/templates/"+name, body, "Content-Type", mediaJSON, "If-None-Match", "*"); resp.StatusCode != http.StatusCreated {
		r.t.Fatalf("template %s: %s %s", name, resp.Status, text)
	}
}

func TestATemplateIsInForceAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	c := s.dial311("bridge")
	watch := subscribe(t, s.dial311("watch"), "e/+/telemetry", "zigbee2mqtt/#")
	await(t, c.Publish("zigbee2mqtt/lamp", 1, false, `{"state":"ON"}`))
	same(t, "refused without a template", s.refusedOver("topic"), 1)
	s.template("z", `{"topic":"zigbee2mqtt/{id}","members":"*"}`)
	for qos := range byte(3) {
		await(t, c.Publish("zigbee2mqtt/lamp", qos, true, `{"state":"ON", "brightness":215}`))
		same(t, "the reading", receive(t, watch, "the reading"), message{"e/lamp/telemetry", `{"state":"ON","brightness":215}`})
		same(t, "the message as it came", receive(t, watch, "the message"), message{"zigbee2mqtt/lamp", `{"state":"ON", "brightness":215}`})
	}
	for qos := range byte(3) {
		await(t, c.Publish("zigbee2mqtt/lamp", qos, true, ""))
	}
	same(t, "refusals of what clears nothing", s.refusedOver("empty")+s.refusedOver("syntax"), 0)
	same(t, "latest", s.latest("lamp"), "map[brightness:215 state:\"ON\"]")

	resp, text := s.do("GET", "/v1/templates/z", "")
	if !strings.Contains(text, `"template":{"topic":"zigbee2mqtt/{id}","members":"*"}`) {
		t.Errorf("read: %s", text)
	}
	etag := resp.Header.Get("ETag")
	s.send(428, "PUT", "/v1/templates/z", mediaJSON, `{"topic":"z/{id}","members":"*"}`)
	s.send(412, "PUT", "/v1/templates/z", mediaJSON, `{"topic":"z/{id}","members":"*"}`, "If-Match", `"none"`)
	s.send(409, "PUT", "/v1/templates/y", mediaJSON, `{"topic":"zigbee2mqtt/{x}","entity":"{x}","members":"*"}`, "If-None-Match", "*")
	s.send(400, "PUT", "/v1/templates/try", mediaJSON, `{"topic":"z/{id}","members":"*"}`, "If-None-Match", "*")
	_, text = s.send(400, "PUT", "/v1/templates/y", mediaJSON, `{"topic":"y/{id}","values":{"a":"b +"}}`, "If-None-Match", "*")
	if !strings.Contains(text, `"column":4`) || !strings.Contains(text, `"in":"values.a"`) {
		t.Errorf("a mistake: %s", text)
	}
	s.send(200, "PUT", "/v1/templates/z", mediaJSON, `{"topic":"z/{id}","members":"*"}`, "If-Match", etag)
	await(t, c.Publish("zigbee2mqtt/lamp", 1, false, `{"state":"OFF"}`))
	same(t, "refused after the change", s.refusedOver("topic"), 2)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	again := start(t, dir)
	c = again.dial311("bridge")
	await(t, c.Publish("z/lamp", 1, false, `{"state":"OFF"}`))
	same(t, "after a restart", again.latest("lamp"), "map[brightness:215 state:\"OFF\"]")
	again.send(204, "DELETE", "/v1/templates/z", mediaJSON, "")
	await(t, c.Publish("z/lamp", 1, false, `{"state":"ON"}`))
	same(t, "after it was deleted", again.latest("lamp"), "map[brightness:215 state:\"OFF\"]")
	again.send(404, "DELETE", "/v1/templates/z", mediaJSON, "")
}

// A template gives nobody a right: who sends must be allowed to report for the entity, who sees what
// is sent to read it, and who sends a command to write it.
func TestATemplateLetsNobodyDoMore(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.template("z", `{"topic":"z/{id}","members":"*","commands":[{"topic":"z/{id}/set","answer":{"topic":"z/{id}/answer"}}]}`)
	s.template("n", `{"topic":"n/+","into":"nothing"}`)
	device := s.dial311("device", asUser(tokens["room-1"]))
	guest := s.dial311("guest", asUser(tokens["guest"]))
	seen := subscribe(t, guest, "#", "z/#")
	all := subscribe(t, s.dial311("viewer", asUser(tokens["viewer"])), "z/#")
	for i, forbidden := range []struct {
		by      mqtt311.Client
		topic   string
		payload string
	}{
		{device, "z/room-2", `{"t":9}`}, {guest, "z/room-1", `{"t":9}`}, {device, "z/room-1/set", `{}`}, {guest, "n/x", `{"t":9}`}, {guest, "z/room-1/answer", `{}`},
	} {
		await(t, forbidden.by.Publish(forbidden.topic, 1, false, forbidden.payload))
		same(t, "refusals after "+forbidden.topic, s.refusedOver("forbidden"), i+1)
	}
	operator := s.dial311("operator", asUser(tokens["operator"]))
	await(t, operator.Publish("z/other", 1, false, `{"t":1}`))
	await(t, operator.Publish("n/x", 1, false, `{"t":1}`))
	await(t, operator.Publish("z/room-1/set", 1, false, `{"on":true}`))
	await(t, device.Publish("z/room-1", 1, false, `{"t":2}`))
	same(t, "what one sees who may see all", receive(t, all, "a message"), message{"z/other", `{"t":1}`})
	same(t, "what one sees who may see all", receive(t, all, "a message"), message{"z/room-1/set", `{"on":true}`})
	for m := receive(t, seen, "a message"); ; m = receive(t, seen, "a message") {
		if strings.Contains(m.topic, "other") || strings.HasPrefix(m.topic, "n/") {
			t.Errorf("the guest sees %+v", m)
		}
		if m.payload == `{"t":2}` {
			break
		}
	}
	same(t, "latest", s.latest("room-1"), "map[t:2]")
	same(t, "latest", s.latest("room-2"), "map[t:1]")
	if _, text := s.do("GET", "/v1/audit?limit=1", ""); !strings.Contains(text, `"action":"publishCommand","what":"z/room-1/set"`) {
		t.Errorf("the audit log: %s", text)
	}
}

func TestTheFirstMessageMakesAnEntityOfTheTypeOfTheTemplate(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/types/Lamp", mediaJSON, `{"telemetry":{"brightness":{"type":"number","max":255}}}`, "If-None-Match", "*")
	s.template("z", `{"topic":"z/{id}","entity":"lamp-{id}","type":"Lamp","members":"*"}`)
	s.template("r", `{"topic":"z/{id}/state","entity":"lamp-{id}","type":"Lamp","into":"reported","members":"*"}`)
	s.template("x", `{"topic":"x/{id}","type":"None","members":"*"}`)
	c := s.dial311("bridge")
	for range 2 {
		await(t, c.Publish("z/a", 1, false, `{"brightness":100}`))
	}
	await(t, c.Publish("z/b/state", 1, false, `{"fw":"1.2"}`))
	for _, id := range []string{"lamp-a", "lamp-b"} {
		if text := s.document("/v1/entities/" + id); !strings.Contains(text, `"type":"Lamp"`) {
			t.Errorf("%s: %s", id, text)
		}
	}
	await(t, c.Publish("z/a", 1, false, `{"brightness":300}`))
	same(t, "the type is heeded", s.refusedOver("type"), 1)
	await(t, c.Publish("x/a", 1, false, `{"t":1}`))
	if resp, _ := s.do("GET", "/v1/entities/a", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("of a type that there is not: %s", resp.Status)
	}
}

func TestCommandsGoOutByTheTemplate(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c := s.dial311("bridge")
	got := subscribe(t, c, "zigbee2mqtt/+/set", "cmnd/plug/#", "shelly/rpc")
	s.template("z", `{"topic":"zigbee2mqtt/{id}","members":"*","commands":[{"topic":"zigbee2mqtt/{id}/set"}]}`)
	s.template("t", `{"topic":"tele/{id}/SENSOR","members":"*","commands":[{"topic":"cmnd/{id}/{command}","payload":"{request}","text":true,
		"answer":{"topic":"stat/{id}/RESULT","named":true,"error":"Command"}}]}`)
	s.template("s", `{"topic":"{id}/events/rpc","members":"params.*","commands":[{"topic":"{id}/rpc","payload":{"id":"{number}","src":"greenroom/{id}","method":"{command}","params":"{request}"},
		"answer":{"topic":"greenroom/{id}/rpc","number":"id","result":"result","error":"error.message"}}]}`)

	// A bridge speaks for those about whom it reports. What is acknowledged is done.
	await(t, c.Publish("zigbee2mqtt/lamp", 1, false, `{"state":"OFF"}`))
	on := s.sendCommand("lamp", "set", value.JSON(`{"state":"ON"}`))
	same(t, "a command", receive(t, got, "the command"), message{"zigbee2mqtt/lamp/set", `{"state":"ON"}`})
	s.becomes(&on, entity.CommandDone)

	// A device that subscribes to its own topics has not said anything yet.
	s.post("plug", `{"t":1}`)
	await(t, c.Subscribe("cmnd/plug/#", 1, nil))
	got = subscribe(t, c, "cmnd/plug/#")
	power := s.sendCommand("plug", "Power", value.String("ON"))
	same(t, "a command", receive(t, got, "the command"), message{"cmnd/plug/Power", `ON`})
	s.becomes(&power, entity.CommandDelivered)
	await(t, c.Publish("stat/plug/RESULT", 1, false, `{"Dimmer":40}`))
	s.becomes(&power, entity.CommandDelivered)
	await(t, c.Publish("stat/plug/RESULT", 1, false, `{"POWER":"ON"}`))
	if done := s.becomes(&power, entity.CommandDone); done.Result.String() != `"ON"` {
		t.Errorf("its result is %s", done.Result)
	}
	wrong := s.sendCommand("plug", "Powr", value.String("ON"))
	receive(t, got, "the command")
	await(t, c.Publish("stat/plug/RESULT", 1, false, `{"Command":"Unknown"}`))
	if failed := s.becomes(&wrong, entity.CommandFailed); failed.Error != "Unknown" {
		t.Errorf("its error is %q", failed.Error)
	}
	await(t, c.Publish("stat/plug/RESULT", 1, false, `{"POWER":"OFF"}`)) // a button

	await(t, c.Publish("shelly/events/rpc", 1, false, `{"params":{"output":false}}`))
	rpc := subscribe(t, c, "shelly/rpc")
	await(t, c.Publish("shelly/events/rpc", 1, false, `{"params":{"output":false}}`))
	first := s.sendCommand("shelly", "Switch.Set", value.JSON(`{"id":0,"on":true}`))
	m := receive(t, rpc, "the command")
	number := strings.TrimSuffix(strings.TrimPrefix(m.payload, `{"id":`), `,"method":"Switch.Set","params":{"id":0,"on":true},"src":"greenroom/shelly"}`)
	await(t, c.Publish("greenroom/shelly/rpc", 1, false, `{"id":1`+number+`,"result":{"was_on":true}}`))
	await(t, c.Publish("greenroom/shelly/rpc", 1, false, `{"id":`+number+`,"result":{"was_on":false}}`))
	if done := s.becomes(&first, entity.CommandDone); done.Result.String() != `{"was_on":false}` {
		t.Errorf("its result is %s", done.Result)
	}
	await(t, c.Publish("greenroom/shelly/rpc", 1, false, `{"id":`+number+`,"result":{"was_on":false}}`)) // again
}

func TestCommandsOfATemplateReachTheDeviceOnly(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.template("z", `{"topic":"z/{id}","members":"*","commands":[{"name":"set","topic":"z/{id}/set"}]}`)
	operator := s.dial311("people", asUser(tokens["operator"]))
	subscribe(t, operator, "z/room-1/set")
	await(t, operator.Publish("z/room-1", 1, false, `{"t":1}`)) // it may report, but is not the device
	device := s.dial311("device", asUser(tokens["room-1"]))
	got := subscribe(t, device, "z/room-1/set")
	command := s.sendCommand("room-1", "set", value.Int(1))
	same(t, "the command", receive(t, got, "the command"), message{"z/room-1/set", "1"})
	s.becomes(&command, entity.CommandDone)
	other := s.sendCommand("room-1", "reboot", value.Value{})
	if failed := s.becomes(&other, entity.CommandFailed); failed.Error != `no template of the device has a command "reboot"` {
		t.Errorf("its error is %q", failed.Error)
	}
	// Without a template, or without the subscription, a command waits.
	s.send(204, "DELETE", "/v1/templates/z", mediaJSON, "")
	waits := s.sendCommand("room-1", "set", value.Int(2))
	s.template("z", `{"topic":"z/{id}","members":"*","commands":[{"topic":"z/{id}/set"}]}`)
	await(t, device.Publish("z/room-1", 1, false, `{"t":2}`))
	same(t, "the command", receive(t, got, "the command"), message{"z/room-1/set", "2"})
	s.becomes(&waits, entity.CommandDone)
	await(t, device.Unsubscribe("z/room-1/set"))
	await(t, device.Publish("z/room-1", 1, false, `{"t":3}`))
	sleeps := s.sendCommand("room-1", "set", value.Int(3))
	s.becomes(&sleeps, entity.CommandQueued)
	got = subscribe(t, device, "z/#")
	await(t, device.Publish("z/room-1", 1, false, `{"t":4}`))
	for m := receive(t, got, "the command"); m.payload != "3"; m = receive(t, got, "the command") {
		same(t, "what else it sees", m, message{"z/room-1", `{"t":4}`})
	}
	s.becomes(&sleeps, entity.CommandDone)
}

func TestATemplateIsTriedWithoutKeepingAnything(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.template("z", `{"topic":"z/{id}","members":"*"}`)
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{
			200, `{"name":"z","template":{"topic":"z/{id}","values":{"t":"a.b / 10"},"time":"at","commands":[{"topic":"z/{id}/set"}]},"topic":"z/x","payload":"{\"a\":{\"b\":215},\"at\":1451649600512}","command":{"name":"set","request":{"on":true}}}`,
			`{"entity":"x","into":"telemetry","ts":1451649600512,"values":{"t":21.5},"sent":{"topic":"z/x/set","payload":"{\"on\":true}"}}`,
		},
		{200, `{"template":{"topic":"y/{id}","values":{"t":"a.b / 10"}},"topic":"y/x","payload":"{\"a\":{\"b\":\"hot\"}}"}`, `"in":"values.t"`},
		{200, `{"template":{"topic":"y/{id}","members":"*"},"topic":"y/x","payload":"{"}`, `{"refused":{"cause":"syntax","detail":"must be JSON; unexpected end of JSON input"}}`},
		{200, `{"template":{"topic":"y/{id}","members":"*"},"topic":"y/x","payload":"","payload_bytes":"eyJhIjoxfQ=="}`, `"values":{"a":1}`},
		{200, `{"template":{"topic":"y/{id}","members":"*"},"topic":"x/x","payload":"{}"}`, `y/{id} does not take the topic \"x/x\"`},
		{409, `{"template":{"topic":"z/{id}","members":"*"},"topic":"z/x","payload":"{}"}`, `template \"z\" takes the same topics`},
		{400, `{"template":{"topic":"y/{id}","values":{"t":"a +"}},"topic":"y/x","payload":"{}"}`, `"column":4`},
		{400, `{"template":{"topic":"y/{id}","members":"*"},"topic":"y/x","payload":"{\"a\":1}","command":{"name":"set"}}`, `there is none for \"set\"`},
	} {
		if _, text := s.send(tt.status, "POST", "/v1/templates/try", mediaJSON, tt.body); !strings.Contains(text, tt.want) {
			t.Errorf("%s\ngot  %s\nwant %s", tt.body, text, tt.want)
		}
	}
	if resp, _ := s.do("GET", "/v1/entities/x", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the entity of a trial: %s", resp.Status)
	}
}

// Who makes a template sees what was refused: the beginning of what no convention has a topic for.
func TestWhatWasRefusedIsShownToMakeATemplateOf(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c := s.dial311("op", asUser(tokens["operator"]))
	large := `{"x":"` + strings.Repeat("é", 3000) + `"}`
	for i, payload := range []string{`{"state":"ON"}`, "\xff\x00", large, "", `{"state":"OFF"}`} {
		await(t, c.Publish([]string{"q/a", "q/b", "q/c", "q/d", "q/a"}[i], byte(1+i%2), false, payload))
	}
	s.template("z", `{"topic":"z/{id}","members":"*"}`)
	await(t, c.Publish("z/a", 2, false, `{"state":}`))
	await(t, c.Publish("e/a/telemetry", 1, false, `{"secret":}`))
	await(t, c.Publish("v1/devices/me/secret", 1, false, `{"secret":1}`))
	var list refusalsJSON
	s.get("/v1/refusals", &list)
	got := map[string]refusalJSON{}
	for _, r := range list.Recent {
		got[r.Where] = r
	}
	if r := got["q/a"]; r.Payload != `{"state":"OFF"}` || r.Count != 2 || r.Size != 15 {
		t.Errorf("the last message: %+v", r)
	}
	if r := got["q/b"]; r.Payload != "" || string(r.Bytes) != "\xff\x00" {
		t.Errorf("bytes: %+v", r)
	}
	if r := got["q/c"]; !strings.HasPrefix(large, r.Payload) || len(r.Payload) < refusal.MaxExcerpt-4 || len(r.Payload) > refusal.MaxExcerpt || r.Size != len(large) {
		t.Errorf("of a large one %d bytes are shown, of %d", len(r.Payload), r.Size)
	}
	if r := got["z/a"]; r.Payload != `{"state":}` || r.Cause != "syntax" {
		t.Errorf("of a template: %+v", r)
	}
	for _, topic := range []string{"e/a/telemetry", "v1/devices/me/secret"} {
		if r, ok := got[topic]; !ok || r.Payload != "" || r.Size != 0 {
			t.Errorf("%s: %+v", topic, r)
		}
	}
	if resp, text := s.as(tokens["guest"]).do("GET", "/v1/refusals", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("who may see some entities sees %s %s", resp.Status, text)
	}
}
