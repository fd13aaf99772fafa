package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

// A statement in JSON:
//
//	{"into": "floor-1",
//	 "select": [{"as": "power", "value": "sum(m.power) / r.area"}],
//	 "from": [{"as": "m", "like": "meter-1-%"},
//	          {"as": "r", "entity": "room-1"}]}
//
// A group has a list of ids in place of like, or an entity and the type of its
// relations in out or in. Expressions are text, as in a statement.
type statementJSON struct {
	Into   string      `json:"into"`
	Select []fieldJSON `json:"select"`
	From   []groupJSON `json:"from,omitempty"`
}

type fieldJSON struct {
	As    string `json:"as,omitempty"`
	Value string `json:"value"`
}

type groupJSON struct {
	As     string   `json:"as"`
	Entity string   `json:"entity,omitempty"`
	List   []string `json:"list,omitempty"`
	Like   string   `json:"like,omitempty"`
	Out    string   `json:"out,omitempty"`
	In     string   `json:"in,omitempty"`
}

// ParseJSON reads a statement in JSON. The error wraps [entity.ErrInvalid]; one
// in an expression is a [*SyntaxError] with the member in its In.
func ParseJSON(data []byte) (*Statement, error) {
	if len(data) > MaxStatementBytes {
		return nil, fmt.Errorf("mapping: %w: %d bytes; at most %d are allowed", entity.ErrInvalid, len(data), MaxStatementBytes)
	}
	var in statementJSON
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return nil, fmt.Errorf(`mapping: %w: must be JSON, an object like {"into":"room","select":[{"as":"f","value":"sensor.t * 1.8 + 32"}]}: %w`, entity.ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("mapping: %w: something stands after the object", entity.ErrInvalid)
	}
	s := &Statement{Into: in.Into}
	if n := len(in.From); n > MaxGroups {
		return nil, fmt.Errorf("from: %w: %d groups; at most %d are allowed", entity.ErrInvalid, n, MaxGroups)
	}
	for i := range in.From {
		g, err := in.From[i].group()
		if err == nil && find(s.From, g.Alias) != nil {
			err = fmt.Errorf(".as: %w: %s is an alias already", entity.ErrInvalid, g.Alias)
		}
		if err != nil {
			return nil, fmt.Errorf("from[%d]%w", i, err)
		}
		s.From = append(s.From, g)
	}
	if n := len(in.Select); n > MaxFields {
		return nil, fmt.Errorf("select: %w: %d fields; at most %d are allowed", entity.ErrInvalid, n, MaxFields)
	}
	for i := range in.Select {
		f, err := in.Select[i].field(i, s)
		if err != nil {
			return nil, err
		}
		s.Select = append(s.Select, f)
	}
	return s, s.check()
}

// group reads a group. The error begins with the name of the member.
func (in *groupJSON) group() (Group, error) {
	g := Group{Alias: in.As}
	invalid := func(member, format string, args ...any) (Group, error) {
		return g, fmt.Errorf("%s: %w: %s", member, entity.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if !filter.IsName(in.As) {
		return invalid(".as", "%.40q is no alias, which must be a name of letters, digits and _, and no word of the language", in.As)
	}
	related := in.Out != "" || in.In != ""
	if forms := b2i(in.Entity != "" || related) + b2i(in.List != nil) + b2i(in.Like != ""); forms != 1 || in.Out != "" && in.In != "" {
		return invalid("", "must have one of entity, list, like, entity with out, and entity with in")
	}
	switch {
	case in.Like != "":
		if err := g.setLike(in.Like); err != nil {
			return g, fmt.Errorf(".like: %w", err)
		}
		return g, nil
	case in.List != nil:
		if n := len(in.List); n == 0 || n > MaxList {
			return invalid(".list", "must have 1 to %d entities, not %d", MaxList, n)
		}
		seen := make(map[string]bool)
		for i, id := range in.List {
			if err := entity.CheckID(id); err != nil {
				return g, fmt.Errorf(".list[%d]: %w", i, err)
			}
			if seen[id] {
				return invalid(fmt.Sprintf(".list[%d]", i), "%q is in the list already", id)
			}
			seen[id] = true
		}
		g.List = in.List
		return g, nil
	}
	if err := entity.CheckID(in.Entity); err != nil {
		return g, fmt.Errorf(".entity: %w", err)
	}
	if !related {
		g.Entity = in.Entity
		return g, nil
	}
	g.Relation = &Relation{Entity: in.Entity, Type: in.Out + in.In, Incoming: in.In != ""}
	if len(g.Relation.Type) > entity.MaxTypeBytes {
		return invalid("", "a type of relation of %d bytes; at most %d are allowed", len(g.Relation.Type), entity.MaxTypeBytes)
	}
	return g, nil
}

// field reads a field.
func (in *fieldJSON) field(i int, s *Statement) (f Field, err error) {
	p, err := newParser(in.Value)
	if err != nil {
		return f, err
	}
	p.into, p.groups = s.Into, s.From
	if p.expression(&f); !p.End() {
		p.Expected("the end of the expression")
	}
	err = p.located()
	if at, ok := errors.AsType[*SyntaxError](err); ok {
		at.In = fmt.Sprintf("select[%d].value", i)
	}
	if f.As = in.As; f.As == "" && err == nil {
		if f.As = f.ownKey(); f.As == "" {
			err = fmt.Errorf("select[%d].as: %w: the key of the value is missing", i, entity.ErrInvalid)
		}
	}
	return f, err
}

// MarshalJSON returns the statement as [ParseJSON] reads it.
func (s *Statement) MarshalJSON() ([]byte, error) {
	out := statementJSON{Into: s.Into}
	for i := range s.Select {
		out.Select = append(out.Select, fieldJSON{As: s.Select[i].As, Value: s.Select[i].Expression()})
	}
	for i := range s.From {
		g := &s.From[i]
		j := groupJSON{As: g.Alias, Entity: g.Entity, List: g.List, Like: g.Like}
		if r := g.Relation; r != nil {
			j.Entity = r.Entity
			if r.Incoming {
				j.In = r.Type
			} else {
				j.Out = r.Type
			}
		}
		out.From = append(out.From, j)
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads the statement with [ParseJSON].
func (s *Statement) UnmarshalJSON(data []byte) error {
	parsed, err := ParseJSON(data)
	if err == nil {
		*s = *parsed
	}
	return err
}
