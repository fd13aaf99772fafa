package mqtt

import (
	"strings"
	"sync"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// retained is a filter of a SUBSCRIBE, whose retained messages mochi would send past the
// outbox: a copy for each subscriber, and of a session that is away as many as it has room
// for by their number.
type retained struct {
	sub    packets.Subscription
	wanted bool // it was wanted also if the client has this subscription already
}

// noteRetained notes what a SUBSCRIBE wants, before mochi subscribes.
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

// keepRetained takes from mochi what it would send for a SUBSCRIBE that it answers with
// these codes.
func (c *conn) keepRetained(pk *packets.Packet, codes []byte) {
	for i := range pk.Filters {
		if i < len(c.retained) && (i >= len(codes) || codes[i] >= packets.ErrUnspecifiedError.Code) {
			c.retained[i].wanted = false
		}
		pk.Filters[i].RetainHandling = 2 // do not send: the subscription itself is made already
	}
}

// sendRetained sends the retained messages of the subscriptions that were acknowledged.
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
			b.sendAs(c, &r.sub, pk, true)
		}
	}
}

// retain keeps a message for those who subscribe later, or, where it has no payload, drops the one
// before.
func (b *Broker) retain(pk packets.Packet) {
	b.shadow.want() // the end of its entity
	b.retainers.set(pk.TopicName, b.retainerOf(&pk), len(pk.Payload) > 0)
	b.server.Topics.RetainMessage(pk)
	atomic.StoreInt64(&b.server.Info.Retained, int64(b.server.Topics.Retained.Len()))
}

// dropRetained drops what is retained of an entity that was deleted: who may read its successor may
// not have been allowed to read that.
func (b *Broker) dropRetained(id string) {
	for i := range topics {
		name := topicPrefix + id + "/" + topics[i].name
		if _, ok := b.server.Topics.Retained.Get(name); ok {
			b.retain(packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}, TopicName: name})
		}
	}
}

// retainers are the principals that have retained something. Each may have as many places as are
// left for others.
type retainers struct {
	places int // of all messages together

	mu    sync.Mutex
	of    map[string]string // guarded by mu; by topic
	count map[string]int    // guarded by mu; none is 0
}

// retainerOf returns the principal that has published a message, "" where nobody has to log in.
func (b *Broker) retainerOf(pk *packets.Packet) string {
	if !b.access.Guarded() {
		return ""
	}
	name, _, _ := strings.Cut(pk.Origin, "/") // see login; no name has a slash
	return name
}

// set notes whose message is retained with a topic, if one is.
func (r *retainers) set(topic, owner string, kept bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old, ok := r.of[topic]; ok {
		delete(r.of, topic)
		if r.count[old]--; r.count[old] == 0 {
			delete(r.count, old)
		}
	}
	if kept && owner != "" {
		r.of[topic] = owner
		r.count[owner]++
	}
}

func (r *retainers) has(owner string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count[owner]
}

// mayRetain reports whether there is room for a message among the retained ones.
func (b *Broker) mayRetain(pk *packets.Packet) bool {
	if sizeOf(pk)-packetOverhead > maxRetainedBytes {
		return false
	}
	if _, replaces := b.server.Topics.Retained.Get(pk.TopicName); replaces {
		return true
	}
	owner, free := b.retainerOf(pk), b.retainers.places-b.server.Topics.Retained.Len()
	return free > 0 && (owner == "" || b.retainers.has(owner) < free)
}

// OnRetainedExpired gives the place of a message back.
func (h *hook) OnRetainedExpired(topic string) {
	if _, again := h.broker.server.Topics.Retained.Get(topic); !again {
		h.broker.retainers.set(topic, "", false)
	}
}
