package mapping

import (
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// States of a field.
const (
	StateActive    = "active"    // it has a value
	StateWaiting   = "waiting"   // a source has none, or the expression gives none
	StateFailing   = "failing"   // the last evaluation failed, and no newer one succeeded
	StateSuspended = "suspended" // relations have closed a cycle that it is on
)

// maxMembers is how many members of a group an explanation lists.
const maxMembers = 20

// Explanation describes the state of a mapping, field by field.
type Explanation struct {
	Installed
	Fields []ExplainedField
	// Refusals counts readings that the target did not take, and Refusal is the
	// last reason.
	Refusals uint64
	Refusal  string
}

// ExplainedField is one value that a mapping computes.
type ExplainedField struct {
	// The key that is written.
	As         string `json:"as" example:"fahrenheit"`
	Expression string `json:"expression" example:"sensor.t * 1.8 + 32"`
	State      string `json:"state" enum:"active,waiting,failing,suspended" example:"active"`
	// The last value; absent while there is none.
	Value value.Value `json:"value,omitzero"`
	TS    int64       `json:"ts,omitempty" example:"1451649600512"`
	// Its place in the order of evaluation: after the mappings from which it reads.
	Rank        int    `json:"rank"`
	Evaluations uint64 `json:"evaluations" example:"10"`
	Failures    uint64 `json:"failures"`
	// Why the last failed evaluation failed.
	Failure   string `json:"failure,omitempty"`
	FailureTS int64  `json:"failure_ts,omitempty" example:"1451649600512"`
	// What it is computed from.
	Sources []ExplainedSource `json:"sources"`
}

// ExplainedSource is a source of a computed value.
type ExplainedSource struct {
	Source string `json:"source" example:"sensor.t"` // as it is written
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

// explain describes an installed mapping.
func (e *Engine) explain(in Installed) Explanation {
	e.order()
	ex := Explanation{Installed: in}
	m := e.mappings[in.Name]
	if m == nil {
		return ex
	}
	ex.Refusals, ex.Refusal = m.refusals, m.refusal
	for _, f := range m.fields {
		x := ExplainedField{
			As: f.spec.As, Expression: f.spec.Expression(), State: f.state(), Value: f.value, TS: f.valueTS, Rank: f.rank,
			Evaluations: f.evaluations, Failures: f.failures, Failure: f.failure, FailureTS: f.failureTS,
		}
		x.Sources = make([]ExplainedSource, len(f.spec.Sources))
		for i := range x.Sources {
			x.Sources[i] = e.explainSource(f, i)
		}
		ex.Fields = append(ex.Fields, x)
	}
	return ex
}

func (f *field) state() string {
	switch {
	case f.suspended:
		return StateSuspended
	case f.failures > 0 && (f.value.Kind() == 0 || f.failureTS > f.valueTS):
		return StateFailing
	case f.value.Kind() == 0:
		return StateWaiting
	}
	return StateActive
}

func (e *Engine) explainSource(f *field, i int) ExplainedSource {
	src := &f.spec.Sources[i]
	x := ExplainedSource{Source: src.String(), Value: f.values[i], TS: f.ts[i]}
	if c := f.many[i]; c != nil {
		x.Value, _ = c.value() // an error shows as the failure of the field
		x.TS, _ = c.newest()
		x.Readings = c.readings()
	}
	for _, p := range e.producersOf(f.m, src, true) {
		if !slices.Contains(x.Mappings, p.m.Name) && len(x.Mappings) < maxMembers {
			x.Mappings = append(x.Mappings, p.m.Name)
		}
	}
	slices.Sort(x.Mappings)
	if g := f.m.groups[src.Group]; g != nil {
		x.Members = len(g.index)
		some := slices.Sorted(maps.Keys(g.index))
		x.Some = slices.Clip(some[:min(len(some), maxMembers)])
	}
	return x
}
