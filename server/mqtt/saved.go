package mqtt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/storage"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// Keeper keeps what a Broker saves at an orderly shutdown. An entity.Runtime implements it.
type Keeper interface {
	Items(ctx context.Context, q entity.ItemsQuery) ([]entity.Item, error)
	PutItems(ctx context.Context, items []entity.Item) error
}

// savedRecord is a record of the stream. Exactly one of its fields is set, except that
// At comes with Place and Retained.
type savedRecord struct {
	Place    string        `json:"place,omitempty"` // of the shadow
	At       int64         `json:"at,omitempty"`    // of the shadow, beside Place; when the message was published, beside Retained; in milliseconds
	Session  *savedSession `json:"session,omitempty"`
	Message  *savedMessage `json:"message,omitempty"` // waits for the client of the preceding session
	Retained *savedMessage `json:"retained,omitempty"`
	Will     *savedWill    `json:"will,omitempty"`
}

// savedSession is a session without its messages.
type savedSession struct {
	ID            string                 `json:"id"`
	Owner         string                 `json:"owner,omitempty"` // the name of its principal, "" if nobody has to log in
	Away          int64                  `json:"away"`            // when its client disconnected, in seconds since the epoch
	Version       byte                   `json:"version"`
	Expiry        uint32                 `json:"expiry,omitempty"` // in seconds, for MQTT 5
	Subscriptions []packets.Subscription `json:"subscriptions,omitempty"`
}

// lasts returns how long the session is kept after its client has disconnected, in seconds.
func (s *savedSession) lasts() int64 {
	if s.Version < 5 {
		return sessionSeconds
	}
	return min(int64(s.Expiry), sessionSeconds)
}

// savedMessage is a message, or the state of a QoS 2 exchange.
type savedMessage struct {
	storage.Message
	Version byte  `json:"version,omitempty"` // of its publisher
	Expiry  int64 `json:"expiry,omitempty"`
}

func savedMessageOf(pk *packets.Packet) *savedMessage {
	p := &pk.Properties
	return &savedMessage{
		Message: storage.Message{
			FixedHeader: pk.FixedHeader, PacketID: pk.PacketID, TopicName: pk.TopicName, Payload: pk.Payload, Origin: pk.Origin, Created: pk.Created,
			Properties: storage.MessageProperties{
				PayloadFormat: p.PayloadFormat, PayloadFormatFlag: p.PayloadFormatFlag, MessageExpiryInterval: p.MessageExpiryInterval,
				ContentType: p.ContentType, ResponseTopic: p.ResponseTopic, CorrelationData: p.CorrelationData,
				SubscriptionIdentifier: p.SubscriptionIdentifier, User: p.User,
			},
		},
		Version: pk.ProtocolVersion, Expiry: pk.Expiry,
	}
}

func (m *savedMessage) packet() packets.Packet {
	pk := m.ToPacket()
	pk.ProtocolVersion, pk.Expiry = m.Version, m.Expiry
	return pk
}

// Save stores the sessions and the retained messages, so that the next Broker on the same store can
// continue with them. It calls Stop, and waits until accepted messages are acknowledged, for at
// most half of the time until ctx ends. From then on no session changes: later acknowledgements are
// ignored, and their messages are sent again. Call it once, after Serve, before Close, and while
// the Keeper is open. If it fails, for example because ctx ends, nothing of this Broker is kept. If
// Serve has failed or was not called, Save writes nothing, and the data of the previous Broker
// stays.
func (b *Broker) Save(ctx context.Context) error {
	b.Stop()
	if !b.restored.Load() {
		return nil
	}
	b.settle(ctx)
	if err := b.replaceSaved(ctx); err != nil {
		return fmt.Errorf("keep the MQTT sessions: %w", err)
	}
	return nil
}

// replaceSaved removes the old data, so that it cannot mix with the new, and then writes the
// current state.
func (b *Broker) replaceSaved(ctx context.Context) error {
	if err := b.removeSaved(ctx); err != nil {
		return err
	}
	w := &savedWriter{ctx: ctx, keeper: b.keeper}
	if err := b.save(json.NewEncoder(w)); err != nil {
		return err
	}
	return w.end()
}

// settle waits until no session changes any more.
func (b *Broker) settle(ctx context.Context) {
	half, cancel := pause.Half(ctx)
	defer cancel()
	b.shadow.wait()
	b.flight.wait(half)
	close(b.frozen)
	b.changing.wait(half)
}

