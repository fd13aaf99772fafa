package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/mapping"
)

func (s *Server) mappingRoutes() []route {
	return []route{
		{"GET", "/v1/mappings", nil, s.listMappings},
		{"GET", "/v1/mappings/{name}", nil, s.getMapping},
		{"PUT", "/v1/mappings/{name}", []string{"check"}, s.putMapping},
		{"DELETE", "/v1/mappings/{name}", nil, s.deleteMapping},
		{"POST", "/v1/mappings/{name}/recompute", nil, s.recomputeMapping},
	}
}

type mappingJSON struct {
	Name      string             `json:"name"`
	ETag      string             `json:"etag"`
	Version   int64              `json:"version"`
	Updated   int64              `json:"updated_ms"`
	Into      string             `json:"into"`
	Text      string             `json:"text"`
	Statement *mapping.Statement `json:"statement"`
	State     string             `json:"state"`
	Problem   string             `json:"problem,omitempty"`
	Fields    []mappedFieldJSON  `json:"fields,omitempty"`
	Refusals  uint64             `json:"refusals"`
	Refusal   string             `json:"refusal,omitempty"`
}

type mappedFieldJSON struct {
	As          string             `json:"as"`
	Expression  string             `json:"expression"`
	State       string             `json:"state"`
	Value       *entity.Value      `json:"value,omitempty"`
	TS          int64              `json:"ts,omitempty"`
	Rank        int                `json:"rank"`
	Evaluations uint64             `json:"evaluations"`
	Failures    uint64             `json:"failures"`
	Failure     string             `json:"failure,omitempty"`
	FailureTS   int64              `json:"failure_ts,omitempty"`
	Sources     []mappedSourceJSON `json:"sources"`
}

type mappedSourceJSON struct {
	Source   string        `json:"source"`
	Value    *entity.Value `json:"value,omitempty"`
	TS       int64         `json:"ts,omitempty"`
	Readings int           `json:"readings"`
	Members  int           `json:"members"`
	Some     []string      `json:"some,omitempty"`
	Mappings []string      `json:"mappings,omitempty"`
}

type mappingStatsJSON struct {
	Mappings    int     `json:"mappings"`
	Changes     uint64  `json:"changes"`
	Evaluations uint64  `json:"evaluations"`
	Failures    uint64  `json:"failures"`
	Outputs     uint64  `json:"outputs"`
	Values      uint64  `json:"values"`
	Refused     uint64  `json:"refused"`
	Waiting     int     `json:"waiting"`
	Lag         float64 `json:"lag_ms"`
	Lagged      uint64  `json:"lagged"`
	Missed      uint64  `json:"missed"`
	Restarts    uint64  `json:"restarts"`
}

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
			src := &f.Sources[j]
			field.Sources[j] = mappedSourceJSON{
				Source: src.Source, Value: someValue(src.Value), TS: src.TS, Readings: src.Readings,
				Members: src.Members, Some: src.Some, Mappings: src.Mappings,
			}
		}
		m.Fields = append(m.Fields, field)
	}
	if ex.Problem != "" {
		m.State = cmp.Or(worseState(m.State, ""), stateRefused)
		if m.State != mapping.StateSuspended {
			m.State = stateRefused
		}
	}
	return m
}

