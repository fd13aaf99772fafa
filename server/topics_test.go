package server

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"github.com/greenroom-go/greenroom/server/azure"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// speakers are those of askers who may connect, and maySay has, for each topic that a client may
// publish to, who of them is heard: y or n. What is about an entity is about room-1, or, where the
// layout makes the id, about one whose id begins with room-1. A device of ThingsBoard speaks for the
// entity of its own name.
var (
	speakers = askers[1:]
	maySay   = []struct{ topic, payload, want string }{
		{"e/room-1/telemetry", `{"t":1}`, "nynnyyy"},
		{"e/room-1/attributes", `{"a":1}`, "nynnyyy"},
		{"e/room-1/answers", `{"id":"none","result":1}`, "nynnyyy"},

		{"v1/devices/me/telemetry", `{"t":1}`, "yynnnyy"},
		{"v1/devices/me/attributes", `{"a":1}`, "yynnnyy"},
		{"v1/devices/me/attributes/request/1", `{}`, "yynynyy"},
		{"v1/devices/me/rpc/request/1", `{"method":"m","params":{}}`, "yyyyyyy"},
		{"v1/devices/me/rpc/response/1", `{}`, "yynnnyy"},
		{"v1/devices/me/claim", `{"secretKey":"s","durationMs":1}`, "yynnnyy"},
		{"v2/t", `{"t":1}`, "yynnnyy"},
		{"v2/t/j", `{"t":1}`, "yynnnyy"},
		{"v2/a", `{"a":1}`, "yynnnyy"},
		{"v2/a/j", `{"a":1}`, "yynnnyy"},
		{"v2/a/req/1", `{}`, "yynynyy"},
		{"v2/r/req/1", `{"method":"m","params":{}}`, "yyyyyyy"},
		{"v2/r/res/1", `{}`, "yynnnyy"},
		{"v2/c", `{"secretKey":"s","durationMs":1}`, "yynnnyy"},
		{"v1/gateway/telemetry", `{"room-1":[{"ts":1000,"values":{"t":1}}]}`, "nynnyyy"},
		{"v1/gateway/attributes", `{"room-1":{"a":1}}`, "nynnyyy"},
		{"v1/gateway/attributes/request", `{"id":1,"device":"room-1","client":true,"key":"a"}`, "nyyyyyy"},
		{"v1/gateway/connect", `{"device":"room-1"}`, "nynnyyy"},
		{"v1/gateway/disconnect", `{"device":"room-1"}`, "nynnyyy"},
		{"v1/gateway/rpc", `{"device":"room-1","id":1,"data":{}}`, "nynnyyy"},
		{"v1/gateway/claim", `{"room-1":{"secretKey":"s","durationMs":1}}`, "nynnyyy"},
		{"/provision/request", `{"deviceName":"new","provisionDeviceKey":"k","provisionDeviceSecret":"s"}`, "yyyyyyy"},

		{"$aws/things/room-1/shadow/get", ``, "nyyyyyy"},
		{"$aws/things/room-1/shadow/update", `{"state":{"reported":{"a":1}}}`, "nynnyyy"},
		{"$aws/things/room-1/shadow/name/n/get", ``, "nyyyyyy"},
		{"$aws/things/room-1/shadow/name/n/update", `{"state":{"reported":{"a":1}}}`, "nynnyyy"},
		{"$aws/things/room-1/shadow/name/n/delete", ``, "nynnyyy"},
		{"$aws/things/room-1/shadow/delete", ``, "nynnyyy"},

		{"spBv1.0/room-1/NBIRTH/edge", birthOf(0, 7), "nnnnyyy"},
		{"spBv1.0/room-1/NDATA/edge", birthOf(1, 7), "nnnnyyy"},
		{"spBv1.0/room-1/DBIRTH/edge/press", birthOf(2, 7), "nnnnyyy"},
		{"spBv1.0/room-1/DDATA/edge/press", birthOf(3, 7), "nnnnyyy"},
		{"spBv1.0/room-1/NCMD/edge", birthOf(0, 7), "nnnnyyy"},
		{"spBv1.0/room-1/DCMD/edge/press", birthOf(0, 7), "nnnnyyy"},
		{"spBv1.0/room-1/DDEATH/edge/press", birthOf(4, 7), "nnnnyyy"},
		{"spBv1.0/room-1/NDEATH/edge", birthOf(0, 7), "nnnnyyy"},
		{"spBv1.0/STATE/host", `{"online":true,"timestamp":1}`, "nnnnnyy"},

		{"homie/5/room-1/$state", `ready`, "nynnyyy"},
		{"homie/5/room-1/$description", `{"homie":"5.0","version":1,"nodes":{"n":{"properties":{"p":{"datatype":"string","settable":true}}}}}`, "nynnyyy"},
		{"homie/5/room-1/n/p", `x`, "nynnyyy"},
		{"homie/5/room-1/n/p/$target", `x`, "nynnyyy"},
		{"homie/5/room-1/n/p/set", `x`, "nnnnyyy"},
		{"homie/5/room-1/$log/info", `x`, "nynnyyy"},
		{"homie/5/room-1/$alert/a", `x`, "nynnyyy"},
		{"homie/5/$broadcast/x", `x`, "nnnnnyy"},

		{"devices/room-1/messages/events/", `{"t":1}`, "nynnyyy"},
		{"$iothub/twin/GET/?$rid=1", ``, "yynynyy"},
		{"$iothub/twin/PATCH/properties/reported/?$rid=1", `{"a":1}`, "yynnnyy"},
		{"$iothub/methods/res/200/?$rid=1", `{}`, "yynnnyy"},

		{"zigbee2mqtt/room-1", `{"t":1}`, "nynnyyy"},
	}
	// mayHear has the same for topics that a client may subscribe to, without wildcards.
	mayHear = []struct{ topic, want string }{
		{"e/room-1/telemetry", "nyyyyyy"},
		{"e/room-1/desired", "nyyyyyy"},
		{"e/room-1/delta", "nyyyyyy"},
		{"e/room-1/presence", "nyyyyyy"},
		{"e/room-1/commands", "nyyyyyy"},
		{"e/room-1/alarms", "nyyyyyy"},
		{"v1/devices/me/attributes", "yyyyyyy"}, // of its own
		{"v1/gateway/rpc", "yyyyyyy"},           // the same
		{"$aws/things/room-1/shadow/update/delta", "nyyyyyy"},
		{"$aws/things/room-1/shadow/name/n/get/accepted", "nyyyyyy"},
		{"spBv1.0/room-1/NDATA/edge", "nnyyyyy"},
		{"spBv1.0/room-1/DCMD/edge/press", "nnyyyyy"},
		{"homie/5/room-1/$state", "nyyyyyy"},
		{"homie/5/room-1/n/p/set", "nyyyyyy"},
		{"devices/room-1/messages/devicebound/x", "yyyyyyy"}, // the same
		{"zigbee2mqtt/room-1", "nyyyyyy"},
		{"$SYS/broker/uptime", "nnnynyy"},
		{"unknown/room-1", "yyyyyyy"}, // where nothing is published
	}
)

