package server

import (
	"fmt"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Each layout judges an empty message that is to be retained as any other: it is none that takes
// back what others have said.
func TestAnEmptyRetainedMessageObeysTheLayout(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	watch := subscribe(t, s.dial311("watch", asUser(tokens["admin"])), "spBv1.0/#", "$aws/things/#")
	if m := receive(t, watch, "the state of the host"); m.topic != "spBv1.0/STATE/greenroom" {
		t.Errorf("retained: %+v", m)
	}
	guest := s.dial311("guest", asUser(tokens["guest"]))
	for topic, cause := range map[string]string{
		"spBv1.0/STATE/greenroom":                "forbidden",
		"spBv1.0/STATE/scada":                    "forbidden",
		"spBv1.0/plant/NDEATH/line-1":            "forbidden",
		"spBv1.0/plant/NCMD/line-1":              "forbidden",
		"$aws/things/room-1/shadow/update/delta": "topic",
		"$aws/things/other/shadow/name/!/update": "forbidden",
		"$aws/things/room-1/shadow/name//update": "topic",
		"spBv1.0/plant/XDATA/line-1":             "topic",
	} {
		for qos := byte(1); qos <= 2; qos++ {
			before := s.refusedOver(cause)
			await(t, guest.Publish(topic, qos, true, ""))
			same(t, fmt.Sprintf("refusals of %s with QoS %d", topic, qos), s.refusedOver(cause), before+1)
		}
	}
	// What the guest may do is not retained either.
	await(t, guest.Publish("$aws/things/room-1/shadow/get", 1, true, "{}"))
	for receive(t, watch, "the request").topic != "$aws/things/room-1/shadow/get" { //nolint:revive // it is forwarded after its acknowledgement
	}
	late := subscribe(t, s.dial311("late", asUser(tokens["admin"])), "#", "$aws/things/#")
	await(t, s.dial311("admin", asUser(tokens["admin"])).Publish("e/room-1/telemetry", 1, false, `{"t":5}`))
	if m := receive(t, late, "the reading"); m.topic != "e/room-1/telemetry" {
		t.Fatalf("retained: %+v", m)
	}
}

func TestAWillConnectsNoDeviceOfAGateway(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	_, cut := s.dialCut("gw", func(o *mqtt311.ClientOptions) { o.SetWill("v1/gateway/connect", `{"device":"pump"}`, 1, false) })
	before := s.refusedOver("topic")
	cut()
	eventually(t, "the refusal of the will", func() bool { return s.refusedOver("topic") == before+1 })
}

func TestADeviceThatEndsOneOfTwoSubscriptionsGetsItsCommands(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	c := s.dial311("esp", asUser("pump"))
	got := subscribe(t, c, "v1/devices/me/rpc/request/+", "v2/r/req/+")
	await(t, c.Unsubscribe("v1/devices/me/rpc/request/+"))
	first := s.sendCommand("pump", "reboot", value.Value{})
	if m := receive(t, got, "the command"); m.payload != `{"method":"reboot","params":{}}` {
		t.Errorf("the command: %+v", m)
	}
	s.becomes(&first, entity.CommandDelivered)
}

// Of several subscriptions that cover a topic the one with the highest QoS counts.
func TestACommandIsDeliveredWhenItIsAcknowledgedWhateverElseCoversItsTopic(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	c := s.dial311("esp", asUser("pump"), func(o *mqtt311.ClientOptions) { o.SetAutoAckDisabled(true) })
	await(t, c.Subscribe("v1/devices/me/rpc/#", 0, nil))
	got := subscribe(t, c, "v1/devices/me/rpc/request/+")
	for i := range 10 {
		command, err := s.runtime.Command(t.Context(), "pump", entity.NewCommand{Name: fmt.Sprint("c", i), Parallel: true})
		if err != nil {
			t.Fatal(err)
		}
		receive(t, got, "the command")
		if now := s.becomes(&command, entity.CommandSent); now.Delivered != 0 {
			t.Errorf("delivered without an acknowledgement: %+v", now)
		}
	}
}

// An operator who looks on takes no command away from the device, also one that has come later
// and subscribes as the device does.
func TestWhoLooksOnTakesNoCommandAway(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	device := subscribe(t, s.dial311("device", asUser(tokens["room-1"])), "e/room-1/commands")
	operator := s.dial311("people", asUser(tokens["operator"]))
	onlooker := subscribe(t, operator, "e/room-1/commands", "v1/devices/me/rpc/request/+", "v1/gateway/rpc")
	await(t, operator.Publish("v1/gateway/connect", 1, false, `{"device":"room-1"}`))
	command := s.sendCommand("room-1", "reboot", value.Value{})
	want := receive(t, device, "the command")
	same(t, "what the onlooker gets", receive(t, onlooker, "the command"), want)
	s.becomes(&command, entity.CommandDelivered)
}
