package mqtt

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/layout"
)

// retained is a filter of a SUBSCRIBE. mochi would send its retained messages without the outbox,
// copied for each subscriber, and for a session that is away limited by their number only.
type retained struct {
	sub    packets.Subscription
	wanted bool // they must be sent even if the client has this subscription already
}

// noteRetained records which retained messages a SUBSCRIBE requests, before mochi subscribes.
func (c *conn) noteRetained(cl *mochi.Client, pk *packets.Packet) {
	c.retained = c.retained[:0]
	for _, sub := range pk.Filters {
		_, have := cl.State.Subscriptions.Get(sub.Filter)
		wanted := sub.RetainHandling == 0 || sub.RetainHandling == 1 && !have
		if sub.Identifier > 0 {
			sub.Identifiers = map[string]int{sub.Filter: sub.Identifier}
		}
		c.retained = append(c.retained, retained{sub, wanted && !mochi.IsSharedFilter(sub.Filter)})
	}
}

// keepRetained prevents mochi from sending retained messages for a SUBSCRIBE that it answers with
// these codes.
func (c *conn) keepRetained(pk *packets.Packet, codes []byte) {
	for i := range pk.Filters {
		if i < len(c.retained) && (i >= len(codes) || codes[i] >= packets.ErrUnspecifiedError.Code) {
			c.retained[i].wanted = false
		}
		pk.Filters[i].RetainHandling = 2 // do not send: the subscription itself exists already
	}
}

// sendRetained sends the retained messages of subscriptions that were acknowledged.
func (b *Broker) sendRetained(c *conn) {
	list := c.retained
	c.retained = nil
	for i := range list {
		r := &list[i]
		if !r.wanted {
			continue
		}
		for _, pk := range b.server.Topics.Messages(r.sub.Filter) {
			if r.sub.NoLocal && pk.Origin == c.client.ID || !b.maySee(c, pk.TopicName) {
				continue
			}
			if pk.Created > time.Now().Unix() { // retained without expiry
				stamp(&pk)
			}
			b.sendAs(c, &r.sub, pk, true)
		}
	}
}

// retain keeps a message for later subscribers, or, if its payload is empty, drops the retained
// one. It was published at a time in milliseconds since the epoch.
func (b *Broker) retain(pk packets.Packet, published int64) {
	b.shadow.want() // to be informed when the entity is deleted
	places := 0
	if len(pk.Payload) > 0 {
		places = placesOf(&pk)
	}
	b.retainers.set(pk.TopicName, holding{b.retainerOf(&pk), places, published})
	b.server.Topics.RetainMessage(pk)
	atomic.StoreInt64(&b.server.Info.Retained, int64(b.server.Topics.Retained.Len()))
}

// endless is added to the times of a message that a layout retains until another replaces it.
const endless = 100 * 365 * sessionSeconds

// prolong removes the expiry of a retained message of a layout.Retainer, unless the publisher has
// set one.
func (b *Broker) prolong(pk *packets.Packet) {
	if _, ok := b.layoutOf(pk.TopicName).(layout.Retainer); ok && pk.Properties.MessageExpiryInterval == 0 {
		pk.Created, pk.Expiry = pk.Created+endless, pk.Expiry+endless
	}
}

// dropRetained drops the retained messages of an entity that was deleted: those who may read its
// successor may not have been allowed to read them.
func (b *Broker) dropRetained(id string) {
	drop := func(name string) {
		b.retain(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}, TopicName: name}, 0)
	}
	for i := range topics {
		name := topicPrefix + id + "/" + topics[i].name
		if _, ok := b.server.Topics.Retained.Get(name); ok {
			drop(name)
		}
	}
	for _, l := range b.layouts {
		retainer, ok := l.(layout.Retainer)
		if !ok {
			continue
		}
		if filter := retainer.Retained(id); filter != "" {
			for _, pk := range b.server.Topics.Messages(filter) {
				drop(pk.TopicName)
			}
		}
	}
}

// retainers holds the principals and times of retained messages. Each principal may use as many places as are left for
// others.
type retainers struct {
	places int // of all messages together

	mu    sync.Mutex
	of    map[string]holding // guarded by mu; by topic
	count map[string]int     // guarded by mu; places by owner, never 0
	extra int                // guarded by mu; places beyond one for each message
}

// holding is what is known of one message.
type holding struct {
	owner     string // "" for none
	places    int
	published int64 // in milliseconds since the epoch; Packet.Created is in seconds
}

// placesOf returns how many places a message needs.
func placesOf(pk *packets.Packet) int {
	return max(1, int(sizeOf(pk)-packetOverhead+retainedPlace-1)/retainedPlace)
}

// retainerOf returns the principal that has published a message, or "" if nobody has to log in.
func (b *Broker) retainerOf(pk *packets.Packet) string {
	if !b.access.Guarded() {
		return ""
	}
	name, _, _ := strings.Cut(pk.Origin, "/") // see login; names contain no slash
	return name
}

// set records what is known of a topic's retained message; 0 places mean that there is none.
func (r *retainers) set(topic string, h holding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.of[topic]; ok {
		delete(r.of, topic)
		r.extra -= old.places - 1
		if r.count[old.owner] -= old.places; r.count[old.owner] <= 0 {
			delete(r.count, old.owner)
		}
	}
	if h.places > 0 {
		r.of[topic] = h
		r.extra += h.places - 1
		if h.owner != "" {
			r.count[h.owner] += h.places
		}
	}
}

// published returns when the retained message of a topic was published, in milliseconds since the
// epoch, or 0 if there is none.
func (r *retainers) published(topic string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[topic].published
}

// room returns how many places a message of a principal may use, if messages messages are retained.
// The places of a message that it replaces are free. A principal may use as many places as are left
// for others.
func (r *retainers) room(topic, owner string, messages int, replaces bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	free, old := r.places-messages-r.extra, holding{places: 1}
	if replaces {
		if had, ok := r.of[topic]; ok {
			old = had
		}
		free += old.places
	}
	if owner == "" {
		return free
	}
	has := r.count[owner]
	if replaces && old.owner == owner {
		has -= old.places
	}
	return max((free-has+1)/2, 0)
}

// mayRetain reports whether there is room to retain a message.
func (b *Broker) mayRetain(pk *packets.Packet) bool {
	if sizeOf(pk)-packetOverhead > maxRetainedBytes {
		return false
	}
	_, replaces := b.server.Topics.Retained.Get(pk.TopicName)
	places := placesOf(pk)
	return replaces && places == 1 || places <= b.retainers.room(pk.TopicName, b.retainerOf(pk), b.server.Topics.Retained.Len(), replaces)
}

// OnRetainedExpired frees the places of a message.
func (h *hook) OnRetainedExpired(topic string) {
	if _, again := h.broker.server.Topics.Retained.Get(topic); !again {
		h.broker.retainers.set(topic, holding{})
	}
}