// mayChange reports whether a packet may still change a session. If not, it waits for the end of
// the connection: to the client, the packet seems lost. The caller must call changed after the
// change.
func (b *Broker) mayChange(c *conn, pk *packets.Packet) bool {
	switch pk.FixedHeader.Type {
	case packets.Publish, packets.Pingreq:
		return true
	default:
	}
	c.changed()
	c.changes = true
	b.changing.add(1)
	select {
	case <-b.frozen:
	default:
		return true
	}
	c.changed()
	<-c.gone
	return false
}

// changed records that the packet read last has been handled. Redundant calls have no effect.
func (c *conn) changed() {
	if c.changes {
		c.changes = false
		c.broker.changing.add(-1)
	}
}

// OnPacketProcessed ends the change made by a packet other than CONNECT.
func (h *hook) OnPacketProcessed(cl *mochi.Client, _ packets.Packet, _ error) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.changed()
	}
}

func (b *Broker) save(to *json.Encoder) error {
	if place := b.shadow.place; place != "" {
		if err := to.Encode(savedRecord{Place: place, At: b.shadow.at}); err != nil {
			return err
		}
	}
	for _, pk := range b.server.Topics.Retained.GetAll() {
		if strings.HasPrefix(pk.TopicName, "$") {
			continue // a client of mochi itself
		}
		if err := to.Encode(savedRecord{Retained: savedMessageOf(&pk), At: b.retainers.published(pk.TopicName)}); err != nil {
			return err
		}
	}
	for _, x := range b.wills.save() {
		if err := to.Encode(savedRecord{Will: &x}); err != nil {
			return err
		}
	}
	clients := make([]*mochi.Client, 0, b.server.Clients.Len())
	for _, cl := range b.server.Clients.GetAll() {
		clients = append(clients, cl)
	}
	slices.SortFunc(clients, func(x, y *mochi.Client) int { return int(awayOf(x) - awayOf(y)) })
	for _, cl := range clients {
		if err := saveSession(to, cl); err != nil {
			return err
		}
	}
	return nil
}

// awayOf returns when a client disconnected, in seconds since the epoch; for a connected one, the
// current time.
func awayOf(cl *mochi.Client) int64 {
	if c, ok := cl.Net.Conn.(*conn); ok && c.revived != nil {
		return c.revived.Away
	}
	if at := cl.StopTime(); at > 0 {
		return at
	}
	return time.Now().Unix()
}

// sessionOf returns the session of a client, without its subscriptions.
func sessionOf(cl *mochi.Client, c *conn) savedSession {
	p := &cl.Properties
	s := savedSession{ID: cl.ID, Owner: c.who.Name(), Away: awayOf(cl), Version: p.ProtocolVersion, Expiry: p.Props.SessionExpiryInterval}
	if c.revived != nil { // revive gave mochi other values
		s.Version, s.Expiry = c.revived.Version, c.revived.Expiry
	}
	return s
}

func saveSession(to *json.Encoder, cl *mochi.Client) error {
	c, ok := cl.Net.Conn.(*conn)
	if !ok || c.who == nil || c.newcomer || !c.who.Valid() {
		return nil
	}
	s := sessionOf(cl, c)
	if s.Version < 5 && cl.Properties.Clean || s.lasts() == 0 {
		return nil
	}
	for _, sub := range cl.State.Subscriptions.GetAll() {
		s.Subscriptions = append(s.Subscriptions, sub)
	}
	if err := to.Encode(savedRecord{Session: &s}); err != nil {
		return err
	}
	for _, pk := range c.outbox.lasting(cl) {
		if err := to.Encode(savedRecord{Message: savedMessageOf(&pk)}); err != nil {
			return err
		}
	}
	return nil
}

// restore restores what the previous Broker has saved, and removes it from the Keeper: if this
// Broker ends without Save, its sessions are lost, and no client is offered an outdated one. If
// restore fails, the Keeper is unchanged.
func (b *Broker) restore(ctx context.Context) error {
	if b.keeper == nil {
		return nil
	}
	last, err := b.keeper.Items(ctx, entity.ItemsQuery{Kind: savedKind, Limit: 1, Descending: true})
	if err != nil {
		return fmt.Errorf("read the MQTT sessions: %w", err)
	}
	if len(last) > 0 && last[0].Key == savedWhole {
		if err := b.takeUp(ctx); err != nil {
			return fmt.Errorf("read the MQTT sessions: %w", err)
		}
	}
	if len(last) > 0 {
		if err := b.removeSaved(ctx); err != nil {
			// For example because the disk is full. They would be restored again after a crash.
			b.log.LogAttrs(ctx, slog.LevelError, "cannot remove the saved MQTT sessions from the store", slog.Any("error", err))
		}
	}
	b.restored.Store(true)
	return nil
}

