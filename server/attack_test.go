package server

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// elsewhere has a message for the entity of another device, in each layout. The payloads contain the
// word canary wherever the layout takes it.
var elsewhere = []struct{ topic, payload string }{
	{"e/other/telemetry", `{"canary":1}`},
	{"e/other/attributes", `{"canary":1}`},
	{"e/other/desired", `{"canary":1}`},
	{"e/other/presence", `{"canary":1}`},
	{"e/other/alarms", `{"canary":1}`},
	{"e/other/commands", `{"id":"canary","name":"canary"}`},
	{"e/other/answers", `{"id":"canary","state":"done","result":"canary"}`},
	{"e/room-1/../other/telemetry", `{"canary":1}`},
	{"v1/gateway/telemetry", `{"other":[{"ts":1000,"values":{"canary":1}}]}`},
	{"v1/gateway/telemetry", `{"room-1":[{"ts":1000,"values":{"t":1}}],"other":[{"ts":1000,"values":{"canary":1}}]}`},
	{"v1/gateway/attributes", `{"other":{"canary":1}}`},
	{"v1/gateway/connect", `{"device":"other","type":"canary"}`},
	{"v1/gateway/disconnect", `{"device":"other"}`},
	{"v1/gateway/rpc", `{"device":"other","id":1,"data":{"canary":1}}`},
	{"v1/gateway/claim", `{"other":{"secretKey":"canary","durationMs":60000}}`},
	{"$aws/things/other/shadow/update", `{"state":{"reported":{"canary":1},"desired":{"canary":1}}}`},
	{"$aws/things/other/shadow/name/canary/update", `{"state":{"reported":{"canary":1}}}`},
	{"$aws/things/other/shadow/update/accepted", `{"canary":1}`},
	{"$aws/things/other/shadow/update/delta", `{"canary":1}`},
	{"$aws/things/room-1/shadow/name/../other/update", `{"state":{"reported":{"canary":1}}}`},
	{"$aws/things/other/shadow/delete", ``},
	{"devices/other/messages/events/", `{"canary":1}`},
	{"devices/other/messages/events/canary=1", `{"t":1}`},
	{"devices/other/messages/devicebound/", `{"canary":1}`},
	{"homie/5/other/$state", `ready`},
	{"homie/5/other/$description", `{"homie":"5.0","version":1,"nodes":{"canary":{"properties":{"canary":{"datatype":"string"}}}}}`},
	{"homie/5/other/canary/canary", `canary`},
	{"homie/5/other/canary/canary/set", `canary`},
	{"homie/5/other/$alert/canary", `canary`},
	{"homie/5/$broadcast/canary", `canary`},
	{"spBv1.0/STATE/greenroom", `{"online":false,"timestamp":1,"canary":1}`},
	{"spBv1.0/STATE/canary", `{"online":true,"timestamp":1}`},
	{"spBv1.0/other/NBIRTH/canary", ""},
	{"spBv1.0/other/NDEATH/canary", ""},
	{"spBv1.0/other/NCMD/canary", ""},
	{"spBv1.0/other/DCMD/canary/canary", ""},
	{"$SYS/broker/canary", `canary`},
	{"$share/g/e/other/telemetry", `{"canary":1}`},
	{"zigbee2mqtt/other", `{"canary":1}`},
	{"plain/other/canary", `{"canary":1}`},
}

func TestADeviceLeavesNoTraceAtOthersInAnyLayout(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	admin := s.dial311("admin", withToken(tokens["admin"]))
	var mu sync.Mutex
	var heard []string
	await(t, admin.Subscribe("#", 1, func(_ mqtt311.Client, m mqtt311.Message) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, m.Topic()+" "+string(m.Payload()))
	}))
	await(t, admin.Subscribe("$aws/#", 1, nil))
	s.attackedTemplates()
	before := s.everything()
	device := s.dial311("same", withToken(tokens["room-1"]))
	for _, to := range elsewhere {
		for _, retained := range []bool{false, true} {
			device.Publish(to.topic, 1, retained, to.payload).WaitTimeout(patience)
		}
		if !device.IsConnectionOpen() {
			device = s.dial311("same", withToken(tokens["room-1"]))
		}
	}
	await(t, device.Publish("e/room-1/telemetry", 1, false, `{"ts":9000,"values":{"end":1}}`))
	eventually(t, "the last message", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(heard, func(m string) bool { return strings.Contains(m, `"end"`) })
	})
	mu.Lock()
	defer mu.Unlock()
	for _, m := range heard {
		if strings.Contains(m, "other") || strings.Contains(m, "canary") {
			t.Errorf("was forwarded: %s", m)
		}
	}
	if after := s.everything(); strings.Contains(after, "canary") || strings.Count(after, `"other"`) != strings.Count(before, `"other"`) {
		t.Errorf("the entities afterwards:\n%s\nbefore:\n%s", after, before)
	}
}

