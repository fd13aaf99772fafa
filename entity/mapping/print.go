package mapping

import (
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// String returns the statement in its canonical form, which [Parse] reads back
// as the same statement: lower-case words, one space, quotes only where they
// are needed.
func (s *Statement) String() string {
	var b strings.Builder
	b.WriteString("insert into " + filter.QuoteName(s.Into) + " select ")
	for i := range s.Select {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(s.Select[i].Expression() + " as " + filter.QuoteName(s.Select[i].As))
	}
	for i := range s.From {
		if i == 0 {
			b.WriteString(" from ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(s.From[i].selector() + " as " + s.From[i].Alias)
	}
	return b.String()
}

// selector is what the alias stands for, as it is written.
func (g *Group) selector() string {
	switch {
	case g.Like != "":
		return "like " + string(value.AppendQuoted(nil, g.Like))
	case g.Relation != nil && g.Relation.Incoming:
		return filter.QuoteName(g.Relation.Entity) + " <- " + filter.QuoteType(g.Relation.Type)
	case g.Relation != nil:
		return filter.QuoteName(g.Relation.Entity) + " -> " + filter.QuoteType(g.Relation.Type)
	case g.Entity != "":
		return filter.QuoteName(g.Entity)
	}
	names := make([]string, len(g.List))
	for i, id := range g.List {
		names[i] = filter.QuoteName(id)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// String returns the source as it is written in a statement.
func (s Source) String() string {
	var names []string
	if s.name != "" {
		names = append(names, filter.QuoteName(s.name))
	}
	if s.Section != 0 {
		names = append(names, s.Section.String())
	} else {
		names = append(names, quoteKey(s.Key, s.name != ""))
	}
	for _, member := range s.Path {
		names = append(names, filter.QuoteName(member))
	}
	text := strings.Join(names, ".")
	if s.Func != "" {
		text = string(s.Func) + "(" + text + ")"
	}
	switch {
	case s.LastN > 0:
		text += " over last " + strconv.Itoa(s.LastN)
	case s.Over > 0:
		text += " over " + string(value.AppendDuration(nil, s.Over.Milliseconds()))
	}
	return text
}

// quoteKey writes a key, which behind an entity must not be taken for a section.
func quoteKey(key string, behind bool) string {
	if _, err := entity.ParseSection(strings.ToLower(key)); err == nil && behind {
		return "`" + key + "`"
	}
	return filter.QuoteName(key)
}
