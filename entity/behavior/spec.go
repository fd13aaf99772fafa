package behavior

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Spec describes a behavior: to which entities it applies, which of their changes it handles, and
// how. Name and Handle must be set. A Spec must not be changed while it is registered.
type Spec struct {
	// Name is the name of the behavior: 1 to MaxNameBytes ASCII letters, digits and . _ - signs.
	// States and progress are kept under it.
	Name string
	// Version is the version of the handler; 0 means 1. It is part of the origins of what the
	// behavior writes. A new version continues with the states, and from the place, of the previous
	// one.
	Version int64

	// Type keeps only the entities of this type or of a type that extends it; "" keeps all.
	Type string
	// Where keeps only the entities that it matches; nil matches all. It must depend only on the
	// entity itself, not on the time or on relations.
	Where *filter.Filter
	// Allow is asked before each call whether the entity may be handled; nil allows all. It is
	// asked again before carrying out an effect that was decided more than a second ago, or before
	// the service was opened; if it then returns false, the effect is counted as refused. It is
	// called concurrently, and must be quick.
	Allow func(entity.View) bool

	// Keys keeps only the readings that have a value of one of these keys. Empty keeps all.
	Keys []string
	// Edits asks for changes of the entity's type, attributes and relations as well, Presence
	// for those of its presence, and Commands for the steps of its commands.
	Edits, Presence, Commands bool
	// Every is the interval at which the handler is called for each entity that has a state, in
	// addition to its changes: at whole multiples of Every since the epoch. 0 means never;
	// otherwise it must be at least MinEvery. Calls missed while the service does not run are not
	// made up for.
	Every time.Duration

	// Handle handles a change.
	Handle Handler
}

// Handler handles an event of an entity. It must be quick, and must not wait for anything that
// waits for it. It makes its effects through e. It is called concurrently for different entities.
// Neither e nor what ev points to may be used after it has returned. If it returns an error or
// panics, it has no effects.
type Handler func(e *Entity, ev Event) error

// Event is something that has happened to an entity.
type Event struct {
	// Change is the committed change, nil for a regular call (Spec.Every). It must not be changed.
	Change *entity.Change
	// TS is the time of the event, in milliseconds since the epoch: that of the reading, or
	// otherwise that of the change or the call.
	TS int64
	// Late says that the entity already had newer values of all keys of the reading.
	Late bool
}

// Reading reports whether the event is a reading.
func (ev *Event) Reading() bool {
	c := ev.Change
	return c != nil && c.Edit == nil && c.Command == nil && c.Presence == nil
}

// Value returns the value of a key of the reading, the last one if the key occurs twice.
func (ev *Event) Value(key string) (v value.Value, ok bool) {
	if ev.Change == nil {
		return v, false
	}
	for _, s := range slices.Backward(ev.Change.Values) {
		if s.Key == key {
			return s.Value, true
		}
	}
	return v, false
}

// Check reports what is wrong with the spec: the error wraps [entity.ErrInvalid].
func (s *Spec) Check() error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch {
	case s.Version < 0:
		return fmt.Errorf("version: %w: must be 0 or more, not %d", entity.ErrInvalid, s.Version)
	case len(s.Type) > entity.MaxTypeBytes:
		return fmt.Errorf("type: %w: must have at most %d bytes, not %d", entity.ErrInvalid, entity.MaxTypeBytes, len(s.Type))
	case s.Handle == nil:
		return fmt.Errorf("handle: %w: must be set", entity.ErrInvalid)
	case len(s.Keys) > MaxKeys:
		return fmt.Errorf("keys: %w: must be at most %d, not %d", entity.ErrInvalid, MaxKeys, len(s.Keys))
	case s.Every != 0 && s.Every < MinEvery:
		return fmt.Errorf("every: %w: must be 0 or at least %v, not %v", entity.ErrInvalid, MinEvery, s.Every)
	case s.Where != nil && s.Where.Depends() != filter.Depends{}:
		return fmt.Errorf("where: %w: must depend on the entity alone, not on the time or on relations", entity.ErrInvalid)
	}
	for _, k := range s.Keys {
		if err := entity.CheckKey(k); err != nil {
			return err
		}
	}
	return nil
}

// CheckName reports what is wrong with the name of a behavior: the error wraps
// [entity.ErrInvalid].
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes || !utf8.ValidString(name) {
		return fmt.Errorf("name: %w: must have 1 to %d bytes, not %d", entity.ErrInvalid, MaxNameBytes, len(name))
	}
	if i := strings.IndexFunc(name, notInName); i >= 0 {
		return fmt.Errorf("name: %w: must have letters and digits of ASCII and . _ - only, not %q", entity.ErrInvalid, name[i:])
	}
	return nil
}

func notInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
}

// reads reports whether a reading has one of the keys.
func (s *Spec) reads(values []entity.Sample) bool {
	return len(s.Keys) == 0 || slices.ContainsFunc(values, func(v entity.Sample) bool { return slices.Contains(s.Keys, v.Key) })
}

// wants reports whether a change of this kind is handled, whatever its entity.
func (s *Spec) wants(c *entity.Change) bool {
	switch {
	case c.Edit != nil:
		return s.Edits && !c.Edit.Deleted
	case c.Command != nil:
		return s.Commands
	case c.Presence != nil:
		return s.Presence
	default:
		return s.reads(c.Values)
	}
}

// settled reports whether readings and presences do not change to which entities the behavior
// applies.
func (s *Spec) settled() bool {
	if s.Where == nil {
		return true
	}
	for _, p := range s.Where.Paths() {
		if p.Root == filter.RootLatest || p.Root == filter.RootUpdated || p.Root == filter.RootPresence {
			return false
		}
	}
	return true
}
