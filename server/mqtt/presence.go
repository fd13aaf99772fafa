package mqtt

import (
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// Presence over MQTT. A connection is one of the device of an entity where its client is
// that device itself (layout.Client.Self), or where a layout says so (Joined). For other
// entities of which it has the role of a device it is the connection of a gateway, from its
// first message for them on. What others publish, an operator for example, says nothing of
// the device.

// presenceTopic has the presence of an entity as its document.
const presenceTopic = "presence"

// Bounds of the entities for whose devices connections speak.
const (
	// MaxSpoken bounds the entities for whose devices one connection speaks, and
	// MaxAllSpoken those of all connections together. Of others only the messages count.
	MaxSpoken    = 10_000
	MaxAllSpoken = 1_000_000
)

// speaking has the entities for whose devices a connection speaks.
type speaking struct {
	mu    sync.Mutex
	links map[string]link // by entity, guarded by mu
	ended bool            // the connection is, guarded by mu
}

// link is the connection of one device.
type link struct {
	end func()
	own bool
}

// find returns whether the connection speaks for a device, or has done so, and whether it has
// ended.
func (s *speaking) find(id string) (ok, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok = s.links[id]
	return ok, s.ended
}

// begin notes that the connection speaks for a device, unless it does so already.
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

// stop takes begin back.
func (s *speaking) stop(b *Broker, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.links[id]; ok && !s.ended {
		delete(s.links, id)
		b.spoken.Add(-1)
		l.end()
	}
}

// end ends all of it. For whom it was is remembered: what was said is committed after it.
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

// speaksForItself notes the connection of a client that is a device.
func (c *conn) speaksForItself() {
	if id := c.Self(); entity.CheckID(id) == nil && c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, true)
	}
}

// speaksFor notes that a client is to say something for the device of an entity, if it may:
// who publishes the readings of an entity in another role is not its device.
func (c *conn) speaksFor(id string) {
	if ok, ended := c.speaking.find(id); !ok && !ended && c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, false)
	}
}

// spoke notes that what a client has said for an entity is kept. It is called when that is
// committed, and does not look at the entity again.
func (c *conn) spoke(id string) {
	switch ok, ended := c.speaking.find(id); {
	case !ok && !c.who.CoversID(access.Receive, id):
	case ended:
		c.broker.runtime.SeenLast(id)
	default:
		c.broker.runtime.Seen(id)
	}
}

// Joined notes that the device of an entity has a connection through the client, as its own.
func (c *conn) Joined(id string) {
	if c.May(access.Receive, id) == nil {
		c.speaking.begin(c.broker, id, true)
	}
}

// Parted notes that it has none any more.
func (c *conn) Parted(id string) { c.speaking.stop(c.broker, id) }

// presenceDocument is the presence of an entity.
func presenceDocument(v entity.View, _ *entity.Edit) (document []byte, changed bool) {
	p := v.Presence()
	return p.AppendJSON(nil), true
}

// present publishes the presence of an entity that has changed.
func (s *shadow) present(c *entity.Change) {
	if name := topicPrefix + c.Entity + "/" + presenceTopic; s.broker.hasSubscribers(name) {
		s.broker.publish(name, c.Presence.AppendJSON(nil), 1)
	}
}
