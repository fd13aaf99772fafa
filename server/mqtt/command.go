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

// Commands to devices. A client that subscribes to the topic commands of one entity, without a
// wildcard, and has the role Device for it is the entity's device. While it is connected, it
// receives the commands from the runtime, which keeps them. Nothing stays in the session of a
// disconnected client: when it is back, the runtime sends whatever it has not acknowledged. All
// other subscribers see the commands that are sent, but never count as the device.
const (
	commandsTopic = "commands"
	answersTopic  = "answers"
)

// receiveAnswer handles the answer of a device to a command. It waits for the commit, so that the
// answers of a device keep their order.
func receiveAnswer(b *Broker, id string, _ sending, payload []byte, done func(error)) error {
	a, err := entity.ParseCommandAnswer(payload)
	if err != nil {
		return err
	}
	done(b.runtime.Answer(b.running, id, a))
	return nil
}

// receiving holds the entities whose commands a connection receives.
type receiving struct {
	mu    sync.Mutex
	of    map[string]*layout.Receiving // by entity, guarded by mu
	ended bool                         // the connection has ended; guarded by mu
}

// begin starts receiving the commands of an entity, unless it has started.
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

// stop stops receiving the commands of an entity.
func (r *receiving) stop(id string) {
	r.mu.Lock()
	one := r.of[id]
	delete(r.of, id)
	r.mu.Unlock()
	one.End()
}

// end stops receiving any commands.
func (r *receiving) end() {
	r.mu.Lock()
	all := r.of
	r.ended, r.of = true, nil
	r.mu.Unlock()
	for _, one := range all {
		one.End()
	}
}

// receiveCommands starts receiving the commands that a client has subscribed to, if it is the
// device of their entities.
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

// isDevice reports whether a filter is the topic commands of a single entity, and the client is its
// device.
func (c *conn) isDevice(filter string) bool {
	id, t := findTopic(filter)
	return t != nil && t.name == commandsTopic && !strings.ContainsAny(filter, "#+") && c.May(access.Receive, id) == nil
}

// commanded publishes a command that was sent, for subscribers other than the device.
func (s *shadow) commanded(c *entity.Change) {
	name := topicPrefix + c.Entity + "/" + commandsTopic
	if c.Command.State == entity.CommandSent && s.broker.hasSubscribers(name) {
		s.broker.publish(name, c.Command.AppendMessage(nil), 1)
	}
}

// leaveDevices removes the devices, connected or not, from the subscribers of a topic commands.
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
