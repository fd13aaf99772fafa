package mqtt

import (
	"strings"
	"sync"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Commands to devices. Who subscribes to the topic commands of one entity, without a
// wildcard, and has the role of a device for that entity is its device: while it is connected it
// receives the commands of the entity from the runtime, which keeps them. Nothing of them
// stays in the session of a client that has gone: when it comes back the runtime sends
// what it has not acknowledged. All others who subscribe are told what is sent, and are
// never the device.
const (
	commandsTopic = "commands"
	answersTopic  = "answers"
)

// receiveAnswer takes what a device says of a command. It waits for the commit, so that
// the answers of one device keep their order.
func receiveAnswer(b *Broker, id string, _ sending, payload []byte, done func(error)) error {
	a, err := entity.ParseCommandAnswer(payload)
	if err != nil {
		return err
	}
	done(b.runtime.Answer(b.running, id, a))
	return nil
}

// receiving has the entities whose commands a connection receives.
type receiving struct {
	mu    sync.Mutex
	of    map[string]*layout.Receiving // by entity, guarded by mu
	ended bool                         // the connection is, guarded by mu
}

// begin begins to receive the commands of an entity, unless that has begun.
func (r *receiving) begin(b *Broker, c *conn, id string) error {
	one := &layout.Receiving{}
	r.mu.Lock()
	before := r.of[id]
	if r.ended || before != nil && !before.Ended() {
		r.mu.Unlock()
		return nil
	}
	if r.of == nil {
		r.of = make(map[string]*layout.Receiving)
	}
	r.of[id] = one
	r.mu.Unlock()
	return one.Begin(b.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return c.Send(topicPrefix+id+"/"+commandsTopic, command.AppendMessage(nil), receipt)
	})
}

// stop ends the receiving of the commands of an entity.
func (r *receiving) stop(id string) {
	r.mu.Lock()
	one := r.of[id]
	delete(r.of, id)
	r.mu.Unlock()
	one.End()
}

// end ends all of it.
func (r *receiving) end() {
	r.mu.Lock()
	all := r.of
	r.ended, r.of = true, nil
	r.mu.Unlock()
	for _, one := range all {
		one.End()
	}
}

// receiveCommands begins to receive the commands of the entities to whose topics a client
// has subscribed, if it is their device.
func (b *Broker) receiveCommands(c *conn, filters []string) {
	for _, filter := range filters {
		if !c.isDevice(filter) {
			continue
		}
		b.shadow.want()
		id, _ := findTopic(filter)
		if err := c.receiving.begin(b, c, id); err != nil {
			b.refusals.Add(refusal.MQTT, refusal.CauseTopic, filter, c.client.ID, err.Error())
		}
	}
}

// isDevice reports whether a filter is the topic with the commands of one entity of which
// the client is the device.
func (c *conn) isDevice(filter string) bool {
	id, t := findTopic(filter)
	return t != nil && t.name == commandsTopic && !strings.ContainsAny(filter, "#+") && c.May(access.Receive, id) == nil
}

// commanded tells those who only look on that a command was sent.
func (s *shadow) commanded(c *entity.Change) {
	name := topicPrefix + c.Entity + "/" + commandsTopic
	if c.Command.State == entity.CommandSent && s.broker.hasSubscribers(name) {
		s.broker.publish(name, c.Command.AppendMessage(nil), 1)
	}
}

// leaveDevices takes the devices out of the subscribers of a topic with commands, also
// those that are away.
func (b *Broker) leaveDevices(subscribers *mochi.Subscribers, name string) {
	if !strings.HasSuffix(name, "/"+commandsTopic) || !strings.HasPrefix(name, topicPrefix) {
		return
	}
	for id := range subscribers.Subscriptions {
		cl, ok := b.server.Clients.Get(id)
		if !ok {
			continue
		}
		if c, ok := cl.Net.Conn.(*conn); ok {
			if _, exact := cl.State.Subscriptions.Get(name); exact && c.isDevice(name) {
				delete(subscribers.Subscriptions, id)
			}
		}
	}
}
