package mqtt

import (
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// Presence over MQTT. A connection is that of an entity's device if its client is the device itself
// (layout.Client.Self), or if a layout says so (Joined). For other entities for which it has the
// role Device, it is the connection of a gateway, from its first message for them on. What others
// publish, such as an operator, says nothing about the device.

// presenceTopic is the topic whose document is the presence of an entity.
const presenceTopic = "presence"

// Limits of the entities that connections speak for.
const (
	// MaxSpoken bounds the entities that one connection speaks for, and MaxAllSpoken those of all
	// connections together. For others, only their messages count as presence.
	MaxSpoken    = 10_000
	MaxAllSpoken = 1_000_000
)

// speaking holds the entities that a connection speaks for.
type speaking struct {
	mu    sync.Mutex
	links map[string]link // by entity, guarded by mu
	ended bool            // the connection has ended; guarded by mu
}

// link is the connection of a device.
type link struct {
	end func()
	own bool
}

// find reports whether the connection speaks for a device, or has done so, and whether the
// connection has ended.
func (s *speaking) find(id string) (ok, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok = s.links[id]
	return ok, s.ended
}

// begin records that the connection speaks for a device, unless it does so already.
func (s *speaking) begin(b *Broker, id string, own bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.links[id]
	if s.ended || ok && (before.own || !own) {
		return
	}
	if !ok {
		if len(s.links) >= MaxSpoken || b.spoken.Add(1) > MaxAllSpoken {
			if len(s.links) < MaxSpoken {
				b.spoken.Add(-1)
			}
			return
		}
		if s.links == nil {
			s.links = make(map[string]link)
		}
	}
	l := link{own: own}
	if own {
		l.end = b.runtime.Connect(id)
	} else {
		l.end = b.runtime.ConnectVia(id)
	}
	if ok {
		before.end()
	}
	s.links[id] = l
}

// stop reverts begin.
func (s *speaking) stop(b *Broker, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.links[id]; ok && !s.ended {
		delete(s.links, id)
		b.spoken.Add(-1)
		l.end()
	}
}

// end ends all links. Their entities are remembered, because messages may be committed later.
func (s *speaking) end(b *Broker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended = true
	for _, l := range s.links {
		l.end()
	}
	b.spoken.Add(-int64(len(s.links)))
}

// speaksForItself records the connection of a client that is a device.
func (c *conn) speaksForItself() {
	if id := c.Self(); entity.CheckID(id) == nil && c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, true)
	}
}

// speaksFor records that a client will speak for the device of an entity, if it may: a client that
// publishes readings in another role is not the device.
func (c *conn) speaksFor(id string) {
	if ok, ended := c.speaking.find(id); !ok && !ended && c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, false)
	}
}

// spoke records that something that a client has sent for an entity was committed. It does not look
// at the entity.
func (c *conn) spoke(id string) {
	switch ok, ended := c.speaking.find(id); {
	case !ok && !c.who.CoversID(access.Receive, id):
	case ended:
		c.broker.runtime.SeenLast(id)
	default:
		c.broker.runtime.Seen(id)
	}
}

// Joined records that the device of an entity has a connection through the client, as if it were
// its own.
func (c *conn) Joined(id string) {
	if c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, true)
	}
}

// Parted records that it no longer does.
func (c *conn) Parted(id string) { c.speaking.stop(c.broker, id) }

// presenceDocument returns the presence of an entity.
func presenceDocument(v entity.View, _ *entity.Edit) (document []byte, changed bool) {
	p := v.Presence()
	return p.AppendJSON(nil), true
}

// present publishes the presence of an entity after a change.
func (s *shadow) present(c *entity.Change) {
	if name := topicPrefix + c.Entity + "/" + presenceTopic; s.broker.hasSubscribers(name) {
		s.broker.publish(name, c.Presence.AppendJSON(nil), 1)
	}
}
