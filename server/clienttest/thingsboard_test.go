package clienttest

import (
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestThingsBoardDeviceWithMQTTjs does what ThingsBoard's examples for mqtt.js do: it sends
// telemetry and attributes, asks for attributes, and heeds a shared attribute.
func TestThingsBoardDeviceWithMQTTjs(t *testing.T) {
	t.Parallel()
	ready(t)
	for _, version := range []int{4, 5} {
		s := start(t, server.Config{})
		s.desire("pump", `{"period":10}`)
		var wg sync.WaitGroup
		wg.Go(func() { // as soon as the device has said that it runs
			eventually(t, "the device's state", func() bool { return s.latest("pump")["state"] == "listening" })
			s.desire("pump", `{"period":20}`)
		})
		out := client(t, "thingsboard.mjs", map[string]any{"mqtt": s.MQTTAddr(), "token": "pump", "version": version})
		wg.Wait()
		same(t, "what the device saw", out, `{"asked":{"client":{"fw":"1.2"},"shared":{"period":10}},"update":{"period":20}}`+"\n")
		same(t, "temperature", s.latest("pump")["temperature"], 21.5)
	}
}
