package clienttest

import (
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestDevicesWithTheDeviceSDKOfAzure has devices that use the SDK of Azure IoT Hub log in with shared access signatures,
// send messages, have twins and methods, and get messages, over MQTT and HTTP.
func TestDevicesWithTheDeviceSDKOfAzure(t *testing.T) {
	t.Parallel()
	ready(t)
	files := certificates(t, "localhost", "pump-1")
	s := start(t, server.Config{TLS: server.TLS{Cert: files.file("server.pem"), Key: files.file("server.key")}})
	s.trust(files.text("ca.pem"))
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	keys := map[string]string{}
	for _, id := range []string{"pump-1", "lamp-1", "fan-1"} {
		var made struct {
			SharedKey string `json:"shared_key"`
		}
		if err := json.Unmarshal([]byte(s.do("POST", "/v1/principals", `{"name":"`+id+`","key":true,"grants":[{"role":"device"}]}`, "Content-Type", "application/json")), &made); err != nil || made.SharedKey == "" {
			t.Fatalf("no key for %s: %v", id, err)
		}
		keys[id] = made.SharedKey
	}
	var wg sync.WaitGroup
	commands := map[string]string{}
	wg.Go(func() {
		eventually(t, "what the pump reports", func() bool { return strings.Contains(s.may("GET", "/v1/entities/pump-1/attributes/reported"), `"fw"`) })
		s.desire("pump-1", `{"interval":10}`)
	})
	for id, body := range map[string]string{"pump-1": `{"name":"reboot","request":{"delay":5}}`, "lamp-1": `{"name":"blink","request":[1,2]}`, "fan-1": `{"name":"spin","request":{"rpm":1000}}`} {
		s.do("PUT", "/v1/entities/"+id, `{}`, "Content-Type", "application/json", "If-None-Match", "*")
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(s.do("POST", "/v1/entities/"+id+"/commands", body, "Content-Type", "application/json")), &made); err != nil {
			t.Fatal(err)
		}
		commands[id] = made.ID
	}
	out := client(t, "azure.mjs", map[string]any{
		"mqtt": "localhost:" + portOf(t, s.MQTTAddr()), "http": "localhost:" + portOf(t, s.HTTPAddr()), "ca": files.text("ca.pem"), "keys": keys,
	})
	wg.Wait()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	same(t, "what the devices saw", lines[len(lines)-1], `[{"stranger":"refused"},{"desired":null},`+
		`{"wrong":"invalid: the name of a property must have 1 to 1024 bytes, and no control characters, '.', '$' and spaces, not \"a.b\""},`+
		`{"patch":10},{"method":{"delay":5}},{"message":[1,2],"command":"blink"},{"pulled":{"rpm":1000}}]`)
	same(t, "the pump's values", s.latest("pump-1"), map[string]any{"temperature": 21.5, "alert": "false"})
	same(t, "what it reports", strings.TrimSpace(s.do("GET", "/v1/entities/pump-1/attributes/reported", "")), `{"fw":"2.1"}`)
	same(t, "the fan's values", s.latest("fan-1"), map[string]any{"rpm": 901, "on": true})
	for id, result := range map[string]string{"pump-1": `"result":{"restarted":true}`, "lamp-1": `"state":"done"`, "fan-1": `"state":"done"`} {
		eventually(t, "the end of the command of "+id, func() bool {
			return strings.Contains(s.may("GET", "/v1/entities/"+id+"/commands/"+commands[id]), result)
		})
	}
}

// portOf returns the port of an address.
func portOf(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return port
}
