package behavior

import (
	"strings"
	"time"
)

// Why a behavior is switched off.
const (
	OffDisabled = "disabled" // it was switched off by hand
	OffFailures = "failures" // MaxInRow calls in a row have failed
)

// Status is the status of a behavior. The counters count since the service was opened.
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
	// Effects is how many readings, edits and commands were carried out, Refused how many were
	// refused, and Pending how many wait.
	Effects uint64 `json:"effects"`
	Refused uint64 `json:"refused"`
	Pending int64  `json:"pending"`
	// Missed is how often unhandled changes had already been deleted from the log.
	Missed uint64 `json:"missed"`
	// Lag is how long ago the change being handled was committed, 0 if none waits.
	Lag time.Duration `json:"-"`
	// Failed are the last failures, the newest first.
	Failed []Failure `json:"failed"`
}

// Failure is a call that has failed, or an effect that was refused.
type Failure struct {
	// Time is when the failure happened, and TS the time of the event, in milliseconds since the
	// epoch, 0 if unknown.
	Time int64 `json:"time_ms"`
	TS   int64 `json:"ts,omitempty"`
	// Entity is the entity of the call, and Seq the number of the change, 0 for a regular call.
	Entity string `json:"entity"`
	Seq    uint64 `json:"seq,omitempty"`
	// Version is the version of the behavior.
	Version int64 `json:"version"`
	// Text is the error, at most MaxFailureBytes of it.
	Text string `json:"text"`
	// Refused says that an effect was refused, rather than a call failed.
	Refused bool `json:"refused,omitempty"`
}

// brief is a text of at most MaxFailureBytes.
func brief(text string) string {
	if len(text) > MaxFailureBytes-4 {
		text = strings.ToValidUTF8(text[:MaxFailureBytes-4], "") + "…"
	}
	return text
}
