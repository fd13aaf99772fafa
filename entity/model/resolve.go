package model

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Resolved is a type with everything that it has from the types it extends and contains. It is
// immutable.
type Resolved struct {
	Type   *Type // as declared
	Strict bool
	// IsA has the ids of the type itself and of all types that it extends.
	IsA map[string]bool
	// The members, including inherited ones. Telemetry has the keys of readings; keys of components
	// are "component.key".
	Properties map[string]*Property
	Telemetry  map[string]*Schema
	Relations  map[string]*Relation
	Commands   map[string]*Command
	// Presence is the type's own or, if it has none, the one it inherits; nil if there is none.
	Presence *Presence
}

// ResolveAll resolves types that may extend and contain each other. The error
// wraps ErrUnknown, ErrCycle or ErrInvalid and names the type.
func ResolveAll(types map[string]*Type) (map[string]*Resolved, error) {
	r := resolver{types: types, done: make(map[string]*Resolved, len(types)), sizes: make(map[string]int, len(types))}
	for _, id := range slices.Sorted(maps.Keys(types)) {
		if _, err := r.resolve(id, nil); err != nil {
			return nil, err
		}
	}
	return r.done, nil
}

type resolver struct {
	types map[string]*Type
	done  map[string]*Resolved
	sizes map[string]int // of those that are done, see measure
	total int
}

