package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/value"
)

// mappingAPI reads and writes the mappings, which compute values.
type mappingAPI struct{ mappings *mapping.Service }

func (a *mappingAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/mappings", "listMappings", "List all mappings, without their fields.", a.list),
		op("GET", "/v1/mappings/{name}", "getMapping", "Read a mapping: what it computes, and from what.", a.get, fails(404)),
		op("PUT", "/v1/mappings/{name}", "putMapping", "Create or replace a mapping, or only check it.", a.put,
			accepts(mapping.MaxStatementBytes, content{mediaText, statementText("")}, content{mediaJSON, statementBody{}}),
			answers(200, 201, 204), fails(409, 422, 428)),
		op("DELETE", "/v1/mappings/{name}", "deleteMapping", "Delete a mapping. The values that it has written stay.", a.remove, fails(404)),
		op("POST", "/v1/mappings/{name}/recompute", "recomputeMapping", "Compute a mapping over the history of its sources.", a.recompute, takesLong, fails(404)),
	}
}

type mappingPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"fahrenheit"`
}

// statementBody is a mapping in JSON.
type statementBody struct {
	// The entity that the values are written to.
	Into string `json:"into" example:"room"`
	// The values that are computed.
	Select []statementField `json:"select"`
	// The groups that the expressions name.
	From []statementGroup `json:"from,omitempty"`
}

// statementField is a value that a mapping computes.
type statementField struct {
	// The key that is written.
	As string `json:"as,omitempty" example:"fahrenheit"`
	// The expression.
	Value string `json:"value" example:"sensor.t * 1.8 + 32"`
}

// statementGroup is one or several entities that a mapping reads from: by list, by like,
// or by entity and one of out and in.
type statementGroup struct {
	// The name of the group in expressions.
	As     string   `json:"as" example:"m"`
	Entity string   `json:"entity,omitempty"`
	List   []string `json:"list,omitempty"`
	// A pattern of ids with * for any characters.
	Like string `json:"like,omitempty" example:"meter-*"`
	// The type of the relations from the entity.
	Out string `json:"out,omitempty"`
	// The type of the relations to the entity.
	In string `json:"in,omitempty"`
}

// statementText is a mapping in the language of mappings; docs/mappings.md has it.
type statementText string

// mappingJSON is a mapping with what it is doing.
type mappingJSON struct {
	Name string `json:"name" example:"fahrenheit"`
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
	// The number of the version: values say which one computed them.
	Version int64 `json:"version" example:"1"`
	Updated int64 `json:"updated_ms" example:"1451649600512"`
	// The entity that the values are written to.
	Into string `json:"into" example:"room"`
	// The statement as text.
	Text      string             `json:"text" example:"insert into room select sensor.t * 1.8 + 32 as fahrenheit"`
	Statement *mapping.Statement `json:"statement"`
	State     string             `json:"state" enum:"active,waiting,failing,suspended,refused" example:"active"`
	// Why it is suspended or refused.
	Problem string `json:"problem,omitempty"`
	// What it computes; absent in a list.
	Fields []mappedFieldJSON `json:"fields,omitempty"`
	// How many of its values the target did not accept.
	Refusals uint64 `json:"refusals"`
	// Why it did not accept the last of these.
	Refusal string `json:"refusal,omitempty"`
}

// mappedFieldJSON is one value that a mapping computes.
type mappedFieldJSON struct {
	// The key that is written.
	As         string `json:"as" example:"fahrenheit"`
	Expression string `json:"expression" example:"sensor.t * 1.8 + 32"`
	State      string `json:"state" enum:"active,waiting,failing,suspended" example:"active"`
	// The last value; absent while there is none.
	Value *value.Value `json:"value,omitempty"`
	TS    int64        `json:"ts,omitempty" example:"1451649600512"`
	// Its place in the order of evaluation: after the mappings that it reads from.
	Rank        int    `json:"rank"`
	Evaluations uint64 `json:"evaluations" example:"10"`
	Failures    uint64 `json:"failures"`
	// Why the last evaluation that failed did.
	Failure   string `json:"failure,omitempty"`
	FailureTS int64  `json:"failure_ts,omitempty" example:"1451649600512"`
	// What it is computed from.
	Sources []mappedSourceJSON `json:"sources"`
}

// mappedSourceJSON is something that a value is computed from.
type mappedSourceJSON struct {
	Source string `json:"source" example:"sensor.t"`
	// The last value; absent while there is none.
	Value value.Value `json:"value,omitzero"`
	TS    int64       `json:"ts,omitempty" example:"1451649600512"`
	// How many readings of a window are counted.
	Readings int `json:"readings" example:"1"`
	// How many entities of a group are counted.
	Members int `json:"members" example:"1"`
	// Some of these entities.
	Some []string `json:"some,omitempty" example:"[\"sensor\"]"`
	// The mappings that compute the source.
	Mappings []string `json:"mappings,omitempty"`
}

// mappingStatsJSON has the counters of all mappings since the start of the server.
type mappingStatsJSON struct {
	Mappings int `json:"mappings" example:"1"`
	// The changes that were looked at.
	Changes     uint64 `json:"changes" example:"10"`
	Evaluations uint64 `json:"evaluations" example:"10"`
	Failures    uint64 `json:"failures"`
	// The readings that were written.
	Outputs uint64 `json:"outputs" example:"10"`
	// The values in them.
	Values uint64 `json:"values" example:"10"`
	// The readings that their targets did not accept.
	Refused uint64 `json:"refused"`
	// The readings that are not committed yet.
	Waiting int `json:"waiting"`
	// How far the mappings are behind the changes.
	Lag float64 `json:"lag_ms" example:"1.5"`
	// How often they fell behind the change buffer and read the log.
	Lagged uint64 `json:"lagged"`
	// How often changes were no longer in the log.
	Missed   uint64 `json:"missed"`
	Restarts uint64 `json:"restarts"`
}

// mappingListJSON is all mappings, by name.
type mappingListJSON struct {
	Mappings []mappingJSON    `json:"mappings"`
	Stats    mappingStatsJSON `json:"stats"`
}

// stateRefused is the state of a mapping that is not in force.
const stateRefused = "refused"

func newMappingJSON(ex *mapping.Explanation) mappingJSON {
	m := mappingJSON{
		Name: ex.Name, ETag: ex.ETag, Version: ex.Version, Updated: ex.Updated, Into: ex.Statement.Into, Text: ex.Statement.String(),
		Statement: ex.Statement, Problem: ex.Problem, Refusals: ex.Refusals, Refusal: ex.Refusal,
	}
	for i := range ex.Fields {
		f := &ex.Fields[i]
		m.State = worseState(m.State, f.State)
		field := mappedFieldJSON{
			As: f.As, Expression: f.Expression, State: f.State, Value: someValue(f.Value), TS: f.TS, Rank: f.Rank,
			Evaluations: f.Evaluations, Failures: f.Failures, Failure: f.Failure, FailureTS: f.FailureTS,
			Sources: make([]mappedSourceJSON, len(f.Sources)),
		}
		for j := range f.Sources {
			field.Sources[j] = mappedSourceJSON(f.Sources[j])
		}
		m.Fields = append(m.Fields, field)
	}
	if ex.Problem != "" && m.State != mapping.StateSuspended {
		m.State = stateRefused
	}
	return m
}

// someValue is nil for the zero Value.
func someValue(v value.Value) *value.Value {
	if v.Kind() == 0 {
		return nil
	}
	return &v
}

// worseState is the state of a mapping with fields of two states.
func worseState(a, b string) string {
	for _, state := range []string{mapping.StateSuspended, mapping.StateFailing, mapping.StateWaiting} {
		if a == state || b == state {
			return state
		}
	}
	return cmp.Or(a, b)
}

func (a *mappingAPI) list(ctx context.Context, _ *struct{}) (*answer[mappingListJSON], error) {
	installed, err := a.mappings.List(ctx)
	if err != nil {
		return nil, err
	}
	list := mappingListJSON{Mappings: []mappingJSON{}, Stats: newMappingStatsJSON(a.mappings.Stats())}
	for i := range installed {
		ex, err := a.mappings.Explain(ctx, installed[i].Name)
		if errors.Is(err, mapping.ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		m := newMappingJSON(&ex)
		m.Fields = nil
		list.Mappings = append(list.Mappings, m)
	}
	return ok(list), nil
}

func newMappingStatsJSON(s mapping.Stats) mappingStatsJSON {
	return mappingStatsJSON{
		Mappings: s.Mappings, Changes: s.Changes, Evaluations: s.Evaluations, Failures: s.Failures, Outputs: s.Outputs, Values: s.Values,
		Refused: s.Refused, Waiting: s.Waiting, Lag: float64(s.Lag) / float64(time.Millisecond), Lagged: s.Lagged, Missed: s.Missed, Restarts: s.Restarts,
	}
}

func (a *mappingAPI) get(ctx context.Context, in *mappingPath) (*answer[mappingJSON], error) {
	ex, err := a.mappings.Explain(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return ok(newMappingJSON(&ex)).withETag(ex.ETag), nil // the values go on without a new version
}

type putMappingRequest struct {
	mappingPath
	precondition
	// If given, the mapping is checked and not put; its value is ignored.
	Check *string `query:"check"`
	Body  payload
}

// put puts a mapping in force, given as a statement or as JSON.
func (a *mappingAPI) put(ctx context.Context, in *putMappingRequest) (*answer[mappingJSON], error) {
	var statement *mapping.Statement
	var err error
	if in.Body.media == mediaJSON {
		statement, err = mapping.ParseJSON(in.Body.text)
	} else {
		statement, err = mapping.Parse(string(in.Body.text))
	}
	if err != nil {
		return nil, err
	}
	if in.Check != nil {
		if err := a.mappings.Check(ctx, in.Name, statement); err != nil {
			return nil, err
		}
		return &answer[mappingJSON]{status: http.StatusNoContent}, nil
	}
	installed, err := a.mappings.Put(ctx, in.Name, statement, in.replacing())
	if err != nil {
		return replaced(&in.precondition, mappingJSON{}, "", err)
	}
	ex, err := a.mappings.Explain(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	return replaced(&in.precondition, newMappingJSON(&ex), installed.ETag, nil)
}

type deleteMappingRequest struct {
	mappingPath
	precondition
}

func (a *mappingAPI) remove(ctx context.Context, in *deleteMappingRequest) (*answer[nothing], error) {
	return in.removed(a.mappings.Delete(ctx, in.Name, in.condition))
}

type recomputeRequest struct {
	mappingPath
	Body recomputeBody
}

// recomputeBody is the range of time that a mapping is computed over.
type recomputeBody struct{ timeRange }

// recomputedJSON says how many values were written.
type recomputedJSON struct {
	Written int `json:"written" example:"24"`
}

// recompute gives a mapping a past. It takes as long as that is.
func (a *mappingAPI) recompute(ctx context.Context, in *recomputeRequest) (*answer[recomputedJSON], error) {
	from, to, err := in.Body.bounds()
	if err != nil {
		return nil, err
	}
	written, err := a.mappings.Recompute(ctx, in.Name, from, to)
	if err == nil {
		err = a.mappings.Sync(ctx) // an answer means that it is durable
	}
	if err != nil {
		return nil, err
	}
	return ok(recomputedJSON{written}), nil
}
