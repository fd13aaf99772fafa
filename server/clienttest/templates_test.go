package clienttest

import (
	"encoding/json"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// useReadyTemplates puts the templates that come with the server.
func (r *running) useReadyTemplates() {
	r.t.Helper()
	var list struct {
		Ready []struct {
			Name     string
			Template json.RawMessage
		}
	}
	r.get("/v1/templates", &list)
	for _, ready := range list.Ready {
		r.do("PUT", "/v1/templates/"+ready.Name, string(ready.Template), "Content-Type", "application/json", "If-None-Match", "*")
	}
}

// TestDevicesWithTemplatesWithMQTTjs has a bridge of Zigbee2MQTT, a device with Tasmota and one of
// Shelly report, and get a command each, with the templates that come with the server.
func TestDevicesWithTemplatesWithMQTTjs(t *testing.T) {
	t.Parallel()
	ready(t)
	for _, version := range []int{4, 5} {
		s := start(t, server.Config{})
		s.useReadyTemplates()
		const tasmota, shelly = "tasmota_9CF9D1", "shellyplus1pm-a8032ab12345"
		answers := map[string]string{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for id, body := range map[string]string{
			"lamp": `{"name":"set","request":{"state":"ON"}}`, tasmota: `{"name":"POWER","request":"ON"}`, shelly: `{"name":"Switch.Set","request":{"id":0,"on":true}}`,
		} {
			wg.Go(func() { // as soon as it has reported
				eventually(t, "readings of "+id, func() bool {
					return strings.Contains(s.may("GET", "/v1/entities/"+id), `"latest"`) && len(s.latest(id)) > 0
				})
				answer := s.do("POST", "/v1/entities/"+id+"/commands?wait=25s", body, "Content-Type", "application/json")
				var ended struct {
					State  string
					Result json.RawMessage
				}
				if err := json.Unmarshal([]byte(answer), &ended); err != nil {
					t.Errorf("the command of %s: %v", id, err)
				}
				mu.Lock()
				defer mu.Unlock()
				answers[id] = ended.State + " " + string(ended.Result)
			})
		}
		out := client(t, "templates.mjs", map[string]any{"mqtt": s.MQTTAddr(), "version": version})
		wg.Wait()
		same(t, "what the devices were sent", out, `{"bridge":{"topic":"zigbee2mqtt/lamp/set","payload":"{\"state\":\"ON\"}"},`+
			`"tasmota":{"topic":"cmnd/tasmota_9CF9D1/POWER","payload":"ON"},`+
			`"shelly":{"topic":"shellyplus1pm-a8032ab12345/rpc","method":"Switch.Set","params":{"id":0,"on":true}}}`+"\n")
		same(t, "what has become of the commands", answers, map[string]string{"lamp": "done ", tasmota: `done "ON"`, shelly: `done {"was_on":true}`})
		eventually(t, "the lamp's state", func() bool { return s.latest("lamp")["state"] == "ON" }) // which it has sent with QoS 0
		same(t, "the lamp", s.latest("lamp"), map[string]any{"state": "ON", "brightness": 215, "color.x": 0.123, "color.y": 0.2})
		same(t, "the plug", s.latest(tasmota), map[string]any{"on": false, "uptime_s": 611, "wifi_signal": -78, "Time": "2024-02-24T22:20:38", "ENERGY.Power": 3.2})
		same(t, "the switch", s.latest(shelly), map[string]any{"switch:0.id": 0, "switch:0.apower": 8.9, "switch:0.output": true})
		for _, id := range []string{"lamp", tasmota, shelly} {
			same(t, id+" is online", strings.Contains(s.do("GET", "/v1/entities/"+id+"/attributes/reported", ""), `"online":true`), true)
		}
	}
}

// TestMosquittoPublishesWithTemplates has mosquitto_pub be a Shelly of the first generation, and
// mosquitto_sub take its command.
func TestMosquittoPublishesWithTemplates(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mosquitto_pub"); err != nil {
		t.Skip("NOT TESTED with mosquitto_pub: it is not installed; on Debian it is in mosquitto-clients")
	}
	s := start(t, server.Config{})
	s.useReadyTemplates()
	host, port, err := net.SplitHostPort(s.MQTTAddr())
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"mqttv311", "mqttv5"} {
		id := "shelly1pm-" + version
		for topic, payload := range map[string]string{"relay/0": "on", "relay/0/power": "21.03", "relay/0/energy": "4711", "online": "true"} {
			cmd := exec.CommandContext(t.Context(), "mosquitto_pub", "-V", version, "-h", host, "-p", port, "-q", "1", "-t", "shellies/"+id+"/"+topic, "-m", payload)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("mosquitto_pub: %v\n%s", err, out)
			}
		}
		same(t, "readings", s.latest(id), map[string]any{"relay_0": true, "power_0": 21.03, "energy_0": 4711})
		var wg sync.WaitGroup
		wg.Go(func() {
			s.do("POST", "/v1/entities/"+id+"/commands?wait=25s", `{"name":"relay_0","request":"off"}`, "Content-Type", "application/json")
		})
		got, err := exec.CommandContext(t.Context(), "mosquitto_sub", "-V", version, "-h", host, "-p", port, "-q", "1", "-t", "shellies/"+id+"/relay/0/command", "-C", "1", "-W", "30").CombinedOutput()
		wg.Wait()
		if err != nil || string(got) != "off\n" {
			t.Errorf("mosquitto_sub: %v\n%s", err, got)
		}
	}
}
