package mqtt

import (
	"cmp"
	"context"
	"net/netip"
	"strings"
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// route is the destination of a message: a topic of an entity, or a layout.
type route struct {
	id     string
	topic  *topic        // nil: a layout receives it
	layout layout.Layout // checks the sender's permission itself
}

// routeOf returns the route for a topic, or the verdict on messages with it.
func (b *Broker) routeOf(name string) (route, *refusal.Verdict) {
	if l := b.layoutOf(name); l != nil {
		return route{layout: l}, nil
	}
	id, t, refused := receiver(name)
	return route{id: id, topic: t}, refused
}

// layoutOf returns the layout for a topic or filter, or nil.
func (b *Broker) layoutOf(name string) layout.Layout {
	if strings.HasPrefix(name, topicPrefix) {
		return nil
	}
	if l := b.fixedLayoutOf(name); l != nil {
		return l
	}
	for _, l := range b.layouts {
		if further, ok := l.(layout.Taker); ok && further.Takes(name) {
			return l
		}
	}
	return nil
}

// fixedLayoutOf is like layoutOf, for layouts whose topics have a prefix.
func (b *Broker) fixedLayoutOf(name string) layout.Layout {
	for _, l := range b.layouts {
		for _, prefix := range l.Prefixes() {
			if strings.HasPrefix(name, prefix) {
				return l
			}
		}
	}
	return nil
}

// allows returns nil if a principal may send messages by this route.
func (r *route) allows(b *Broker, who *access.Principal) error {
	if r.layout != nil {
		return nil
	}
	return b.may(who, r.topic.needs, r.id)
}

// prepare reports whether other clients receive messages by this route. For a layout that is not a
// layout.Retainer, it clears the retain flag unless the message is for everybody.
func (r *route) prepare(pk *packets.Packet) (shared bool) {
	if r.layout == nil {
		return true
	}
	_, to := r.layout.About(pk.TopicName)
	_, retains := r.layout.(layout.Retainer)
	pk.FixedHeader.Retain = pk.FixedHeader.Retain && (retains && to != layout.Nobody || to == layout.Everybody)
	return to != layout.Nobody
}

// receive passes a message on, see topic.receive. committed is called before done, with readings
// that a layout has derived from the message.
func (r *route) receive(c *conn, pk *packets.Packet, from sending, committed func(id string, payload []byte), done func(error)) error {
	spoke := c.spoke
	if from.will { // its client has gone
		spoke = func(string) {}
	}
	if r.layout == nil {
		if !from.will {
			c.speaksFor(r.id)
		}
		return r.topic.receive(c.broker, r.id, from, pk.Payload, func(err error) {
			if err == nil {
				spoke(r.id)
			}
			done(err)
		})
	}
	return r.layout.Receive(c, &layout.Message{
		Topic: pk.TopicName, Payload: pk.Payload, Once: from.once(pk.Payload), Will: from.will, Clears: from.clears, Spoke: spoke,
		Committed: func(id string, payload []byte) {
			spoke(id)
			committed(id, payload)
		},
		Refused: func(err error) {
			v := refusal.Judge(err)
			c.broker.refusals.Add(refusal.MQTT, v.Cause, pk.TopicName, c.client.ID, v.Detail)
		},
	}, done)
}

// readings collects messages for the subscribers of entities' telemetry.
type readings struct {
	mu   sync.Mutex
	list []*packets.Packet // guarded by mu
}

func (r *readings) add(pk *packets.Packet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, pk)
}

