package mapping

import (
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// resolve turns a name in an expression into a source, and returns its index in the sources of the
// field.
func (p *parser) resolve(r *filter.Reader, ref filter.Reference) (slot int, text string) {
	src := p.source(ref)
	if src.Func = Func(ref.Func); src.Func != "" && p.Word("over") {
		p.window(&src)
	}
	switch g := find(p.groups, src.name); {
	case src.name == "":
		src.Entity = p.into
	case g == nil:
		src.Entity = src.name
	case g.plain():
		src.Entity = g.Entity
	default:
		src.Group = g.Alias
	}
	p.checkSource(&src, ref)
	for i := range p.field.Sources {
		if p.field.Sources[i].equal(&src) {
			return i, src.String()
		}
	}
	if len(p.field.Sources) == MaxSources {
		p.Refuse(ref, "more than %d sources in one field", MaxSources)
	}
	p.field.Sources = append(p.field.Sources, src)
	return len(p.field.Sources) - 1, src.String()
}

// source reads the names of a source: a key of the entity that the mapping writes
// to, or an entity with a key and the members of a JSON value; and in place of the
// key a section with the names of an attribute.
func (p *parser) source(ref filter.Reference) (src Source) {
	names := ref.Names
	if isSection(names[0]) && !ref.At {
		p.attribute(&src, names, ref)
		return src
	}
	n := names[0]
	if !n.Quoted && !filter.IsName(n.Text) {
		p.Refuse(ref, "%s is a word of the language and of no meaning in a mapping; a key or an entity of this name must be in backquotes", n.Text)
	}
	if len(names) == 1 {
		if find(p.groups, n.Text) != nil {
			p.Refuse(ref, "%s stands for entities; a source has a key, as in %s.power", n.Text, n.Text)
		}
		p.setKey(&src, n.Text, ref)
		return src
	}
	src.name, names = n.Text, names[1:]
	if isSection(names[0]) || ref.At {
		p.attribute(&src, names, ref)
		return src
	}
	p.setKey(&src, names[0].Text, ref)
	for _, n := range names[1:] {
		if len(n.Text) > entity.MaxKeyBytes {
			p.Refuse(ref, "a member must have at most %d bytes, not %d", entity.MaxKeyBytes, len(n.Text))
		}
		src.Path = append(src.Path, n.Text)
	}
	if len(src.Path) > MaxPath {
		p.Refuse(ref, "a path of more than %d members", MaxPath)
	}
	src.pointer = entity.Pointer(src.Path...)
	return src
}

func isSection(n filter.Name) bool {
	_, err := entity.ParseSection(strings.ToLower(n.Text))
	return err == nil && !n.Quoted
}

func (p *parser) setKey(src *Source, key string, ref filter.Reference) {
	if err := entity.CheckKey(key); err != nil {
		p.Refuse(ref, "%v", err)
	}
	src.Key = key
}

// attribute reads the section and path of an attribute.
func (p *parser) attribute(src *Source, names []filter.Name, ref filter.Reference) {
	section, err := entity.ParseSection(strings.ToLower(names[0].Text))
	switch {
	case err != nil:
		p.Refuse(ref, "%v", err)
	case len(names) == 1:
		p.Refuse(ref, "%s is a whole document; name an attribute, as in %s.floor", names[0].Text, names[0].Text)
	}
	src.Section = section
	for _, n := range names[1:] {
		src.Path = append(src.Path, n.Text)
	}
	if src.Key = entity.Pointer(src.Path...); len(src.Path) > MaxPath || len(src.Key) > entity.MaxPathBytes {
		p.Refuse(ref, "a path of more than %d names or %d bytes", MaxPath, entity.MaxPathBytes)
	}
}

// checkSource refuses a meaningless source.
func (p *parser) checkSource(src *Source, ref filter.Reference) {
	switch {
	case src.Section != 0 && src.windowed():
		p.Refuse(ref, "an attribute has no history for a window")
	case src.Group == "":
		if err := entity.CheckID(src.Entity); err != nil {
			p.Refuse(ref, "%v", err)
		}
		if src.Func != "" && !src.windowed() && !p.cut {
			p.Refuse(ref, "%s of one value is that value: over last 10 or over 5m is missing, or a group in from", src.Func)
		}
	case src.Func == "":
		p.Refuse(ref, "%s is a group and has many values: sum(%s.%s), avg, min, max, count or last make one of them", src.Group, src.Group, filter.QuoteName(src.Key))
	case src.LastN > 0:
		p.Refuse(ref, "over last %d is for one entity; for a group a window has a time, such as over 5m", src.LastN)
	case src.Func == First && !src.windowed():
		p.Refuse(ref, "first(…) needs a window, such as over 5m")
	}
}

// window reads what follows over.
func (p *parser) window(src *Source) {
	last, at := p.Word("last"), p.Place()
	if last {
		n := p.Literal(value.KindInt, "a number of readings").Int()
		if n < 1 || n > MaxWindowReadings {
			p.Fail(at, "a number of readings must be from 1 to %d, not %d", MaxWindowReadings, n)
		}
		src.LastN = int(n)
		return
	}
	ms := p.Literal(value.KindDuration, "a window: last 10, or a time such as 30s, 5m, 1h30m or 7d").Int()
	if ms <= 0 || ms > MaxWindow.Milliseconds() {
		p.Fail(at, "a window must be from 1ms to %s", value.AppendDuration(nil, MaxWindow.Milliseconds()))
	}
	src.Over = time.Duration(ms) * time.Millisecond
}
