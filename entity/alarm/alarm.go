package alarm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Cause says why an alarm is no longer open. The zero Cause is that of an open alarm.
type Cause string

// The causes.
const (
	ByCondition Cause = "condition" // the condition for it to clear was met
	ByOperator  Cause = "operator"  // an operator cleared it
	ByLate      Cause = "withdrawn" // a late reading says that it should not have been raised
	ByRule      Cause = "rule"      // its rule was deleted, or has other conditions now
	ByScope     Cause = "scope"     // its rule no longer applies to the entity
	ByEntity    Cause = "entity"    // the entity was deleted
)

// Kind is what has happened to an alarm.
type Kind string

// The kinds of transitions and events.
const (
	Raised       Kind = "raised"
	Cleared      Kind = "cleared"
	Acknowledged Kind = "acknowledged"
	Shelved      Kind = "shelved"
	Unshelved    Kind = "unshelved"
	// Amended says that a late reading has changed its times or its values, Reopened that it has
	// not cleared after all, and Withdrawn that it should not have been raised.
	Amended   Kind = "amended"
	Reopened  Kind = "reopened"
	Withdrawn Kind = "withdrawn"
)

// Alarm is one alarm, from when it is raised until it has cleared. Times are in milliseconds since
// the epoch, 0 if the event has not happened.
type Alarm struct {
	// ID has a fixed length; of two alarms the later has the greater ID.
	ID       string   `json:"id"`
	Rule     string   `json:"rule"`
	Version  int64    `json:"version"`
	Entity   string   `json:"entity"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message,omitempty"`
	// Since is when the condition began to hold, Raised when it had held for long enough, and
	// Cleared when the condition to clear had held for long enough, by the time of the readings.
	Since   int64 `json:"since"`
	Raised  int64 `json:"raised"`
	Cleared int64 `json:"cleared,omitempty"`
	// Detected and Ended are when the server noticed that the alarm was raised and cleared.
	Detected int64 `json:"detected"`
	Ended    int64 `json:"ended,omitempty"`
	Cause    Cause `json:"cause,omitempty"`
	// Deleted says that the entity was deleted: an entity that now has its id is a different one.
	Deleted bool `json:"deleted,omitempty"`
	// Values are the values that the condition used when the alarm was raised. For values larger
	// than MaxValueBytes only the time is kept.
	Values       []Value      `json:"values,omitempty"`
	Acknowledged *Mark        `json:"acknowledged,omitempty"`
	Shelved      *Shelf       `json:"shelved,omitempty"`
	Webhooks     []string     `json:"webhooks,omitempty"`
	History      []Transition `json:"history,omitempty"`
}

// Open reports whether the alarm has not cleared.
func (a *Alarm) Open() bool { return a.Cause == "" }

// Value is a value with which an alarm was raised.
type Value struct {
	Key   string
	TS    int64
	Value value.Value
}

// same reports whether two values are equal; 1 and 1.0 are, as in JSON.
func (v Value) same(o Value) bool {
	return v.Key == o.Key && v.TS == o.TS && (v.Value == o.Value || value.Compare(v.Value, o.Value) == value.Equal)
}

type valueJSON struct {
	Key   string          `json:"key"`
	TS    int64           `json:"ts"`
	Value json.RawMessage `json:"value"`
}

// MarshalJSON encodes the value as {"key":…,"ts":…,"value":…}.
func (v Value) MarshalJSON() ([]byte, error) {
	b := value.AppendQuoted([]byte(`{"key":`), v.Key)
	b = strconv.AppendInt(append(b, `,"ts":`...), v.TS, 10)
	return append(v.Value.AppendJSON(append(b, `,"value":`...)), '}'), nil
}

