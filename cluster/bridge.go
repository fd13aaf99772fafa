package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/eventbus"
)

// bridgeRoom is how many events of other nodes may wait to be published here.
const bridgeRoom = 1 << 14

// Bridged is a bus of events whose topics cross nodes. [Bridge] makes one. It is safe for concurrent use.
type Bridged struct {
	node       *Node
	name       string
	forwarding *eventbus.Forwarding
	types      *codec.Types   // nil if the node is not connected
	index      *eventbus.Bus  // other nodes subscribe to it with their patterns; *wanting is published to it
	agent      actor.Ref[any] // the actor that agrees with those of other nodes
	closing    sync.Once

	unseen atomic.Bool // the agent was told that patterns have changed, and has not looked yet
	warned sync.Map    // names of types whose events could not be decoded

	patterns                            atomic.Int64
	sent, received, refused, unreadable atomic.Uint64
}

// Bridge makes the topics of a bus that match the patterns cross nodes: an event that is published
// on one node goes once to each other node that has called Bridge with the same name and has
// subscriptions for its topic, and the bus there delivers it to them. An event of
// [eventbus.PublishAll] crosses if one of the patterns covers all its topics. An event that has
// come from another node is not forwarded.
//
// The nodes tell each other for which patterns they have subscriptions, at most 1024 each; beyond
// that, a wider pattern replaces several. A subscription begins to get events of other nodes when
// they know of it, which usually takes some milliseconds.
//
// An event arrives at most once. Events of one publisher come to a subscriber of another node in
// the order of publishing; there is no order between them and what the publisher tells that actor.
// An event that cannot be sent, because too much is in flight to that node or the node is lost,
// becomes a dead letter, and so does an event that arrives while 16384 others wait to be delivered.
// Nobody waits for subscribers of other nodes: a subscriber whose full buffer has the policy Block
// does not get the event. One actor delivers the events of all other nodes: a slow function that
// has subscribed without a buffer delays the others. The sender of the message that a subscriber
// gets is an actor of the bridge.
//
// A node does not retain events of others. So a subscription begins with the next event, and does
// not get events that others have retained.
//
// The types of events must be registered in [Config.Remote]. Publish fails for an event of another
// type with [codec.ErrUnknownType], whether or not another node wants it, after the subscriptions
// of this node have got it; events that a gated actor publishes are sent later, and the error is
// lost. The event is encoded when it is published.
//
// A bridge ends with its node. On a node that is alone, or not connected, nothing crosses, and all
// types are allowed. Bridge fails with the errors of [eventbus.Bus.Forward], for example if another
// bridge of the bus has some of the topics, and if the name is taken or not valid for an actor,
// whose path is "/bridge-" and the name.
func Bridge(node *Node, name string, bus *eventbus.Bus, patterns ...string) (*Bridged, error) {
	required(node != nil, "Bridge: the node is nil")
	required(bus != nil, "Bridge: the bus is nil")
	required(len(patterns) > 0, "Bridge: there is no pattern")
	b := &Bridged{node: node, name: name, index: eventbus.New(node.sys)}
	if node.types != nil {
		b.types = node.types.Strict().Bind(node.sys)
	}
	agent := &bridgeAgent{b: b, peers: make(map[actor.PID]*bridgePeer)}
	var err error
	if b.agent, err = actor.TrySpawn(node.sys, "bridge-"+name, func() *bridgeAgent { return agent }); err != nil {
		return nil, fmt.Errorf("bridge %q: %w", name, err)
	}
	if b.forwarding, err = bus.Forward(bridgeForwarder{b}, patterns...); err != nil {
		b.agent.Stop()
		return nil, fmt.Errorf("bridge %q: %w", name, err)
	}
	b.ask((*bridgeAgent).open)
	if !node.alone {
		node.keeper.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) {
			k.copies(ctx, b.copyName(), b.agent.PID(), func(away []actor.PID) {
				b.ask(func(d *bridgeAgent, ctx *actor.Context[any]) { d.meet(ctx, away) })
			})
		})
	}
	return b, nil
}

// copyName is the name under which the agents of all nodes know each other. No actor has it.
func (b *Bridged) copyName() string { return "bridge/" + b.name }

// ask tells the agent to do something.
func (b *Bridged) ask(do bridgeStep) { b.agent.Tell(context.Background(), do) }

// Close ends the bridge on this node: later events do not leave it, and other nodes stop sending as
// soon as they know. The bus may then have another bridge; a bridge of the same name can be made as
// soon as the actor of this one has ended. Close does not wait. Further calls do nothing.
func (b *Bridged) Close() {
	b.closing.Do(func() {
		b.forwarding.End()
		b.index.Close()
		ended := b.node.hasEnded()
		if !b.node.alone && !ended {
			b.node.keeper.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) { k.dropCopies(ctx, b.copyName()) })
		}
		b.ask(func(d *bridgeAgent, ctx *actor.Context[any]) { d.close(ctx, !ended) })
	})
}