// listed has a topic of each layout that is none, whose refusal names those that there are, and what
// matches one of them.
var listed = map[string]*regexp.Regexp{
	"e/room-1/none":      regexp.MustCompile(`e/\{id\}/\w+`),
	"v1/gateway/none":    regexp.MustCompile(`/?[\w/]+/[\w/]+(\{number\})?`),
	"spBv1.0/room-1/x/y": regexp.MustCompile(`\b[ND](BIRTH|DATA|DEATH|CMD)\b|STATE`),
	"homie/5/room-1":     regexp.MustCompile(`\$\w+/?|\{property\}/set|\{property\}`),
}

// A topic that the server or a layout has newly needs a row in maySay, and so does a layout.
func TestEachTopicIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.template("z", `{"topic":"zigbee2mqtt/{id}","members":"*"}`)
	clients := make([]*paho.Client, len(speakers))
	for i, name := range speakers {
		clients[i] = s.raw5(tokens[name])
	}
	forbidden := func() uint64 {
		return s.refusals.Counts()[refusal.Key{Source: refusal.MQTT, Cause: refusal.CauseForbidden}]
	}
	for _, row := range maySay {
		got := ""
		for i, c := range clients {
			before := forbidden()
			resp, err := c.Publish(t.Context(), &paho.Publish{Topic: row.topic, QoS: 1, Payload: []byte(row.payload)})
			switch {
			case resp == nil:
				t.Fatalf("%s by %s: %v", row.topic, speakers[i], err)
			case resp.ReasonCode == 0x87 || forbidden() > before:
				got += "n"
			default:
				got += "y"
			}
		}
		if got != row.want {
			t.Errorf("%s hears %s, want %s, of %v", row.topic, got, row.want, speakers)
		}
	}
	for _, row := range mayHear {
		got := ""
		for i, c := range clients {
			resp, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: row.topic, QoS: 1}}})
			switch {
			case resp == nil:
				t.Fatalf("%s by %s: %v", row.topic, speakers[i], err)
			case resp.Reasons[0] == 0x87:
				got += "n"
			default:
				got += "y"
			}
		}
		if got != row.want {
			t.Errorf("%s is shown to %s, want %s, of %v", row.topic, got, row.want, speakers)
		}
	}
	admin := clients[len(clients)-1]
	for topic, names := range listed {
		resp, err := admin.Publish(t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte("x")})
		if resp == nil || resp.Properties == nil {
			t.Fatalf("%s: %v", topic, err)
		}
		list := names.FindAllString(resp.Properties.ReasonString, -1)
		if len(list) < 3 {
			t.Errorf("%s is refused without those that there are: %s", topic, resp.Properties.ReasonString)
		}
		for _, name := range list {
			fill := strings.NewReplacer("{id}", "room-1", "{number}", "1", "{property}", "/p")
			if part := fill.Replace(name); !slices.ContainsFunc(maySay, func(row struct{ topic, payload, want string }) bool { return strings.Contains(row.topic, part) }) {
				t.Errorf("the topic %s has no row in maySay", name)
			}
		}
	}
	for _, l := range append(layouts(nil, nil), &azure.Layout{}) {
		for _, prefix := range l.Prefixes() {
			if !slices.ContainsFunc(maySay, func(row struct{ topic, payload, want string }) bool { return strings.HasPrefix(row.topic, prefix) }) {
				t.Errorf("the topics %s… of %T have no row in maySay", prefix, l)
			}
		}
	}
}

// raw5 connects a client of MQTT 5, which shows what its messages are answered, until the end of the test.
func (r *running) raw5(token string) *paho.Client {
	r.t.Helper()
	c := paho.NewClient(paho.ClientConfig{Conn: packets.NewThreadSafeConn(r.dialTCP())})
	r.t.Cleanup(func() { _ = c.Disconnect(&paho.Disconnect{}) }) // it may be gone
	if _, err := c.Connect(r.t.Context(), &paho.Connect{ClientID: "p5", KeepAlive: 60, CleanStart: true, PasswordFlag: true, Password: []byte(token)}); err != nil {
		r.t.Fatal(fmt.Errorf("connect with MQTT 5: %w", err))
	}
	return c
}
