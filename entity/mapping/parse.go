package mapping

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Parse reads a statement. docs/language.md has the grammar. The error is a
// [*SyntaxError], or wraps [entity.ErrInvalid] where it is about no place.
func Parse(src string) (*Statement, error) {
	p, err := newParser(src)
	var s *Statement
	if err == nil {
		s, err = p.statement()
	}
	return s, located(src, err)
}

// parser reads a statement, or one expression of a mapping in JSON.
type parser struct {
	*filter.Reader

	into   string
	groups []Group
	field  *Field // being read
}

func newParser(src string) (*parser, error) {
	if len(src) > MaxStatementBytes {
		return nil, fmt.Errorf("statement: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxStatementBytes, len(src))
	}
	r, err := filter.NewReader(src)
	return &parser{Reader: r}, err
}

// located gives an error of the language its line, and leaves others as they are.
func located(src string, err error) error {
	at, ok := errors.AsType[*filter.Error](err)
	if !ok {
		return err
	}
	before := src[:min(at.Offset, len(src))]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[line:]) + 1, Offset: at.Offset,
		Detail: at.Text,
	}
}

// keyword reads a word that must be there.
func (p *parser) keyword(word string) error {
	ok, err := p.Word(word)
	if err == nil && !ok {
		err = p.Expected("'" + word + "'")
	}
	return err
}

// entityName reads the id of an entity.
func (p *parser) entityName() (string, error) {
	at := p.Place()
	id, err := p.Name("the id of an entity")
	if err != nil {
		return "", err
	}
	if err := entity.CheckID(id); err != nil {
		return "", p.ErrorAt(at, "%v", err)
	}
	return id, nil
}

