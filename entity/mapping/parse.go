package mapping

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/greenroom-go/greenroom/entity"
)

// Parse reads a statement. docs/mappings.md has the grammar. The error is a
// [*SyntaxError], or wraps [entity.ErrInvalid] where it is about no place.
func Parse(src string) (*Statement, error) {
	tokens, err := lex(src)
	if err != nil {
		return nil, err
	}
	p := &parser{src: src, tokens: tokens}
	return p.statement()
}

// parser goes through the tokens of a statement, or of one expression of a
// mapping in JSON.
type parser struct {
	src    string
	tokens []token
	i      int
	groups []Group
	field  *Field // being read
}

func (p *parser) now() token { return p.tokens[p.i] }

// peek returns the token n further on.
func (p *parser) peek(n int) token { return p.tokens[min(p.i+n, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.now()
	if t.kind != tokenEnd {
		p.i++
	}
	return t
}

func (p *parser) fail(t token, format string, args ...any) error {
	return syntaxError(p.src, t.at, format, args...)
}

func (p *parser) keyword(word string) error {
	if t := p.next(); !t.word(word) {
		return p.fail(t, "%s where %q is expected", t, word)
	}
	return nil
}

// isReserved reports whether a name without quotes is a word of the language.
func isReserved(name string) bool {
	switch strings.ToLower(name) {
	case "insert", "into", "select", "as", "from", "and", "or", "not", "true", "false", "null":
		return true
	}
	return false
}

// name reads a name, with or without quotes.
func (p *parser) name(what string) (string, error) {
	t := p.next()
	if t.kind == tokenQuoted || t.kind == tokenName && !isReserved(t.text) {
		return t.text, nil
	}
	if t.kind == tokenName {
		return "", p.fail(t, "%s where %s is expected; a word of the language as a name goes in double quotes", t, what)
	}
	return "", p.fail(t, "%s where %s is expected", t, what)
}

// entityName reads the id of an entity.
func (p *parser) entityName() (string, error) {
	t := p.now()
	id, err := p.name("the id of an entity")
	if err == nil && entity.CheckID(id) != nil {
		err = p.fail(t, "%v", entity.CheckID(id))
	}
	if err == nil && p.now().is("-") && !p.peek(1).is(">") {
		err = p.fail(p.now(), "an id with a character beside letters, digits and _ goes in double quotes")
	}
	return id, err
}

// statement reads all of it. The groups stand at the end and are needed first.
func (p *parser) statement() (*Statement, error) {
	s := &Statement{}
	err := p.keyword("insert")
	if err == nil {
		err = p.keyword("into")
	}
	if err == nil {
		s.Into, err = p.entityName()
	}
	if err == nil {
		err = p.keyword("select")
	}
	if err != nil {
		return nil, err
	}
	start := p.i
	if p.skipTo("from") {
		if err := p.from(); err != nil {
			return nil, err
		}
		s.From = p.groups
	}
	if p.now().is(";") {
		p.next()
	}
	if t := p.now(); t.kind != tokenEnd {
		return nil, p.fail(t, "%s after the statement", t)
	}
	p.i = start
	if s.Select, err = p.fields(); err != nil {
		return nil, err
	}
	return s, s.check()
}

// skipTo goes to behind the keyword, or to the end of the statement.
func (p *parser) skipTo(word string) bool {
	for ; p.now().kind != tokenEnd && !p.now().is(";"); p.i++ {
		if p.now().word(word) {
			p.i++
			return true
		}
	}
	return false
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
		t := p.next()
		switch {
		case t.kind != tokenName || isReserved(t.text):
			return p.fail(t, "%s where an alias is expected: a name of letters, digits and _", t)
		case find(p.groups, t.text) != nil:
			return p.fail(t, "%s is an alias already", t)
		case len(p.groups) == MaxGroups:
			return p.fail(t, "more than %d groups", MaxGroups)
		}
		g.Alias = t.text
		p.groups = append(p.groups, g)
		if !p.now().is(",") {
			return nil
		}
		p.next()
	}
}

// selector reads what an alias stands for.
func (p *parser) selector() (g Group, err error) {
	t := p.now()
	switch {
	case t.word("like") && p.peek(1).kind == tokenText:
		p.next()
		pattern := p.next()
		if err := checkPattern(pattern.text); err != nil {
			return g, p.fail(pattern, "%v", err)
		}
		g.Like = pattern.text
		return g, nil
	case t.is("("):
		p.next()
		g.List, err = p.list()
		return g, err
	}
	id, err := p.entityName()
	if err != nil {
		return g, err
	}
	switch a, b := p.now(), p.peek(1); {
	case a.is("-") && b.is(">") && a.end == b.at:
		g.Relation = &Relation{Entity: id}
	case a.is("<") && b.is("-") && a.end == b.at:
		g.Relation = &Relation{Entity: id, Incoming: true}
	default:
		g.Entity = id
		return g, nil
	}
	p.i += 2
	t = p.now()
	g.Relation.Type, err = p.name("the type of a relation")
	if err == nil && len(g.Relation.Type) > entity.MaxTypeBytes {
		err = p.fail(t, "a type of %d bytes; at most %d are allowed", len(g.Relation.Type), entity.MaxTypeBytes)
	}
	return g, err
}

// list reads the ids of a list, behind its parenthesis.
func (p *parser) list() (ids []string, err error) {
	seen := make(map[string]bool)
	for {
		t := p.now()
		id, err := p.entityName()
		switch {
		case err != nil:
			return nil, err
		case seen[id]:
			return nil, p.fail(t, "%s is in the list already", t)
		case len(ids) == MaxList:
			return nil, p.fail(t, "more than %d entities in a list", MaxList)
		}
		seen[id] = true
		ids = append(ids, id)
		switch t := p.next(); {
		case t.is(")"):
			return ids, nil
		case !t.is(","):
			return nil, p.fail(t, "%s where ',' or ')' is expected", t)
		}
	}
}

// checkPattern tells whether a pattern can match an id.
func checkPattern(pattern string) error {
	if pattern == "" || len(pattern) > entity.MaxIDBytes {
		return fmt.Errorf("pattern: %w: %d bytes; 1 to %d are right", entity.ErrInvalid, len(pattern), entity.MaxIDBytes)
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
			return nil, p.fail(p.now(), "more than %d fields", MaxFields)
		}
		f := Field{}
		if err := p.expression(&f); err != nil {
			return nil, err
		}
		if f.As, err = p.key(&f); err != nil {
			return nil, err
		}
		fields = append(fields, f)
		t := p.now()
		if !t.is(",") {
			if t.kind != tokenEnd && !t.is(";") && !t.word("from") {
				return nil, p.fail(t, "%s where ',', from or the end is expected", t)
			}
			return fields, nil
		}
		p.next()
	}
}

