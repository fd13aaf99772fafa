package mqtt

import (
	"fmt"
	"strings"

	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/internal/text"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// hasWildcard reports whether a topic contains a wildcard, which only filters may.
func hasWildcard(topic string) bool { return strings.ContainsAny(topic, "+#") }

// refuseResponse returns the verdict on a message or a will whose response topic has a wildcard,
// which MQTT 5 forbids [MQTT-3.3.2-14]. Like a wildcard in the topic itself, it ends the connection.
func refuseResponse(topic string) *refusal.Verdict {
	return &refusal.Verdict{
		Cause: refusal.CauseInvalid, Code: packets.ErrProtocolViolationSurplusWildcard.Code,
		Detail: fmt.Sprintf("the response topic %q has a wildcard; it must be the topic that the answer is published to", text.Shorten(topic, 200)),
	}
}
