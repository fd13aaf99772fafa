package server

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"
)

// overSocket has a client connect over a WebSocket.
func (r *running) overSocket(scheme string) func(*mqtt311.ClientOptions) {
	return func(o *mqtt311.ClientOptions) {
		o.Servers = nil
		o.AddBroker(scheme + "://" + r.HTTPAddr() + "/mqtt")
	}
}

func TestMQTTOverAWebSocketIsTheSame(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	watch := subscribe(t, s.dial311("watch", asUser(tokens["viewer"]), s.overSocket("ws")), "e/+/telemetry")
	device := s.dial311("device", asUser(tokens["room-1"]), s.overSocket("ws"))
	text := strings.Repeat("x", 40<<10)
	long := `{"t":2,"a":"` + text + `","b":"` + text + `"}` // more than one frame of a WebSocket may have by default
	await(t, device.Publish("e/room-1/telemetry", 1, false, long))
	same(t, "latest", s.latest("room-1")["t"], "2")
	same(t, "what a subscriber gets", receive(t, watch, "the reading"), message{"e/room-1/telemetry", long})
	before := s.refusedOver("forbidden")
	await(t, device.Publish("e/room-2/telemetry", 2, false, `{"t":9}`))
	same(t, "forbidden", s.refusedOver("forbidden"), before+1)

	o := mqtt311.NewClientOptions().SetClientID("stranger").SetConnectRetry(false)
	s.overSocket("ws")(o)
	token := mqtt311.NewClient(o).Connect()
	if token.WaitTimeout(patience); token.Error() == nil {
		t.Error("a client without credentials was let in")
	}
	s.do("DELETE", "/v1/principals/room-1", "")
	eventually(t, "the end of the device's connection", func() bool { return !device.IsConnected() })
}

func TestMQTTOverAWebSocketIsNotForOtherOriginsAndProtocols(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	address := "ws://" + s.HTTPAddr() + "/mqtt"
	_, resp, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{
		Subprotocols: []string{"mqtt"}, HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}},
	})
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %v", err)
	}
	c, _, err := websocket.Dial(t.Context(), address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("without the subprotocol: %v", err)
	}
	if resp, _ := s.do("GET", "/mqtt", ""); resp.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("without a WebSocket: %s", resp.Status)
	}
	if resp, _ := s.do("GET", "/mqtt", "", "Host", "elsewhere.example"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("to another host: %s", resp.Status)
	}
}

func TestMQTTOverAWebSocketEndsWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	lost := make(chan error, 1)
	s.dial311("device", s.overSocket("ws"), func(o *mqtt311.ClientOptions) {
		o.SetConnectionLostHandler(func(_ mqtt311.Client, err error) { lost <- err })
	})
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, lost, "the end of the connection"); errors.Is(err, nil) {
		t.Error("the connection ended without an error")
	}
}
