package mqtt

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// shadow sends devices their desired state: when an edit changes the document desired of an entity,
// or the part of it that is not reported, it publishes that.
//
// A client that subscribes to the topic of one entity is sent the current document at once, with
// the retain flag, as if the broker had retained it. But nothing is retained: the document is read
// from the entity, so that it is current after a restart as well, and a million documents occupy no
// memory. A subscription with wildcards only receives later changes.
type shadow struct {
	broker *Broker
	wanted chan struct{} // closed by the first subscription that may need documents or computed values
	once   sync.Once
	wg     sync.WaitGroup

	// Owned by the following goroutine between start and wait.
	place string // where to continue, "" for now; set when it ends, unless it could not make up for what it has missed
	at    int64  // when the last change before that, or before what was missed, was committed, in milliseconds since the epoch
}

func newShadow(b *Broker) *shadow { return &shadow{broker: b, wanted: make(chan struct{})} }

// start starts following the edits, and the readings that mappings compute, once there is a
// subscription. It ends with the broker; wait waits for that.
func (s *shadow) start() { s.wg.Go(func() { s.follow(s.broker.running) }) }

func (s *shadow) wait() { s.wg.Wait() }

// subscribed records the filters of a new subscription. Current documents that it needs are sent
// when it has been acknowledged.
func (s *shadow) subscribed(c *conn, pk *packets.Packet, codes []byte) {
	for i, sub := range pk.Filters {
		if i < len(codes) && codes[i] >= packets.ErrUnspecifiedError.Code {
			continue
		}
		_, t := findTopic(sub.Filter)
		wild := strings.ContainsAny(sub.Filter, "#+")
		if !wild && t == nil {
			continue
		}
		s.want()
		if !wild && t.document != nil && sub.RetainHandling == 0 {
			c.present = append(c.present, sub.Filter)
		}
	}
}

// want starts following the edits.
func (s *shadow) want() { s.once.Do(func() { close(s.wanted) }) }

// sendPresent sends a connection the current documents for its new subscriptions. It is called by
// the reading goroutine.
func (s *shadow) sendPresent(c *conn) {
	names := c.present
	c.present = nil
	for _, name := range names {
		id, t := findTopic(name)
		var document []byte
		err := s.broker.runtime.View(s.broker.running, id, func(v entity.View) error {
			document, _ = t.document(v, nil)
			return nil
		})
		if err != nil { // there is none yet
			continue
		}
		_ = c.client.WritePacket(packets.Packet{ // an error means that the connection is ending
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true},
			TopicName:   name, Payload: document, Created: time.Now().Unix(),
		})
	}
}

// follow publishes documents as edits change them.
func (s *shadow) follow(ctx context.Context) {
	select {
	case <-s.wanted:
	case <-ctx.Done():
		return
	}
	query := entity.ChangesQuery{Cursor: s.place, Edits: true, Computed: true, Commands: true, Presence: true}
	if s.place == "" {
		s.at = time.Now().UnixMilli()
	}
	changes, err := s.broker.runtime.Follow(ctx, query)
	missed := err != nil && s.place != "" // it was too long ago, or in another store
	if missed {
		query.Cursor = ""
		changes, err = s.broker.runtime.Follow(ctx, query)
	}
	if err != nil {
		return // the runtime is closed
	}
	if s.place == "" {
		s.place = changes.Cursor()
	}
	whole := true // nothing is missed that was not made up for
	defer func() {
		if whole { // otherwise the next broker makes up for it: it begins where changes are lost
			s.place = changes.Cursor()
		}
		changes.Close()
	}()
	telling := context.WithoutCancel(ctx) // publish whatever Next has returned
	if missed {
		whole = s.missed(ctx)
	}
	for {
		c, err := changes.Next(ctx)
		if err == nil && whole {
			s.at = c.Committed
		}
		switch {
		case err == nil && c.Command != nil:
			s.commanded(&c)
		case err == nil && c.Presence != nil:
			s.present(&c)
		case err == nil && c.Edit == nil:
			s.computed(&c)
		case err == nil:
			s.edited(telling, &c)
		case ctx.Err() != nil, errors.Is(err, entity.ErrClosed):
			return
		case errors.Is(err, entity.ErrLagged):
		case errors.Is(err, entity.ErrCursorExpired):
			whole = s.missed(ctx)
		default:
			s.broker.log.LogAttrs(ctx, slog.LevelWarn, "MQTT: cannot read the changes; trying again", slog.Any("error", err))
		}
	}
}

// Committed publishes readings that did not arrive over MQTT to the subscribers of their entity's
// telemetry, as if a device had published the payload. The broker takes ownership of the payload.
// It does not block.
func (b *Broker) Committed(id string, payload []byte) {
	if b.Subscribed() {
		b.publish(topicPrefix+id+"/"+telemetryTopic, payload, 1)
	}
}

// Alarm publishes a change of an entity's alarm. The broker takes ownership of the payload. It does
// not block.
func (b *Broker) Alarm(id string, payload []byte) {
	if name := topicPrefix + id + "/" + alarmsTopic; b.Subscribed() && b.hasSubscribers(name) {
		b.publish(name, payload, 1)
	}
}

// Subscribed reports whether there is any subscription, so that Committed has an effect.
func (b *Broker) Subscribed() bool { return atomic.LoadInt64(&b.server.Info.Subscriptions) > 0 }

// computed publishes a reading that a mapping has computed.
func (s *shadow) computed(c *entity.Change) {
	name := topicPrefix + c.Entity + "/" + telemetryTopic
	if !s.broker.hasSubscribers(name) {
		return
	}
	reading := entity.Reading{TS: c.TS, Values: c.Values}
	s.broker.publish(name, reading.AppendJSON(nil), 1)
}

// hasSubscribers reports whether a topic has subscribers.
func (b *Broker) hasSubscribers(name string) bool {
	subscribers := b.server.Topics.Subscribers(name)
	return len(subscribers.Subscriptions)+len(subscribers.Shared) > 0
}

// edited publishes the documents that an edit has changed, if they have subscribers.
func (s *shadow) edited(ctx context.Context, c *entity.Change) {
	if c.Edit.Deleted {
		s.broker.dropRetained(c.Entity)
	}
	s.broker.editedLayouts(ctx, c)
	for i := range topics {
		if t := &topics[i]; t.changedBy(c.Edit) {
			s.publish(ctx, c, t)
		}
	}
}

func (s *shadow) publish(ctx context.Context, c *entity.Change, t *topic) {
	name := topicPrefix + c.Entity + "/" + t.name
	if !s.broker.hasSubscribers(name) {
		return
	}
	document, changed := []byte("{}"), true // of a deleted entity
	err := s.broker.runtime.View(ctx, c.Entity, func(v entity.View) error {
		document, changed = t.document(v, c.Edit)
		return nil
	})
	if err != nil && !errors.Is(err, entity.ErrNotFound) || !changed {
		return // the server is shutting down
	}
	s.broker.publish(name, document, 1)
}
