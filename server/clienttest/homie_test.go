package clienttest

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestDeviceAndControllerOfHomie has a device and a controller of Homie 5 find each other, and the
// device get a command of the server.
func TestDeviceAndControllerOfHomie(t *testing.T) {
	t.Parallel()
	ready(t)
	s := start(t, server.Config{})
	command := func(body string) {
		t.Helper()
		text := s.do("POST", "/v1/entities/thermostat/commands?wait=20s", body, "Content-Type", "application/json")
		if !strings.Contains(text, `"state":"done"`) {
			t.Errorf("the command %s: %s", body, text)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		eventually(t, "the device to be set by the controller", func() bool { return strings.Contains(s.may("GET", "/v1/entities/thermostat"), `"heat"`) })
		command(`{"name":"hvac.setpoint","request":23}`)
		command(`{"name":"hvac.leave","request":true}`)
	})
	out := client(t, "homie.mjs", map[string]any{"mqtt": s.MQTTAddr()})
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	same(t, "what happens", strings.Join(lines, "\n"), `the controller finds thermostat with leave, mode, setpoint, temperature
the controller sees heat
the device is told leave=true
the device is told mode=heat
the device is told setpoint=23`)
	same(t, "latest", s.latest("thermostat"), "map[hvac.leave:true hvac.mode:heat hvac.setpoint:23 hvac.temperature:21.5]")
	eventually(t, "the device to leave", func() bool {
		return strings.Contains(s.may("GET", "/v1/entities/thermostat/attributes/reported"), `"disconnected"`)
	})
}