// Wanting returns the names of the other nodes that an event of the topic would go to, as far as this node
// knows at the moment, in order.
func (b *Bridged) Wanting(topic string) []string {
	var names []string
	for _, p := range b.wanting(eventbus.Forwarded{Topic: topic}) {
		names = append(names, p.agent.PID().Node())
	}
	slices.Sort(names)
	return names
}

// BridgeStats are the counters of a bridge at one moment. All but Patterns only grow.
type BridgeStats struct {
	Patterns   int    // patterns that this node has sent to the others: at most 1024
	Sent       uint64 // events for other nodes, counted for each node, including those that became dead letters
	Received   uint64 // events of other nodes
	Refused    uint64 // events that were not sent because their type is not registered or they could not be encoded
	Unreadable uint64 // events of other nodes that could not be decoded, for example because their type is not registered here
}

// Stats returns the counters.
func (b *Bridged) Stats() BridgeStats {
	return BridgeStats{
		Patterns: int(b.patterns.Load()), Sent: b.sent.Load(), Received: b.received.Load(),
		Refused: b.refused.Load(), Unreadable: b.unreadable.Load(),
	}
}

// bridgeEvent is an event on its way to another node.
type bridgeEvent struct {
	Topic string
	All   bool   // of PublishAll: the topic is a pattern
	Type  string // its name
	Data  []byte
}

// String describes the event in dead letters.
func (e *bridgeEvent) String() string { return fmt.Sprintf("event %s of type %s", e.Topic, e.Type) }

// bridgeAll is a flag of the first byte. The other bits are reserved.
const bridgeAll = 1

// AppendBinary implements encoding.BinaryAppender: it takes a tenth of the time of CBOR.
func (e *bridgeEvent) AppendBinary(b []byte) ([]byte, error) {
	flags := byte(0)
	if e.All {
		flags = bridgeAll
	}
	b = append(b, flags)
	b = append(binary.AppendUvarint(b, uint64(len(e.Topic))), e.Topic...)
	b = append(binary.AppendUvarint(b, uint64(len(e.Type))), e.Type...)
	return append(b, e.Data...), nil
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (e *bridgeEvent) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] > bridgeAll {
		return errBridgeEvent
	}
	e.All = data[0] == bridgeAll
	data = data[1:]
	for _, text := range []*string{&e.Topic, &e.Type} {
		n, width := binary.Uvarint(data)
		if width <= 0 || n > uint64(len(data)-width) {
			return errBridgeEvent
		}
		data = data[width:]
		*text, data = string(data[:n]), data[n:]
	}
	e.Data = slices.Clone(data)
	return nil
}

var errBridgeEvent = errors.New("event of another node: its bytes end early, or are of a later version")

// wanting collects who wants an event.
type wanting struct{ peers []*bridgePeer }

// wanting returns the other nodes that want an event.
func (b *Bridged) wanting(c eventbus.Forwarded) []*bridgePeer {
	publish, w := eventbus.Publish, new(wanting)
	if c.All {
		publish = eventbus.PublishAll
	}
	_ = publish(context.Background(), b.index, c.Topic, w) // a closed bridge wants nothing
	return w.peers
}

// bridgeForwarder is the bus's view of a bridge.
type bridgeForwarder struct{ *Bridged }

// Forward implements eventbus.Forwarder. It encodes an event once.
func (b bridgeForwarder) Forward(ctx context.Context, c eventbus.Forwarded) error {
	if b.types == nil || b.node.hasEnded() {
		return nil
	}
	if _, ok := b.types.Name(c.Event); !ok {
		b.refused.Add(1)
		return fmt.Errorf("bridge %q: %w: %T", b.name, codec.ErrUnknownType, c.Event)
	}
	peers := b.wanting(c)
	if len(peers) == 0 {
		return nil
	}
	name, data, err := b.types.Append(nil, c.Event)
	if err != nil {
		b.refused.Add(1)
		return fmt.Errorf("bridge %q: %w", b.name, err)
	}
	e := &bridgeEvent{Topic: c.Topic, All: c.All, Type: name, Data: data}
	for _, p := range peers {
		b.sent.Add(1)
		p.events.Load().Tell(ctx, e)
	}
	return nil
}

// Changed implements eventbus.Forwarder.
func (b bridgeForwarder) Changed() {
	if !b.unseen.Swap(true) {
		b.ask((*bridgeAgent).look)
	}
}

// receive is the behavior of the actor that publishes the events of other nodes.
func (b *Bridged) receive(ctx *actor.Context[any], m any) error {
	e, ok := m.(*bridgeEvent)
	if !ok {
		return nil
	}
	event, err := b.types.Decode(e.Type, e.Data)
	if err != nil {
		b.unreadable.Add(1)
		if _, known := b.warned.LoadOrStore(e.Type, true); !known {
			ctx.Log().Warn("event of another node cannot be read, nor maybe others of its type", slog.String("node", ctx.Sender().Node()),
				slog.String("topic", e.Topic), slog.String("type", e.Type), slog.String("error", err.Error()))
		}
		return nil
	}
	b.received.Add(1)
	_ = b.forwarding.Deliver(ctx, eventbus.Forwarded{Topic: e.Topic, Event: event, All: e.All}) // the bus counts the subscribers that had no room
	return nil
}
