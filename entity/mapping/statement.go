package mapping

import (
	"fmt"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Statement says what is computed from what: the meaning of
//
//	insert into room select sensor.t * 9 / 5 + 32 as fahrenheit
//
// Make it with [Parse] or [ParseJSON]. It is not changed afterwards, and may be read by any number
// of goroutines. The zero Statement is not valid.
type Statement struct {
	// Into is the id of the entity that gets the values.
	Into string
	// Select are the values that it gets, at least one field.
	Select []Field
	// From has the groups and the shorter names that Select uses.
	From []Group
}

// Field is one value that a mapping computes.
type Field struct {
	// As is the key that the value is written to.
	As string
	// Sources are the sources of the value, each once, in the order of their first occurrence.
	Sources []Source

	expression *filter.Expression
}

// Func is a function that combines many values into one.
type Func string

// The functions over many values. All but Count, Last and First are over numbers and skip other
// values.
const (
	Avg   Func = "avg"   // the mean
	Min   Func = "min"   // the least
	Max   Func = "max"   // the greatest
	Sum   Func = "sum"   // the sum, an integer if all numbers are
	Count Func = "count" // how many values there are, of any kind
	Last  Func = "last"  // the newest value, of any kind
	First Func = "first" // the oldest value of a window, of any kind
)

// Source is one input of a field: the latest value of a key of an entity or, with a Func, its
// result over the latest values of a group or the values in a window.
type Source struct {
	Func Func // "" for one value
	// Group is the alias of the group that it is over, or "" if Entity is set.
	Group  string
	Entity string
	// Section is the section of an attribute, 0 for telemetry. An attribute is a parameter: it has
	// its present value and no history.
	Section entity.Section
	// Key is the key of telemetry, or the JSON pointer of an attribute within its
	// section.
	Key string
	// Path names a member of a JSON value, from the outside in, and is empty for the value itself.
	// For an attribute, Key is made from it.
	Path []string
	// LastN is the length of a window in readings, and Over in time, whole
	// milliseconds. At most one is set.
	LastN int
	Over  time.Duration

	name    string // as the statement calls the entity, "" for the one it writes to
	pointer string // of Path, for telemetry
}

// windowed reports whether the source is a window.
func (s *Source) windowed() bool { return s.LastN > 0 || s.Over > 0 }

// timeless reports whether the source is an attribute of one entity, which has no
// part in when a value is computed.
func (s *Source) timeless() bool { return s.Section != 0 && s.Func == "" }

// extract returns the part of a key's value that the source selects.
func (s *Source) extract(v value.Value) value.Value {
	if s.Section != 0 {
		return v
	}
	if s.pointer == "" {
		return v
	}
	if v.Kind() != value.KindJSON {
		return value.Value{}
	}
	v, _ = value.At(v.Text(), s.pointer)
	return v
}

func (s *Source) equal(o *Source) bool {
	return s.Section == o.Section && s.Func == o.Func && s.Group == o.Group && s.Entity == o.Entity && s.Key == o.Key &&
		s.LastN == o.LastN && s.Over == o.Over && s.name == o.name && slices.Equal(s.Path, o.Path)
}

// Group is a set of entities under an alias. Exactly one of Entity, List, Like
// and Relation is set.
type Group struct {
	Alias string
	// Entity makes the alias a shorter name of one entity, which is not a group.
	Entity string
	// List has the ids of the entities.
	List []string
	// Like is a pattern of ids, as for like in a filter: % stands for any number of characters, _
	// for one, and \ escapes these three.
	Like string
	// Relation selects the entities to which an entity is related.
	Relation *Relation

	like *filter.Pattern // of Like
}

// Relation selects the entities at the other end of the relations that one
// entity has.
type Relation struct {
	Entity string
	Type   string
	// Incoming takes the relations to the entity, not those from it.
	Incoming bool
}

// plain reports whether the group is an alias of one entity.
func (g *Group) plain() bool { return g.Entity != "" }

// Expression returns the expression of the field in its canonical form.
func (f *Field) Expression() string { return f.expression.String() }

// ownKey returns the default key of a field: that of its source if the value is copied, and "" if
// it is computed.
func (f *Field) ownKey() string {
	if f.expression == nil || f.expression.Source() == nil {
		return ""
	}
	src := &f.Sources[f.expression.Source().Slot]
	switch n := len(src.Path); {
	case src.Func != "":
		return ""
	case n > 0:
		return src.Path[n-1]
	}
	return src.Key
}

// fanIn reports whether the field is over the latest values of a group.
func (f *Field) fanIn() bool {
	return slices.ContainsFunc(f.Sources, func(s Source) bool { return s.Group != "" })
}

// find returns the group of this alias.
func find(groups []Group, alias string) *Group {
	for i := range groups {
		if groups[i].Alias == alias {
			return &groups[i]
		}
	}
	return nil
}

// check reports invalid names and sizes, errors that have no place in a text.
func (s *Statement) check() error {
	if err := entity.CheckID(s.Into); err != nil {
		return fmt.Errorf("insert into: %w", err)
	}
	switch n := len(s.Select); {
	case n == 0:
		return fmt.Errorf("select: %w: it has no field", entity.ErrInvalid)
	case n > MaxFields:
		return fmt.Errorf("select: %w: %d fields; at most %d are allowed", entity.ErrInvalid, n, MaxFields)
	}
	if n := len(s.From); n > MaxGroups {
		return fmt.Errorf("from: %w: %d groups; at most %d are allowed", entity.ErrInvalid, n, MaxGroups)
	}
	for i := range s.Select {
		f := &s.Select[i]
		if err := entity.CheckKey(f.As); err != nil {
			return fmt.Errorf("as: %w", err)
		}
		for j := range i {
			if s.Select[j].As == f.As {
				return fmt.Errorf("as %s: %w: two fields have this key", filter.QuoteName(f.As), entity.ErrInvalid)
			}
		}
	}
	return s.checkUse()
}

// checkUse refuses groups that nothing uses, which usually means a misspelled alias.
func (s *Statement) checkUse() error {
	for i := range s.From {
		alias := s.From[i].Alias
		used := slices.ContainsFunc(s.Select, func(f Field) bool {
			return slices.ContainsFunc(f.Sources, func(src Source) bool { return src.Group == alias || src.name == alias })
		})
		if !used {
			return fmt.Errorf("from: %w: nothing is selected from %s", entity.ErrInvalid, alias)
		}
	}
	return nil
}

// CheckName reports whether name can name a mapping: 1 to MaxNameBytes letters,
// digits and . _ - signs. The error wraps [entity.ErrInvalid].
func CheckName(name string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("mapping name %.32q: %w: must have 1 to %d bytes, not %d", name, entity.ErrInvalid, MaxNameBytes, len(name))
	}
	for _, r := range name {
		if !isNameRune(r) {
			return fmt.Errorf("mapping name %q: %w: %q; letters, digits and . _ - are allowed", name, entity.ErrInvalid, r)
		}
	}
	return nil
}