// key reads the key of a field. A lone source may go without: it keeps its own.
func (p *parser) key(f *Field) (string, error) {
	if !p.now().word("as") {
		if src := f.lone(); src != nil && src.Func == "" {
			return src.ownKey(), nil
		}
		return "", p.fail(p.now(), "%s where \"as\" and the key of the value are expected", p.now())
	}
	p.next()
	t := p.now()
	key, err := p.name("the key of the value")
	if err == nil {
		if kerr := checkKey(key); kerr != nil {
			err = p.fail(t, "%v", kerr)
		}
	}
	return key, err
}

// parseDuration reads digits and units, the units of [printDuration].
func parseDuration(text string) (time.Duration, bool) {
	var total time.Duration
	for text != "" {
		n := digits(text, 0)
		count, err := strconv.ParseInt(text[:n], 10, 32)
		if err != nil {
			return 0, false
		}
		text = text[n:]
		unit := time.Duration(0)
		for _, u := range units {
			if rest, ok := strings.CutPrefix(text, u.name); ok && (rest == "" || isDigit(rest[0])) {
				unit, text = u.length, rest
				break
			}
		}
		if unit == 0 || time.Duration(count) > MaxWindow/unit {
			return 0, false
		}
		total += time.Duration(count) * unit
	}
	return total, total > 0 && total <= MaxWindow
}

var units = [...]struct {
	name   string
	length time.Duration
}{
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"ms", time.Millisecond},
	{"m", time.Minute},
	{"s", time.Second},
}

func isNameRune(r rune) bool {
	return r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r)
}
