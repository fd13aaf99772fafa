package filter

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Expression is a computation, such as a.x * 9 / 5 + 32, that stands in a text of
// another kind: a mapping. It does not change, and any number of goroutines may use
// it. [Reader.Expression] makes them.
type Expression struct {
	root  operand
	eval  source
	paths []*Path
}

// String returns the expression in its canonical form, which reads back as the same.
func (x *Expression) String() string { return string(x.root.append(nil)) }

// Source returns the source that is all of the expression, nil where there is more.
func (x *Expression) Source() *Path {
	if x.root.kind != ofPath {
		return nil
	}
	return x.root.path
}

var errInfinite = errors.New("the result is infinite or not a number, which no reading can be")

// Value computes the expression of what the view has at its sources. It returns the
// zero Value where something that it needs is missing, and an error where it fails:
// a division by zero, a string in place of a number, an infinite result. It
// allocates nothing but the texts that it makes.
func (x *Expression) Value(v View, e *Env) (value.Value, error) {
	e.failure = nil
	result := x.eval(v, e)
	if e.failure != nil {
		return value.Value{}, e.failure
	}
	if f := result.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
		return value.Value{}, errInfinite
	}
	return result, nil
}

// Name is one name of a path. One in quotes is never a word of the language.
type Name struct {
	Text   string
	Quoted bool
}

// Reference is a name in an expression that a [Resolver] says the meaning of:
// boiler.flow, flow, boiler.attributes.limit.
type Reference struct {
	// Func is the function over many values whose argument it is, or "".
	Func string
	// Names are the names between dots, one or more.
	Names []Name
	// At says that an @ stands between them, which was written for the dot before a
	// section of attributes.
	At bool

	at int
}

// Resolver returns the slot of what a name in an expression stands for, under which
// the expression's [View] looks it up with [RootSource], and its canonical text. It
// may read on: what follows a function over many values.
type Resolver func(r *Reader, ref Reference) (slot int, text string, err error)

// Reader goes through a text in which there are expressions, names and words. It is
// used by one goroutine at a time.
type Reader struct {
	parser
}

// NewReader returns a reader of a text.
func NewReader(text string) (*Reader, error) {
	r := &Reader{parser{lexer: lexer{text: text}, known: make(map[Path]*Path)}}
	return r, r.advance()
}

// Errorf returns an error at the beginning of what is read next.
func (r *Reader) Errorf(format string, args ...any) error {
	return r.errorf(r.tok.from, format, args...)
}

// Refuse returns an error at a name of an expression.
func (r *Reader) Refuse(ref Reference, format string, args ...any) error {
	return r.errorf(ref.at, format, args...)
}

// Expected returns an error that says what must be next.
func (r *Reader) Expected(what string) error { return r.expected(what) }

// End reports whether the text is at its end.
func (r *Reader) End() bool { return r.tok.kind == tokenEnd }

// IsWord reports whether a word without quotes is next, in any case.
func (r *Reader) IsWord(word string) bool {
	r.offer(offer{kind: SuggestWord, text: word})
	return r.tok.kind == tokenWord && r.tok.text == word ||
		r.tok.kind == tokenPath && len(r.tok.names) == 1 && !r.tok.names[0].quoted && strings.EqualFold(r.tok.names[0].text, word)
}

// Word goes on if a word is next.
func (r *Reader) Word(word string) (bool, error) {
	if !r.IsWord(word) {
		return false, nil
	}
	return true, r.advance()
}

// IsSymbol reports whether a punctuation mark is next.
func (r *Reader) IsSymbol(s string) bool { return r.symbolIs(s) }

// Symbol goes on if a punctuation mark is next.
func (r *Reader) Symbol(s string) (bool, error) {
	if !r.symbolIs(s) {
		return false, nil
	}
	return true, r.advance()
}

// Arrow goes on if -> or <- is next, and returns it.
func (r *Reader) Arrow() (arrow string, err error) {
	for _, a := range []string{"->", "<-"} {
		if strings.HasPrefix(r.text[r.tok.from:], a) {
			if err := r.advance(); err != nil {
				return "", err
			}
			return a, r.advance()
		}
	}
	return "", nil
}

