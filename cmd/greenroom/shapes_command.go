package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
)

// commandTakers is how many devices answer commands, and commandWorkers how many clients send them.
const (
	commandTakers  = 100
	commandWorkers = 64
)

// runCommands sends commands over HTTP: first to disconnected devices, for which they are queued,
// and then to devices that answer over MQTT, waiting for the answers.
func runCommands(ctx context.Context, s *suite) error {
	entities := s.entities(10_000)
	takers := min(commandTakers, entities/2)
	if takers == 0 {
		return usagef("--entities must be at least 2 for the shape commands, not %d", entities)
	}
	register := s.publisher("commands", entities, meterMessage)
	register.goRound(1)
	if err := register.run(ctx); err != nil {
		return err
	}
	send := func(c *caller, entity int, wait string, made *commandJSON) error {
		path := entityPath("bench-"+strconv.Itoa(entity)) + "/commands" + wait
		return c.do("POST", path, "application/json", `{"name":"open","request":{"angle":30},"parallel":true}`, made)
	}
	s.workers(ctx, "queued, devices away", commandWorkers, func(c *caller, w, i int) error {
		return send(c, takers+(w+i*commandWorkers)%(entities-takers), "", &commandJSON{})
	})
	for i := range takers {
		stop, err := takeCommands(ctx, s.child.link.addr, "bench-"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		defer stop()
	}
	s.workers(ctx, fmt.Sprintf("done by %d devices", takers), commandWorkers, func(c *caller, w, i int) error {
		var made commandJSON
		err := send(c, (w+i*commandWorkers)%takers, "?wait=25s", &made)
		if err == nil && made.State != "done" {
			err = fmt.Errorf("the command %s is %s after 25s; expected done", made.ID, made.State)
		}
		return err
	})
	return s.err
}

// takeCommands connects a device that answers each command, until stop is called.
func takeCommands(ctx context.Context, addr, id string) (stop func(), err error) {
	p, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	p.cm.AddOnPublishReceived(func(m autopaho.PublishReceived) (bool, error) {
		var c commandJSON
		if err := json.Unmarshal(m.Packet.Payload, &c); err != nil {
			return true, err
		}
		answer, err := json.Marshal(map[string]any{"id": c.ID, "result": true})
		if err != nil {
			return true, err
		}
		// Queued, because this function blocks the receiving of packets, including the
		// acknowledgement of the answer.
		return true, p.cm.PublishViaQueue(ctx, &autopaho.QueuePublish{Publish: &paho.Publish{QoS: 1, Topic: "e/" + id + "/answers", Payload: answer}})
	})
	_, err = p.cm.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: "e/" + id + "/commands", QoS: 1}}})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("subscribe to the commands of %s: %w", id, err)
	}
	return p.close, nil
}
