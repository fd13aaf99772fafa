package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/script"
)

// scriptAPI reads and writes scripts, which are rules on entities in Lua.
type scriptAPI struct {
	scripts *script.Service
	book    *access.Book
	runtime access.Entities
}

func (a *scriptAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/scripts", "listScripts", "List the scripts that the caller may see: its own, or all if it may read all entities.", a.list, needs(seesSome)),
		op("GET", "/v1/scripts/{name}", "getScript", "Read a script, what it does, and its last failures.", a.get, needs(seesSome), fails(404)),
		op("PUT", "/v1/scripts/{name}", "putScript", "Create or replace a script, or only check it.", a.put, needs(writesSome), answers(200, 201, 204), fails(409, 422, 428)),
		op("DELETE", "/v1/scripts/{name}", "deleteScript", "Delete a script, and what it has kept of entities. What it has written stays.", a.remove, needs(writesSome), fails(404)),
		op("GET", "/v1/scripts/{name}/versions", "listScriptVersions", "List the versions of a script, the newest first.", a.versions, needs(seesSome), fails(404)),
		op("GET", "/v1/scripts/{name}/states/{id}", "getScriptState", "Read what a script keeps of an entity.", a.state, needs(writesEntity), fails(404)),
		op("POST", "/v1/scripts/{name}/rollback", "rollBackScript", "Put an earlier version of a script in force, as a new one.", a.rollBack, needs(writesSome), fails(404, 409, 422)),
		op("POST", "/v1/scripts/{name}/switch", "switchScript", "Switch a script on or off.", a.toggle, needs(writesSome), fails(404)),
		op("POST", "/v1/scripts/{name}/try", "tryScript", "Run a script over the last readings of an entity, and show what it would have done.", a.try, needs(writesSome), asks, fails(404, 422)),
	}
}

type scriptPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"dry-run"`
}

// scriptFields is a script as its author writes it.
type scriptFields struct {
	// The Lua 5.1 source. It must define on_reading(e, r), every_minute(e), or both.
	Source string `json:"source" minLength:"1" maxLength:"65536" example:"function on_reading(e, r) e:set { double = 2 * r.temperature } end"`
	// Only entities of this type or one that extends it.
	Type string `json:"type,omitempty" maxLength:"256" example:"Pump"`
	// Only entities that this filter matches; docs/filter.md has the language.
	Where string `json:"where,omitempty" maxLength:"4096" example:"attributes.site = \"A\""`
	// Only readings with a value for any of these keys; by default all.
	Keys []string `json:"keys,omitempty" maxItems:"64" example:"[\"temperature\"]"`
	// A comment about the version.
	Note string `json:"note,omitempty" maxLength:"1024" example:"the first try"`
}

func (f *scriptFields) script() script.Script {
	return script.Script{Source: f.Source, Type: f.Type, Where: f.Where, Keys: f.Keys, Note: f.Note}
}

func newScriptFields(s *script.Script) scriptFields {
	return scriptFields{Source: s.Source, Type: s.Type, Where: s.Where, Keys: s.Keys, Note: s.Note}
}

// scriptFailureJSON is a failed call, or a refused effect.
type scriptFailureJSON struct {
	behavior.Failure
	// The line of the source, from 1; absent if it is not known.
	Line int `json:"line,omitempty"`
}

// scriptJSON is a script and its status. Counters start with the server.
type scriptJSON struct {
	Name string `json:"name" example:"dry-run"`
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
	// The number of the version, which is in the origins of values.
	Version int64 `json:"version" example:"7"`
	Updated int64 `json:"updated_ms" example:"1451649600512"`
	// The author. The script affects only entities that the author may write.
	Owner string `json:"owner" example:"admin"`
	State string `json:"state" enum:"on,disabled,failures,refused" example:"on"`
	// Why it is refused.
	Problem string `json:"problem,omitempty"`
	scriptFields
	// The number of calls, of failed calls, and of failures since the last success.
	Runs     uint64 `json:"runs" example:"1024"`
	Failures uint64 `json:"failures" example:"0"`
	InRow    int    `json:"in_row" example:"0"`
	// The number of readings, edits and commands that it has made, of those that were refused, and
	// of those that are pending.
	Effects uint64 `json:"effects" example:"12"`
	Refused uint64 `json:"refused" example:"0"`
	Pending int64  `json:"pending" example:"0"`
	// How often it has missed changes, because they were no longer kept.
	Missed uint64 `json:"missed" example:"0"`
	// How long ago the change that it is handling was committed; 0 if none is waiting.
	Lag float64 `json:"lag_ms" example:"0"`
	// The last failures, newest first; absent in a list.
	Failed []scriptFailureJSON `json:"failed,omitempty"`
}

// scriptListJSON is all scripts, by name, without their failures.
type scriptListJSON struct {
	Scripts []scriptJSON `json:"scripts"`
}

// States of scripts, besides those of package behavior.
const (
	scriptOn      = "on"
	scriptRefused = "refused"
)

// json returns a script with those of its failures whose entities the caller may read: failures may
// date from when the script or its owner reached other entities.
func (a *scriptAPI) json(ctx context.Context, st *script.Stored) scriptJSON {
	status := a.scripts.Status(st.Name)
	s := a.summary(st, status)
	who := callerOf(ctx).who
	for _, f := range status.Failed {
		if who.May(ctx, a.runtime, access.Read, f.Entity) == nil {
			s.Failed = append(s.Failed, scriptFailureJSON{f, script.LineOf(f.Text, st.Source)})
		}
	}
	return s
}

// summary returns a script without its failures.
func (a *scriptAPI) summary(st *script.Stored, status behavior.Status) scriptJSON {
	s := scriptJSON{
		Name: st.Name, ETag: st.ETag, Version: st.Version, Updated: st.Updated, Owner: st.Owner.Name, State: scriptOn, Problem: st.Problem, scriptFields: newScriptFields(&st.Script),
		Runs: status.Runs, Failures: status.Failures, InRow: status.InRow, Effects: status.Effects, Refused: status.Refused, Pending: status.Pending,
		Missed: status.Missed, Lag: float64(status.Lag.Milliseconds()),
	}
	if status.Off != "" {
		s.State = status.Off
	}
	switch owner, ok := ownerOf(a.book, st.Owner); {
	case s.Problem != "":
	case !ok:
		s.Problem = fmt.Sprintf("there is no principal %q any more, whose entities it was for: put it again", st.Owner.Name)
	case !owner.Valid():
		s.Problem = fmt.Sprintf("the principal %q, whose entities it was for, has expired: put it again", st.Owner.Name)
	}
	if s.Problem != "" {
		s.State = scriptRefused
	}
	return s
}

// find returns a script if the caller owns it, or may do action with all entities. Otherwise, the
// caller cannot find out whether it exists.
func (a *scriptAPI) find(ctx context.Context, name string, action access.Action) (script.Stored, error) {
	st, err := a.scripts.Get(name)
	if err != nil {
		return st, err
	}
	if who := callerOf(ctx).who; st.Owner != asOwner(who) && !who.MayAll(action) {
		return script.Stored{}, fmt.Errorf("script %.64q: %w", name, script.ErrNotFound)
	}
	return st, nil
}

func (a *scriptAPI) list(ctx context.Context, _ *struct{}) (*answer[scriptListJSON], error) {
	list := scriptListJSON{Scripts: []scriptJSON{}}
	for _, st := range a.scripts.List() {
		if who := callerOf(ctx).who; st.Owner == asOwner(who) || who.MayAll(access.Read) {
			list.Scripts = append(list.Scripts, a.summary(&st, a.scripts.Status(st.Name)))
		}
	}
	return ok(list), nil
}

func (a *scriptAPI) get(ctx context.Context, in *scriptPath) (*answer[scriptJSON], error) {
	st, err := a.find(ctx, in.Name, access.Read)
	if err != nil {
		return nil, err
	}
	return ok(a.json(ctx, &st)).withETag(st.ETag), nil // the status changes without a new version
}

type putScriptRequest struct {
	scriptPath
	precondition
	// If present, the script is only checked; the value is ignored.
	Check *string `query:"check"`
	Body  scriptBody
}

// scriptBody is a script.
type scriptBody struct{ scriptFields }

// put puts a script in force. To replace the script of another owner, the caller must be permitted
// to write all entities, and becomes its owner; for others the name is taken.
func (a *scriptAPI) put(ctx context.Context, in *putScriptRequest) (*answer[scriptJSON], error) {
	sc := in.Body.script()
	if in.Check != nil {
		if err := a.scripts.Check(in.Name, &sc); err != nil {
			return nil, err
		}
		callerOf(ctx).leftUnchanged()
		return &answer[scriptJSON]{status: http.StatusNoContent}, nil
	}
	who := callerOf(ctx).who
	quota := script.MaxScripts
	if !who.MayAll(access.Write) {
		quota = script.MaxOwned
		if st, err := a.scripts.Get(in.Name); err == nil && st.Owner != asOwner(who) {
			return nil, problemf(http.StatusConflict, "the name %q is taken by a script of somebody else", in.Name)
		}
	}
	st, err := a.scripts.Put(ctx, in.Name, sc, asOwner(who), quota, in.replacing())
	if err != nil {
		return replaced(&in.precondition, scriptJSON{}, "", err)
	}
	return replaced(&in.precondition, a.json(ctx, &st), st.ETag, nil)
}

type deleteScriptRequest struct {
	scriptPath
	precondition
}

func (a *scriptAPI) remove(ctx context.Context, in *deleteScriptRequest) (*answer[nothing], error) {
	if _, err := a.find(ctx, in.Name, access.Write); err != nil {
		return in.removed(err)
	}
	return in.removed(a.scripts.Delete(ctx, in.Name, in.condition))
}

// scriptVersionJSON is a version of a script.
type scriptVersionJSON struct {
	Version int64  `json:"version" example:"7"`
	Updated int64  `json:"updated_ms" example:"1451649600512"`
	Owner   string `json:"owner" example:"admin"`
	scriptFields
}

// scriptVersionsJSON is the versions of a script, the newest first.
type scriptVersionsJSON struct {
	Versions []scriptVersionJSON `json:"versions"`
}

func (a *scriptAPI) versions(ctx context.Context, in *scriptPath) (*answer[scriptVersionsJSON], error) {
	if _, err := a.find(ctx, in.Name, access.Read); err != nil {
		return nil, err
	}
	list, err := a.scripts.Versions(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	all := scriptVersionsJSON{Versions: []scriptVersionJSON{}}
	for i := range list {
		if v := &list[i]; a.mayUse(ctx, v) {
			all.Versions = append(all.Versions, scriptVersionJSON{v.Version, v.Updated, v.Owner.Name, newScriptFields(&v.Script)})
		}
	}
	return ok(all), nil
}

// mayUse reports whether the caller owns a version, or may read all entities.
func (a *scriptAPI) mayUse(ctx context.Context, v *script.Stored) bool {
	who := callerOf(ctx).who
	return v.Owner == asOwner(who) || who.MayAll(access.Read)
}

type scriptStateRequest struct {
	scriptPath
	ID string `path:"id" minLength:"1" maxLength:"256" example:"room"`
}

// scriptStateJSON is the state that a script keeps for an entity.
type scriptStateJSON struct {
	// The table self; null if it is empty.
	State json.RawMessage `json:"state" example:"{\"count\":3}"`
}

func (a *scriptAPI) state(ctx context.Context, in *scriptStateRequest) (*answer[scriptStateJSON], error) {
	if _, err := a.find(ctx, in.Name, access.Read); err != nil {
		return nil, err
	}
	state, err := a.scripts.State(ctx, in.Name, in.ID)
	if err != nil {
		return nil, err
	}
	if state == nil {
		state = []byte("null")
	}
	return ok(scriptStateJSON{state}), nil
}

type rollBackRequest struct {
	scriptPath
	Body rollBackBody
}

// rollBackBody selects a version.
type rollBackBody struct {
	Version int64 `json:"version" minimum:"1" example:"1"`
}

// rollBack puts a version in force again, on behalf of its author.
func (a *scriptAPI) rollBack(ctx context.Context, in *rollBackRequest) (*answer[scriptJSON], error) {
	now, err := a.find(ctx, in.Name, access.Write)
	if err != nil {
		return nil, err
	}
	old, err := a.scripts.Version(ctx, in.Name, in.Body.Version)
	if err != nil {
		return nil, err
	}
	who := callerOf(ctx).who
	if old.Owner != asOwner(who) && !who.MayAll(access.Write) {
		return nil, fmt.Errorf("version %d of script %.64q: %w", in.Body.Version, in.Name, script.ErrNotFound)
	}
	old.Note = fmt.Sprintf("back to version %d", old.Version)
	st, err := a.scripts.Put(ctx, in.Name, old.Script, old.Owner, script.MaxScripts, now.ETag)
	if err != nil {
		return nil, err
	}
	return ok(a.json(ctx, &st)), nil
}

type switchScriptRequest struct {
	scriptPath
	Body switchScriptBody
}

// switchScriptBody enables or disables a script.
type switchScriptBody struct {
	On bool `json:"on" example:"true"`
}

// toggle enables or disables a script. An enabled script starts with what is committed from then
// on.
func (a *scriptAPI) toggle(ctx context.Context, in *switchScriptRequest) (*answer[scriptJSON], error) {
	st, err := a.find(ctx, in.Name, access.Write)
	if err == nil {
		err = a.scripts.Switch(ctx, in.Name, in.Body.On)
	}
	if err != nil {
		return nil, err
	}
	return ok(a.json(ctx, &st)), nil
}

type tryScriptRequest struct {
	scriptPath
	Body tryScriptBody
}

// tryScriptBody is a script, and the readings to try it on.
type tryScriptBody struct {
	// The script; by default the stored one of the name.
	Script *scriptFields `json:"script,omitempty"`
	// The entity; the caller must be permitted to write it.
	Entity string `json:"entity" minLength:"1" maxLength:"256" example:"room"`
	timeRange
	// The number of readings, counted from the last one.
	Last int `json:"last,omitempty" minimum:"1" maximum:"1000" default:"100" example:"20"`
}

// triedCommandJSON is a command that a script would have sent.
type triedCommandJSON struct {
	Name    string          `json:"name" example:"stop"`
	Request json.RawMessage `json:"request,omitempty" example:"{\"now\":true}"`
}

// triedPatchJSON is a change of attributes that a script would have made.
type triedPatchJSON struct {
	Section string          `json:"section" enum:"attributes,desired" example:"attributes"`
	Patch   json.RawMessage `json:"patch" example:"{\"alarm\":\"dry run\"}"`
}

// triedReadingJSON is a reading.
type triedReadingJSON struct {
	TS     int64           `json:"ts" example:"1451649600512"`
	Values json.RawMessage `json:"values" example:"{\"temperature\":21.5}"`
}

// scriptStepJSON is what a script would have done about a reading.
type scriptStepJSON struct {
	Reading triedReadingJSON `json:"reading"`
	// What it would have done.
	Readings []triedReadingJSON `json:"readings,omitempty"`
	Patches  []triedPatchJSON   `json:"patches,omitempty"`
	Commands []triedCommandJSON `json:"commands,omitempty"`
	// The table self afterwards; absent if it is empty.
	State json.RawMessage `json:"state,omitempty" example:"{\"count\":3}"`
	// The lines that it has printed.
	Printed []string `json:"printed,omitempty"`
	// Why it has failed, with the traceback; absent if it has not.
	Error string `json:"error,omitempty"`
	// The line of the source where it has failed, from 1.
	Line int `json:"line,omitempty"`
}

// scriptTrialJSON is what a script would have done, in the order of the readings.
type scriptTrialJSON struct {
	Steps []scriptStepJSON `json:"steps"`
}

func (a *scriptAPI) try(ctx context.Context, in *tryScriptRequest) (*answer[scriptTrialJSON], error) {
	who := callerOf(ctx).who
	if err := who.May(ctx, a.runtime, access.Write, in.Body.Entity); err != nil {
		return nil, err
	}
	var sc script.Script
	if in.Body.Script != nil {
		sc = in.Body.Script.script()
	} else {
		st, err := a.find(ctx, in.Name, access.Read)
		if err != nil {
			return nil, err
		}
		sc = st.Script
	}
	from, to, err := in.Body.bounds()
	if err != nil {
		return nil, err
	}
	if to == 0 {
		to = entity.MaxTS + 1
	}
	steps, err := a.scripts.Try(ctx, in.Name, &sc, asOwner(who), behavior.Trial{Entity: in.Body.Entity, From: from, To: to, Last: in.Body.Last})
	if err != nil {
		return nil, err
	}
	trial := scriptTrialJSON{Steps: []scriptStepJSON{}}
	for i := range steps {
		trial.Steps = append(trial.Steps, newScriptStepJSON(&steps[i]))
	}
	return ok(trial), nil
}

func newTriedReadingJSON(r *entity.Reading) triedReadingJSON {
	return triedReadingJSON{r.TS, entity.AppendSamples(nil, r.Values)}
}

func newScriptStepJSON(s *script.Step) scriptStepJSON {
	step := scriptStepJSON{Reading: newTriedReadingJSON(&s.Reading), State: s.Kept, Printed: s.Printed, Line: s.Line}
	for i := range s.Readings {
		step.Readings = append(step.Readings, newTriedReadingJSON(&s.Readings[i]))
	}
	for _, p := range s.Patches {
		step.Patches = append(step.Patches, triedPatchJSON{p.Section.String(), p.Body})
	}
	for _, c := range s.Commands {
		command := triedCommandJSON{Name: c.Name}
		if !c.Request.IsZero() {
			command.Request = c.Request.AppendJSON(nil)
		}
		step.Commands = append(step.Commands, command)
	}
	if s.Err != nil {
		step.Error = s.Err.Error()
	}
	return step
}

// scriptProblem returns the problem for a mistake in a script.
func scriptProblem(at *script.Error) *problem {
	p := problemf(http.StatusBadRequest, "%v", at)
	p.In = at.In
	if at.Line > 0 {
		p.Line = &at.Line
	}
	return p
}

// asOwner is a principal as the owner of scripts.
func asOwner(who *access.Principal) script.Owner {
	return script.Owner{Name: who.Name(), Identity: who.Identity()}
}

// ownerOf returns the principal who owns a script, and whether there still is this one: another one of the name
// does not count.
func ownerOf(book *access.Book, owner script.Owner) (*access.Principal, bool) {
	who, ok := book.Find(owner.Name)
	return who, ok && who.Identity() == owner.Identity
}

// scriptIdentity returns the identity of the principal who has had a name since before a time, if versions without
// identities have made it.
func (s *Server) scriptIdentity(owner string, at int64) string {
	if who, ok := s.book.Find(owner); ok {
		return who.IdentityAt(at)
	}
	return ""
}

// scriptMay reports whether the owner of a script may write an entity.
func (s *Server) scriptMay(owner script.Owner, v entity.View) bool {
	who, ok := ownerOf(s.book, owner)
	return ok && who.Valid() && who.Covers(access.Write, v)
}
