package mapping

import (
	"slices"
	"strconv"
	"strings"
)

// item is a piece of an expression. Operators are those of expr-lang: = has
// become ==, <> has become != and ^ has become **.
type item struct {
	kind   itemKind
	text   string
	source int // of itemSource: the index in Field.Sources
	at     int // where it begins in the text
}

type itemKind uint8

const (
	itemSource itemKind = iota
	itemCall            // the name of a function
	itemNumber
	itemText // without quotes
	itemWord // and, or, not, true, false, null
	itemSign
	itemMinus // the sign of what follows
)

// lone returns the source that is all of the expression, or nil.
func (f *Field) lone() *Source {
	if len(f.items) == 1 && f.items[0].kind == itemSource {
		return &f.Sources[0]
	}
	return nil
}

// expression reads an expression into f, up to what cannot belong to it, and
// compiles it.
func (p *parser) expression(f *Field) error {
	p.field = f
	begin := p.now()
	for depth := 0; ; {
		t := p.now()
		if depth == 0 && t.is(",") || t.word("as") || t.word("from") || t.is(";") || t.kind == tokenEnd {
			break
		}
		switch {
		case t.is("("):
			depth++
		case t.is(")"):
			depth--
		}
		if depth < 0 || depth > MaxNesting {
			return p.nesting(t, depth)
		}
		if err := p.item(t); err != nil {
			return err
		}
		if len(f.items) > 4*MaxNodes {
			return p.fail(begin, "the expression is too long: at most %d values, operators and calls are allowed", MaxNodes)
		}
	}
	if len(f.items) == 0 {
		return p.fail(begin, "%s where an expression is expected", begin)
	}
	if len(f.Sources) == 0 {
		return p.fail(begin, "the expression has no source; nothing would ever compute it")
	}
	if !slices.ContainsFunc(f.Sources, func(s Source) bool { return !s.timeless() }) {
		return p.fail(begin, "the expression has attributes alone, and so no time; it needs telemetry or a group")
	}
	return p.compile(f)
}

func (p *parser) nesting(t token, depth int) error {
	if depth < 0 {
		return p.fail(t, "')' without its '('")
	}
	return p.fail(t, "parentheses are nested deeper than %d", MaxNesting)
}

// item reads one piece of an expression.
func (p *parser) item(t token) error {
	switch t.kind {
	case tokenName, tokenQuoted:
		return p.named(t)
	case tokenText:
		p.add(item{kind: itemText, text: t.text, at: t.at})
	case tokenNumber:
		text, err := canonicalNumber(t.text)
		if err != "" {
			return p.fail(t, "%s", err)
		}
		if after := p.peek(1); after.at == t.end && (after.kind == tokenName || after.kind == tokenNumber) {
			return p.fail(t, "the number %s runs into %s", t, after)
		}
		p.add(item{kind: itemNumber, text: text, at: t.at})
	default:
		if t.is(".") {
			return p.fail(t, "%s where an expression is expected; a source is entity.key", t)
		}
		p.sign(t)
	}
	p.next()
	return nil
}

func (p *parser) add(it item) { p.field.items = append(p.field.items, it) }

// sign adds an operator in the one way it is written.
func (p *parser) sign(t token) {
	it := item{kind: itemSign, text: t.text, at: t.at}
	switch t.text {
	case "=":
		it.text = "=="
	case "<>":
		it.text = "!="
	case "^":
		it.text = "**"
	case "&&", "||", "!":
		it.kind, it.text = itemWord, map[string]string{"&&": "and", "||": "or", "!": "not"}[t.text]
	case "-", "+":
		if !p.operand() {
			it.kind = itemMinus
		}
	}
	p.add(it)
}

// operand reports whether the piece before ends a value, so that a minus is a
// subtraction.
func (p *parser) operand() bool {
	n := len(p.field.items)
	if n == 0 {
		return false
	}
	switch it := p.field.items[n-1]; it.kind {
	case itemSource, itemNumber, itemText:
		return true
	case itemWord:
		return it.text == "true" || it.text == "false" || it.text == "null"
	default:
		return it.kind == itemSign && it.text == ")"
	}
}

// named reads what begins with a name: a source, a function or a word.
func (p *parser) named(t token) error {
	after := p.peek(1)
	switch {
	case (after.is(".") || after.is("@")) && (t.kind == tokenQuoted || !isReserved(t.text)):
		src, err := p.source()
		if err != nil {
			return err
		}
		return p.use(src, t)
	case t.kind == tokenName && isReserved(t.text):
		return p.reserved(t)
	case t.kind == tokenName && after.is("("):
		return p.call(t)
	case t.kind == tokenName && after.is("-"):
		return p.fail(t, "%s is no value: a source is entity.key, and an id with a character beside letters, digits and _ goes in double quotes", t)
	default:
		return p.fail(t, "%s is no value: a source is entity.key; a text goes in single quotes", t)
	}
}

func (p *parser) reserved(t token) error {
	switch word := strings.ToLower(t.text); word {
	case "and", "or", "not", "true", "false", "null":
		p.add(item{kind: itemWord, text: word, at: t.at})
		p.next()
		return nil
	default:
		return p.fail(t, "%s where an expression is expected; as a name it goes in double quotes", t)
	}
}

// use adds a source to the expression.
func (p *parser) use(src Source, t token) error {
	if g := find(p.groups, src.name); g != nil {
		if g.plain() {
			src.Entity = g.Entity
		} else {
			src.Group = g.Alias
		}
	} else {
		src.Entity = src.name
	}
	if err := p.checkSource(&src, t); err != nil {
		return err
	}
	f := p.field
	for i := range f.Sources {
		if f.Sources[i].equal(&src) {
			p.add(item{kind: itemSource, source: i, at: t.at})
			return nil
		}
	}
	if len(f.Sources) == MaxSources {
		return p.fail(t, "more than %d sources in one field", MaxSources)
	}
	f.Sources = append(f.Sources, src)
	p.add(item{kind: itemSource, source: len(f.Sources) - 1, at: t.at})
	return nil
}

// canonicalNumber returns a number in one form, or what is wrong with it.
func canonicalNumber(text string) (canonical, wrong string) {
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return "", "the integer " + brief(text) + " is beyond 64 bits; as a float it is written with an exponent"
		}
		return strconv.FormatInt(n, 10), ""
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return "", "the number " + brief(text) + " is beyond what a float64 holds"
	}
	canonical = strconv.FormatFloat(f, 'g', -1, 64)
	if strings.Trim(canonical, "0123456789") == "" {
		canonical += ".0" // it was a float, and stays one
	}
	return canonical, ""
}