// plainJSON encodes without escapes for HTML, which could make a value too large to be read back.
func plainJSON(x any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (v *Value) UnmarshalJSON(data []byte) error {
	var in valueJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	x, err := entity.ParseValue(in.Value)
	*v = Value{in.Key, in.TS, x}
	return err
}

// Mark says who has acknowledged an alarm, and when.
type Mark struct {
	At   int64  `json:"at"`
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// Shelf says until when an alarm of a rule and an entity is shelved, and by whom. It also applies
// to alarms that are raised meanwhile.
type Shelf struct {
	Mark
	Until int64 `json:"until"`
}

// Transition is one step of an alarm's history: At is when the server made it, TS the time of the
// readings that caused it, 0 if somebody caused it.
type Transition struct {
	Kind Kind   `json:"kind"`
	At   int64  `json:"at"`
	TS   int64  `json:"ts,omitempty"`
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
}

// Event is a transition with the alarm as it was after it, without its history. Seq
// numbers all events of a store from 1 on.
type Event struct {
	Seq   uint64 `json:"seq"`
	Kind  Kind   `json:"kind"`
	At    int64  `json:"at"`
	By    string `json:"by,omitempty"`
	Alarm Alarm  `json:"alarm"`
}

// Tells reports whether people and programs are to be notified of the event. If an alarm is
// shelved, they are told that, and nothing else until it is no longer shelved.
func (ev *Event) Tells() bool { return ev.Alarm.Shelved == nil || ev.Kind == Shelved }

// shrink makes an alarm fit into an item: it removes the values, and then all of the history but
// its first and last transitions.
func (a *Alarm) shrink() {
	if a.Values != nil {
		a.Values = nil
		return
	}
	if n := len(a.History); n > 20 {
		a.History = append(slices.Clone(a.History[:1]), a.History[n-10:]...)
	}
}

// note adds a transition to the history.
func (a *Alarm) note(t Transition) {
	if len(a.History) >= MaxTransitions {
		a.History = append(a.History[:1], a.History[2:]...)
	}
	a.History = append(a.History, t)
}

// idBytes is the length of an ID: base 36.
const idBytes = 9

// alarmID makes the ID of a number.
func alarmID(number int64) string {
	digits := strconv.FormatInt(number, 36)
	return strings.Repeat("0", max(0, idBytes-len(digits))) + digits
}

// Kinds of the items that a service keeps.
const (
	ruleKind     = "alarm-rule"     // under its name
	openKind     = "alarm-open"     // an alarm that is open, under its ID
	closedKind   = "alarm-closed"   // an alarm that has cleared
	timeKind     = "alarm-time"     // the ID of an alarm that was not withdrawn, under its entity, rule and Raised
	entityKind   = "alarm-entity"   // empty, under the entity and ID of each alarm
	stateKind    = "alarm-state"    // the state of a rule for an entity, unless it is the initial one
	eventKind    = "alarm-event"    // an event, under its number
	webhookKind  = "alarm-webhook"  // under its name
	deliveryKind = "alarm-delivery" // a delivery that waits, under its webhook and the number of its event
	deadKind     = "alarm-dead"     // the same, given up
	deletionKind = "alarm-deletion" // the last alarm of a deleted entity, while some of its alarms are not marked yet
	laterKind    = "alarm-later"    // from which time on readings of an entity wait for their time
	placeKind    = "alarm-place"    // the place up to which changes are processed
	placeKey     = "place"
)

// part returns the key of an entity, or of a rule and an entity, or a prefix of such a key.
func part(names ...string) string { return strings.Join(names, "\x00") + "\x00" }

// timeKey is the key of an alarm by its time.
func timeKey(id, rule string, raised int64, alarm string) string {
	return part(id, rule) + fmt.Sprintf("%016x", raised) + alarm
}

// eventKey is the key of an event.
func eventKey(seq uint64) string { return fmt.Sprintf("%016x", seq) }

// after returns the key that follows all keys with a prefix that ends in \x00.
func after(prefix string) string { return prefix[:len(prefix)-1] + "\x01" }
