package mqtt

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// topicPrefix is the prefix of the topics of entities: e/{id}/ and the name of a topic.
const topicPrefix = "e/"

// telemetryTopic is the name of the topic for the readings of an entity: devices publish some, and
// subscribers receive all.
const telemetryTopic = "telemetry"

// alarmsTopic is the name of the topic for changes of an entity's alarms.
const alarmsTopic = "alarms"

// topic is a kind of message about an entity: from a device, with receive; to devices, with document,
// for state; or to subscribers, with neither, for events that a method of [Broker] sends.
type topic struct {
	name    string
	purpose string // for topics with receive; used in the error about an unknown topic
	// needs is the permission for the entity that a sender needs on a topic with receive, at least
	// Report. It covers this entity only; receive knows the sender's name and not its permissions, and so
	// must not affect others. Whoever may read the entity receives what was published.
	needs access.Action

	// receive passes a payload to the runtime. It either returns an error or calls done once, when
	// the payload is committed or was refused; it may block until then. from is who has sent
	// the message, and identifies a retransmission of it.
	receive func(b *Broker, id string, from sending, payload []byte, done func(error)) error

	// document returns what subscribed devices are sent. edit is the edit that has changed the
	// entity, or nil for a device that has just subscribed; changed is false if the edit does not
	// change the document.
	document func(v entity.View, edit *entity.Edit) (document []byte, changed bool)
	// sections are the sections in the document: edits of others do not change it.
	sections []entity.Section
}

// topics contains all topics of entities, which begin with [topicPrefix] and the id. To add one, add
// a row at the end; ARCHITECTURE.md, Where to add things, says what else.
var topics = []topic{
	{name: telemetryTopic, purpose: "telemetry", needs: access.Report, receive: receiveTelemetry},
	{name: "attributes", purpose: "what a device reports of itself", needs: access.Report, receive: receiveAttributes},
	{name: "desired", document: desiredDocument, sections: []entity.Section{entity.Desired}},
	{name: "delta", document: deltaDocument, sections: []entity.Section{entity.Desired, entity.Reported}},
	{name: presenceTopic, document: presenceDocument},
	{name: commandsTopic}, // see command.go
	{name: alarmsTopic},   // see Broker.Alarm
	{name: answersTopic, purpose: "what has become of commands", needs: access.Report, receive: receiveAnswer},
}

// receiveTelemetry handles readings. It returns when they are in the runtime's window.
func receiveTelemetry(b *Broker, id string, from sending, payload []byte, done func(error)) error {
	readings, err := entity.ParseReadings(payload, time.Now())
	if err != nil {
		return err
	}
	once := entity.Once{By: from.by}
	if entity.NeedsOnce(readings) {
		once = from.once(payload)
	}
	return b.runtime.IngestOnce(b.running, id, once, readings, len(payload), done)
}

// receiveAttributes merges a patch into the section reported. It waits for the commit, so that the
// patches of a device keep their order.
func receiveAttributes(b *Broker, id string, from sending, payload []byte, done func(error)) error {
	_, err := b.runtime.Edit(b.running, id, entity.Edits{By: from.by, Patches: []entity.Patch{{Section: entity.Reported, Body: payload}}})
	done(err)
	return nil
}

// desiredDocument returns the section desired.
func desiredDocument(v entity.View, _ *entity.Edit) (document []byte, changed bool) {
	return entity.AppendAttributes(nil, slices.Collect(v.EachAttribute(entity.Desired))), true
}

// deltaDocument returns the part of the section desired that differs from reported. Reported
// attributes that are not desired do not change it.
func deltaDocument(v entity.View, edit *entity.Edit) (document []byte, changed bool) {
	if edit != nil && !slices.ContainsFunc(edit.Attributes, func(a entity.AttributeEdit) bool {
		return a.Section == entity.Desired || a.Section == entity.Reported && v.Has(entity.Desired, a.Path)
	}) {
		return nil, false
	}
	desired, reported := slices.Collect(v.EachAttribute(entity.Desired)), slices.Collect(v.EachAttribute(entity.Reported))
	return entity.AppendAttributes(nil, entity.Delta(desired, reported)), true
}

// changedBy reports whether an edit may change the document of a topic.
func (t *topic) changedBy(edit *entity.Edit) bool {
	return t.document != nil && (edit.Deleted || slices.ContainsFunc(edit.Attributes, func(a entity.AttributeEdit) bool {
		return slices.Contains(t.sections, a.Section)
	}))
}

// shown are the sections that some document contains.
var shown = func() (list []entity.Section) {
	for i := range topics {
		list = append(list, topics[i].sections...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}()

// findTopic returns the id and the topic in an MQTT topic name. t is nil if there is no such topic;
// the id is not checked.
func findTopic(name string) (id string, t *topic) {
	rest, ok := strings.CutPrefix(name, topicPrefix)
	cut := strings.LastIndexByte(rest, '/')
	if !ok || cut < 0 {
		return "", nil
	}
	for i := range topics {
		if topics[i].name == rest[cut+1:] {
			return rest[:cut], &topics[i]
		}
	}
	return "", nil
}

// errUnknownTopic reports a topic that is not in the table.
var errUnknownTopic = func() error {
	var list []string
	for i := range topics {
		if topics[i].receive != nil {
			list = append(list, topics[i].purpose+" to "+topicPrefix+"{id}/"+topics[i].name)
		}
	}
	return errors.New("nothing takes this topic; publish " + strings.Join(list, " and ") + ", where {id} names the entity, as in e/room-1/telemetry; a template makes others known")
}()

// errToDevices reports a topic that only the server publishes to.
var errToDevices = errors.New("the server publishes to this topic, devices subscribe to it; what a device reports goes to e/{id}/attributes")

// receiver returns the id and the topic that a device publishes to, or the verdict why it may not.
func receiver(name string) (id string, t *topic, refused *refusal.Verdict) {
	id, t = findTopic(name)
	switch {
	case t == nil:
		return "", nil, refusal.Topic(refusal.CauseTopic, errUnknownTopic.Error())
	case t.receive == nil:
		return "", nil, refusal.Topic(refusal.CauseTopic, errToDevices.Error())
	}
	if err := entity.CheckID(id); err != nil {
		return "", nil, refusal.Topic(refusal.CauseID, err.Error())
	}
	return id, t, nil
}
