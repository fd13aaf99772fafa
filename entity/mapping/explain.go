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

// Explanation tells what a mapping is doing, field by field.
type Explanation struct {
	Installed
	Fields []ExplainedField
	// Refusals counts readings that the target did not take, and Refusal is the
	// last reason.
	Refusals uint64
	Refusal  string
}

// ExplainedField is one field of a mapping.
type ExplainedField struct {
	As, Expression string
	State          string // one of the State constants
	// Value is the newest one that was computed, and TS its time; the zero Value
	// when there is none since the mapping was loaded.
	Value value.Value
	TS    int64
	// Rank is the place in the order of evaluation, from 1.
	Rank                  int
	Sources               []ExplainedSource
	Evaluations, Failures uint64
	Failure               string // the last one
	FailureTS             int64
}

// ExplainedSource is one source of a field as it is now.
type ExplainedSource struct {
	Source string // as it is written
	// Value is what it contributes; the zero Value when there is none. TS is the
	// time of its newest reading, 0 when there is none.
	Value value.Value
	TS    int64
	// Readings is how many readings a source over many has, and Members how many
	// entities its group has, of which Some are the first by id.
	Readings, Members int
	Some              []string
	// Mappings are the names of those that compute it.
	Mappings []string
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
		for i := range f.spec.Sources {
			x.Sources = append(x.Sources, e.explainSource(f, i))
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
