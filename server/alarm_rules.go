package server

import (
	"context"
	"net/http"

	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/value"
)

// alarmRuleAPI reads and writes the rules that raise alarms.
type alarmRuleAPI struct{ alarms *alarm.Service }

func (a *alarmRuleAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/alarm-rules", "listAlarmRules", "List all alarm rules, by name.", a.list, needs(seesAll)),
		op("GET", "/v1/alarm-rules/{name}", "getAlarmRule", "Read an alarm rule.", a.get, needs(seesAll), fails(404)),
		op("PUT", "/v1/alarm-rules/{name}", "putAlarmRule", "Create or replace an alarm rule, or only check it.", a.put, needs(administers), answers(200, 201, 204), fails(409, 422, 428)),
		op("DELETE", "/v1/alarm-rules/{name}", "deleteAlarmRule", "Delete a rule. Its open alarms clear.", a.remove, needs(administers), fails(404)),
	}
}

type alarmRulePath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"overheating"`
}

// alarmRuleFields are what a rule says.
type alarmRuleFields struct {
	// Only entities of this type or one that extends it; absent for all.
	Type string `json:"type,omitempty" maxLength:"256" example:"Room"`
	// Only this entity; absent for all.
	Entity string `json:"entity,omitempty" maxLength:"256"`
	// Only entities for which this holds: a condition about id, type and attributes, in the language of docs/filter.md.
	Where string `json:"where,omitempty" example:"attributes.building = \"a\""`
	// The condition that raises an alarm.
	Raise string `json:"raise" example:"temperature > 80"`
	// The condition that clears it; by default, that raise does not hold.
	Clear string `json:"clear,omitempty" example:"temperature < 70"`
	// How long raise must hold, by the time of the readings; at most 31d.
	For string `json:"for,omitempty" example:"1m"`
	// The same for clear.
	ClearFor string `json:"clear_for,omitempty" example:"30s"`
	Severity string `json:"severity" enum:"critical,major,minor,warning,info" example:"major"`
	Message  string `json:"message,omitempty" maxLength:"1024" example:"The pump is too hot."`
	// The names of the webhooks to notify.
	Webhooks []string `json:"webhooks,omitempty"`
}

// alarmRuleJSON is an alarm rule with its version.
type alarmRuleJSON struct {
	Name string `json:"name" example:"overheating"`
	alarmRuleFields
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
	// The number of the version; an alarm names the version that raised it.
	Version int64 `json:"version" example:"1451649600512"`
	Updated int64 `json:"updated_ms" example:"1451649600512"`
	// Since when the conditions have been as they are.
	Effective int64 `json:"effective_ms" example:"1451649600512"`
	// Not all entities have been evaluated yet.
	Pending bool `json:"pending"`
}

func newAlarmRuleFields(r *alarm.Rule) alarmRuleFields {
	f := alarmRuleFields{
		Type: r.Type, Entity: r.Entity, Where: r.Where, Raise: r.Raise, Clear: r.Clear, Severity: r.Severity.String(), Message: r.Message, Webhooks: r.Webhooks,
	}
	if r.For != 0 {
		f.For = string(value.AppendDuration(nil, r.For.Milliseconds()))
	}
	if r.ClearFor != 0 {
		f.ClearFor = string(value.AppendDuration(nil, r.ClearFor.Milliseconds()))
	}
	return f
}

func newAlarmRuleJSON(in *alarm.Installed) alarmRuleJSON {
	return alarmRuleJSON{
		Name: in.Name, alarmRuleFields: newAlarmRuleFields(&in.Rule), ETag: in.ETag, Version: in.Version, Updated: in.Updated,
		Effective: in.Effective, Pending: in.Pending,
	}
}

// rule converts the fields to a rule.
func (f *alarmRuleFields) rule(name string) (r alarm.Rule, err error) {
	r = alarm.Rule{Name: name, Type: f.Type, Entity: f.Entity, Where: f.Where, Raise: f.Raise, Clear: f.Clear, Message: f.Message, Webhooks: f.Webhooks}
	if r.Severity, err = alarm.ParseSeverity(f.Severity); err != nil {
		return r, err
	}
	if f.For != "" {
		if r.For, err = parseDuration(f.For); err != nil {
			return r, problemf(http.StatusBadRequest, "for: %v", err)
		}
	}
	if f.ClearFor != "" {
		if r.ClearFor, err = parseDuration(f.ClearFor); err != nil {
			return r, problemf(http.StatusBadRequest, "clear_for: %v", err)
		}
	}
	return r, r.Check()
}

// alarmRuleListJSON is all alarm rules, by name.
type alarmRuleListJSON struct {
	Rules []alarmRuleJSON `json:"rules"`
}

func (a *alarmRuleAPI) list(context.Context, *struct{}) (*answer[alarmRuleListJSON], error) {
	list := alarmRuleListJSON{Rules: []alarmRuleJSON{}}
	for _, in := range a.alarms.Rules() {
		list.Rules = append(list.Rules, newAlarmRuleJSON(&in))
	}
	return ok(list), nil
}

func (a *alarmRuleAPI) get(_ context.Context, in *alarmRulePath) (*answer[alarmRuleJSON], error) {
	r, err := a.alarms.Rule(in.Name)
	if err != nil {
		return nil, err
	}
	return ok(newAlarmRuleJSON(&r)).withETag(r.ETag), nil // Pending changes without a new version
}

// alarmRuleBody is a rule as it is written; a response can be sent back unchanged.
type alarmRuleBody struct {
	alarmRuleFields
	// Ignored, as the following ones are: the path has it.
	Name string `json:"name,omitempty"`
	// The version goes into If-Match.
	ETag      string `json:"etag,omitempty"`
	Version   int64  `json:"version,omitempty"`
	Updated   int64  `json:"updated_ms,omitempty"`
	Effective int64  `json:"effective_ms,omitempty"`
	Pending   bool   `json:"pending,omitempty"`
}

type putAlarmRuleRequest struct {
	alarmRulePath
	precondition
	// If present, the rule is only checked; the value is ignored.
	Check *string `query:"check"`
	Body  alarmRuleBody
}

func (a *alarmRuleAPI) put(ctx context.Context, in *putAlarmRuleRequest) (*answer[alarmRuleJSON], error) {
	r, err := in.Body.rule(in.Name)
	if err != nil {
		return nil, err
	}
	if in.Check != nil {
		callerOf(ctx).leftUnchanged()
		return &answer[alarmRuleJSON]{status: http.StatusNoContent}, nil
	}
	put, err := a.alarms.PutRule(ctx, r, in.replacing())
	return replaced(&in.precondition, newAlarmRuleJSON(&put), put.ETag, err)
}

type deleteAlarmRuleRequest struct {
	alarmRulePath
	precondition
}

func (a *alarmRuleAPI) remove(ctx context.Context, in *deleteAlarmRuleRequest) (*answer[nothing], error) {
	return in.removed(a.alarms.DeleteRule(ctx, in.Name, in.condition))
}
