package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a type. What exceeds a limit is refused with an error that names it.
const (
	MaxNameBytes = 256  // of an id and of a member
	MaxMembers   = 1000 // of one type, of each sort
	MaxDepth     = 32   // of schemas in each other, and of types that extend each other
	MaxEnum      = 1000 // values of an enumeration

	// MaxResolved bounds the schemas, relations and commands of a type, including everything that
	// it extends and contains; MaxResolvedAll bounds those of all types together. A type with two
	// components of another type is more than twice as large.
	MaxResolved    = 10_000
	MaxResolvedAll = 1_000_000
)

// Type declares what a kind of entity has. It is a plain value: once it has been given to
// ResolveAll, it must not change.
type Type struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"` // for people
	Description string `json:"description,omitempty"`
	// Extends are the types whose members this one has as well. If two of them declare the same
	// name, they must declare it alike.
	Extends []string `json:"extends,omitempty"`
	// Strict refuses readings, attributes, relations and commands that are not declared. A type is
	// also strict if one that it extends is.
	Strict bool `json:"strict,omitempty"`

	// Properties are the attributes of an entity, by the first name of their path.
	Properties map[string]*Property `json:"properties,omitempty"`
	// Telemetry are the keys of its readings.
	Telemetry map[string]*Schema `json:"telemetry,omitempty"`
	// Relations are the types of the edges that begin at an entity.
	Relations map[string]*Relation `json:"relations,omitempty"`
	// Commands are the commands that can be sent to it.
	Commands map[string]*Command `json:"commands,omitempty"`
	// Components are types whose members this one has under a name: the property p of the component
	// c is the attribute /c/p, and its telemetry t the key "c.t".
	Components map[string]string `json:"components,omitempty"`
	// Presence says when its device counts as offline. Without it, the types that this one
	// extends decide, and then the server.
	Presence *Presence `json:"presence,omitempty"`
}

// Property is a value of an entity that stays the same until it is changed.
type Property struct {
	Schema
	// Writable says that the value may be requested in the section desired.
	Writable bool `json:"writable,omitempty"`
}

// Relation is a kind of edge from an entity.
type Relation struct {
	Description string `json:"description,omitempty"`
	// Target are the types of entities to which an edge may lead; a type that extends one of them
	// will do. Empty allows all.
	Target []string `json:"target,omitempty"`
	// Max is how many edges of this kind an entity may have; 0 means no limit.
	Max int `json:"max,omitempty"`
	// Properties are the properties of an edge.
	Properties map[string]*Schema `json:"properties,omitempty"`
}

// Command is an operation that an entity offers. Without a Request or a Response, it may be
// anything.
type Command struct {
	Description string  `json:"description,omitempty"`
	Request     *Schema `json:"request,omitempty"`
	Response    *Schema `json:"response,omitempty"`
	// Parallel lets a device carry out the command while it carries out others.
	Parallel bool `json:"parallel,omitempty"`
}

// Parse reads a type from JSON. Unknown members are refused, since they are usually misspelled.
func Parse(data []byte) (*Type, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	t := new(Type)
	if err := d.Decode(t); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, wrongType(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the type", ErrInvalid)
	}
	return t, t.Check()
}

// wrongType says where a value has the wrong type, in terms of JSON rather than Go.
func wrongType(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	right := map[reflect.Kind]string{
		reflect.String: "a string", reflect.Bool: "true or false", reflect.Int: "a whole number", reflect.Float64: "a number",
		reflect.Slice: "an array", reflect.Map: "an object", reflect.Struct: "an object",
	}[wrong.Type.Kind()]
	// Only the last name of the path is certain to be in the text; the others may be Go's.
	return fmt.Errorf("%q before byte %d: must be %s, not %s", wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:], wrong.Offset, cmp.Or(right, "another sort of value"), wrong.Value)
}

// Check reports what is wrong with the type by itself, without the types that it refers to.
func (t *Type) Check() error {
	if err := checkName("id", t.ID); err != nil {
		return err
	}
	where := fmt.Sprintf("type %q", t.ID)
	for _, base := range t.Extends {
		if err := checkName(where+".extends", base); err != nil {
			return err
		}
	}
	if err := t.checkCounts(where); err != nil {
		return err
	}
	err := cmp.Or(
		checkMembers(where+".properties", t.Properties, func(p *Property, at string) error { return p.check(at, 1) }),
		checkSchemas(where+".telemetry", t.Telemetry, 1),
		checkMembers(where+".relations", t.Relations, (*Relation).check),
		checkMembers(where+".commands", t.Commands, (*Command).check),
		t.Presence.check(where+".presence"),
	)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.Components)) {
		at := where + ".components." + name
		if err := cmp.Or(checkName(at, name), checkName(at, t.Components[name])); err != nil {
			return err
		}
		if t.Properties[name] != nil {
			return invalid(at, "a property has this name")
		}
	}
	return nil
}

func (t *Type) checkCounts(where string) error {
	for sort, n := range map[string]int{
		"properties": len(t.Properties), "telemetry": len(t.Telemetry), "relations": len(t.Relations),
		"commands": len(t.Commands), "components": len(t.Components), "extends": len(t.Extends),
	} {
		if n > MaxMembers {
			return invalid(where+"."+sort, "%d; at most %d are allowed", n, MaxMembers)
		}
	}
	return nil
}

// checkMembers checks members and their names, in the order of these.
func checkMembers[M any](where string, members map[string]*M, check func(m *M, at string) error) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := where + "." + name
		if err := checkName(at, name); err != nil {
			return err
		}
		if members[name] == nil {
			return invalid(at, "must be an object, not null")
		}
		if err := check(members[name], at); err != nil {
			return err
		}
	}
	return nil
}

func checkSchemas(where string, members map[string]*Schema, depth int) error {
	return checkMembers(where, members, func(s *Schema, at string) error { return s.check(at, depth) })
}

func (r *Relation) check(at string) error {
	if r.Max < 0 {
		return invalid(at+".max", "must be 0 or more, not %d", r.Max)
	}
	return checkSchemas(at+".properties", r.Properties, 1)
}

func (c *Command) check(at string) error {
	for name, s := range map[string]*Schema{"request": c.Request, "response": c.Response} {
		if s == nil {
			continue
		}
		if err := s.check(at+"."+name, 1); err != nil {
			return err
		}
	}
	return nil
}

func checkName(at, name string) error {
	switch {
	case name == "" || len(name) > MaxNameBytes:
		return invalid(at, "a name must have 1 to %d bytes, not %d", MaxNameBytes, len(name))
	case !utf8.ValidString(name):
		return invalid(at, "a name that is not UTF-8")
	}
	if i := strings.IndexFunc(name, unicode.IsControl); i >= 0 {
		c, _ := utf8.DecodeRuneInString(name[i:])
		return invalid(at, "the name %q must not have the control character %U", name, c)
	}
	return nil
}