// attackedTemplates makes templates for the last messages of elsewhere.
func (r *running) attackedTemplates() {
	r.t.Helper()
	r.template("z", `{"topic":"zigbee2mqtt/{id}","members":"*"}`)
	r.template("plain", `{"topic":"plain/{id}/canary","members":"*"}`)
}

// everything returns all that the server keeps of entities, alarms and offers.
func (r *running) everything() (all string) {
	r.t.Helper()
	for _, path := range []string{
		"/v1/export?what=entities", "/v1/export?what=history&entity=other", "/v1/export?what=latest&entity=other", "/v1/claims", "/v1/alarms",
	} {
		resp, text := r.do("GET", path, "")
		if resp.StatusCode != http.StatusOK {
			r.t.Fatalf("GET %s: %s %s", path, resp.Status, text)
		}
		all += text
	}
	return all
}

func TestAGuestHearsNothingOfOthersInAnyLayout(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.attackedTemplates()
	var mu sync.Mutex
	var heard []string
	hear := func(name, who string) {
		c := s.dial311(name, withToken(tokens[who]))
		c.AddRoute("#", func(_ mqtt311.Client, m mqtt311.Message) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, name+": "+m.Topic()+" "+string(m.Payload()))
		})
		for _, filter := range []string{
			"#", "+/#", "+/+", "+/+/+", "$share/g/#", "$share/g/+/+/+", "$aws/#", "$aws/things/+/shadow/#", "$share/h/$aws/#", "$SYS/#", "$SYS/+/+", "$iothub/#",
			"spBv1.0/#", "homie/#", "homie/5/+/#", "devices/#", "devices/other/messages/devicebound/#", "v1/#", "v2/#", "zigbee2mqtt/#",
			"e/other/telemetry", "e/other/commands", "e/+/commands", "e/other/#", "$aws/things/other/shadow/update/accepted", "homie/5/other/$description",
		} {
			c.Subscribe(filter, 1, nil).WaitTimeout(patience)
		}
	}
	hear("first", "guest")
	hear("control", "viewer")
	admin := s.dial311("admin", withToken(tokens["admin"]))
	for _, to := range elsewhere {
		if strings.Contains(to.topic, "STATE/canary") || strings.Contains(to.topic, "$broadcast") {
			continue // which are for everybody
		}
		for _, retained := range []bool{false, true} {
			admin.Publish(to.topic, 1, retained, to.payload).WaitTimeout(patience)
		}
		if !admin.IsConnectionOpen() {
			admin = s.dial311("admin", withToken(tokens["admin"]))
		}
	}
	s.do("PATCH", "/v1/entities/other/attributes", `{"canary":2}`, "Content-Type", mediaMergePatch)
	s.do("PATCH", "/v1/entities/other/attributes/desired", `{"canary":2}`, "Content-Type", mediaMergePatch)
	s.do("POST", "/v1/entities/other/commands", `{"name":"canary"}`, "Content-Type", mediaJSON)
	s.raiseAlarm("other")
	if !strings.Contains(s.everything(), "canary") {
		t.Error("nothing was kept, so there is nothing to hear")
	}
	s.do("DELETE", "/v1/templates/z", "")
	hear("late", "guest") // what is retained
	hear("late control", "viewer")
	await(t, admin.Publish("e/room-1/telemetry", 1, false, `{"ts":9000,"values":{"end":1}}`))
	for _, name := range []string{"first", "late", "control", "late control"} {
		eventually(t, "the last message for "+name, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.ContainsFunc(heard, func(m string) bool { return strings.HasPrefix(m, name+": ") && strings.Contains(m, `"end"`) })
		})
	}
	mu.Lock()
	defer mu.Unlock()
	topics := map[string]map[string]bool{"control": {}, "late control": {}}
	for _, m := range heard {
		if !strings.Contains(m, "other") && !strings.Contains(m, "canary") {
			continue
		}
		name, about, _ := strings.Cut(m, ": ")
		if topics[name] == nil {
			t.Errorf("heard %s", m)
			continue
		}
		topic, _, _ := strings.Cut(about, "{")
		topics[name][topic] = true
	}
	for name, least := range map[string]int{"control": 10, "late control": 3} {
		if len(topics[name]) < least {
			t.Errorf("%s, who may read everything, has heard of %d topics only: %v", name, len(topics[name]), topics[name])
		}
	}
}