func (r *readings) take() []*packets.Packet {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

// telemetryOf returns a message with readings of an entity, as if a device had published it to the
// broker's own topic.
func telemetryOf(id string, payload []byte, origin string) *packets.Packet {
	return &packets.Packet{
		FixedHeader: packets.FixedHeader{Qos: 1}, TopicName: topicPrefix + id + "/" + telemetryTopic, Payload: payload, Origin: origin,
	}
}

// may returns nil if a principal may do a with an entity.
func (b *Broker) may(who *access.Principal, a access.Action, id string) error {
	if who.MayAll(a) {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.running, lookTimeout)
	defer cancel()
	return who.May(ctx, b.runtime, a, id)
}

// The methods Self to Send make a conn a layout.Client.

// Self returns the id of the device's own entity.
func (c *conn) Self() string { return cmp.Or(c.who.Name(), c.user, c.client.ID) }

// User returns the user name in CONNECT.
func (c *conn) User() string { return c.user }

// Address returns the address of the client, the zero Addr if it has none.
func (c *conn) Address() netip.Addr { return addressOf(c.RemoteAddr()) }

// Who returns the client's principal.
func (c *conn) Who() *access.Principal { return c.who }

// May returns nil if the client may do a with an entity. Since a layout asks before it reports for
// an entity, this also determines which devices the client speaks for.
func (c *conn) May(a access.Action, id string) error {
	err := c.broker.may(c.who, a, id)
	if err == nil && a == access.Report {
		c.speaksFor(id)
	}
	return err
}

// Record writes a change by the client to the audit log.
func (c *conn) Record(action, what string) {
	if c.broker.record != nil {
		c.broker.record(c.broker.running, c.who, addressOf(c.RemoteAddr()), action, what)
	}
}

// Subscribes reports whether the client subscribes to a topic.
func (c *conn) Subscribes(name string) bool {
	_, ok := c.subscription(name)
	return ok
}

// Filters returns the filters of the client's subscriptions.
func (c *conn) Filters() []string { return filtersOf(c.client) }

// subscription merges the subscriptions that match a topic: it has their highest QoS, and all of
// their identifiers.
func (c *conn) subscription(name string) (all packets.Subscription, ok bool) {
	for _, sub := range c.client.State.Subscriptions.GetAll() {
		if !layout.Matches(sub.Filter, name) {
			continue
		}
		if ok {
			sub = all.Merge(sub)
		}
		all, ok = sub, true
	}
	return all, ok
}

// Send sends a message to this client alone, if it subscribes to the topic.
func (c *conn) Send(name string, payload []byte, receipt *layout.Receipt) error {
	sub, ok := c.subscription(name)
	if !ok {
		return layout.ErrNotSubscribed
	}
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: name, Payload: payload}
	stamp(&pk)
	if receipt == nil {
		c.broker.sendAs(c, &sub, pk, false)
		return nil
	}
	if largest := c.client.Properties.Props.MaximumPacketSize; largest > 0 && len(name)+len(payload)+packetHeaders > int(largest) {
		go receipt.Settled(errTooLarge) // on its own goroutine, like all calls of settled
		return nil
	}
	if c.outbox.put(c.client, as(&sub, pk, false), receipt) {
		return nil
	}
	if c.outbox.isClosed() {
		return layout.ErrGone
	}
	return layout.ErrNoRoom
}

// packetHeaders bounds the size of a PUBLISH without its topic and payload, if its only properties
// are one or two subscription identifiers.
const packetHeaders = 32

// startLayouts starts the layouts.
func (b *Broker) startLayouts() {
	b.host = &layout.Host{
		Runtime: b.runtime, Logger: b.log, Running: b.running, Publish: b.publish, Wanted: b.hasSubscribers,
	}
	for _, l := range b.layouts {
		l.Start(b.host)
	}
}

// laidOut informs the layouts about subscriptions that were acknowledged, or belong to a session
// that is resumed.
func (b *Broker) laidOut(c *conn, filters []string) {
	for _, filter := range filters {
		if l := b.layoutOf(filter); l != nil {
			b.shadow.want()
			l.Subscribed(c, filter)
		}
	}
}

// leaveLayouts informs the layouts that a connection has ended.
func (b *Broker) leaveLayouts(c *conn) {
	if c.client == nil {
		return
	}
	for _, l := range b.layouts {
		l.Left(c)
	}
}

// StopLayouts lets the layouts store what they must when the server stops, such as which devices go
// offline. Call it once, after Stop and while the runtime is open. It returns when that is stored or
// ctx ends.
func (b *Broker) StopLayouts(ctx context.Context) {
	for _, l := range b.layouts {
		if s, ok := l.(layout.Stopper); ok {
			s.Stopping(ctx)
		}
	}
}

// editedLayouts informs the layouts about an edit.
func (b *Broker) editedLayouts(ctx context.Context, change *entity.Change) {
	for _, l := range b.layouts {
		l.Edited(ctx, change)
	}
}