// resolve resolves a type; way are those that wait for it.
func (r *resolver) resolve(id string, way []string) (*Resolved, error) {
	if done := r.done[id]; done != nil {
		return done, nil
	}
	if at := slices.Index(way, id); at >= 0 {
		return nil, fmt.Errorf("%w: %s", ErrCycle, strings.Join(append(slices.Clone(way[at:]), id), " → "))
	}
	if len(way) >= MaxDepth {
		return nil, fmt.Errorf("type %q: %w: types that extend each other deeper than %d", way[0], ErrInvalid, MaxDepth)
	}
	t := r.types[id]
	if t == nil {
		if len(way) == 0 {
			return nil, fmt.Errorf("type %q: %w", id, ErrUnknown)
		}
		return nil, fmt.Errorf("type %q, which %q needs: %w", id, way[len(way)-1], ErrUnknown)
	}
	way = append(slices.Clone(way), id)
	if err := r.measure(t, way); err != nil {
		return nil, err
	}
	out := &Resolved{
		Type: t, Strict: t.Strict, IsA: map[string]bool{id: true},
		Properties: maps.Clone(t.Properties), Telemetry: maps.Clone(t.Telemetry), Relations: maps.Clone(t.Relations), Commands: maps.Clone(t.Commands),
		Presence: t.Presence,
	}
	for _, base := range t.Extends {
		b, err := r.resolve(base, way)
		if err != nil {
			return nil, err
		}
		if err := out.extend(b); err != nil {
			return nil, fmt.Errorf("type %q, which extends %q: %w", id, base, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Components)) {
		c, err := r.resolve(t.Components[name], way)
		if err != nil {
			return nil, err
		}
		if err := out.contain(name, c); err != nil {
			return nil, fmt.Errorf("type %q, component %q: %w", id, name, err)
		}
	}
	r.done[id] = out
	return out, nil
}

// measure counts what a type has with those that it extends and contains, which it
// resolves, before any of that is put together.
func (r *resolver) measure(t *Type, way []string) error {
	size := t.size()
	for _, other := range slices.Concat(t.Extends, slices.Sorted(maps.Values(t.Components))) {
		if _, err := r.resolve(other, way); err != nil {
			return err
		}
		size += r.sizes[other]
		if size > MaxResolved {
			return fmt.Errorf("type %q: %w: with what it extends and contains it has more than %d members", t.ID, ErrInvalid, MaxResolved)
		}
	}
	if r.total += size; r.total > MaxResolvedAll {
		return fmt.Errorf("type %q: %w: with it all types have more than %d members, those that they extend and contain included", t.ID, ErrInvalid, MaxResolvedAll)
	}
	r.sizes[t.ID] = size
	return nil
}

// size counts the members of a type and the schemas in them.
func (t *Type) size() int {
	n := 1 + len(t.Components) + len(t.Relations) + len(t.Commands)
	for _, p := range t.Properties {
		n += p.size()
	}
	for _, s := range t.Telemetry {
		n += s.size()
	}
	for _, rel := range t.Relations {
		n += sizeOf(rel.Properties)
	}
	for _, c := range t.Commands {
		n += c.Request.size() + c.Response.size()
	}
	return n
}

func sizeOf(schemas map[string]*Schema) (n int) {
	for _, s := range schemas {
		n += s.size()
	}
	return n
}

// size counts a schema and those in it; that of nil is 0.
func (s *Schema) size() int {
	if s == nil {
		return 0
	}
	return 1 + len(s.Values)/16 + sizeOf(s.Fields) + s.Element.size()
}

func (t *Resolved) extend(base *Resolved) error {
	t.Strict = t.Strict || base.Strict
	maps.Copy(t.IsA, base.IsA)
	return cmp.Or(
		t.extendPresence(base),
		inherit("property", &t.Properties, base.Properties), inherit("telemetry", &t.Telemetry, base.Telemetry),
		inherit("relation", &t.Relations, base.Relations), inherit("command", &t.Commands, base.Commands),
	)
}

// extendPresence inherits the presence of a base. The type's own takes precedence; two bases must
// agree.
func (t *Resolved) extendPresence(base *Resolved) error {
	switch {
	case base.Presence == nil || t.Type.Presence != nil:
	case t.Presence == nil:
		t.Presence = base.Presence
	case *t.Presence != *base.Presence:
		return fmt.Errorf("%w: presence is declared twice, and not alike; declare it for the type itself", ErrInvalid)
	}
	return nil
}

// inherit adds the members of a base. Members that both declare must be equal, so that it does not
// matter which one is meant.
func inherit[M any](what string, own *map[string]*M, base map[string]*M) error {
	for _, name := range slices.Sorted(maps.Keys(base)) {
		if have := (*own)[name]; have != nil && have != base[name] && !reflect.DeepEqual(have, base[name]) {
			return fmt.Errorf("%w: the %s %q is declared twice, and not alike", ErrInvalid, what, name)
		}
		if *own == nil {
			*own = make(map[string]*M)
		}
		(*own)[name] = base[name]
	}
	return nil
}

// contain adds the members of a component.
func (t *Resolved) contain(name string, c *Resolved) error {
	fields := make(map[string]*Schema, len(c.Properties))
	for p, property := range c.Properties {
		fields[p] = &property.Schema
	}
	property := map[string]*Property{name: {Schema: Schema{Type: Object, Fields: fields}}}
	return cmp.Or(
		inherit("property", &t.Properties, property), inherit("telemetry", &t.Telemetry, within(name, c.Telemetry)),
		inherit("command", &t.Commands, within(name, c.Commands)),
	)
}

// within returns the members of a component under their names in the whole.
func within[M any](component string, members map[string]M) map[string]M {
	named := make(map[string]M, len(members))
	for name, m := range members {
		named[component+"."+name] = m
	}
	return named
}

// CheckTelemetry reports whether a key may have a value.
func (t *Resolved) CheckTelemetry(key string, v value.Value) error {
	s := t.Telemetry[key]
	if s == nil {
		if t.Strict {
			return fmt.Errorf("%w: %q has no telemetry of this key", ErrMismatch, t.Type.ID)
		}
		return nil
	}
	return s.Check(v)
}

// CheckAttribute reports whether the value at a path may be v. The path is the names of the members
// that lead to it.
func (t *Resolved) CheckAttribute(path []string, v value.Value) error {
	if len(path) == 0 {
		return fmt.Errorf("%w: a section is no value", ErrMismatch)
	}
	p := t.Properties[path[0]]
	if p == nil {
		if t.Strict {
			return fmt.Errorf("%w: %q has no property %q", ErrMismatch, t.Type.ID, path[0])
		}
		return nil
	}
	s := &p.Schema
	for _, name := range path[1:] {
		inner, ok := s.member(name)
		if !ok {
			return s.mismatch("an object with %q", name)
		}
		s = inner
	}
	return s.Check(v)
}

// CheckRelation reports whether an entity may have an edge of the type name as its n-th one, with
// properties ("" for none, otherwise a JSON object), to an entity of the type to ("" for none),
// about which isA says what it is or extends.
func (t *Resolved) CheckRelation(name string, isA func(string) bool, properties string, n int) error {
	r := t.Relations[name]
	if r == nil {
		if t.Strict {
			return fmt.Errorf("%w: %q has no such relation", ErrMismatch, t.Type.ID)
		}
		return nil
	}
	if len(r.Target) > 0 && !slices.ContainsFunc(r.Target, isA) {
		return fmt.Errorf("%w: the other end must be one of %v", ErrMismatch, r.Target)
	}
	if r.Max > 0 && n > r.Max {
		return fmt.Errorf("%w: at most %d are allowed", ErrMismatch, r.Max)
	}
	if properties == "" || r.Properties == nil {
		return nil
	}
	return (&Schema{Type: Object, Fields: r.Properties}).checkJSON(properties)
}

// CheckCommand reports whether an entity may be sent a command with a request, the zero Value for
// none.
func (t *Resolved) CheckCommand(name string, request value.Value) error {
	c := t.Commands[name]
	switch {
	case c == nil && t.Strict:
		return fmt.Errorf("%w: %q has no such command", ErrMismatch, t.Type.ID)
	case c == nil || c.Request == nil:
		return nil
	}
	return c.Request.Check(request)
}

// CheckResponse reports whether response is a valid answer to a command.
func (t *Resolved) CheckResponse(name string, response value.Value) error {
	if c := t.Commands[name]; c != nil && c.Response != nil {
		return c.Response.Check(response)
	}
	return nil
}
