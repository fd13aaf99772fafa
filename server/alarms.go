package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// alarmAPI shows alarms to callers who may read their entities. Those who may write them may
// acknowledge, shelve and clear the alarms.
type alarmAPI struct {
	alarms  *alarm.Service
	runtime *entity.Runtime
	streams *streamAPI
}

func (a *alarmAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/alarms", "listAlarms", "List alarms, the most recently raised first.", a.list, needs(seesSome)),
		op("GET", "/v1/alarms/{alarm}", "getAlarm", "Read one alarm with its history.", a.get, needs(seesSome), fails(404)),
		op("POST", "/v1/alarms/{alarm}/acknowledge", "acknowledgeAlarm", "Acknowledge an alarm.", a.acknowledge, needs(writesSome), fails(404)),
		op("POST", "/v1/alarms/{alarm}/shelve", "shelveAlarm", "Shelve the alarms of an open alarm's rule and entity for a while: nobody is notified of them.", a.shelve, needs(writesSome), fails(404, 409)),
		op("POST", "/v1/alarms/{alarm}/unshelve", "unshelveAlarm", "Unshelve the alarms of an open alarm's rule and entity.", a.unshelve, needs(writesSome), fails(404)),
		op("POST", "/v1/alarms/{alarm}/clear", "clearAlarm", "Clear an alarm whose condition no longer holds.", a.clear, needs(writesSome), fails(404, 409)),
		rawOp("GET", "/v1/stream/alarms", "streamAlarms", "Read changes of alarms as server-sent events: alarm and reset.", a.stream, needs(seesSome),
			takesLong, sends(content{mediaEvents, ""})),
	}
}

type alarmPath struct {
	// The id of the alarm.
	Alarm string `path:"alarm" minLength:"1" maxLength:"64" example:"000000001"`
}

// alarmJSON is an alarm. Times are in milliseconds since the epoch.
type alarmJSON struct {
	ID   string `json:"id" example:"000000001"`
	Rule string `json:"rule" example:"overheating"`
	// The number of the rule's version.
	Version  int64  `json:"version" example:"1451649600512"`
	Entity   string `json:"entity" example:"room-1"`
	Severity string `json:"severity" enum:"critical,major,minor,warning,info" example:"major"`
	Message  string `json:"message,omitempty" example:"The pump is too hot."`
	State    string `json:"state" enum:"raised,cleared" example:"raised"`
	// Since when the condition held, by the time of the readings.
	Since int64 `json:"since_ms" example:"1451649600512"`
	// When the condition had held for as long as the rule demands.
	Raised int64 `json:"raised_ms" example:"1451649660512"`
	// When the condition to clear had held long enough; absent if it has not cleared.
	Cleared int64 `json:"cleared_ms,omitempty"`
	// When the server noticed that it was raised, and that it has cleared.
	Detected int64 `json:"detected_ms" example:"1451649660530"`
	Ended    int64 `json:"ended_ms,omitempty"`
	// Why it is no longer open: its condition, an operator, a late reading that withdraws it, a
	// change or the end of its rule, the rule no longer covering the entity, or the end of the
	// entity.
	Cause string `json:"cause,omitempty" enum:"condition,operator,withdrawn,rule,scope,entity"`
	// The entity was deleted; an entity that now has its id is a different one.
	Deleted bool `json:"deleted,omitempty"`
	// The values that the condition used when it was raised.
	Values       []alarmValueJSON `json:"values"`
	Acknowledged *alarmMarkJSON   `json:"acknowledged,omitempty"`
	Shelved      *alarmShelfJSON  `json:"shelved,omitempty"`
	// Its transitions; absent in lists and events.
	History []alarmTransitionJSON `json:"history,omitempty"`
}

// alarmValueJSON is a value that an alarm was raised with.
type alarmValueJSON struct {
	Key   string      `json:"key" example:"temperature"`
	TS    int64       `json:"ts" example:"1451649600512"`
	Value value.Value `json:"value"`
}

// alarmMarkJSON says who has acknowledged an alarm.
type alarmMarkJSON struct {
	At int64 `json:"at_ms" example:"1451649700000"`
	// Absent if nobody has to log in.
	By   string `json:"by,omitempty" example:"alice"`
	Note string `json:"note,omitempty" example:"on my way"`
}

// alarmShelfJSON says until when an alarm is shelved, and by whom.
type alarmShelfJSON struct {
	alarmMarkJSON
	Until int64 `json:"until_ms" example:"1451653200000"`
}

// alarmTransitionJSON is a step in the history of an alarm.
type alarmTransitionJSON struct {
	Kind string `json:"kind" enum:"raised,cleared,acknowledged,shelved,unshelved,amended,reopened,withdrawn" example:"raised"`
	// When the server made it.
	At int64 `json:"at_ms" example:"1451649660530"`
	// The time of the readings that caused it; absent if somebody caused it.
	TS   int64  `json:"ts,omitempty" example:"1451649660512"`
	By   string `json:"by,omitempty" example:"alice"`
	Note string `json:"note,omitempty"`
}

