package server

import (
	"encoding/json"
	"net/http"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
)

// mqttDevice is a device of MQTT 3.1.1 with a session that stays.
type mqttDevice struct {
	mqtt311.Client
	got chan mqtt311.Message
	cut func()
}

// commanded connects a device that gets commands. With hold it acknowledges none.
func (r *running) commanded(id string, subscribe, hold bool) *mqttDevice {
	r.t.Helper()
	d := &mqttDevice{got: make(chan mqtt311.Message, 100)}
	d.Client, d.cut = r.dialCut(id, func(o *mqtt311.ClientOptions) {
		o.SetCleanSession(false).SetAutoAckDisabled(hold)
		o.SetDefaultPublishHandler(func(_ mqtt311.Client, m mqtt311.Message) { d.got <- m })
	})
	if subscribe {
		await(r.t, d.Subscribe("e/"+id+"/commands", 1, nil))
	}
	return d
}

// next is the next command that the device gets.
func (d *mqttDevice) next(t *testing.T) (c struct{ ID, Name string }) {
	t.Helper()
	m := receive(t, d.got, "a command")
	if err := json.Unmarshal(m.Payload(), &c); err != nil || m.Qos() != 1 || m.Retained() {
		t.Errorf("the device got %s, QoS %d, %v", m.Payload(), m.Qos(), err)
	}
	return c
}

// state waits until a command is in a state.
func (r *running) state(id, command string, want entity.CommandState) {
	r.t.Helper()
	var last entity.Command
	eventually(r.t, "the command to be "+want.String(), func() bool {
		c, err := r.runtime.FindCommand(r.t.Context(), id, command)
		last = c
		return err == nil && c.State == want
	})
	if last.Error != "" {
		r.t.Logf("its error is %s", last.Error)
	}
}

func TestASleepingDeviceGetsEachCommandOnceWhenItWakes(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	d := s.commanded("pump", true, false)
	d.Disconnect(100)
	first, _ := s.command("pump", `{"name":"open","parallel":true}`)
	second, _ := s.command("pump", `{"name":"close","parallel":true}`)
	d = s.commanded("pump", false, false) // whose session has the subscription
	if got := d.next(t); got.ID != first.ID || got.Name != "open" {
		t.Errorf("it gets %+v first", got)
	}
	if got := d.next(t); got.ID != second.ID {
		t.Errorf("it gets %+v then", got)
	}
	s.state("pump", first.ID, entity.CommandDelivered)
	s.state("pump", second.ID, entity.CommandDelivered)
	d.cut()
	d = s.commanded("pump", true, false)
	await(t, d.Publish("e/pump/answers", 1, false, `{"id":"`+first.ID+`","result":{"at":1}}`))
	await(t, d.Publish("e/pump/answers", 1, false, `{"id":"`+second.ID+`","error":"jammed"}`))
	s.state("pump", first.ID, entity.CommandDone)
	s.state("pump", second.ID, entity.CommandFailed)
	third, _ := s.command("pump", `{"name":"third"}`)
	if got := d.next(t); got.ID != third.ID {
		t.Errorf("an acknowledged command came again: %+v", got)
	}
}

func TestACommandThatADeviceHasNotAcknowledgedComesAgain(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	d := s.commanded("pump", true, true)
	c, _ := s.command("pump", `{"name":"open"}`)
	d.next(t)
	s.state("pump", c.ID, entity.CommandSent)
	d.cut()
	s.state("pump", c.ID, entity.CommandQueued)
	d = s.commanded("pump", false, false)
	if got := d.next(t); got.ID != c.ID {
		t.Errorf("it gets %+v", got)
	}
	s.state("pump", c.ID, entity.CommandDelivered)
	next, _ := s.command("pump", `{"name":"next","parallel":true}`)
	if got := d.next(t); got.ID != next.ID {
		t.Errorf("the session has kept it, too: %+v", got)
	}
	await(t, d.Unsubscribe("e/pump/commands"))
	last, _ := s.command("pump", `{"name":"last","parallel":true}`)
	s.state("pump", last.ID, entity.CommandQueued)
}

func TestWhoOnlyLooksOnIsNotTheDevice(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	login := func(token string) func(*mqtt311.ClientOptions) {
		return func(o *mqtt311.ClientOptions) { o.SetUsername("any").SetPassword(token) }
	}
	seen := make(chan mqtt311.Message, 10)
	look := func(_ mqtt311.Client, m mqtt311.Message) { seen <- m }
	wild, viewer := s.dial311("operator", login(tokens["operator"])), s.dial311("viewer", login(tokens["viewer"]))
	await(t, wild.Subscribe("e/+/commands", 1, look))
	await(t, viewer.Subscribe("e/room-1/commands", 1, look))
	c, status := s.command("room-1", `{"name":"open"}`)
	if status != http.StatusAccepted {
		t.Fatal(status)
	}
	got := make(chan mqtt311.Message, 10)
	device := s.dial311("room-1", login(tokens["room-1"]))
	s.state("room-1", c.ID, entity.CommandQueued)
	await(t, device.Subscribe("e/room-1/commands", 1, func(_ mqtt311.Client, m mqtt311.Message) { got <- m }))
	receive(t, got, "the command")
	for range 2 {
		receive(t, seen, "the sight of the command")
	}
	s.state("room-1", c.ID, entity.CommandDelivered)
	if len(got) > 0 {
		t.Error("the device got it twice")
	}
	token := viewer.Publish("e/room-1/answers", 1, false, `{"id":"`+c.ID+`","result":1}`)
	token.WaitTimeout(patience)
	await(t, device.Publish("e/room-1/answers", 1, false, `{"id":"`+c.ID+`","result":2}`))
	s.state("room-1", c.ID, entity.CommandDone)
	if end, err := s.runtime.FindCommand(t.Context(), "room-1", c.ID); err != nil || end.Result.String() != "2" {
		t.Errorf("it has ended as %+v, %v", end, err)
	}
}
