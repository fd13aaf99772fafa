package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity/mapping"
)

// mappingAPI reads and writes the mappings, which compute values.
type mappingAPI struct{ mappings *mapping.Service }

func (a *mappingAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/mappings", "listMappings", "List all mappings, without their fields.", a.list, needs(seesAll)),
		op("GET", "/v1/mappings/{name}", "getMapping", "Read a mapping: what it computes, and from what.", a.get, needs(seesAll), fails(404)),
		op("PUT", "/v1/mappings/{name}", "putMapping", "Create or replace a mapping, or only check it.", a.put, needs(writesAll),
			accepts(mapping.MaxStatementBytes, content{mediaText, statementText("")}, content{mediaJSON, mapping.Statement{}}),
			answers(200, 201, 204), fails(409, 422, 428)),
		op("DELETE", "/v1/mappings/{name}", "deleteMapping", "Delete a mapping. The values that it has written are kept.", a.remove, needs(writesAll), fails(404)),
		op("POST", "/v1/mappings/{name}/recompute", "recomputeMapping", "Compute a mapping over the history of its sources.", a.recompute, needs(writesAll), takesLong, fails(404)),
	}
}

type mappingPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"fahrenheit"`
}

// statementText is a mapping in the language of mappings; docs/mappings.md has it.
type statementText string

// mappingJSON is a mapping with what it is doing.
type mappingJSON struct {
	Name string `json:"name" example:"fahrenheit"`
	// The version, for If-Match.
	ETag string `json:"etag" example:"3k"`
	// The number of the version; a value names the version that computed it.
	Version int64 `json:"version" example:"1"`
	Updated int64 `json:"updated_ms" example:"1451649600512"`
	// The entity to which the values are written; empty without a statement.
	Into string `json:"into" example:"room"`
	// The statement as text. In a list it is empty if there is no statement.
	Text string `json:"text" example:"insert into room select sensor.t * 1.8 + 32 as fahrenheit"`
	// Absent if the mapping is refused because its text cannot be read, or takes too much memory.
	Statement *mapping.Statement `json:"statement,omitempty" example:"{\"into\":\"room\",\"select\":[{\"value\":\"sensor.t * 1.8 + 32\",\"as\":\"fahrenheit\"}]}"`
	State     string             `json:"state" enum:"active,waiting,failing,suspended,refused" example:"active"`
	// Why it is suspended or refused.
	Problem string `json:"problem,omitempty"`
	// What it computes; absent in a list.
	Fields []mapping.ExplainedField `json:"fields,omitempty"`
	// How many of its values the target did not accept.
	Refusals uint64 `json:"refusals"`
	// Why it did not accept the last of these.
	Refusal string `json:"refusal,omitempty"`
}

// mappingStatsJSON has the counters of all mappings since the start of the server.
type mappingStatsJSON struct {
	mapping.Stats
	// How far the mappings are behind the changes.
	Lag float64 `json:"lag_ms" example:"1.5"`
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
		Name: ex.Name, ETag: ex.ETag, Version: ex.Version, Updated: ex.Updated,
		Statement: ex.Statement, Problem: ex.Problem, Fields: ex.Fields, Refusals: ex.Refusals, Refusal: ex.Refusal,
	}
	if ex.Statement != nil {
		m.Into, m.Text = ex.Statement.Into, ex.Statement.String()
	}
	for i := range m.Fields {
		m.State = worseState(m.State, m.Fields[i].State)
	}
	if ex.Problem != "" && m.State != mapping.StateSuspended {
		m.State = stateRefused
	}
	return m
}

// worseState returns the state of a mapping whose fields are in two states.
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
	stats := a.mappings.Stats()
	list := mappingListJSON{Mappings: []mappingJSON{}, Stats: mappingStatsJSON{stats, float64(stats.Lag) / float64(time.Millisecond)}}
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

func (a *mappingAPI) get(ctx context.Context, in *mappingPath) (*answer[mappingJSON], error) {
	ex, err := a.mappings.Explain(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	m := newMappingJSON(&ex)
	if m.Statement == nil {
		if m.Text, err = a.mappings.Text(ctx, in.Name); err != nil {
			return nil, err
		}
	}
	return ok(m).withETag(ex.ETag), nil // the status changes without a new version
}

type putMappingRequest struct {
	mappingPath
	precondition
	// If present, the mapping is only checked; the value is ignored.
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
		callerOf(ctx).leftUnchanged()
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

// recomputeBody is the range of time to compute.
type recomputeBody struct{ timeRange }

// recomputedJSON says how many values were written.
type recomputedJSON struct {
	Written int `json:"written" example:"24"`
}

// recompute computes the values of a mapping for the past. It takes as long as that requires.
func (a *mappingAPI) recompute(ctx context.Context, in *recomputeRequest) (*answer[recomputedJSON], error) {
	from, to, err := in.Body.bounds()
	if err != nil {
		return nil, err
	}
	written, err := a.mappings.Recompute(ctx, in.Name, from, to)
	if err == nil {
		err = a.mappings.Sync(ctx) // a response means that it is durable
	}
	if err != nil {
		return nil, err
	}
	return ok(recomputedJSON{written}), nil
}
