package mapping

import (
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// resolve makes a source of a name in an expression, and returns its index in the
// sources of the field.
func (p *parser) resolve(r *filter.Reader, ref filter.Reference) (slot int, text string, err error) {
	src, err := p.source(ref)
	if err != nil {
		return 0, "", err
	}
	if src.Func = Func(ref.Func); src.Func != "" {
		if over, err := r.Word("over"); err != nil {
			return 0, "", err
		} else if over {
			if err := p.window(&src); err != nil {
				return 0, "", err
			}
		}
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
	if err := p.checkSource(&src, ref); err != nil {
		return 0, "", err
	}
	for i := range p.field.Sources {
		if p.field.Sources[i].equal(&src) {
			return i, src.String(), nil
		}
	}
	if len(p.field.Sources) == MaxSources {
		return 0, "", p.Refuse(ref, "more than %d sources in one field", MaxSources)
	}
	p.field.Sources = append(p.field.Sources, src)
	return len(p.field.Sources) - 1, src.String(), nil
}

// source reads the names of a source: a key of the entity that the mapping writes
// to, or an entity with a key and the members of a JSON value; and in place of the
// key a section with the names of an attribute.
func (p *parser) source(ref filter.Reference) (src Source, err error) {
	names := ref.Names
	if isSection(names[0]) && !ref.At {
		return p.attribute(src, names, ref)
	}
	if n := names[0]; !n.Quoted && !filter.IsName(n.Text) {
		return src, p.Refuse(ref, "%s is a word of the language and of no meaning in a mapping; a key or an entity of this name must be in backquotes", n.Text)
	}
	if len(names) == 1 {
		if find(p.groups, names[0].Text) != nil {
			return src, p.Refuse(ref, "%s stands for entities; a source has a key, as in %s.power", names[0].Text, names[0].Text)
		}
		src.Key = names[0].Text
		return src, p.checkKey(src.Key, ref)
	}
	src.name, names = names[0].Text, names[1:]
	if isSection(names[0]) || ref.At {
		return p.attribute(src, names, ref)
	}
	src.Key = names[0].Text
	if err := p.checkKey(src.Key, ref); err != nil {
		return src, err
	}
	for _, n := range names[1:] {
		if len(n.Text) > entity.MaxKeyBytes {
			return src, p.Refuse(ref, "a member must have at most %d bytes, not %d", entity.MaxKeyBytes, len(n.Text))
		}
		src.Path = append(src.Path, n.Text)
	}
	if len(src.Path) > MaxPath {
		return src, p.Refuse(ref, "a path of more than %d members", MaxPath)
	}
	src.pointer = entity.Pointer(src.Path...)
	return src, nil
}

func isSection(n filter.Name) bool {
	_, err := entity.ParseSection(strings.ToLower(n.Text))
	return err == nil && !n.Quoted
}

func (p *parser) checkKey(key string, ref filter.Reference) error {
	if err := checkKey(key); err != nil {
		return p.Refuse(ref, "%v", err)
	}
	return nil
}

// attribute reads the section and path of an attribute.
func (p *parser) attribute(src Source, names []filter.Name, ref filter.Reference) (_ Source, err error) {
	if src.Section, err = entity.ParseSection(strings.ToLower(names[0].Text)); err != nil {
		return src, p.Refuse(ref, "%v", err)
	}
	if len(names) == 1 {
		return src, p.Refuse(ref, "%s is a whole document; name an attribute, as in %s.floor", names[0].Text, names[0].Text)
	}
	for _, n := range names[1:] {
		src.Path = append(src.Path, n.Text)
	}
	if src.Key = entity.Pointer(src.Path...); len(src.Path) > MaxPath || len(src.Key) > entity.MaxPathBytes {
		return src, p.Refuse(ref, "a path of more than %d names or %d bytes", MaxPath, entity.MaxPathBytes)
	}
	return src, nil
}

// checkSource refuses what has no meaning.
func (p *parser) checkSource(src *Source, ref filter.Reference) error {
	if src.Section != 0 && src.windowed() {
		return p.Refuse(ref, "an attribute has no history for a window")
	}
	if src.Group != "" {
		switch {
		case src.Func == "":
			return p.Refuse(ref, "%s is a group and has many values: sum(%s.%s), avg, min, max, count or last make one of them", src.Group, src.Group, filter.QuoteName(src.Key))
		case src.LastN > 0:
			return p.Refuse(ref, "over last %d is for one entity; for a group a window has a time, such as over 5m", src.LastN)
		case src.Func == First && !src.windowed():
			return p.Refuse(ref, "first(…) needs a window, such as over 5m")
		}
		return nil
	}
	if err := entity.CheckID(src.Entity); err != nil {
		return p.Refuse(ref, "%v", err)
	}
	if src.Func != "" && !src.windowed() {
		return p.Refuse(ref, "%s of one value is that value: over last 10 or over 5m is missing, or a group in from", src.Func)
	}
	return nil
}

// window reads what follows over.
func (p *parser) window(src *Source) error {
	last, err := p.Word("last")
	if err != nil {
		return err
	}
	at := p.Place()
	if last {
		n, err := p.Literal(value.KindInt, "a number of readings")
		if err == nil && (n.Int() < 1 || n.Int() > MaxWindowReadings) {
			err = p.ErrorAt(at, "a number of readings must be from 1 to %d, not %v", MaxWindowReadings, n)
		}
		src.LastN = int(n.Int())
		return err
	}
	d, err := p.Literal(value.KindDuration, "a window: last 10, or a time such as 30s, 5m, 1h30m or 7d")
	if err == nil && (d.Int() <= 0 || d.Int() > MaxWindow.Milliseconds()) {
		err = p.ErrorAt(at, "a window must be from 1ms to %s", value.AppendDuration(nil, MaxWindow.Milliseconds()))
	}
	src.Over = time.Duration(d.Int()) * time.Millisecond
	return err
}
