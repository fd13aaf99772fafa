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

// Spec describes a behavior: which entities it is for, what of them it handles, and how.
// Name and Handle must be set. It must not be changed while it is registered.
type Spec struct {
	// Name is that of the behavior, 1 to MaxNameBytes bytes of letters, digits and . _ - of
	// ASCII. States and the place that was reached are kept under it.
	Name string
	// Version is that of the handler, 1 if it is 0. The origins of what it writes name it.
	// Another version goes on with the states and from the place of the one before.
	Version int64

	// Type keeps the entities of this type or of one that extends it, "" all.
	Type string
	// Where keeps the entities that it matches; nil matches all. It must depend on nothing but the
	// entity itself: neither on the time nor on relations.
	Where *filter.Filter
	// Allow is asked before each call whether the entity may be handled; nil allows all. It is asked
	// again before an effect that was decided more than a second ago, or before the service was
	// opened, is carried out: where it says no, the effect is counted as refused. It is called
	// concurrently, and must be quick.
	Allow func(entity.View) bool

	// Keys keeps, of the readings, those that have a value of one of these keys. Empty
	// keeps all.
	Keys []string
	// Edits asks for changes of the entity's type, attributes and relations as well, Presence
	// for those of its presence, and Commands for the steps of its commands.
	Edits, Presence, Commands bool
	// Every is how often each entity is handled that has a state of the behavior, whatever
	// happens to it, at whole multiples of it since the epoch. 0 is never; else it must be at
	// least MinEvery. What is missed while the service does not run is not made up for.
	Every time.Duration

	// Handle handles a change.
	Handle Handler
}

// Handler handles what has happened to an entity. It must be quick, and must not wait for
// anything that waits for it; its effects go through e. It is called concurrently for
// different entities. Neither e nor what ev points to may be used after it has returned.
// With an error, or a panic, it has no effects.
type Handler func(e *Entity, ev Event) error

// Event is what has happened to an entity.
type Event struct {
	// Change is a committed change, nil for one of the regular calls (Spec.Every). Nothing in
	// it may be changed.
	Change *entity.Change
	// TS is when it was, in milliseconds since the epoch: the time of a reading, and of all else
	// that of the change or the call.
	TS int64
	// Late says that the entity had newer values of all keys of the reading before.
	Late bool
}

// Reading reports whether the event is a reading.
func (ev *Event) Reading() bool {
	c := ev.Change
	return c != nil && c.Edit == nil && c.Command == nil && c.Presence == nil
}

// Value returns the value of a key of the reading, the last one where the key comes twice.
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

// wants reports whether a change is one to handle, whoever's it is.
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

// settled reports whether readings and presences do not change which entities the behavior
// is for.
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