// someValue is nil for the zero Value.
func someValue(v entity.Value) *entity.Value {
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

func (s *Server) listMappings(w http.ResponseWriter, r *http.Request) error {
	installed, err := s.mappings.List(r.Context())
	if err != nil {
		return err
	}
	list := mappingListJSON{Mappings: []mappingJSON{}, Stats: newMappingStatsJSON(s.mappings.Stats())}
	for i := range installed {
		ex, err := s.mappings.Explain(r.Context(), installed[i].Name)
		if errors.Is(err, mapping.ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return err
		}
		m := newMappingJSON(&ex)
		m.Fields = nil
		list.Mappings = append(list.Mappings, m)
	}
	return writeJSON(w, list)
}

func newMappingStatsJSON(s mapping.Stats) mappingStatsJSON {
	return mappingStatsJSON{
		Mappings: s.Mappings, Changes: s.Changes, Evaluations: s.Evaluations, Failures: s.Failures, Outputs: s.Outputs, Values: s.Values,
		Refused: s.Refused, Waiting: s.Waiting, Lag: float64(s.Lag) / float64(time.Millisecond), Lagged: s.Lagged, Missed: s.Missed, Restarts: s.Restarts,
	}
}

func (s *Server) getMapping(w http.ResponseWriter, r *http.Request) error {
	ex, err := s.mappings.Explain(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+ex.ETag+`"`) // for conditions; the values go on without a new version
	return writeJSON(w, newMappingJSON(&ex))
}

// putMapping puts a mapping in force, given as a statement or as JSON.
func (s *Server) putMapping(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	condition, blind, err := replaceCondition(r.Header)
	if err != nil {
		return err
	}
	body, media, err := readBody(w, r, mapping.MaxStatementBytes, mediaText, mediaJSON)
	if err != nil {
		return err
	}
	var statement *mapping.Statement
	if media == mediaJSON {
		statement, err = mapping.ParseJSON(body)
	} else {
		statement, err = mapping.Parse(string(body))
	}
	if err != nil {
		return err
	}
	if r.URL.Query().Has("check") {
		if err := s.mappings.Check(r.Context(), name, statement); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	installed, err := s.mappings.Put(r.Context(), name, statement, condition)
	if err != nil {
		return conditionProblem(err, condition, blind, true)
	}
	ex, err := s.mappings.Explain(r.Context(), name)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+installed.ETag+`"`)
	return writeStatus(w, created(condition == entity.IfNone), newMappingJSON(&ex))
}

func (s *Server) deleteMapping(w http.ResponseWriter, r *http.Request) error {
	condition, err := conditionOf(r.Header)
	if err != nil {
		return err
	}
	if err := s.mappings.Delete(r.Context(), r.PathValue("name"), condition); err != nil {
		return conditionProblem(err, condition, false, true)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type recomputeBody struct {
	From json.RawMessage `json:"from"`
	To   json.RawMessage `json:"to"`
}

type recomputedJSON struct {
	Written int `json:"written"`
}

// recomputeMapping gives a mapping a past. It takes as long as that is.
func (s *Server) recomputeMapping(w http.ResponseWriter, r *http.Request) error {
	var b recomputeBody
	if err := readJSON(w, r, &b); err != nil {
		return err
	}
	from, to, err := rangeMembers(b.From, b.To)
	if err != nil {
		return err
	}
	rc := http.NewResponseController(w)
	if err := rc.SetWriteDeadline(time.Time{}); err != nil {
		return err
	}
	written, err := s.mappings.Recompute(r.Context(), r.PathValue("name"), from, to)
	if err == nil {
		err = s.mappings.Sync(r.Context()) // an answer means that it is durable
	}
	if err != nil {
		return err
	}
	return writeJSON(w, recomputedJSON{written})
}

// mappingProblem is the problem of an error of package mapping, nil for any other.
func mappingProblem(err error) *problem {
	var cycle *mapping.CycleError
	var syntax *mapping.SyntaxError
	switch {
	case errors.As(err, &cycle):
		p := problemf(http.StatusConflict, "%v", err)
		p.extra = map[string]any{"cycle": cycle.Values, "mappings": cycle.Mappings}
		return p
	case errors.As(err, &syntax):
		p := problemf(http.StatusBadRequest, "%v", err)
		p.extra = map[string]any{"line": syntax.Line, "column": syntax.Column, "offset": syntax.Offset}
		if syntax.In != "" {
			p.extra["in"] = syntax.In
		}
		return p
	case errors.Is(err, mapping.ErrNotFound):
		return problemf(http.StatusNotFound, "%v", err)
	case errors.Is(err, mapping.ErrTaken):
		return problemf(http.StatusConflict, "%v", err)
	case errors.Is(err, mapping.ErrLimit):
		return problemf(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, mapping.ErrClosed):
		return problemf(http.StatusServiceUnavailable, "the server is shutting down; try again in a moment")
	default:
		return nil
	}
}
