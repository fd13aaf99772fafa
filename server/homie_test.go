package server

import (
	"encoding/json"
	"net/http"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

const thermostat = `{"homie":"5.0","version":7,"name":"Thermostat","nodes":{
	"hvac":{"properties":{
		"temperature":{"datatype":"float","unit":"°C"},
		"setpoint":{"datatype":"integer","settable":true},
		"mode":{"datatype":"enum","format":"off,heat","settable":true},
		"on":{"datatype":"boolean"},
		"label":{"datatype":"string","settable":true},
		"schedule":{"datatype":"json"},
		"boost":{"datatype":"boolean","settable":true,"retained":false}
	}}}}`

// announce has a device of Homie say what it is.
func announce(t *testing.T, c mqtt311.Client, id string) {
	t.Helper()
	for _, m := range []message{{"$state", "init"}, {"$description", thermostat}, {"$state", "ready"}} {
		await(t, c.Publish("homie/5/"+id+"/"+m.topic, 2, true, m.payload))
	}
}

func TestADeviceOfHomieReports(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c := s.dial311("esp", asUser(tokens["room-1"]))
	announce(t, c, "room-1")
	watch := subscribe(t, s.dial311("watch", asUser(tokens["viewer"])), "e/room-1/telemetry")
	publish := func(topic, payload string) {
		t.Helper()
		await(t, c.Publish("homie/5/room-1/"+topic, 1, true, payload))
	}
	publish("hvac/temperature", "21")
	same(t, "what subscribers of the entity get", receive(t, watch, "the reading"), message{"e/room-1/telemetry", `{"hvac.temperature":21}`})
	for topic, payload := range map[string]string{
		"hvac/setpoint": "22", "hvac/mode": "heat", "hvac/on": "true", "hvac/label": "\x00", "hvac/schedule": `[{"at": 6}]`, "hvac/other": "1.5",
		"hvac/setpoint/$target": "23", "$log/warn": "the valve sticks", "$alert/battery": "3 % left", "$alert/valve": "sticks",
	} {
		publish(topic, payload)
	}
	publish("hvac/mode", "") // has none any more
	publish("$alert/valve", "")
	same(t, "latest", s.latest("room-1"), `map[$log.warn:"the valve sticks" hvac.label:"" hvac.mode:"heat" hvac.on:true hvac.other:1.5 hvac.schedule:[{"at":6}] hvac.setpoint:22 hvac.setpoint.target:23 hvac.temperature:21 t:1]`)
	var reported struct {
		Homie struct {
			State       string
			Description struct{ Version int }
			Alerts      map[string]string
		}
	}
	if err := json.Unmarshal([]byte(s.section("room-1", "reported")), &reported); err != nil {
		t.Fatal(err)
	}
	same(t, "reported", reported.Homie, "{ready {7} map[battery:3 % left]}")
	for topic, payload := range map[string]string{
		"hvac/setpoint": "warm", "hvac/temperature": "NaN", "hvac/on": "yes", "hvac/schedule": "5", "$state": "asleep", "$description": `{"homie":"4.0"}`,
	} {
		before := s.refusedOver("invalid")
		publish(topic, payload)
		same(t, "refusals of "+topic, s.refusedOver("invalid"), before+1)
	}
	for _, topic := range []string{"$name", "Hvac/mode", "hvac/mode/get", "$log/loud", "hvac"} {
		before := s.refusedOver("topic")
		publish(topic, "1")
		same(t, "refusals of "+topic, s.refusedOver("topic"), before+1)
	}
	before := s.refusedOver("forbidden")
	await(t, c.Publish("homie/5/room-2/$state", 1, true, "ready"))
	await(t, c.Publish("homie/5/room-1/hvac/mode/set", 1, false, "heat"))
	await(t, c.Publish("homie/5/$broadcast/alert", 1, false, "fire"))
	same(t, "what it may not say", s.refusedOver("forbidden"), before+3)
}

func TestControllersOfHomieFindWhatTheyMayRead(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c := s.dial311("esp", asUser(tokens["room-1"]))
	announce(t, c, "room-1")
	await(t, c.Publish("homie/5/room-1/hvac/temperature", 1, true, "21"))
	operator := s.dial311("people", asUser(tokens["operator"]))
	found := subscribe(t, operator, "homie/5/+/#")
	got := map[string]string{}
	for range 3 {
		m := receive(t, found, "what is retained")
		got[m.topic] = m.payload
	}
	same(t, "state", got["homie/5/room-1/$state"], "ready")
	same(t, "description", got["homie/5/room-1/$description"], thermostat)
	same(t, "temperature", got["homie/5/room-1/hvac/temperature"], "21")
	other := subscribe(t, s.dial311("other", asUser(tokens["elsewhere"])), "homie/5/+/#")

	// A controller sets a property.
	told := subscribe(t, c, "homie/5/room-1/+/+/set")
	await(t, operator.Publish("homie/5/room-1/hvac/mode/set", 1, false, "off"))
	same(t, "what the device is told", receive(t, told, "the set"), message{"homie/5/room-1/hvac/mode/set", "off"})
	same(t, "what a controller sees", receive(t, found, "the set"), message{"homie/5/room-1/hvac/mode/set", "off"})
	admin := s.dial311("admin", asUser(tokens["admin"]))
	await(t, admin.Publish("homie/5/$broadcast/alert", 1, false, "fire"))
	same(t, "all that others see", receive(t, other, "the broadcast"), message{"homie/5/$broadcast/alert", "fire"})

	// What is retained ends with the entity.
	if resp, text := s.do("DELETE", "/v1/entities/room-1", "", "Authorization", "Bearer "+tokens["admin"]); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status, text)
	}
	eventually(t, "nothing is retained", func() bool {
		late := subscribe(t, s.dial311("late", asUser(tokens["admin"])), "homie/5/+/#", "e/probe/telemetry")
		await(t, admin.Publish("e/probe/telemetry", 1, false, `{"t":1}`))
		return receive(t, late, "the end of what is retained").topic == "e/probe/telemetry"
	})
}

