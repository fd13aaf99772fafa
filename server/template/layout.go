package template

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Layout is the layout of the topics of templates. Create one with NewLayout.
type Layout struct {
	book      *Book
	host      *layout.Host
	receivers receivers
}

var _ layout.Taker = (*Layout)(nil)

// NewLayout returns the layout of the templates in b.
func NewLayout(b *Book) *Layout { return &Layout{book: b} }

// Prefixes returns nil: templates name the topics.
func (l *Layout) Prefixes() []string { return nil }

// Takes reports whether a template uses a topic, or sends commands to topics that a filter matches.
func (l *Layout) Takes(name string) bool {
	s := l.book.set.Load()
	if !strings.ContainsAny(name, "+#") { // finds topics of commands too
		u, _ := s.find(name)
		return u != nil
	}
	levels := filterLevels(name)
	return slices.ContainsFunc(s.routes, func(w way) bool { return w.route.topic.isCoveredBy(levels) })
}

// Start prepares the layout.
func (l *Layout) Start(h *layout.Host) {
	l.host = h
	l.receivers.start()
}

// About returns the entity that a topic is about. Whoever may read it receives what is published.
func (l *Layout) About(topic string) (id string, to layout.Audience) {
	u, levels := l.book.set.Load().find(topic)
	if u == nil {
		return "", layout.Readers
	}
	return u.entity(levels), layout.Readers
}

// entity returns the id of the entity that a topic is about, or "".
func (u *use) entity(levels []string) string { return u.template.entity.fill(u.topic.bind(levels)) }

var errTopic = fmt.Errorf("%w: no template has it any more", refusal.ErrTopic)

// Receive handles a message of a device, its answer to a command, or a command that another client
// publishes.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	u, levels := l.book.set.Load().find(m.Topic)
	if u == nil {
		return errTopic
	}
	switch u.role {
	case sends:
		return l.passOn(c, u, levels, m, done)
	case answers:
		return l.answer(c, u, levels, m, done)
	default:
		return l.take(c, u, levels, m, done)
	}
}

// passOn forwards a command that a client publishes to the subscribers.
func (l *Layout) passOn(c layout.Client, u *use, levels []string, m *layout.Message, done func(error)) error {
	id := u.entity(levels)
	if err := entity.CheckID(id); err != nil {
		return err
	}
	if err := c.May(access.Write, id); err != nil {
		return err
	}
	c.Record("publishCommand", m.Topic)
	done(nil)
	return nil
}

// mayReport returns nil if a client may publish to a topic. If the topic is about no entity, the
// client must have the role Device for some entity.
func mayReport(c layout.Client, u *use, id string) error {
	if len(u.template.entity.parts) == 0 {
		if !c.Who().MaySome(access.Report) {
			return fmt.Errorf("%w: %q may not report for any entity", access.ErrForbidden, c.Who().Name())
		}
		return nil
	}
	if err := entity.CheckID(id); err != nil {
		return err
	}
	return c.May(access.Report, id)
}

// take stores the values of a message.
func (l *Layout) take(c layout.Client, u *use, levels []string, m *layout.Message, done func(error)) error {
	id := u.entity(levels)
	if err := mayReport(c, u, id); err != nil {
		return err
	}
	if m.Clears { // an empty retained message has no values
		done(nil)
		return nil
	}
	o, err := u.template.read(levels, m.Payload, l.book.now())
	if err != nil {
		return fmt.Errorf("template %q: %w", u.template.name, err)
	}
	if !m.Will && len(u.template.commands) > 0 {
		l.published(c, u, levels, id)
	}
	if o.Into == Nothing {
		done(nil)
		return nil
	}
	if err := l.make(o); err != nil {
		return err
	}
	if o.Into == Reported {
		_, err := layout.By(l.host.Runtime, c.Who().Name()).Edit(l.host.Running, id, entity.Edits{Patches: []entity.Patch{{Section: entity.Reported, Body: o.Values}}})
		if err == nil {
			m.Spoke(id)
		}
		done(err)
		return nil
	}
	var once entity.Once
	if entity.NeedsOnce(o.readings) {
		once = m.Once
	}
	text := o.message()
	return layout.By(l.host.Runtime, c.Who().Name()).IngestOnce(l.host.Running, id, once, o.readings, len(m.Payload), func(err error) {
		if err == nil {
			m.Committed(id, text)
		}
		done(err)
	})
}

// make creates the entity of a message if it does not exist and the template has a type.
func (l *Layout) make(o *Outcome) error {
	if o.Type == "" {
		return nil
	}
	err := l.host.Runtime.View(l.host.Running, o.Entity, func(entity.View) error { return nil })
	if !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	_, err = l.host.Runtime.Edit(l.host.Running, o.Entity, entity.Edits{If: entity.IfNone, Type: &o.Type})
	if errors.Is(err, entity.ErrConflict) { // it was created concurrently
		return nil
	}
	return err
}

// Edited does nothing: templates send commands, not documents.
func (l *Layout) Edited(context.Context, *entity.Change) {}
