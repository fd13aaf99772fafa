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

// topicPrefix begins the topics of entities: e/{id}/ and the name of a topic.
const topicPrefix = "e/"

// telemetryTopic is the name of the topic with the readings of an entity: those that
// devices publish, and all others for who subscribes.
const telemetryTopic = "telemetry"

// alarmsTopic is the name of the topic with what happens to the alarms of an entity.
const alarmsTopic = "alarms"

// topic is a kind of messages about an entity: from a device, with receive, or to
// devices, with document.
type topic struct {
	name    string
	purpose string // of a topic with receive, for the error about an unknown one
	// needs is what a sender must be allowed to do with the entity of a topic with receive: Report
	// at least. What touches other entities as well, receive would have to check itself, and it
	// does not know the sender. Whoever may read the entity gets what was published.
	needs access.Action

	// receive gives a payload to the runtime. It either returns an error or calls done
	// once, when the payload is committed or was not taken; it may wait until then.
	// from tells by what a repetition of the message is known.
	receive func(b *Broker, id string, from sending, payload []byte, done func(error)) error

	// document returns what devices that subscribe are sent. edit is the one that
	// has changed the entity, or nil for a device that has just subscribed; changed is
	// false where the edit leaves the document as it was.
	document func(v entity.View, edit *entity.Edit) (document []byte, changed bool)
	// sections are those of which the document is made: an edit of others does not
	// change it.
	sections []entity.Section
}

// topics has all topics of entities, which begin with [topicPrefix] and the id. A new one is one
// more row.
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

// receiveTelemetry takes readings. It returns when they are in the runtime's window.
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

// receiveAttributes merges a patch into what an entity reports. It waits for the commit,
// so that the patches of one device keep their order.
func receiveAttributes(b *Broker, id string, from sending, payload []byte, done func(error)) error {
	_, err := b.runtime.Edit(b.running, id, entity.Edits{By: from.by, Patches: []entity.Patch{{Section: entity.Reported, Body: payload}}})
	done(err)
	return nil
}

// desiredDocument is what an entity should be.
func desiredDocument(v entity.View, _ *entity.Edit) (document []byte, changed bool) {
	return entity.AppendAttributes(nil, slices.Collect(v.EachAttribute(entity.Desired))), true
}

// deltaDocument is what of that the entity does not report. What a device reports
// besides does not change it.
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

// findTopic returns the id and the topic that a name in MQTT stands for. t is nil where
// there is no such topic; the id is not checked.
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

// errUnknownTopic is about a topic that is not in the table.
var errUnknownTopic = func() error {
	var list []string
	for i := range topics {
		if topics[i].receive != nil {
			list = append(list, topics[i].purpose+" to "+topicPrefix+"{id}/"+topics[i].name)
		}
	}
	return errors.New("nothing takes this topic; publish " + strings.Join(list, " and ") + ", where {id} names the entity, as in e/room-1/telemetry; a template makes others known")
}()

// errToDevices is about the topics that only the server publishes to.
var errToDevices = errors.New("the server publishes to this topic, devices subscribe to it; what a device reports goes to e/{id}/attributes")

// receiver returns the id and the topic to which a device publishes, or the verdict why
// it may not.
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
