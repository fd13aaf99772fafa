package filter

import (
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Expression is a computation, such as a.x * 9 / 5 + 32, in a text of another kind: a mapping. It
// is immutable and safe for concurrent use. [Reader.Expression] makes it.
type Expression struct {
	text   string // the canonical form; the tree would take several times as much as the closures
	source *Path  // all of the expression, or nil
	eval   source
	bytes  int
}

// String returns the expression in its canonical form, which reads back as the same expression.
func (x *Expression) String() string { return x.text }

// Source returns the source if the expression consists of one, and otherwise nil.
func (x *Expression) Source() *Path { return x.source }

// Bytes returns how much memory the expression takes, in bytes: an estimate that is off by at most a
// factor of two. The text that it was read from is not included.
func (x *Expression) Bytes() int { return x.bytes }

var errInfinite = errors.New("the result is infinite or not a number, which no reading can be")

// Value computes the expression from what the view has at its sources. It returns the zero Value if
// something that it needs is missing, and an error if it fails: a division by zero, a string where
// a number is needed, an infinite result. It allocates only the texts that it makes.
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

// Name is one name of a path. A quoted name is never a word of the language.
type Name struct {
	Text   string
	Quoted bool
}

// Reference is a name in an expression whose meaning a [Resolver] determines: boiler.flow, flow,
// boiler.attributes.limit.
type Reference struct {
	// Func is the function over many values whose argument it is, or "".
	Func string
	// Names are the names between dots, one or more.
	Names []Name
	// At says that the names are separated by an @, an earlier form of the dot before a section of
	// attributes.
	At bool

	at int
}

// Resolver returns the slot of what a name in an expression stands for, under which the
// expression's [View] looks it up with [RootSource], and its canonical text. It may read what
// follows a function over many values.
type Resolver func(r *Reader, ref Reference) (slot int, text string)

// Reader reads a text that contains expressions, names and words. After the first error, which Err
// returns, it is at the end of the text, and what it returns has no meaning. It must not be used
// concurrently.
type Reader struct {
	parser
}

// NewReader returns a reader of a text.
func NewReader(text string) *Reader { return &Reader{newParser(text)} }

// Err returns the first error, an [*Error].
func (r *Reader) Err() error { return r.err }

// Refuse records an error at a name of an expression.
func (r *Reader) Refuse(ref Reference, format string, args ...any) { r.fail(ref.at, format, args...) }

// Fail records an error at a place.
func (r *Reader) Fail(p Place, format string, args ...any) { r.fail(p.tok.from, format, args...) }

// OfferIDs tells a completion that the id of an entity may come next.
func (r *Reader) OfferIDs() { r.offer(offer{kind: SuggestID}) }

// Expected records an error that says what must come next.
func (r *Reader) Expected(what string) { r.expected(what) }

// End reports whether the text is at its end.
func (r *Reader) End() bool { return r.tok.kind == tokenEnd }

// IsWord reports whether an unquoted word comes next, in any case.
func (r *Reader) IsWord(word string) bool {
	return r.word(word) ||
		r.tok.kind == tokenPath && len(r.tok.names) == 1 && !r.tok.names[0].Quoted && strings.EqualFold(r.tok.names[0].Text, word)
}

// Word skips a word if it comes next, and reports whether it did.
func (r *Reader) Word(word string) bool { return r.skipIf(r.IsWord(word)) }

// IsSymbol reports whether a punctuation mark comes next.
func (r *Reader) IsSymbol(s string) bool { return r.isSymbol(s) }

// Symbol skips a punctuation mark if it comes next, and reports whether it did.
func (r *Reader) Symbol(s string) bool { return r.skipIf(r.isSymbol(s)) }

func (r *Reader) skipIf(is bool) bool {
	if is {
		r.advance()
	}
	return is
}

// Arrow skips -> or <- if it comes next, and returns it.
func (r *Reader) Arrow() string {
	for _, a := range []string{"->", "<-"} {
		if strings.HasPrefix(r.text[r.tok.from:], a) {
			r.advance()
			r.advance()
			return a
		}
	}
	return ""
}

// Name reads a name; what describes it in an error. A string is accepted as a name.
func (r *Reader) Name(what string) (name string) {
	switch {
	case (r.tok.kind == tokenPath || r.tok.kind == tokenWord) && len(r.tok.names) == 1:
		name = r.tok.names[0].Text
	case r.isLiteral(value.KindString) && r.tok.value.Text() != "":
		name = r.tok.value.Text()
	default:
		r.expected(what)
	}
	r.advance()
	return name
}

// IsLiteral reports whether a literal of one kind comes next.
func (r *Reader) IsLiteral(kind value.Kind) bool { return r.isLiteral(kind) }

// Literal reads a literal of one kind.
func (r *Reader) Literal(kind value.Kind, what string) value.Value {
	if !r.isLiteral(kind) {
		r.expected(what)
	}
	v := r.tok.value
	r.advance()
	return v
}

// Place is a place in the text to which a Reader can return.
type Place struct {
	at        int
	tok, prev token
}

// Place returns where the reader is.
func (r *Reader) Place() Place { return Place{r.at, r.tok, r.prev} }

// Return goes back to a place, unless there was an error.
func (r *Reader) Return(p Place) {
	if r.err == nil {
		r.at, r.tok, r.prev = p.at, p.tok, p.prev
	}
}

// Skip skips one token of any kind.
func (r *Reader) Skip() { r.advance() }

// Expression reads an expression, up to what cannot belong to it. It returns nil after an error.
func (r *Reader) Expression(resolve Resolver) *Expression {
	r.paths, r.terms, r.conditions, r.items, r.depth = nil, 0, 0, 0, 0
	clear(r.known)
	r.resolve = func(ref Reference) Path {
		slot, text := resolve(r, ref)
		return Path{Root: RootSource, Name: text, Slot: slot}
	}
	at := r.tok.from
	root := r.choice("an expression")
	r.resolve = nil
	if k := root.valueKind(); k == value.KindTime || k == value.KindDuration {
		r.fail(at, "the expression is %s, which no reading can be", withArticle(k))
	}
	if r.err != nil {
		return nil
	}
	folded := foldOperand(root)
	x := &Expression{text: string(root.append(nil)), eval: compileOperand(folded)}
	if root.kind == ofPath {
		x.source = root.path
	}
	x.bytes = expressionSize + len(x.text) + pathSize*len(r.paths) + operandSize(folded)
	return x
}

// aggregates are the functions over many values.
var aggregates = []string{"avg", "min", "max", "sum", "count", "last", "first"}

// isAggregate reports whether a function over one source is next, or the text ends within
// one: min and max are also functions of several values.
func (p *parser) isAggregate(name string) bool {
	if !slices.Contains(aggregates, name) {
		return false
	}
	after := p.lexer
	after.next()
	source, end := after.next(), after.next()
	return functions[name] == nil && end.kind == tokenEnd && (len(source.names) > 0 || source.kind == tokenEnd) ||
		len(source.names) > 0 && end.kind == tokenSymbol && end.text == ")"
}

// aggregate reads a function over one source.
func (p *parser) aggregate(name string) *Path {
	ref := Reference{Func: name, at: p.tok.from}
	p.advance()
	p.advance()
	p.offer(offer{kind: SuggestPath, part: true})
	if p.tok.kind == tokenEnd {
		p.expected("a source, as in " + name + "(meters.power)")
	}
	return p.resolved(ref)
}

// resolved reads a name that stands for something of its resolver's, in the parentheses
// of a function if there is one.
func (p *parser) resolved(ref Reference) *Path {
	ref.Names, ref.At = p.tok.names, p.tok.at
	p.advance()
	if ref.Func != "" {
		p.need(")")
	}
	if p.err != nil {
		return &Path{}
	}
	return p.intern(p.resolve(ref))
}

// IsName reports whether a name can be written without quotes: it consists of letters, digits and
// _, and is not a word of the language.
func IsName(name string) bool {
	return name != "" && scanName(name) == len(name) && !isReserved(name)
}

// QuoteName returns a name as it is written in a text, in backquotes if necessary.
func QuoteName(name string) string {
	if IsName(name) {
		return name
	}
	return string(appendQuoted(nil, name))
}

// QuoteType returns a type of relations as it is written in a text, in backquotes if necessary.
func QuoteType(name string) string { return string(appendRelationType(nil, name)) }