// removeSaved removes the saved data, last item first, so that the item that marks it as complete
// goes first.
func (b *Broker) removeSaved(ctx context.Context) error {
	for {
		items, err := b.keeper.Items(ctx, entity.ItemsQuery{Kind: savedKind, Limit: savedPage, Descending: true})
		if err != nil || len(items) == 0 {
			return err
		}
		for i := range items {
			items[i].Body = nil
		}
		if err := b.keeper.PutItems(ctx, items); err != nil {
			return err
		}
	}
}

// takeUp restores the saved data. An error is the Keeper's.
func (b *Broker) takeUp(ctx context.Context) error {
	from := &savedReader{ctx: ctx, keeper: b.keeper}
	err := b.takeUpRecords(json.NewDecoder(from))
	if from.err != nil {
		return from.err
	}
	if err != nil {
		// A server without old sessions is more useful than none.
		b.log.LogAttrs(ctx, slog.LevelError, "cannot read the saved MQTT sessions, which are lost", slog.Any("error", err))
	}
	select {
	case <-b.shadow.wanted:
	default:
		b.shadow.place = "" // nobody has missed anything
	}
	return nil
}

// takeUpRecords restores all records.
func (b *Broker) takeUpRecords(from *json.Decoder) error {
	var cl *mochi.Client // of the session restored last; nil if it was not
	defer func() { b.rest(cl) }()
	for {
		var r savedRecord
		switch err := from.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case r.Place != "":
			b.shadow.place, b.shadow.at = r.Place, r.At
		case r.Retained != nil:
			pk := r.Retained.packet()
			b.retain(pk, cmp.Or(r.At, latestOf(&pk)))
		case r.Will != nil:
			b.wills.restore(r.Will)
		case r.Session != nil:
			b.rest(cl)
			cl = b.revive(r.Session)
		case r.Message != nil && cl != nil:
			pk := r.Message.packet()
			if cl.State.Inflight.Set(pk) {
				atomic.AddInt64(&b.server.Info.Inflight, 1)
			}
			if n := int64(pk.FixedHeader.Remaining); pk.FixedHeader.Type == packets.Publish {
				b.published.Store(max(b.published.Load(), n))
			}
		default:
		}
	}
}

// latestOf returns when a retained message was published at the latest, in milliseconds since the
// epoch: an earlier version has saved the second only.
func latestOf(pk *packets.Packet) int64 {
	at := pk.Created
	if at > time.Now().Unix() { // see prolong
		at -= endless
	}
	return at*1000 + 999
}

// ended returns a connection that has ended.
func ended() net.Conn {
	nc, other := net.Pipe()
	_ = other.Close()
	_ = nc.Close()
	return nc
}

// revive creates a disconnected client for a session. It returns nil if the session has expired, or
// its principal does not exist any more.
//
// mochi assumes that the client disconnects now, and ends an MQTT 3.1.1 session a day later. The
// remaining time of the session is therefore set in the way of MQTT 5, whatever its version.
func (b *Broker) revive(s *savedSession) *mochi.Client {
	now := time.Now().Unix()
	left := s.lasts() - (now - min(s.Away, now))
	who, ok := b.access.Find(s.Owner)
	if left <= 0 || !ok || !who.Valid() {
		return nil
	}
	c := newConn(ended(), b)
	cl := b.server.NewClient(c, listenerID, s.ID, false)
	c.client, c.who, c.disconnected, c.revived = cl, who, true, s
	cl.Properties.ProtocolVersion = 5
	cl.Properties.Props.SessionExpiryInterval, cl.Properties.Props.SessionExpiryIntervalFlag = uint32(left), true //nolint:gosec // a day at most
	cl.Stop(packets.ErrServerShuttingDown)
	for _, sub := range s.Subscriptions {
		if b.server.Topics.Subscribe(cl.ID, sub) {
			atomic.AddInt64(&b.server.Info.Subscriptions, 1)
		}
		cl.State.Subscriptions.Add(sub.Filter, sub)
		b.shadow.want()
	}
	b.server.Clients.Add(cl)
	b.filters.settle(b.server.Clients, cl.ID)
	return cl
}

// rest records that a revived client is away, with the messages that wait for it. A nil cl does
// nothing.
func (b *Broker) rest(cl *mochi.Client) {
	if cl == nil {
		return
	}
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.outbox.inherit(cl)
	}
	b.sessions.left(cl)
}

// lasting returns the messages in flight to a client that may be sent in a later connection.
func (o *outbox) lasting(cl *mochi.Client) []packets.Packet {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(cl.State.Inflight.GetAll(false), func(pk packets.Packet) bool {
		_, waits := o.receipts[pk.PacketID]
		return waits
	})
}
