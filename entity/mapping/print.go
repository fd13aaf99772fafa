package mapping

import (
	"strconv"
	"strings"
)

// String returns the statement in its canonical form, which [Parse] reads back
// as the same statement: lower-case words, one space, quotes only where they
// are needed.
func (s *Statement) String() string {
	var b strings.Builder
	b.WriteString("insert into " + quoteName(s.Into) + " select ")
	for i := range s.Select {
		if i > 0 {
			b.WriteString(", ")
		}
		s.Select[i].write(&b)
		b.WriteString(" as " + quoteName(s.Select[i].As))
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
		return "like " + quoteText(g.Like)
	case g.Relation != nil && g.Relation.Incoming:
		return quoteName(g.Relation.Entity) + " <- " + quoteName(g.Relation.Type)
	case g.Relation != nil:
		return quoteName(g.Relation.Entity) + " -> " + quoteName(g.Relation.Type)
	case g.Entity != "":
		return quoteName(g.Entity)
	}
	names := make([]string, len(g.List))
	for i, id := range g.List {
		names[i] = quoteName(id)
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// write writes the expression of a field.
func (f *Field) write(b *strings.Builder) {
	for i, it := range f.items {
		if i > 0 && spaced(f.items[i-1], it) {
			b.WriteByte(' ')
		}
		b.WriteString(f.text(it))
	}
}

// text is how a piece of the expression is written.
func (f *Field) text(it item) string {
	switch it.kind {
	case itemSource:
		return f.Sources[it.source].String()
	case itemText:
		return quoteText(it.text)
	default:
		return it.text
	}
}

// spaced reports whether a space belongs between two pieces.
func spaced(a, b item) bool {
	switch {
	case a.kind == itemCall || a.kind == itemMinus && b.kind != itemMinus || a.kind == itemSign && a.text == "(":
		return false
	case b.kind == itemSign && (b.text == ")" || b.text == ","):
		return false
	}
	return true
}

// String returns the source as it is written in a statement.
func (s Source) String() string {
	text := quoteName(s.name)
	if s.Section != 0 {
		text += "@" + s.Section.String()
	} else {
		text += "." + quoteName(s.Key)
	}
	for _, member := range s.Path {
		text += "." + quoteName(member)
	}
	if s.Func != "" {
		text = string(s.Func) + "(" + text + ")"
	}
	switch {
	case s.LastN > 0:
		text += " over last " + strconv.Itoa(s.LastN)
	case s.Over > 0:
		text += " over " + printDuration(s.Over)
	}
	return text
}

// quoteName writes a name, in quotes if it needs them.
func quoteName(name string) string {
	if name != "" && nameLen(name) == len(name) && !isReserved(name) {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

func quoteText(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
