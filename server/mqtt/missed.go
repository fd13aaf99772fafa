package mqtt

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// missedSlack is how much earlier than the last seen change a missed edit may have been
	// stamped.
	missedSlack = time.Minute
	// missedPage is how many entities with retained messages are looked up at once.
	missedPage = 500
)

// missed makes up for changes that the log no longer has: subscribers get the present state of what
// has changed, and retained messages of entities that were deleted meanwhile are dropped. All later
// changes must be followed already. Removals show in the documents of e/{id}/ for subscribers to
// the topic of one entity, but not for wildcards and layouts.
//
// It reports whether all of that is done, which is not the case if the store fails or ctx ends.
func (s *shadow) missed(ctx context.Context) bool {
	since := max(0, s.at-missedSlack.Milliseconds())
	s.broker.log.LogAttrs(ctx, slog.LevelWarn, "MQTT has missed changes that are not kept any more; subscribers get the present state", slog.Int64("since_ms", since))
	err := errors.Join(s.missedDeletions(ctx, since), s.missedEdits(ctx, since), s.presentAll(ctx))
	if err != nil {
		s.broker.log.LogAttrs(ctx, slog.LevelWarn, "MQTT cannot read the present state; subscribers get the next changes, and the rest after a restart", slog.Any("error", err))
	}
	return err == nil && ctx.Err() == nil
}

// missedDeletions handles the deletion of entities with retained messages: those that do not exist,
// and those created since then whose messages are older.
func (s *shadow) missedDeletions(ctx context.Context, since int64) error {
	oldest := make(map[string]int64) // by entity, when its first retained message was published
	for _, pk := range s.broker.server.Topics.Retained.GetAll() {
		id := s.broker.entityOf(pk.TopicName)
		if id == "" {
			continue
		}
		at := s.broker.retainers.published(pk.TopicName)
		if at == 0 { // it is not retained any more
			continue
		}
		if first, ok := oldest[id]; !ok || at < first {
			oldest[id] = at
		}
	}
	gone := make(map[string]bool, len(oldest))
	ids := make([]string, 0, len(oldest))
	for id := range oldest {
		gone[id] = true
		ids = append(ids, id)
	}
	for page := range slices.Chunk(ids, missedPage) {
		err := s.broker.runtime.Scan(ctx, entity.ListQuery{IDs: page}, func(v entity.View) bool {
			gone[v.ID()] = v.Created() >= since && oldest[v.ID()] < v.Created()
			return true
		})
		if err != nil {
			return err
		}
	}
	for id, is := range gone {
		if is {
			s.edited(ctx, &entity.Change{Entity: id, Edit: &entity.Edit{Deleted: true}})
		}
	}
	return nil
}

// entityOf returns the id of the entity that a topic is about, or "".
func (b *Broker) entityOf(name string) (id string) {
	if l := b.layoutOf(name); l != nil {
		id, _ = l.About(name)
		return id
	}
	id, _ = findTopic(name)
	return id
}

// missedEdits publishes what was set, and changes of presence, since then.
func (s *shadow) missedEdits(ctx context.Context, since int64) error {
	return s.broker.runtime.Scan(ctx, entity.ListQuery{}, func(v entity.View) bool {
		edit := &entity.Edit{Revision: v.Revision()}
		for _, section := range shown {
			for a := range v.EachAttribute(section) {
				if a.TS >= since {
					edit.Attributes = append(edit.Attributes, entity.AttributeEdit{Section: section, Attribute: a})
				}
			}
		}
		if edit.Attributes != nil {
			s.edited(ctx, &entity.Change{Entity: v.ID(), Edit: edit})
		}
		if p := v.Presence(); p.Since >= since {
			s.present(&entity.Change{Entity: v.ID(), Presence: &p})
		}
		return ctx.Err() == nil
	})
}

// presentAll publishes the documents of entities to whose topics clients subscribe without
// wildcards.
func (s *shadow) presentAll(ctx context.Context) error {
	var failed error
	names := make(map[string]*topic)
	for _, cl := range s.broker.server.Clients.GetAll() {
		for filter := range cl.State.Subscriptions.GetAll() {
			if mochi.IsSharedFilter(filter) {
				_, filter, _ = strings.Cut(strings.TrimPrefix(filter[len(mochi.SharePrefix):], "/"), "/")
			}
			if _, t := findTopic(filter); t != nil && t.document != nil && !strings.ContainsAny(filter, "#+") {
				names[filter] = t
			}
		}
	}
	for name, t := range names {
		id, _ := findTopic(name)
		document := []byte("{}")
		err := s.broker.runtime.View(ctx, id, func(v entity.View) error {
			document, _ = t.document(v, nil)
			return nil
		})
		switch {
		case errors.Is(err, entity.ErrClosed), ctx.Err() != nil:
			return err
		case err == nil, errors.Is(err, entity.ErrNotFound):
			s.broker.publish(name, document, 1)
		default:
			failed = err
		}
	}
	return failed
}