// statement reads all of it. The groups stand at the end and are needed first.
func (p *parser) statement() (*Statement, error) {
	err := p.keyword("insert")
	if err == nil {
		err = p.keyword("into")
	}
	if err == nil {
		p.into, err = p.entityName()
	}
	if err == nil {
		err = p.keyword("select")
	}
	if err != nil {
		return nil, err
	}
	start := p.Place()
	found, err := p.skipTo("from")
	if err == nil && found {
		err = p.from()
	}
	if err != nil {
		return nil, err
	}
	if _, err := p.Symbol(";"); err != nil {
		return nil, err
	}
	if !p.End() {
		return nil, p.Expected("the end of the statement")
	}
	p.Return(start)
	s := &Statement{Into: p.into, From: p.groups}
	if s.Select, err = p.fields(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// skipTo goes to behind the keyword, or to the end of the statement.
func (p *parser) skipTo(word string) (found bool, err error) {
	for !p.End() && !p.IsSymbol(";") {
		if found, err = p.Word(word); found || err != nil {
			return found, err
		}
		if err := p.Skip(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// from reads the groups.
func (p *parser) from() error {
	for {
		g, err := p.selector()
		if err == nil {
			err = p.keyword("as")
		}
		if err != nil {
			return err
		}
		at := p.Place()
		if g.Alias, err = p.Name("an alias"); err != nil {
			return err
		}
		switch {
		case !filter.IsName(g.Alias):
			return p.ErrorAt(at, "an alias must be a name of letters, digits and _, and no word of the language")
		case find(p.groups, g.Alias) != nil:
			return p.ErrorAt(at, "%s is an alias already", g.Alias)
		case len(p.groups) == MaxGroups:
			return p.ErrorAt(at, "more than %d groups", MaxGroups)
		}
		p.groups = append(p.groups, g)
		if more, err := p.Symbol(","); err != nil || !more {
			return err
		}
	}
}

// selector reads what an alias stands for.
func (p *parser) selector() (g Group, err error) {
	at := p.Place()
	if like, err := p.Word("like"); err != nil {
		return g, err
	} else if like {
		pattern := p.Place()
		if v, err := p.Literal(value.KindString, "a pattern"); err == nil {
			g.Like = v.Text()
			if err := checkPattern(g.Like); err != nil {
				return g, p.ErrorAt(pattern, "%v", err)
			}
			return g, nil
		}
		p.Return(at) // an entity of this name
	}
	if open, err := p.Symbol("("); err != nil || open {
		if err == nil {
			g.List, err = p.list()
		}
		return g, err
	}
	id, err := p.entityName()
	if err != nil {
		return g, err
	}
	arrow, err := p.Arrow()
	if err != nil || arrow == "" {
		g.Entity = id
		return g, err
	}
	g.Relation = &Relation{Entity: id, Incoming: arrow == "<-"}
	at = p.Place()
	g.Relation.Type, err = p.Name("the type of a relation")
	if err == nil && len(g.Relation.Type) > entity.MaxTypeBytes {
		err = p.ErrorAt(at, "the type of a relation must have at most %d bytes, not %d", entity.MaxTypeBytes, len(g.Relation.Type))
	}
	return g, err
}

// list reads the ids of a list, behind its parenthesis.
func (p *parser) list() (ids []string, err error) {
	seen := make(map[string]bool)
	for {
		at := p.Place()
		id, err := p.entityName()
		switch {
		case err != nil:
			return nil, err
		case seen[id]:
			return nil, p.ErrorAt(at, "%s is in the list already", filter.QuoteName(id))
		case len(ids) == MaxList:
			return nil, p.ErrorAt(at, "more than %d entities in a list", MaxList)
		}
		seen[id] = true
		ids = append(ids, id)
		if end, err := p.Symbol(")"); err != nil || end {
			return ids, err
		}
		if more, err := p.Symbol(","); err != nil {
			return nil, err
		} else if !more {
			return nil, p.Expected("',' or ')'")
		}
	}
}

// checkPattern reports whether a pattern can match an id.
func checkPattern(pattern string) error {
	if pattern == "" || len(pattern) > entity.MaxIDBytes {
		return fmt.Errorf("pattern: %w: must have 1 to %d bytes, not %d", entity.ErrInvalid, entity.MaxIDBytes, len(pattern))
	}
	if literal := strings.NewReplacer("*", "x", "?", "x").Replace(pattern); entity.CheckID(literal) != nil {
		return fmt.Errorf("pattern %q: %w: no id looks like this", pattern, entity.ErrInvalid)
	}
	return nil
}

// fields reads what is selected.
func (p *parser) fields() (fields []Field, err error) {
	for {
		if len(fields) == MaxFields {
			return nil, p.Errorf("more than %d fields", MaxFields)
		}
		f := Field{}
		if err := p.expression(&f); err != nil {
			return nil, err
		}
		if f.As, err = p.key(&f); err != nil {
			return nil, err
		}
		fields = append(fields, f)
		if more, err := p.Symbol(","); err != nil {
			return nil, err
		} else if more {
			continue
		}
		if !p.End() && !p.IsSymbol(";") && !p.IsWord("from") {
			return nil, p.Expected("',', 'from' or the end")
		}
		return fields, nil
	}
}

// expression reads an expression into f, up to what cannot belong to it.
func (p *parser) expression(f *Field) (err error) {
	p.field = f
	at := p.Place()
	if f.expression, err = p.Expression(p.resolve); err != nil {
		return err
	}
	if len(f.Sources) == 0 {
		return p.ErrorAt(at, "the expression has no source; nothing would ever compute it")
	}
	for i := range f.Sources {
		if !f.Sources[i].timeless() {
			return nil
		}
	}
	return p.ErrorAt(at, "the expression has attributes alone, and so no time; it needs telemetry or a group")
}

// key reads the key of a field. A lone source may go without: it keeps its own.
func (p *parser) key(f *Field) (string, error) {
	as, err := p.Word("as")
	if err != nil {
		return "", err
	}
	if !as {
		if src := f.lone(); src != nil && src.Func == "" {
			return src.ownKey(), nil
		}
		return "", p.Expected("an operator, or 'as' and the key of the value")
	}
	at := p.Place()
	if p.IsWord("from") {
		return "", p.Expected("the key of the value")
	}
	key, err := p.Name("the key of the value")
	if err != nil {
		return "", err
	}
	if err := checkKey(key); err != nil {
		return "", p.ErrorAt(at, "%v", err)
	}
	return key, nil
}

func isNameRune(r rune) bool {
	return r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