// Name reads a name; what says in an error whose it is. A string is taken for one.
func (r *Reader) Name(what string) (string, error) {
	t := r.tok
	switch {
	case t.kind == tokenPath && len(t.names) == 1:
		return t.names[0].text, r.advance()
	case t.kind == tokenWord && len(t.names) == 1:
		return t.names[0].text, r.advance()
	case t.kind == tokenLiteral && t.value.Kind() == value.KindString && t.value.Text() != "":
		return t.value.Text(), r.advance()
	default:
		return "", r.expected(what)
	}
}

// Literal reads a literal of one kind.
func (r *Reader) Literal(kind value.Kind, what string) (value.Value, error) {
	if r.tok.kind != tokenLiteral || r.tok.value.Kind() != kind || r.tok.least {
		return value.Value{}, r.expected(what)
	}
	v := r.tok.value
	return v, r.advance()
}

// Place is a place in the text to come back to.
type Place struct {
	at        int
	tok, prev token
}

// Place returns where the reader is.
func (r *Reader) Place() Place { return Place{r.at, r.tok, r.prev} }

// Return goes back to a place.
func (r *Reader) Return(p Place) { r.at, r.tok, r.prev = p.at, p.tok, p.prev }

// Skip goes on by one token of whatever kind.
func (r *Reader) Skip() error { return r.advance() }

// Expression reads an expression up to what cannot belong to it.
func (r *Reader) Expression(resolve Resolver) (*Expression, error) {
	r.paths, r.terms, r.conditions, r.items, r.depth = nil, 0, 0, 0, 0
	clear(r.known)
	r.resolve = func(ref Reference) (Path, error) {
		slot, text, err := resolve(r, ref)
		return Path{Root: RootSource, Name: text, Slot: slot}, err
	}
	defer func() { r.resolve = nil }()
	at := r.tok.from
	root, err := r.choice("an expression")
	if err != nil {
		return nil, err
	}
	switch k := root.valueKind(); k {
	case value.KindTime, value.KindDuration:
		return nil, r.errorf(at, "the expression is %s, which no reading can be", withArticle(k))
	default:
	}
	return &Expression{root: root, eval: compileOperand(foldOperand(root)), paths: slices.Clone(r.paths)}, nil
}

// aggregates are the functions over many values.
var aggregates = []string{"avg", "min", "max", "sum", "count", "last", "first"}

func isAggregate(name string) bool { return slices.Contains(aggregates, name) }

// aggregate reads a function over one source, if that is all that is in its
// parentheses: min and max are also functions of several values.
func (p *parser) aggregate(name string) (*Path, bool, error) {
	after := p.lexer
	var next [3]token // the parenthesis, the source, the other parenthesis
	for i := range next {
		t, err := after.next()
		if err != nil {
			return nil, false, nil //nolint:nilerr // whoever reads it as arguments comes to it
		}
		next[i] = t
	}
	if len(next[1].names) == 0 || next[2].kind != tokenSymbol || next[2].text != ")" {
		return nil, false, nil
	}
	ref := Reference{Func: name, at: p.tok.from}
	for range 2 {
		if err := p.advance(); err != nil {
			return nil, false, err
		}
	}
	ref.Names, ref.At = namesOf(p.tok), p.tok.at
	for range 2 {
		if err := p.advance(); err != nil {
			return nil, false, err
		}
	}
	path, err := p.resolve(ref)
	return p.intern(path), true, err
}

func namesOf(t token) []Name {
	list := make([]Name, len(t.names))
	for i, n := range t.names {
		list[i] = Name{n.text, n.quoted}
	}
	return list
}

// resolved reads a name that stands for something of its resolver's.
func (p *parser) resolved(ref Reference) (*Path, error) {
	ref.Names, ref.At = namesOf(p.tok), p.tok.at
	if err := p.advance(); err != nil {
		return nil, err
	}
	path, err := p.resolve(ref)
	if err != nil {
		return nil, err
	}
	return p.intern(path), nil
}

// ErrorAt returns an error at a place.
func (r *Reader) ErrorAt(p Place, format string, args ...any) error {
	return r.errorf(p.tok.from, format, args...)
}

// IsName reports whether a name can be written without quotes: letters, digits and
// _, and no word of the language.
func IsName(name string) bool {
	return name != "" && scanName(name) == len(name) && !isReserved(name)
}

// QuoteName returns a name as a text has it, in backquotes where it must be.
func QuoteName(name string) string {
	if IsName(name) {
		return name
	}
	return string(appendQuoted(nil, name))
}

// QuoteType returns a type of relations as a text has it, in backquotes where it
// must be.
func QuoteType(name string) string { return string(appendRelationType(nil, name)) }
