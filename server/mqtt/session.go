package mqtt

import (
	"sync"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/greenroom-go/greenroom/internal/share"
	"github.com/greenroom-go/greenroom/server/refusal"
)

const (
	// maxSubscriptions bounds the subscriptions of a session.
	maxSubscriptions = 1024
	// maxFilterLevels bounds the levels of a filter.
	maxFilterLevels = 32
)

// sessions holds the sessions of disconnected clients, ordered by when they disconnected. mochi
// would keep any number. If there are too many, the principal with most sessions loses one, so that
// nobody displaces those of others.
type sessions struct {
	broker *Broker

	mu   sync.Mutex
	away share.Pool[*mochi.Client]             // guarded by mu; by principal, "" if nobody has to log in
	of   map[string]*share.Item[*mochi.Client] // guarded by mu; by client id
}

func newSessions(b *Broker) sessions {
	return sessions{broker: b, of: map[string]*share.Item[*mochi.Client]{}}
}

// left records the session of a client that has disconnected, and discards the oldest ones beyond
// the limit.
func (s *sessions) left(cl *mochi.Client) {
	for _, old := range s.add(cl, ownerOf(cl)) {
		s.broker.endSession(old)
		s.broker.refusals.Add(refusal.MQTT, refusal.CauseSession, "", old.ID,
			"the session of a client that is not connected was given up for a newer one, with the messages that waited for it")
	}
}

func (s *sessions) add(cl *mochi.Client, owner string) (tooMany []*mochi.Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(cl.ID)
	s.of[cl.ID] = s.away.Add(owner, cl)
	for s.away.Len() > s.broker.limits.Sessions {
		tooMany = append(tooMany, s.drop(s.away.Surplus().Value.ID))
	}
	return tooMany
}

// resumed removes a client that has come back. Its new connection keeps what the old one kept.
func (s *sessions) resumed(id string) {
	s.mu.Lock()
	old := s.drop(id)
	s.mu.Unlock()
	if old != nil {
		endOutbox(old)
	}
}

// drop removes a client, and returns it, or nil if there is none. The caller holds mu.
func (s *sessions) drop(id string) *mochi.Client {
	at := s.of[id]
	if at == nil {
		return nil
	}
	s.away.Remove(at)
	delete(s.of, id)
	return at.Value
}

func endOutbox(cl *mochi.Client) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.outbox.end()
	}
}

// len returns the number of sessions.
func (s *sessions) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away.Len()
}

// abandoned does for a connection what OnDisconnect does: mochi does not call that for a connection
// that fails between CONNECT and the end of CONNACK. It is called at the end of each connection.
func (b *Broker) abandoned(c *conn) {
	c.changed()
	cl := c.client
	if cl == nil || c.disconnected {
		return
	}
	c.takeOver()       // if it ended before CONNACK was written
	if c.will != nil { // the session never began
		b.queued.give(c.will.size)
		c.will = nil
	}
	now, ok := b.server.Clients.Get(cl.ID)
	switch p := &cl.Properties; {
	case !ok:
		endOutbox(cl)
		b.filters.end(cl.ID)
	case now != cl:
		endOutbox(cl)
	case p.ProtocolVersion == 5 && p.Props.SessionExpiryInterval == 0, p.ProtocolVersion < 5 && p.Clean:
		b.endSession(cl)
	default:
		b.sessions.left(cl)
	}
}

// If a client opens a connection while it still has one with the same id, the new one waits until
// nothing has arrived on the old one for silence, or for hearing at most.
const (
	silence = 5 * time.Millisecond
	hearing = 50 * time.Millisecond
)

// hearOut waits until a client's present connection has been read, before another one ends it: the
// PUBACK of a command may be on its way, and the command would be sent again.
func (b *Broker) hearOut(id string) {
	cl, ok := b.server.Clients.Get(id)
	if !ok {
		return
	}
	old, ok := cl.Net.Conn.(*conn)
	if !ok {
		return
	}
	enough := time.NewTimer(hearing)
	defer enough.Stop()
	for {
		before := old.reads.Load()
		select {
		case <-old.gone:
			return
		case <-enough.C:
			return
		case <-time.After(silence):
		}
		if before%2 == 1 && old.reads.Load() == before {
			return
		}
	}
}

// endSession ends the session of a client that is not connected.
func (b *Broker) endSession(cl *mochi.Client) {
	if now, ok := b.server.Clients.Get(cl.ID); !ok || now != cl {
		return // it has come back
	}
	b.server.Clients.Delete(cl.ID)
	b.server.UnsubscribeClient(cl)
	b.filters.end(cl.ID)
	cl.ClearInflights()
	endOutbox(cl)
}
