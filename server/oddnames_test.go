package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// oddNames are names that people and attackers give to devices.
var oddNames = []string{
	"", " ", ".", "..", "../other", "other/", "/other", "room-1/../other", "%6fther", "other?x=1", "other|x", "$SYS", "ö", "\u202eother", "<script>", `a"b\`, "a\tb", "{id}",
	strings.Repeat("x", 200), strings.Repeat("x", 300),
}

// oddTopics have the name of a device at *, in each layout.
var oddTopics = []struct{ topic, payload string }{
	{"e/*/telemetry", `{"odd":1}`},
	{"e/*/attributes", `{"odd":1}`},
	{"$aws/things/*/shadow/update", `{"state":{"reported":{"odd":1}}}`},
	{"$aws/things/*/shadow/name/n/update", `{"state":{"reported":{"odd":1}}}`},
	{"$aws/things/room-1/shadow/name/*/update", `{"state":{"reported":{"odd":1}}}`},
	{"devices/*/messages/events/", `{"odd":1}`},
	{"homie/5/*/$state", `ready`},
	{"homie/5/*/$description", `{"homie":"5.0","version":1,"nodes":{"n":{"properties":{"odd":{"datatype":"integer"}}}}}`},
	{"homie/5/*/n/odd", `1`},
	{"spBv1.0/*/NBIRTH/line", "\x08\x01\x18\x00"},
	{"spBv1.0/plant/NBIRTH/*", "\x08\x01\x18\x00"},
	{"spBv1.0/plant/DBIRTH/line/*", "\x08\x01\x18\x01"},
	{"zigbee2mqtt/*", `{"odd":1}`},
	{"plain/*/canary", `{"odd":1}`},
}

// oddBodies name the device in the payload.
var oddBodies = []struct{ topic, before, after string }{
	{"v1/gateway/telemetry", `{`, `:[{"ts":1000,"values":{"odd":1}}]}`},
	{"v1/gateway/attributes", `{`, `:{"odd":1}}`},
	{"v1/gateway/connect", `{"device":`, `}`},
}

// publishOdd publishes all of them but those with a wildcard in the topic, which clients refuse.
func (r *running) publishOdd(token string) {
	r.t.Helper()
	c := r.dial311("odd", withToken(token))
	var sent []mqtt311.Token
	publish := func(topic, payload string) { sent = append(sent, c.Publish(topic, 1, false, payload)) }
	for _, name := range oddNames {
		for _, to := range oddTopics {
			if topic := strings.Replace(to.topic, "*", name, 1); !strings.ContainsAny(topic, "+#") {
				publish(topic, to.payload)
			}
		}
		quoted, _ := json.Marshal(name) // of a string
		for _, to := range oddBodies {
			publish(to.topic, to.before+string(quoted)+to.after)
		}
	}
	for _, token := range sent {
		await(r.t, token)
	}
}

func (r *running) ids() (ids []string) {
	r.t.Helper()
	for e := range strings.Lines(r.document("/v1/export?what=entities")) {
		var x struct{ ID string }
		if err := json.Unmarshal([]byte(e), &x); err != nil {
			r.t.Fatalf("%s: %v", e, err)
		}
		ids = append(ids, x.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestOddNamesMakeNobodyElse(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.attackedTemplates()
	before := s.ids()
	s.publishOdd(tokens["room-1"])
	same(t, "the entities after what a device has said of others", s.ids(), before)
	// Whoever may write to all makes entities that can be found, read and deleted.
	s.publishOdd(tokens["admin"])
	made := s.ids()
	if len(made) < len(before)+10 {
		t.Errorf("only %d entities were made: %q", len(made)-len(before), made)
	}
	for _, id := range made {
		if resp, text := s.do("GET", "/v1/entities/"+url.PathEscape(id), ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%q cannot be read: %s %s", id, resp.Status, text)
		}
		if resp, text := s.do("DELETE", "/v1/entities/"+url.PathEscape(id), ""); resp.StatusCode != http.StatusNoContent {
			t.Errorf("%q cannot be deleted: %s %s", id, resp.Status, text)
		}
	}
}
