package server

import (
	"errors"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// Topics of an entity: e/{id}/ and one of these.
const (
	topicPrefix     = "e/"
	topicTelemetry  = "telemetry"  // readings, from the device
	topicAttributes = "attributes" // a merge patch of what it reports, from the device
	topicDesired    = "desired"    // what it should be, to the device
	topicDelta      = "delta"      // what of that it does not report, to the device
)

// splitTopic takes a topic of an entity apart.
func splitTopic(topic string) (id, kind string, ok bool) {
	rest, ok := strings.CutPrefix(topic, topicPrefix)
	cut := strings.LastIndexByte(rest, '/')
	if !ok || cut < 0 {
		return "", "", false
	}
	return rest[:cut], rest[cut+1:], true
}

// parseTopic returns the id and the kind of a topic to which a device publishes,
// or why it is none.
func parseTopic(topic string) (id, kind string, err error) {
	id, kind, ok := splitTopic(topic)
	switch {
	case ok && (kind == topicTelemetry || kind == topicAttributes):
		return id, kind, entity.CheckID(id)
	case ok && (kind == topicDesired || kind == topicDelta):
		return "", "", errDownTopic
	default:
		return "", "", errTopic
	}
}

var (
	errTopic = errors.New("nothing takes this topic; telemetry is published to e/{id}/telemetry and what a device reports of itself to e/{id}/attributes, where {id} names the entity, as in e/room-1/telemetry")
	// errDownTopic is about the topics that only the server publishes to.
	errDownTopic = errors.New("the server publishes to this topic, devices subscribe to it; what a device reports goes to e/{id}/attributes")
)

// judgeTopic is judge for an error of parseTopic.
func judgeTopic(err error) verdict {
	if errors.Is(err, errTopic) || errors.Is(err, errDownTopic) {
		return verdict{cause: causeTopic, detail: err.Error(), code: packets.ErrTopicNameInvalid}
	}
	return verdict{cause: causeID, detail: err.Error(), code: packets.ErrTopicNameInvalid}
}
