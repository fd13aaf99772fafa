package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// shadow tells devices what they should be: it publishes the document desired of an
// entity, and what of it is not reported, when an edit changes them.
//
// Who subscribes to the topic of one entity gets the present document at once,
// with the retain flag, as if the broker had retained it. But nothing is retained:
// it is read from the entity, so that it is right after a restart as well and a
// million of them occupy nothing. A subscription with wildcards gets what changes
// from then on.
type shadow struct {
	broker *broker
	source shadowSource
	wanted chan struct{} // closed with the first subscription that may want documents
	once   sync.Once
	wg     sync.WaitGroup
}

// shadowSource is what a shadow needs of the entity runtime.
type shadowSource interface {
	Follow(ctx context.Context, q entity.ChangesQuery) (*entity.Follower, error)
	View(ctx context.Context, id string, f func(entity.View) error) error
}

func newShadow(b *broker, source shadowSource) *shadow {
	return &shadow{broker: b, source: source, wanted: make(chan struct{})}
}

// start begins to follow the edits, once somebody subscribes. It ends with the
// broker; wait waits for that.
func (s *shadow) start() { s.wg.Go(func() { s.follow(s.broker.running) }) }

func (s *shadow) wait() { s.wg.Wait() }

// subscribed notes the filters of a new subscription: presently wanted ones are
// answered when the subscription has been acknowledged.
func (s *shadow) subscribed(c *conn, pk *packets.Packet, codes []byte) {
	for i, sub := range pk.Filters {
		if i < len(codes) && codes[i] >= packets.ErrUnspecifiedError.Code {
			continue
		}
		_, kind, ok := splitTopic(sub.Filter)
		wild := strings.ContainsAny(sub.Filter, "#+")
		if !wild && (!ok || kind != topicDesired && kind != topicDelta) {
			continue
		}
		s.once.Do(func() { close(s.wanted) })
		if !wild && sub.RetainHandling == 0 {
			c.present = append(c.present, sub.Filter)
		}
	}
}

// sendPresent answers new subscriptions of a connection with the documents of now.
// It is called on the goroutine that reads the connection.
func (s *shadow) sendPresent(c *conn) {
	topics := c.present
	c.present = nil
	for _, topic := range topics {
		id, kind, _ := splitTopic(topic)
		var document []byte
		err := s.source.View(s.broker.running, id, func(v entity.View) error {
			document = shadowDocument(v, kind)
			return nil
		})
		if err != nil { // there is none yet
			continue
		}
		_ = c.client.WritePacket(packets.Packet{ // a connection that is going away
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true},
			TopicName:   topic, Payload: document, Created: time.Now().Unix(),
		})
	}
}

// shadowDocument is the document of a topic.
func shadowDocument(v entity.View, kind string) []byte {
	desired := slices.Collect(v.EachAttribute(entity.Desired))
	if kind == topicDelta {
		desired = entity.Delta(desired, slices.Collect(v.EachAttribute(entity.Reported)))
	}
	return entity.AppendAttributes(nil, desired)
}

// follow publishes documents as edits change them.
func (s *shadow) follow(ctx context.Context) {
	select {
	case <-s.wanted:
	case <-ctx.Done():
		return
	}
	changes, err := s.source.Follow(ctx, entity.ChangesQuery{EditsOnly: true})
	if err != nil {
		return // the runtime is closed
	}
	defer changes.Close()
	for {
		c, err := changes.Next(ctx)
		switch {
		case err == nil:
			s.edited(ctx, &c)
		case ctx.Err() != nil, errors.Is(err, entity.ErrClosed):
			return
		case errors.Is(err, entity.ErrLagged):
		case errors.Is(err, entity.ErrCursorExpired):
			s.broker.log.LogAttrs(ctx, slog.LevelWarn, "changes of desired attributes were missed; subscribers get the next ones")
		default:
			s.broker.log.LogAttrs(ctx, slog.LevelWarn, "MQTT: the changes are read again", slog.Any("error", err))
		}
	}
}

// edited publishes the documents that an edit has changed, where somebody wants
// them.
func (s *shadow) edited(ctx context.Context, c *entity.Change) {
	desired, reported := c.Edit.Deleted, false
	for i := range c.Edit.Attributes {
		switch c.Edit.Attributes[i].Section {
		case entity.Desired:
			desired = true
		case entity.Reported:
			reported = true
		default:
		}
	}
	if desired {
		s.publish(ctx, c, topicDesired)
	}
	if desired || reported {
		s.publish(ctx, c, topicDelta)
	}
}

func (s *shadow) publish(ctx context.Context, c *entity.Change, kind string) {
	topic := topicPrefix + c.Entity + "/" + kind
	subscribers := s.broker.server.Topics.Subscribers(topic)
	if len(subscribers.Subscriptions)+len(subscribers.Shared) == 0 {
		return
	}
	document, concerned := []byte("{}"), true
	err := s.source.View(ctx, c.Entity, func(v entity.View) error {
		document = shadowDocument(v, kind)
		concerned = kind == topicDesired || concernsDelta(v, c.Edit)
		return nil
	})
	if err != nil && !errors.Is(err, entity.ErrNotFound) || !concerned {
		return // the server shuts down
	}
	if err := s.broker.server.Publish(topic, document, false, 1); err != nil {
		s.broker.log.LogAttrs(ctx, slog.LevelError, "publish a document to its subscribers", slog.String("topic", topic), slog.Any("error", err))
	}
}

// concernsDelta tells whether an edit is about something that is desired: what a
// device reports besides changes no delta.
func concernsDelta(v entity.View, e *entity.Edit) bool {
	return slices.ContainsFunc(e.Attributes, func(a entity.AttributeEdit) bool {
		return a.Section == entity.Desired || a.Section == entity.Reported && v.Has(entity.Desired, a.Path)
	})
}

// OnSubscribed notes who wants documents.
func (h *hook) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	if c, ok := cl.Net.Conn.(*conn); ok && h.broker.shadow != nil {
		h.broker.shadow.subscribed(c, &pk, codes)
	}
}
