package script

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/lua"
)

// Script is a script as its author writes it. The zero Script is invalid, because it has no source.
type Script struct {
	// Source is the Lua source. It must define on_reading, every_minute or both.
	Source string `json:"source"`
	// Type selects the entities of this type and of those that extend it; "" selects all.
	Type string `json:"type,omitempty"`
	// Where is a filter that selects entities; "" selects all.
	Where string `json:"where,omitempty"`
	// Keys selects the readings with a value for any of these keys; empty selects all.
	Keys []string `json:"keys,omitempty"`
	// Note is a comment about the version.
	Note string `json:"note,omitempty"`
}

// Functions that a script may define.
const (
	onReading   = "on_reading"
	everyMinute = "every_minute"
)

// same reports whether two scripts are equal.
func (s *Script) same(o *Script) bool {
	return s.Source == o.Source && s.Type == o.Type && s.Where == o.Where && s.Note == o.Note && slices.Equal(s.Keys, o.Keys)
}

// compile returns the behavior of a script, or an [*Error] that says what is wrong.
func (s *Script) compile(name string, with program) (behavior.Spec, error) {
	spec := behavior.Spec{Name: name, Type: s.Type, Keys: s.Keys}
	if err := behavior.CheckName(name); err != nil {
		return spec, err
	}
	switch {
	case s.Source == "" || len(s.Source) > MaxSourceBytes:
		return spec, &Error{In: "source", Text: fmt.Sprintf("must have 1 to %d bytes, not %d", MaxSourceBytes, len(s.Source))}
	case !utf8.ValidString(s.Source):
		return spec, &Error{In: "source", Text: "must be UTF-8"}
	case len(s.Where) > MaxWhereBytes:
		return spec, &Error{In: "where", Text: fmt.Sprintf("must have at most %d bytes, not %d", MaxWhereBytes, len(s.Where))}
	case len(s.Note) > MaxNoteBytes:
		return spec, &Error{In: "note", Text: fmt.Sprintf("must have at most %d bytes, not %d", MaxNoteBytes, len(s.Note))}
	case len(s.Keys) > behavior.MaxKeys:
		return spec, &Error{In: "keys", Text: fmt.Sprintf("must be at most %d, not %d", behavior.MaxKeys, len(s.Keys))}
	case len(s.Type) > entity.MaxTypeBytes:
		return spec, &Error{In: "type", Text: fmt.Sprintf("must have at most %d bytes, not %d", entity.MaxTypeBytes, len(s.Type))}
	}
	for _, key := range s.Keys {
		if err := entity.CheckKey(key); err != nil {
			return spec, &Error{In: "keys", Text: err.Error()}
		}
	}
	if s.Where != "" {
		f, err := filter.Parse(s.Where)
		if err != nil {
			return spec, &Error{In: "where", Text: err.Error()}
		}
		if f.Depends() != (filter.Depends{}) {
			return spec, &Error{In: "where", Text: "must depend on the entity alone, not on the time or on relations"}
		}
		spec.Where = f
	}
	r := &rule{file: name + ".lua", source: s.Source, program: with}
	first, err := r.open(0)
	if err != nil {
		return spec, s.sourceError(err)
	}
	r.reads, r.ticks = first.sandbox.Has(onReading), first.sandbox.Has(everyMinute)
	if !r.reads && !r.ticks {
		return spec, &Error{In: "source", Text: "must define a function on_reading(e, r) or every_minute(e)"}
	}
	if r.ticks {
		spec.Every = time.Minute
	}
	spec.Handle = r.handle
	return spec, nil
}

// sourceError returns the error for a mistake in the source.
func (s *Script) sourceError(err error) error {
	if failed, ok := errors.AsType[*lua.Error](err); ok {
		return &Error{In: "source", Line: LineOf(failed.Text, s.Source), Text: failed.Text}
	}
	return &Error{In: "source", Text: err.Error()}
}
