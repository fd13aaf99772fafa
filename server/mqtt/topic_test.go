package mqtt

import (
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

func TestEachTopicGoesOneWay(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for i := range topics {
		row := &topics[i]
		told := row.name == commandsTopic || row.name == alarmsTopic // as it happens
		if !told && (row.receive == nil) == (row.document == nil) || (row.document == nil || row.name == presenceTopic) != (row.sections == nil) || (row.receive == nil) != (row.purpose == "") || told && row.receive != nil {
			t.Errorf("the row of %q mixes a topic from devices with one to devices", row.name)
		}
		if row.receive != nil && (row.needs == 0 || row.needs == access.Read) {
			t.Errorf("the row of %q must need more than Read, so that somebody may publish and not every reader", row.name)
		}
		if seen[row.name] {
			t.Errorf("there are two rows of %q", row.name)
		}
		seen[row.name] = true
		id, found := findTopic(topicPrefix + "room-1/" + row.name)
		if id != "room-1" || found != row {
			t.Errorf("the topic %q is found as %+v of %q", row.name, found, id)
		}
	}
}

func TestReceiverSaysWhyATopicTakesNothing(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]refusal.Verdict{
		"e/room/telemetri":   {Cause: refusal.CauseTopic, Detail: "publish telemetry to e/{id}/telemetry and what a device reports of itself to e/{id}/attributes"},
		"x/room/telemetry":   {Cause: refusal.CauseTopic, Detail: "nothing takes this topic"},
		"e/telemetry":        {Cause: refusal.CauseTopic, Detail: "nothing takes this topic"},
		"e/room/desired":     {Cause: refusal.CauseTopic, Detail: "the server publishes to this topic"},
		"e//telemetry":       {Cause: refusal.CauseID, Detail: "must have 1 to 256 bytes, not 0"},
		"e/a/b/telemetry":    {Cause: refusal.CauseID, Detail: "/"},
		"$SYS/broker/uptime": {Cause: refusal.CauseTopic, Detail: "nothing takes this topic"},
	} {
		_, row, refused := receiver(name)
		if row != nil || refused == nil || refused.Cause != want.Cause || !strings.Contains(refused.Detail, want.Detail) {
			t.Errorf("%s: %+v, want %s with %q", name, refused, want.Cause, want.Detail)
		}
	}
}
