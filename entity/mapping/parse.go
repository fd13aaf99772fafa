package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Parse reads a statement. docs/language.md has the grammar. The error is a [*SyntaxError] or, if
// it has no place in the text, wraps [entity.ErrInvalid].
func Parse(src string) (*Statement, error) { return parse(src, false) }

// parse reads a statement; with stars its patterns are those of older versions.
func parse(src string, stars bool) (*Statement, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	p.stars = stars
	s := p.statement()
	if err := p.located(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// Complete returns what may be put at a cursor in a text that need not be a whole statement, as
// [filter.Complete] does for a filter. It takes the keys and attributes of the vocabulary for those
// of the target entity.
func Complete(text string, offset int, v filter.Vocabulary) filter.Completion {
	return filter.CompleteBy(text, offset, v, func(r *filter.Reader) { (&parser{Reader: r, cut: true}).statement() })
}

// parser reads a statement, or one expression of a mapping in JSON.
type parser struct {
	*filter.Reader

	src    string
	into   string
	groups []Group
	field  *Field // being read
	cut    bool   // the text ends at a cursor, and the groups may come after it
	stars  bool   // patterns have * and ?
}

func newParser(src string) (*parser, error) {
	if len(src) > MaxStatementBytes {
		return nil, fmt.Errorf("statement: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxStatementBytes, len(src))
	}
	return &parser{Reader: filter.NewReader(src), src: src}, nil
}

// located returns the error of the reader, with its line.
func (p *parser) located() error {
	at, ok := errors.AsType[*filter.Error](p.Err())
	if !ok {
		return p.Err()
	}
	before := p.src[:at.Offset]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[line:]) + 1, Offset: at.Offset,
		Detail: at.Text,
	}
}

// keyword reads a word that must be there.
func (p *parser) keyword(word string) {
	if !p.Word(word) {
		p.Expected("'" + word + "'")
	}
}

// refuse makes an error at a place the reader's, if there is one.
func (p *parser) refuse(at filter.Place, err error) {
	if err != nil {
		p.Fail(at, "%v", err)
	}
}

// entityName reads the id of an entity.
func (p *parser) entityName() string {
	at := p.Place()
	p.OfferIDs()
	id := p.Name("the id of an entity")
	p.refuse(at, entity.CheckID(id))
	return id
}

// statement reads all of it. The groups stand at the end and are needed first.
func (p *parser) statement() *Statement {
	p.keyword("insert")
	p.keyword("into")
	p.into = p.entityName()
	p.keyword("select")
	start := p.Place()
	for !p.End() && !p.IsSymbol(";") {
		if p.Word("from") {
			p.from()
			break
		}
		p.Skip()
	}
	p.Symbol(";")
	if !p.End() {
		p.Expected("the end of the statement")
	}
	p.Return(start)
	return &Statement{Into: p.into, From: p.groups, Select: p.fields()}
}

// from reads the groups.
func (p *parser) from() {
	for more := true; more; more = p.Symbol(",") {
		g := p.selector()
		p.keyword("as")
		at := p.Place()
		g.Alias = p.Name("an alias")
		switch {
		case !filter.IsName(g.Alias):
			p.Fail(at, "an alias must be a name of letters, digits and _, and no word of the language")
		case find(p.groups, g.Alias) != nil:
			p.Fail(at, "%s is an alias already", g.Alias)
		case len(p.groups) == MaxGroups:
			p.Fail(at, "more than %d groups", MaxGroups)
		}
		p.groups = append(p.groups, g)
	}
}

// selector reads what an alias stands for.
func (p *parser) selector() (g Group) {
	start := p.Place()
	if p.Word("like") {
		at := p.Place()
		if p.IsLiteral(value.KindString) {
			pattern := p.Literal(value.KindString, "a pattern").Text()
			if p.stars {
				pattern = fromStars.Replace(pattern)
			}
			p.refuse(at, g.setLike(pattern))
			return g
		}
		p.Return(start) // an entity of this name
	}
	if p.Symbol("(") {
		g.List = p.list()
		return g
	}
	id := p.entityName()
	arrow := p.Arrow()
	if arrow == "" {
		g.Entity = id
		return g
	}
	at := p.Place()
	g.Relation = &Relation{Entity: id, Incoming: arrow == "<-", Type: p.Name("the type of a relation")}
	if n := len(g.Relation.Type); n > entity.MaxTypeBytes {
		p.Fail(at, "the type of a relation must have at most %d bytes, not %d", entity.MaxTypeBytes, n)
	}
	return g
}

// list reads the ids of a list, behind its parenthesis.
func (p *parser) list() (ids []string) {
	seen := make(map[string]bool)
	for more := true; more; more = p.Symbol(",") {
		at := p.Place()
		id := p.entityName()
		switch {
		case seen[id]:
			p.Fail(at, "%s is in the list already", filter.QuoteName(id))
		case len(ids) == MaxList:
			p.Fail(at, "more than %d entities in a list", MaxList)
		}
		seen[id] = true
		ids = append(ids, id)
	}
	if !p.Symbol(")") {
		p.Expected("',' or ')'")
	}
	return ids
}

// fields reads what is selected.
func (p *parser) fields() (fields []Field) {
	for more := true; more; more = p.Symbol(",") {
		if len(fields) == MaxFields {
			p.Fail(p.Place(), "more than %d fields", MaxFields)
		}
		f := Field{}
		p.expression(&f)
		f.As = p.key(&f)
		fields = append(fields, f)
	}
	if !p.IsWord("from") && !p.End() && !p.IsSymbol(";") {
		p.Expected("',', 'from' or the end")
	}
	return fields
}

// expression reads an expression into f, up to what cannot belong to it.
func (p *parser) expression(f *Field) {
	p.field = f
	at := p.Place()
	f.expression = p.Expression(p.resolve)
	if p.cut && p.End() {
		at = p.Place() // there may be more of it
	}
	switch {
	case len(f.Sources) == 0:
		p.Fail(at, "the expression has no source; nothing would ever compute it")
	case !slices.ContainsFunc(f.Sources, func(s Source) bool { return !s.timeless() }):
		p.Fail(at, "the expression has attributes alone, and so no time; it needs telemetry or a group")
	}
}

// key reads the key of a field. A lone source may go without: it keeps its own.
func (p *parser) key(f *Field) string {
	if !p.Word("as") {
		key := f.ownKey()
		if key == "" {
			p.Expected("an operator, or 'as' and the key of the value")
		}
		return key
	}
	at := p.Place()
	if p.IsWord("from") {
		p.Expected("the key of the value")
	}
	key := p.Name("the key of the value")
	p.refuse(at, entity.CheckKey(key))
	return key
}

func isNameRune(r rune) bool {
	return r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
