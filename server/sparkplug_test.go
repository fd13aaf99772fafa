package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// birthOf returns the payload of a birth or death with a sequence number and bdSeq.
func birthOf(seq, bdSeq byte) string {
	metric := "\x0a\x05bdSeq\x20\x08\x58" + string([]byte{bdSeq}) // of the type UInt64, with a long value
	return "\x08\x01\x12" + string([]byte{byte(len(metric))}) + metric + "\x18" + string([]byte{seq})
}

// sparkplugOnline returns what reported.sparkplug.online of each entity is.
func (r *running) sparkplugOnline(ids ...string) (all string) {
	r.t.Helper()
	for _, id := range ids {
		_, text := r.do("GET", "/v1/entities/"+url.PathEscape(id)+"/attributes/reported", "")
		all += strings.TrimSpace(text)
	}
	return all
}

func TestEdgeNodesGoOfflineWithTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	for i := range 3 {
		edge := s.dial311(fmt.Sprint("edge", i))
		await(t, edge.Publish(fmt.Sprintf("spBv1.0/plant/NBIRTH/%d", i), 1, false, birthOf(0, 1)))
		await(t, edge.Publish(fmt.Sprintf("spBv1.0/plant/DBIRTH/%d/press", i), 1, false, birthOf(1, 1)))
	}
	ids := []string{"plant|0", "plant|0|press", "plant|1", "plant|1|press", "plant|2", "plant|2|press"}
	same(t, "before", s.sparkplugOnline(ids...), strings.Repeat(`{"sparkplug":{"online":true}}`, len(ids)))
	if err := s.stopped(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	same(t, "after an orderly end", s.sparkplugOnline(ids...), strings.Repeat(`{"sparkplug":{"online":false}}`, len(ids)))
}

// A device and a gateway of Sparkplug say what they can of the edge node of another.
func TestNobodyIsBornOrDiesForAnotherEdgeNode(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	ours := s.principal(`{"name":"ours","grants":[{"role":"device","filter":"id like \"plant|ours%\""}]}`)
	theirs := s.principal(`{"name":"theirs","grants":[{"role":"device","filter":"id like \"plant|theirs%\""}]}`)
	press := s.principal(`{"name":"press","grants":[{"role":"device","filter":"id = \"plant|ours|press\""}]}`)
	edge := s.dial311("edge", withToken(ours))
	commands := make(chan mqtt311.Message, 10)
	await(t, edge.Subscribe("spBv1.0/plant/+/ours/#", 1, func(_ mqtt311.Client, m mqtt311.Message) {
		if strings.Contains(m.Topic(), "CMD") {
			commands <- m
		}
	}))
	await(t, edge.Publish("spBv1.0/plant/NBIRTH/ours", 1, false, birthOf(0, 7)))
	await(t, edge.Publish("spBv1.0/plant/DBIRTH/ours/press", 1, false, birthOf(1, 7)))
	await(t, edge.Publish("spBv1.0/plant/DBIRTH/ours/belt", 1, false, birthOf(2, 7)))
	attack := func(name, token string, kinds ...string) {
		t.Helper()
		c := s.dial311(name, withToken(token))
		for _, kind := range kinds {
			for _, to := range []string{"spBv1.0/plant/N" + kind + "/ours", "spBv1.0/plant/D" + kind + "/ours/press", "spBv1.0/plant/D" + kind + "/ours/belt", "spBv1.0/plant/D" + kind + "/ours/new"} {
				if token == press && strings.HasSuffix(to, "/press") {
					continue // which is its own
				}
				await(t, c.Publish(to, 1, false, birthOf(0, 7)))
			}
		}
	}
	attack("their edge", theirs, "BIRTH", "DATA", "DEATH", "CMD")
	attack("the press", press, "BIRTH", "DATA", "DEATH", "CMD")
	attack("a reader", tokens["viewer"], "BIRTH", "DATA", "DEATH", "CMD")
	dying, cut := s.dialCut("dying", withToken(theirs), func(o *mqtt311.ClientOptions) {
		o.SetBinaryWill("spBv1.0/plant/NDEATH/ours", []byte(birthOf(0, 7)), 1, false)
	})
	before := s.refusedOver("forbidden")
	if cut(); dying == nil || before < 25 {
		t.Errorf("%d messages were refused", before)
	}
	eventually(t, "the will to be refused", func() bool { return s.refusedOver("forbidden") == before+1 })
	same(t, "who is online", s.sparkplugOnline("plant|ours", "plant|ours|press", "plant|ours|belt"), strings.Repeat(`{"sparkplug":{"online":true}}`, 3))
	if resp, text := s.do("GET", "/v1/entities/"+url.PathEscape("plant|ours|new"), ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a device was made: %s %s", resp.Status, text)
	}
	// The edge node still gets the commands, in its life.
	s.command("plant%7Cours%7Cbelt", `{"name":"speed","request":1}`)
	if m := receive(t, commands, "the command"); m.Topic() != "spBv1.0/plant/DCMD/ours/belt" {
		t.Errorf("the edge node was sent %s", m.Topic())
	}
	same(t, "what else it was sent", len(commands), 0)
}
