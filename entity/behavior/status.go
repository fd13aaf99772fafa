package behavior

import (
	"strings"
	"time"
)

// Why a behavior is switched off.
const (
	OffDisabled = "disabled" // somebody has switched it off
	OffFailures = "failures" // MaxInRow calls in a row have failed
)

// Status tells what a behavior does. The counters are those since the service was opened.
type Status struct {
	Name    string `json:"name"`
	Version int64  `json:"version"`
	// Off is OffDisabled or OffFailures, "" while it is on.
	Off string `json:"off,omitempty"`
	// Runs is how often the handler was called, Failures how many calls failed, and InRow how many
	// of the last ones.
	Runs     uint64 `json:"runs"`
	Failures uint64 `json:"failures"`
	InRow    int    `json:"in_row"`
	// Effects is how many readings, edits and commands were carried out, Refused how many
	// of these the entity did not take, and Pending how many wait.
	Effects uint64 `json:"effects"`
	Refused uint64 `json:"refused"`
	Pending int64  `json:"pending"`
	// Missed is how often changes had been deleted from the log that were not handled yet.
	Missed uint64 `json:"missed"`
	// Lag is how long ago the change had been committed that is handled now, 0 when none waits.
	Lag time.Duration `json:"-"`
	// Failed are the newest failures, the newest first.
	Failed []Failure `json:"failed"`
}

// Failure is a call that has failed, or an effect that was refused.
type Failure struct {
	// Time is when it was, TS that of the event, in milliseconds since the epoch; 0 where it is
	// not known.
	Time int64 `json:"time_ms"`
	TS   int64 `json:"ts,omitempty"`
	// Entity is that of the call, and Seq the number of the change, 0 for a regular call.
	Entity string `json:"entity"`
	Seq    uint64 `json:"seq,omitempty"`
	// Version is that of the behavior.
	Version int64 `json:"version"`
	// Text is the error, at most MaxFailureBytes of it.
	Text string `json:"text"`
	// Refused says that it was an effect.
	Refused bool `json:"refused,omitempty"`
}

// brief is a text of at most MaxFailureBytes.
func brief(text string) string {
	if len(text) > MaxFailureBytes-4 {
		text = strings.ToValidUTF8(text[:MaxFailureBytes-4], "") + "…"
	}
	return text
}