func TestADeviceOfHomieGetsCommandsWhileItIsReady(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	c, cut := s.dialCut("thermo", asUser("thermo"), func(o *mqtt311.ClientOptions) { o.SetWill("homie/5/thermo/$state", "lost", 2, true) })
	told := subscribe(t, c, "homie/5/thermo/+/+/set")
	announce(t, c, "thermo")
	commandOf := func(name string, request value.Value) entity.Command { return s.sendCommand("thermo", name, request) }
	first := commandOf("hvac.setpoint", value.Int(22))
	same(t, "the command", receive(t, told, "it"), message{"homie/5/thermo/hvac/setpoint/set", "22"})
	s.becomes(&first, entity.CommandDelivered)
	await(t, c.Publish("homie/5/thermo/hvac/setpoint", 1, true, "21")) // on its way
	await(t, c.Publish("homie/5/thermo/hvac/setpoint", 1, true, "22"))
	s.becomes(&first, entity.CommandDone)
	label := commandOf("hvac.label", value.String(""))
	same(t, "an empty text", receive(t, told, "it"), message{"homie/5/thermo/hvac/label/set", "\x00"})
	await(t, c.Publish("homie/5/thermo/hvac/label", 1, true, "\x00"))
	s.becomes(&label, entity.CommandDone)
	boost := commandOf("hvac.boost", value.Bool(true)) // reports nothing
	same(t, "an event", receive(t, told, "it"), message{"homie/5/thermo/hvac/boost/set", "true"})
	s.becomes(&boost, entity.CommandDone)
	for name, request := range map[string]value.Value{"reboot": value.Bool(true), "hvac.setpoint": value.String("warm"), "hvac.mode": {}} {
		wrong := commandOf(name, request)
		s.becomes(&wrong, entity.CommandFailed)
	}

	await(t, c.Publish("homie/5/thermo/$state", 1, true, "sleeping"))
	waits := commandOf("hvac.mode", value.String("heat"))
	await(t, c.Publish("homie/5/thermo/$state", 1, true, "ready"))
	same(t, "what has waited", receive(t, told, "it"), message{"homie/5/thermo/hvac/mode/set", "heat"})
	s.becomes(&waits, entity.CommandDelivered)
	cut()
	eventually(t, "the will", func() bool {
		var doc struct{ Homie struct{ State string } }
		s.get("/v1/entities/thermo/attributes/reported", &doc)
		return doc.Homie.State == "lost"
	})
}

func TestADescriptionOfHomieIsKnownAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	announce(t, s.dial311("thermo", asUser("thermo")), "thermo")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	c := s.dial311("thermo", asUser("thermo"))
	before := s.refusedOver("invalid")
	await(t, c.Publish("homie/5/thermo/hvac/label", 1, true, "12"))
	await(t, c.Publish("homie/5/thermo/hvac/on", 1, true, "12"))
	same(t, "refusals", s.refusedOver("invalid"), before+1)
	same(t, "latest", s.latest("thermo"), `map[hvac.label:"12"]`)
	found := subscribe(t, s.dial311("controller"), "homie/5/+/$description")
	same(t, "what is retained", receive(t, found, "it"), message{"homie/5/thermo/$description", thermostat})
}
