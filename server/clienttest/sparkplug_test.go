package clienttest

import (
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestEdgeNodeWithTheSparkplugClientOfTahu has an edge node with a device report, by alias and
// compressed, be asked for its births after it has lost messages, get a command, and die.
func TestEdgeNodeWithTheSparkplugClientOfTahu(t *testing.T) {
	t.Parallel()
	ready(t)
	for _, tt := range []struct {
		publishDeath bool
		compress     string
	}{{false, ""}, {true, "GZIP"}, {true, "DEFLATE"}} {
		s := start(t, server.Config{})
		var wg sync.WaitGroup
		wg.Go(func() {
			eventually(t, "the second birth", func() bool { return strings.Contains(s.may("GET", "/v1/entities/plant%7Cline-1"), "reborn") })
			same(t, "the device is online", s.online("plant%7Cline-1%7Cpump"), "true")
			// A command of the server is done when the device reports what it was told.
			text := s.do("POST", "/v1/entities/plant%7Cline-1%7Cpump/commands?wait=20s", `{"name":"speed","request":1.1}`, "Content-Type", "application/json")
			if !strings.Contains(text, `"state":"done"`) {
				t.Errorf("the command: %s", text)
			}
			// Another host application sends one: the bytes of a payload with the metric leave=true.
			cmd := exec.CommandContext(t.Context(), "mosquitto_pub", "-L", "mqtt://"+s.MQTTAddr()+"/spBv1.0/plant/DCMD/line-1/pump", "-s")
			cmd.Stdin = strings.NewReader("\x08\x01\x12\x0b\x0a\x05leave\x20\x0b\x70\x01")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("mosquitto_pub: %v\n%s", err, out)
			}
		})
		out := client(t, "sparkplug.mjs", map[string]any{"mqtt": s.MQTTAddr(), "user": "line-1", "publishDeath": tt.publishDeath, "compress": tt.compress})
		wg.Wait()
		same(t, "what the edge node was sent", out, "ncmd Node Control/Rebirth=true\ndcmd pump speed=1.100000023841858\ndcmd pump leave=true\n")
		same(t, "the edge node", s.latest("plant%7Cline-1"), "map[births:2 reborn:true uptime:12]")
		same(t, "the device", s.latest("plant%7Cline-1%7Cpump"), "map[Inlet/Pressure:1.75 running:false speed:1.100000023841858]")
		var page struct {
			Points []struct {
				TS    int64 `json:"ts"`
				Value float64
			}
		}
		s.get("/v1/entities/plant%7Cline-1%7Cpump/telemetry/Inlet%2FPressure", &page)
		same(t, "the history", page.Points, "[{1451649590000 1.25} {1451649600000 1.5} {1451649601000 1.75}]")
		eventually(t, "the death", func() bool {
			return s.online("plant%7Cline-1") == "false" && s.online("plant%7Cline-1%7Cpump") == "false"
		})
	}
}

// online returns what an edge node or a device reports.
func (r *running) online(id string) string {
	r.t.Helper()
	var doc struct{ Sparkplug struct{ Online any } }
	r.get("/v1/entities/"+id+"/attributes/reported", &doc)
	if doc.Sparkplug.Online == true {
		return "true"
	}
	return "false"
}
