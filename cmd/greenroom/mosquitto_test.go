package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// TestTheRealDataThroughMosquittoPub replays the data with a program that is not
// ours: mosquitto_pub reads lines and publishes each with QoS 1. The long form is all
// of the data.
func TestTheRealDataThroughMosquittoPub(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("mosquitto_pub"); err != nil {
		t.Skip("NOT TESTED with mosquitto_pub: it is not installed; on Debian it is in mosquitto-clients")
	}
	recorded := readRecording(t, realData).head(soaktest.Rounds(t, 1000, 8143))
	for version, flag := range map[string]string{"3.1.1": "mqttv311", "5": "mqttv5"} {
		t.Run("MQTT "+version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := startServer(t, dir)
			var wg sync.WaitGroup
			publish := func(id string, lines []string) {
				wg.Go(func() {
					host, port, err := net.SplitHostPort(s.MQTTAddr())
					if err != nil {
						t.Error(err)
						return
					}
					cmd := exec.CommandContext(t.Context(), "mosquitto_pub", "-V", flag, "-h", host, "-p", port, "-q", "1", "-M", "1000", "-t", "e/"+id+"/telemetry", "-l")
					cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
					if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
						t.Errorf("mosquitto_pub for %s: %v\n%s", id, err, out)
					}
				})
			}
			publish("room", recorded.lines("temperature", "humidity", "light", "co2", "humidity_ratio", "occupancy"))
			for key := range recorded.keys {
				publish("room "+key, recorded.lines(key))
			}
			wg.Wait()
			all, each := func(string) string { return "room" }, func(key string) string { return "room " + key }
			recorded.check(t, s.HTTPAddr(), all)
			recorded.check(t, s.HTTPAddr(), each)
			stop()
			s, _ = startServer(t, dir)
			recorded.check(t, s.HTTPAddr(), all)
			recorded.check(t, s.HTTPAddr(), each)
		})
	}
}

// head is a recording of the first rows.
func (r *recording) head(rows int) *recording {
	h := &recording{times: r.times[:rows], keys: map[string][]float64{}}
	for key, values := range r.keys {
		h.keys[key] = values[:rows]
	}
	return h
}

// lines are the payloads of some keys.
func (r *recording) lines(keys ...string) (lines []string) {
	for i, ts := range r.times {
		var values []string
		for _, key := range keys {
			values = append(values, fmt.Sprintf("%q:%v", key, r.keys[key][i]))
		}
		lines = append(lines, fmt.Sprintf(`{"ts":%d,"values":{%s}}`, ts, strings.Join(values, ",")))
	}
	return lines
}