// States of an alarm.
const (
	alarmRaised  = "raised"
	alarmCleared = "cleared"
)

func newAlarmJSON(a *alarm.Alarm) alarmJSON {
	j := alarmJSON{
		ID: a.ID, Rule: a.Rule, Version: a.Version, Entity: a.Entity, Severity: a.Severity.String(), Message: a.Message, State: alarmRaised,
		Since: a.Since, Raised: a.Raised, Cleared: a.Cleared, Detected: a.Detected, Ended: a.Ended, Cause: string(a.Cause), Deleted: a.Deleted, Values: []alarmValueJSON{},
	}
	if !a.Open() {
		j.State = alarmCleared
	}
	for _, v := range a.Values {
		j.Values = append(j.Values, alarmValueJSON(v))
	}
	if a.Acknowledged != nil {
		j.Acknowledged = (*alarmMarkJSON)(a.Acknowledged)
	}
	if a.Shelved != nil {
		j.Shelved = &alarmShelfJSON{alarmMarkJSON(a.Shelved.Mark), a.Shelved.Until}
	}
	for _, t := range a.History {
		j.History = append(j.History, alarmTransitionJSON{string(t.Kind), t.At, t.TS, t.By, t.Note})
	}
	return j
}

// alarmListJSON is a page of alarms.
type alarmListJSON struct {
	Alarms []alarmJSON `json:"alarms"`
	// The cursor of the next page; absent at the end. A page may be empty and have one.
	Next string `json:"next,omitempty"`
}

// alarmFilter are the parameters that say which alarms are meant.
type alarmFilter struct {
	// Only alarms of this entity.
	Entity string `query:"entity" maxLength:"256" example:"room-1"`
	// Only alarms of this rule.
	Rule string `query:"rule" maxLength:"128" example:"overheating"`
	// Only alarms of these severities, separated by commas: critical, major, minor, warning, info.
	Severity string `query:"severity" example:"critical,major"`
	// A filter over their entities; docs/filter.md has the language.
	Filter string `query:"q"`
}

