package awsshadow

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

const prefix = "$aws/things/"

// Layout is the layout of shadows. The zero Layout is ready for Start.
type Layout struct{ host *layout.Host }

var _ layout.Layout = (*Layout)(nil)

// Prefixes returns the prefix of the topics of things.
func (l *Layout) Prefixes() []string { return []string{prefix} }

// Start gives the layout its host.
func (l *Layout) Start(h *layout.Host) { l.host = h }

// parseTopic returns the shadow and the operation of a topic, such as update, get, delete or
// update/delta. It returns false if the topic is not about a shadow.
func parseTopic(topic string) (s Shadow, operation string, ok bool) {
	rest, ok := strings.CutPrefix(topic, prefix)
	thing, rest, in := strings.Cut(rest, "/shadow/")
	if !ok || !in || thing == "" {
		return s, "", false
	}
	s.Thing = thing
	if named, is := strings.CutPrefix(rest, "name/"); is {
		s.Name, rest, in = strings.Cut(named, "/")
		if !in || s.Name == "" {
			return s, "", false
		}
	}
	return s, rest, true
}

// topic returns the prefix of the shadow's topics, before /update and so on.
func (s Shadow) topic() string {
	if s.Name == "" {
		return prefix + s.Thing + "/shadow"
	}
	return prefix + s.Thing + "/shadow/name/" + s.Name
}

// About returns the thing that a topic is about. Those who may read it receive what is published.
func (l *Layout) About(topic string) (id string, to layout.Audience) {
	s, _, _ := parseTopic(topic)
	return s.Thing, layout.Readers
}

var errTopic = fmt.Errorf("%w: publish to %s{thing}/shadow/update, get or delete, or …/shadow/name/{shadow}/update, get or delete", refusal.ErrTopic, prefix)

// Receive answers a request about a shadow on its topics.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	s, operation, ok := parseTopic(m.Topic)
	if !ok || !slices.Contains([]string{"update", "get", "delete"}, operation) {
		return errTopic
	}
	answer, documents, err := l.do(c, s, operation, m.Payload)
	if err == nil {
		m.Spoke(s.Thing)
	}
	outcome := "/accepted"
	if err == nil && operation != "get" && c.May(access.Write, s.Thing) == nil {
		c.Record(operation+"Shadow", m.Topic)
	}
	if err != nil {
		r, ok := errors.AsType[*Rejection](err)
		if !ok {
			return err
		}
		outcome = "/rejected"
		m.Refused(r)
	}
	l.host.Publish(m.Topic+outcome, answer, 1)
	if documents != nil {
		l.host.Publish(s.topic()+"/update/documents", documents, 1)
	}
	done(nil)
	return nil
}

func (l *Layout) do(c layout.Client, s Shadow, operation string, payload []byte) (answer, documents []byte, err error) {
	needs := access.Report
	if operation == "get" {
		needs = access.Read
	}
	if err := entity.CheckID(s.Thing); err != nil {
		return nil, nil, err
	}
	if err := c.May(needs, s.Thing); err != nil {
		return nil, nil, err // the answer would reach nobody who may not read the thing
	}
	if s.Name != "" {
		if err := CheckName(s.Name); err != nil {
			answer, err = refused(payload, err)
			return answer, nil, err
		}
	}
	switch operation {
	case "update":
		return Update(l.host.Running, layout.By(l.host.Runtime, c.Who().Name()), s, payload)
	case "get":
		answer, err = Get(l.host.Running, l.host.Runtime, s, payload)
	default:
		answer, err = Delete(l.host.Running, l.host.Runtime, s, payload)
	}
	return answer, nil, err
}

// refused returns the answer to a request that is rejected before it is parsed.
func refused(payload []byte, err error) ([]byte, error) {
	in, _ := parse(payload, true) // for its token
	return in.refuse(err)
}

// Subscribed does nothing: messages are published.
func (l *Layout) Subscribed(layout.Client, string) {}

// Unsubscribed does nothing.
func (l *Layout) Unsubscribed(layout.Client, string) {}

// Left does nothing.
func (l *Layout) Left(layout.Client) {}

// Edited publishes the differences between desired and reported, after a change of desired, or of a
// reported attribute that is also desired.
func (l *Layout) Edited(ctx context.Context, change *entity.Change) {
	var whole *document // of the entity, read once
	for s := range concerned(change) {
		topic := s.topic() + "/update/delta"
		if !l.host.Wanted(topic) {
			continue
		}
		if whole == nil {
			d, err := read(ctx, l.host.Runtime, Shadow{Thing: s.Thing})
			if err != nil {
				return // the server is shutting down
			}
			whole = &d
		}
		d := document{version: whole.version, desired: s.part(whole.desired), reported: s.part(whole.reported)}
		if !s.differs(change.Edit, &d) {
			continue
		}
		delta := entity.Delta(d.desired, d.reported)
		if len(delta) == 0 {
			continue
		}
		in := &request{}
		doc := fmt.Appendf(nil, `{"version":%d,"state":`, d.version)
		doc = append(entity.AppendAttributes(doc, delta), `,"metadata":`...)
		l.host.Publish(topic, in.finish(entity.AppendTimes(doc, delta)), 1)
	}
}

// concerned returns the shadows that an edit has changed.
func concerned(change *entity.Change) map[Shadow]bool {
	set := map[Shadow]bool{}
	for i := range change.Edit.Attributes {
		a := &change.Edit.Attributes[i]
		if a.Section == entity.Attributes {
			continue
		}
		set[Shadow{Thing: change.Entity}] = true
		if name, ok := named(&a.Attribute); ok {
			set[Shadow{change.Entity, name}] = true
		}
	}
	return set
}

// differs reports whether an edit may have changed the differences between the sections of the
// shadow.
func (s Shadow) differs(edit *entity.Edit, now *document) bool {
	inside := ""
	if s.Name != "" {
		inside = entity.Pointer(s.Name)
	}
	return slices.ContainsFunc(edit.Attributes, func(a entity.AttributeEdit) bool {
		path, ok := strings.CutPrefix(a.Path, inside)
		if !ok || a.Section == entity.Attributes || path != "" && path[0] != '/' {
			return false
		}
		return a.Section == entity.Desired || concerns(now.desired, path)
	})
}

// concerns reports whether there is a leaf at a path, below it, or above it.
func concerns(leaves []entity.Attribute, path string) bool {
	for at := path; at != ""; at = at[:strings.LastIndexByte(at, '/')] {
		i, ok := find(leaves, at)
		if ok || at == path && i < len(leaves) && strings.HasPrefix(leaves[i].Path, path) {
			// The first leaf from path on that begins with it is below it, or beside it, as /a-b is
			// beside /a. A needless delta does no harm.
			return true
		}
	}
	return path == "" && len(leaves) > 0
}

// find returns the index of the leaf at a path among sorted leaves, or where it belongs.
func find(leaves []entity.Attribute, path string) (int, bool) {
	return slices.BinarySearchFunc(leaves, path, func(a entity.Attribute, path string) int { return strings.Compare(a.Path, path) })
}
