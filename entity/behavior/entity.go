package behavior

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Entity is a handler's access to the entity for which it is called. It is valid during the call,
// on the goroutine of the call.
type Entity struct {
	ctx    context.Context //nolint:containedctx // that of the call
	s      *subject
	ts     int64 // of the event
	runner int

	state    []byte
	readings []entity.Reading
	patches  []entity.Patch
	commands []entity.NewCommand
	effects  int // of all three
	bytes    int
}

// Context returns a context that ends when the behavior is stopped: its service is closed, or
// another version replaces it. A handler that then returns the error of the context is called for
// the change again.
func (e *Entity) Context() context.Context { return e.ctx }

// Runner returns the number of the runner that calls the handler, from 0 to Config.Runners-1. Calls
// with the same number do not overlap, and an entity always has the same runner.
func (e *Entity) Runner() int { return e.runner }

// ID returns the id of the entity.
func (e *Entity) ID() string { return e.s.id }

// View returns the entity as of the change or later, without its relations and its ETag.
func (e *Entity) View() entity.View { return e.s }

// Latest returns the newest value of a key.
func (e *Entity) Latest(key string) (entity.Latest, bool) { return e.s.Latest(key) }

// State returns the behavior's state for the entity, nil for none. It must not be changed.
func (e *Entity) State() []byte { return e.state }

// SetState replaces the state; nil removes it. It returns ErrTooMuch if the state has more than
// MaxStateBytes.
func (e *Entity) SetState(state []byte) error {
	if len(state) > MaxStateBytes {
		return fmt.Errorf("state: %w: must have at most %d bytes, not %d", ErrTooMuch, MaxStateBytes, len(state))
	}
	e.state = state
	return nil
}

// Set writes values to the entity, as a reading with the time of the event. It returns
// [entity.ErrInvalid] for an invalid key or value, and ErrTooMuch. A whole number is written as an
// integer.
func (e *Entity) Set(values ...entity.Sample) error { return e.SetAt(e.ts, values...) }

// SetAt is Set with a given time, in milliseconds since the epoch.
func (e *Entity) SetAt(ts int64, values ...entity.Sample) error {
	if n := len(values); n == 0 || n > entity.MaxReadingKeys {
		return fmt.Errorf("values: %w: must be 1 to %d, not %d", entity.ErrInvalid, entity.MaxReadingKeys, n)
	}
	if ts < entity.MinTS || ts > entity.MaxTS {
		return fmt.Errorf("ts: %w: must be milliseconds since the epoch, from %d to %d, not %d", entity.ErrInvalid, entity.MinTS, entity.MaxTS, ts)
	}
	r := entity.Reading{TS: ts, Values: make([]entity.Sample, 0, len(values))}
	bytes := 0
	for _, s := range values {
		if err := entity.CheckKey(s.Key); err != nil {
			return err
		}
		switch s.Value.Kind() {
		case value.KindInt, value.KindBool:
		case value.KindString:
			if !utf8.ValidString(s.Value.Text()) {
				return fmt.Errorf("key %q: %w: a string that is not UTF-8", s.Key, entity.ErrInvalid)
			}
		case value.KindJSON:
			if s.Value = entity.ParseJSON([]byte(s.Value.Text())); s.Value.IsZero() {
				return fmt.Errorf("key %q: %w: must be JSON with at most %d levels", s.Key, entity.ErrInvalid, entity.MaxDepth)
			}
		case value.KindFloat:
			f := s.Value.Float()
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return fmt.Errorf("key %q: %w: %v is no measurement; leave the key out", s.Key, entity.ErrInvalid, f)
			}
			s.Value, _ = value.FromJSON(string(s.Value.AppendJSON(nil))) // as it is after a crash
		default:
			return fmt.Errorf("key %q: %w: must be a number, a boolean, a string or JSON, not a %v", s.Key, entity.ErrInvalid, s.Value.Kind())
		}
		r.Values = append(slices.DeleteFunc(r.Values, func(o entity.Sample) bool { return o.Key == s.Key }), s) // the last one counts
		bytes += len(s.Key) + len(s.Value.Text()) + 16
	}
	if err := e.spend(bytes); err != nil {
		return err
	}
	e.readings = append(e.readings, r)
	return nil
}

// Patch changes a section of the entity's attributes. It returns [entity.ErrInvalid] if the patch
// is not JSON, and ErrTooMuch. A patch that later cannot be applied is counted as refused.
func (e *Entity) Patch(p entity.Patch) error {
	if !json.Valid(p.Body) {
		return fmt.Errorf("patch of %v: %w: must be JSON", p.Section, entity.ErrInvalid)
	}
	if err := e.spend(len(p.Body)); err != nil {
		return err
	}
	p.Body = bytes.Clone(p.Body)
	e.patches = append(e.patches, p)
	return nil
}

// SetAttribute sets one member of a section of the entity's attributes; the zero Value removes it.
// names is its path, from the outside in. The errors are those of Patch.
func (e *Entity) SetAttribute(section entity.Section, v value.Value, names ...string) error {
	if len(names) == 0 {
		return fmt.Errorf("attribute: %w: must have a name", entity.ErrInvalid)
	}
	var body []byte
	for _, name := range names {
		body = append(value.AppendQuoted(append(body, '{'), name), ':')
	}
	body = append(v.AppendJSON(body), bytes.Repeat([]byte{'}'}, len(names))...)
	return e.Patch(entity.Patch{Section: section, Form: entity.MergePatch, Body: body})
}

// Command sends a command to the entity's device. Its Key and By are set by the service. It returns
// [entity.ErrInvalid] for a command without a name, and ErrTooMuch. A command that turns out not to
// be allowed by the entity's type when it is sent is counted as refused.
func (e *Entity) Command(n entity.NewCommand) error {
	if n.Name == "" || len(n.Name) > entity.MaxKeyBytes {
		return fmt.Errorf("command: %w: must have a name of 1 to %d bytes, not %d", entity.ErrInvalid, entity.MaxKeyBytes, len(n.Name))
	}
	if err := e.spend(len(n.Name) + len(n.Request.Text())); err != nil {
		return err
	}
	e.commands = append(e.commands, n)
	return nil
}

// spend counts an effect.
func (e *Entity) spend(bytes int) error {
	switch {
	case e.effects >= MaxEffects:
		return fmt.Errorf("%w: at most %d readings, patches and commands are allowed", ErrTooMuch, MaxEffects)
	case e.bytes+bytes > MaxEffectBytes:
		return fmt.Errorf("%w: its effects may have at most %d bytes together, not %d", ErrTooMuch, MaxEffectBytes, e.bytes+bytes)
	}
	e.effects++
	e.bytes += bytes
	return nil
}

// begin prepares e for a call.
func (e *Entity) begin(s *subject, ts int64) {
	e.s, e.ts, e.state = s, ts, s.state
	e.readings, e.patches, e.commands, e.effects, e.bytes = nil, nil, nil, 0, 0
}