type listAlarmsRequest struct {
	alarmFilter
	// Only alarms that have not cleared, or only those that have.
	State string `query:"state" enum:"raised,cleared,any" default:"any"`
	// Only alarms that somebody has acknowledged, or that nobody has.
	Acknowledged string `query:"acknowledged" enum:"true,false"`
	// Only alarms that are shelved, or that are not.
	Shelved string `query:"shelved" enum:"true,false"`
	// With true, the alarms of deleted entities; requires access to all entities.
	Deleted string `query:"deleted" enum:"true,false,any" default:"false"`
	cursorParam
	// The maximum number of alarms to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}

func (a *alarmAPI) list(ctx context.Context, in *listAlarmsRequest) (*answer[alarmListJSON], error) {
	severities, err := in.severities()
	if err != nil {
		return nil, err
	}
	before, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	keep, err := a.keeper(ctx, &in.alarmFilter)
	if err != nil {
		return nil, err
	}
	if in.Deleted == "any" {
		in.Deleted = ""
	}
	list, next, err := a.alarms.Alarms(ctx, alarm.Query{
		Open: in.State == alarmRaised, Closed: in.State == alarmCleared, Entity: in.Entity, Rule: in.Rule, Severities: severities,
		Acknowledged: optionalBool(in.Acknowledged), Shelved: optionalBool(in.Shelved), Deleted: optionalBool(in.Deleted), Before: before, Limit: in.Limit, Keep: keep,
	})
	if err != nil {
		return nil, err
	}
	page := alarmListJSON{Alarms: []alarmJSON{}}
	for i := range list {
		page.Alarms = append(page.Alarms, newAlarmJSON(&list[i]))
	}
	if next != "" {
		page.Next = pageCursor(next)
	}
	return ok(page), nil
}

// optionalBool returns the value of an optional parameter, nil for none.
func optionalBool(text string) *bool {
	if text == "" {
		return nil
	}
	is := text == "true"
	return &is
}

func (f *alarmFilter) severities() (list []alarm.Severity, err error) {
	if f.Severity == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(f.Severity, ",") {
		s, err := alarm.ParseSeverity(name)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// keeper returns a predicate for alarms whose entity the caller may read and the filter matches;
// nil means all. Alarms of deleted entities are visible only to callers who may read all entities.
// Each entity is evaluated once, so the predicate is for short use: a page or a few events.
func (a *alarmAPI) keeper(ctx context.Context, f *alarmFilter) (func(*alarm.Alarm) bool, error) {
	if f.Filter == "" && callerOf(ctx).who.MayAll(access.Read) {
		return nil, nil
	}
	filter, _, err := visible(ctx, f.Filter)
	if err != nil {
		return nil, err
	}
	match, known := search.NewMatcher(a.runtime, filter), make(map[string]bool)
	return func(x *alarm.Alarm) bool {
		if x.Deleted {
			return false
		}
		is, ok := known[x.Entity]
		if !ok {
			match.Reset()
			_ = a.runtime.Scan(ctx, entity.ListQuery{IDs: []string{x.Entity}}, func(v entity.View) bool { // what cannot be read is not shown
				is = match.Match(ctx, v)
				return false
			})
			known[x.Entity] = is
		}
		return is
	}, nil
}

// allowed returns an alarm if the caller may do action with its entity. A caller who may not read
// the entity cannot find out whether the alarm exists.
func (a *alarmAPI) allowed(ctx context.Context, id string, action access.Action) (alarm.Alarm, error) {
	who := callerOf(ctx).who
	x, err := a.alarms.Alarm(ctx, id)
	switch {
	case err == nil && x.Deleted && who.MayAll(access.Read):
		if !who.MayAll(action) {
			err = fmt.Errorf("%w: the entity of the alarm %q was deleted, and %q may not change all entities", access.ErrForbidden, x.ID, who.Name())
		}
		return x, err
	case err == nil && !x.Deleted && who.May(ctx, a.runtime, access.Read, x.Entity) == nil:
		return x, who.May(ctx, a.runtime, action, x.Entity)
	case err != nil && (who.MayAll(access.Read) || !errors.Is(err, alarm.ErrNotFound)):
		return x, err
	default:
		return x, fmt.Errorf("%w: %q may not read the alarm %q, or there is none", access.ErrForbidden, who.Name(), shorten(id, 32))
	}
}

func (a *alarmAPI) get(ctx context.Context, in *alarmPath) (*answer[alarmJSON], error) {
	x, err := a.allowed(ctx, in.Alarm, access.Read)
	if err != nil {
		return nil, err
	}
	return ok(newAlarmJSON(&x)), nil
}

// alarmNoteBody is what an operator notes.
type alarmNoteBody struct {
	Note string `json:"note,omitempty" maxLength:"1024" example:"on my way"`
}

type alarmNoteRequest struct {
	alarmPath
	Body alarmNoteBody
}

// change changes an alarm for the caller.
func (a *alarmAPI) change(ctx context.Context, id string, f func(by string) (alarm.Alarm, error)) (*answer[alarmJSON], error) {
	x, err := a.allowed(ctx, id, access.Write)
	if err != nil {
		return nil, err
	}
	callerOf(ctx).about = x.Rule + " of " + x.Entity
	if x, err = f(callerOf(ctx).who.Name()); err != nil {
		return nil, err
	}
	return ok(newAlarmJSON(&x)), nil
}

func (a *alarmAPI) acknowledge(ctx context.Context, in *alarmNoteRequest) (*answer[alarmJSON], error) {
	return a.change(ctx, in.Alarm, func(by string) (alarm.Alarm, error) {
		return a.alarms.Acknowledge(ctx, in.Alarm, by, in.Body.Note)
	})
}

func (a *alarmAPI) unshelve(ctx context.Context, in *alarmNoteRequest) (*answer[alarmJSON], error) {
	return a.change(ctx, in.Alarm, func(by string) (alarm.Alarm, error) {
		return a.alarms.Unshelve(ctx, in.Alarm, by, in.Body.Note)
	})
}

func (a *alarmAPI) clear(ctx context.Context, in *alarmNoteRequest) (*answer[alarmJSON], error) {
	return a.change(ctx, in.Alarm, func(by string) (alarm.Alarm, error) {
		return a.alarms.Clear(ctx, in.Alarm, by, in.Body.Note)
	})
}

// alarmShelveBody says for how long an alarm is shelved.
type alarmShelveBody struct {
	alarmNoteBody
	// How long, at most 31d.
	For string `json:"for" example:"1h"`
}

type alarmShelveRequest struct {
	alarmPath
	Body alarmShelveBody
}

func (a *alarmAPI) shelve(ctx context.Context, in *alarmShelveRequest) (*answer[alarmJSON], error) {
	d, err := parseDuration(in.Body.For)
	if err != nil || d == 0 || d > alarm.MaxShelf {
		return nil, problemf(http.StatusBadRequest, "for must be a duration of at most 31d, such as 1h, not %q", shorten(in.Body.For, 32))
	}
	return a.change(ctx, in.Alarm, func(by string) (alarm.Alarm, error) {
		return a.alarms.Shelve(ctx, in.Alarm, d, by, in.Body.Note)
	})
}

// alarmEventJSON is something that has happened to an alarm, as streams, MQTT and webhooks
// tell it.
type alarmEventJSON struct {
	Kind string `json:"kind"`
	At   int64  `json:"at_ms"`
	By   string `json:"by,omitempty"`
	// Numbers the events.
	Seq   uint64    `json:"seq"`
	Alarm alarmJSON `json:"alarm"`
}

// encodeAlarmEvent returns an event as JSON.
func encodeAlarmEvent(ev *alarm.Event) ([]byte, error) {
	return encodeJSON(&alarmEventJSON{string(ev.Kind), ev.At, ev.By, ev.Seq, newAlarmJSON(&ev.Alarm)})
}
