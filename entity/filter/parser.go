package filter

import (
	"fmt"
	"strings"
)

// parser makes the tree of a text: one function for each rule of the grammar in
// the package's documentation.
type parser struct {
	lexer

	tok  token
	prev token // the one before

	paths []*Path // each once
	known map[Path]*Path

	depth, related    int // how deep the place is in nesting, and in related
	conditions, items int // how many there are so far

	// offers, where it is not nil, gathers what may stand at the end of the
	// text: completion reads a filter up to the cursor.
	offers *[]offer
}

// parse returns the tree of a text and its paths.
func parse(text string) (node, []*Path, error) {
	p := parser{lexer: lexer{text: text}, known: make(map[Path]*Path)}
	n, err := p.filter()
	return n, p.paths, err
}

func (p *parser) filter() (node, error) {
	if len(p.text) > MaxBytes {
		return nil, p.errorf(MaxBytes, "the filter has %d bytes; at most %d are allowed", len(p.text), MaxBytes)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	if p.tok.kind == tokenEnd && p.offers == nil {
		return constant(true), nil
	}
	n, err := p.anyOf()
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		return nil, p.expected("'and', 'or' or the end")
	}
	return n, nil
}

// advance goes on to the next token.
func (p *parser) advance() (err error) {
	p.prev = p.tok
	p.tok, err = p.next()
	return err
}

// word reports whether the token is this word.
func (p *parser) word(w string) bool {
	p.offer(offer{kind: SuggestWord, text: w})
	return p.tok.kind == tokenWord && p.tok.text == w
}

func (p *parser) symbol(s string) bool {
	p.offer(offer{kind: SuggestOperator, text: s})
	return p.tok.kind == tokenSymbol && p.tok.text == s
}

// accept goes on if the token is this word.
func (p *parser) accept(w string) (bool, error) {
	if !p.word(w) {
		return false, nil
	}
	return true, p.advance()
}

// need goes on if the token is this symbol, and complains otherwise.
func (p *parser) need(s string) error {
	if !p.symbol(s) {
		return p.expected("'" + s + "'")
	}
	return p.advance()
}

// expected is the complaint about the present token.
func (p *parser) expected(what string) error {
	after := ""
	if p.prev.to > p.prev.from {
		after = fmt.Sprintf(" after '%s'", brief(p.text[p.prev.from:p.prev.to]))
	}
	found := "the end"
	if p.tok.kind != tokenEnd {
		found = "'" + brief(p.text[p.tok.from:p.tok.to]) + "'"
	}
	if p.tok.kind == tokenWord {
		found += fmt.Sprintf(", a word of the language; a name like this is written `%s` in backquotes", p.text[p.tok.from:p.tok.to])
	}
	return p.errorf(p.tok.from, "expected %s%s, found %s", what, after, found)
}

// nest counts a level of nesting; the caller takes it back.
func (p *parser) nest() error {
	p.depth++
	if p.depth > MaxDepth {
		return p.errorf(p.tok.from, "nested deeper than %d", MaxDepth)
	}
	return nil
}

func (p *parser) anyOf() (node, error) {
	list, err := p.list("or", p.allOf)
	if err != nil || len(list) == 1 {
		return first(list), err
	}
	n := &anyOf{}
	for _, x := range list {
		if inner, ok := x.(*anyOf); ok { // from parentheses that were not needed
			n.list = append(n.list, inner.list...)
		} else {
			n.list = append(n.list, x)
		}
	}
	return n, nil
}

func (p *parser) allOf() (node, error) {
	list, err := p.list("and", p.unary)
	if err != nil || len(list) == 1 {
		return first(list), err
	}
	n := &allOf{}
	for _, x := range list {
		if inner, ok := x.(*allOf); ok {
			n.list = append(n.list, inner.list...)
		} else {
			n.list = append(n.list, x)
		}
	}
	return n, nil
}

// list reads what is joined by a word.
func (p *parser) list(word string, element func() (node, error)) ([]node, error) {
	var list []node
	for {
		n, err := element()
		if err != nil {
			return nil, err
		}
		list = append(list, n)
		if more, err := p.accept(word); err != nil || !more {
			return list, err
		}
	}
}

func first(list []node) node {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func (p *parser) unary() (node, error) {
	if err := p.nest(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	negated, err := p.accept("not")
	switch {
	case err != nil:
		return nil, err
	case negated:
		n, err := p.unary()
		return &not{n}, err
	case p.symbol("("):
		return p.group()
	default:
		return p.condition()
	}
}

func (p *parser) group() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	n, err := p.anyOf()
	if err != nil {
		return nil, err
	}
	return n, p.need(")")
}

func (p *parser) condition() (node, error) {
	p.conditions++
	if p.conditions > MaxConditions {
		return nil, p.errorf(p.tok.from, "more than %d conditions", MaxConditions)
	}
	switch {
	case p.word("exists"):
		return p.exists()
	case p.word("related"):
		return p.relation()
	}
	p.offer(offer{kind: SuggestPath})
	p.offer(offer{kind: SuggestWord, text: "age("})
	p.offer(offer{kind: SuggestWord, text: "ts("})
	left, err := p.operand("a condition")
	if err != nil {
		return nil, err
	}
	if left.kind == ofLiteral && left.value.kind == KindBool && p.tok.kind != tokenSymbol {
		return constant(left.value.Bool()), nil
	}
	if left.kind == ofLiteral && left.value.kind == KindBool && p.symbol(")") {
		return constant(left.value.Bool()), nil
	}
	return p.predicate(left)
}

// predicate reads what is said of an operand.
func (p *parser) predicate(left operand) (node, error) {
	p.offerOperators(left)
	if op, ok := comparisons[p.tok.text]; ok && p.tok.kind == tokenSymbol {
		return p.comparison(left, op)
	}
	negated := p.tok.kind == tokenWord && p.tok.text == "not"
	if negated {
		if err := p.advance(); err != nil {
			return nil, err
		}
		p.offerWords(left)
	}
	if p.tok.kind == tokenWord {
		op, isText := textOps[p.tok.text]
		switch {
		case isText:
			return p.textual(left, op, negated)
		case p.tok.text == "in":
			return p.in(left, negated)
		case p.tok.text == "between":
			return p.between(left, negated)
		case p.tok.text == "is" && !negated:
			return p.is(left)
		}
	}
	if negated {
		return nil, p.expected("'in', 'between', 'like' or another operator that is a word")
	}
	return nil, p.expected("an operator such as =, <, in or like")
}

func (p *parser) comparison(left operand, op comparison) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.offerValue(left)
	right, err := p.operand("a value")
	if err != nil {
		return nil, err
	}
	if left.fixed() && !right.fixed() {
		left, right, op = right, left, op.turned()
	}
	if right, err = p.comparable(left, right, op.inOrder()); err != nil {
		return nil, err
	}
	if left.kind == ofLiteral && right.kind == ofNow { // 2026-01-01 < now
		left, right, op = right, left, op.turned()
	}
	return &compare{left: left, right: right, op: op}, nil
}

func (p *parser) between(x operand, negated bool) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.offerValue(x)
	low, err := p.operand("a value")
	if err != nil {
		return nil, err
	}
	if low, err = p.comparable(x, low, true); err != nil {
		return nil, err
	}
	and, err := p.accept("and")
	if err != nil {
		return nil, err
	}
	if !and {
		return nil, p.expected("'and'")
	}
	p.offerValue(x)
	high, err := p.operand("a value")
	if err != nil {
		return nil, err
	}
	if high, err = p.comparable(x, high, true); err != nil {
		return nil, err
	}
	return &between{operand: x, low: low, high: high, negated: negated}, nil
}

func (p *parser) in(x operand, negated bool) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	if err := p.need("("); err != nil {
		return nil, err
	}
	n := &in{operand: x, negated: negated}
	for {
		p.items++
		if p.items > MaxItems {
			return nil, p.errorf(p.tok.from, "more than %d values in lists", MaxItems)
		}
		p.offerLiteral(x)
		item, err := p.operand("a value")
		if err != nil {
			return nil, err
		}
		if item.kind != ofLiteral {
			return nil, p.errorf(item.at, "a list has values only; %s is compared with = and 'or'", item.append(nil))
		}
		if item, err = p.comparable(x, item, false); err != nil {
			return nil, err
		}
		n.list = append(n.list, item.value)
		if !p.symbol(",") {
			return n, p.need(")")
		}
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
}

func (p *parser) textual(x operand, op textOp, negated bool) (node, error) {
	at := p.tok.from
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.offerString(x)
	pattern, err := p.operand("a string")
	if err != nil {
		return nil, err
	}
	if err := p.checkText(at, x, op, pattern); err != nil {
		return nil, err
	}
	return &textual{operand: x, op: op, pattern: pattern.value, negated: negated}, nil
}

func (p *parser) is(x operand) (node, error) {
	if x.kind != ofPath || x.path.Root != RootType {
		return nil, p.errorf(p.tok.from, "'is' is about the type: type is \"meter\"; other things are compared with '='")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	negated, err := p.accept("not")
	if err != nil {
		return nil, err
	}
	p.offerString(x)
	if p.tok.kind != tokenLiteral || p.tok.value.kind != KindString {
		return nil, p.expected("the id of a type as a string")
	}
	n := &is{typeID: p.tok.value.text, negated: negated}
	return n, p.advance()
}

func (p *parser) exists() (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	group := p.symbol("(")
	if group {
		if err := p.advance(); err != nil {
			return nil, err
		}
	}
	at := p.tok.from
	path, err := p.path("a path")
	if err != nil {
		return nil, err
	}
	if path.Root == RootRelation && path.Name == "" {
		return nil, p.errorf(at, "name a property, as in relation.weight")
	}
	if group {
		err = p.need(")")
	}
	return &exists{path: path}, err
}

func (p *parser) relation() (node, error) {
	p.related++
	defer func() { p.related-- }()
	if p.related > MaxRelated {
		return nil, p.errorf(p.tok.from, "more than %d related inside of each other", MaxRelated)
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	n := &related{}
	p.offer(offer{kind: SuggestRelation})
	switch {
	case p.tok.kind == tokenPath && p.tok.name != "":
		n.typ = p.tok.name
	case p.word("any"):
	case p.tok.kind == tokenWord: // such as contains; none but any has a meaning here
		n.typ = p.text[p.tok.from:p.tok.to]
	case p.tok.kind == tokenLiteral && p.tok.value.kind == KindString:
		return nil, p.errorf(p.tok.from, "a type of relation is a name: without quotes, or in backquotes")
	default:
		return nil, p.expected("a type of relation or 'any'")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	switch {
	case p.word("from"):
		n.direction = From
	case p.word("to"):
	default:
		return nil, p.expected("'to' or 'from'")
	}
	if err := p.advance(); err != nil {
		return nil, err
	}
	return n, p.target(n)
}

// target reads what the other end of a relation must be.
func (p *parser) target(n *related) (err error) {
	p.offer(offer{kind: SuggestID})
	switch {
	case p.symbol("("):
		n.other, err = p.group()
		return err
	case p.word("any"):
	case p.tok.kind == tokenLiteral && p.tok.value.kind == KindString && p.tok.value.text != "":
		n.id = p.tok.value.text
	default:
		return p.expected(`the id of an entity as a string, 'any', or a condition in parentheses`)
	}
	return p.advance()
}

// operand reads one side of a comparison; what is said in messages.
func (p *parser) operand(what string) (operand, error) {
	o := operand{at: p.tok.from}
	switch {
	case p.tok.kind == tokenLiteral:
		o.value = p.tok.value
	case p.tok.kind == tokenWord && (p.tok.text == "true" || p.tok.text == "false"):
		o.value = Bool(p.tok.text == "true")
	case p.tok.kind == tokenWord && (p.tok.text == "ts" || p.tok.text == "age"):
		return p.call(o)
	case p.tok.kind == tokenWord && p.tok.text == "now":
		return p.now(o)
	case p.tok.kind == tokenPath || p.tok.kind == tokenWord && rootOf(p.tok.text) != RootLatest:
		path, err := p.path(what)
		if err == nil && path.Root.document() && path.Name == "" {
			err = p.errorf(o.at, "%s is a whole document; name a leaf as in %s.mode, or write exists %s", path, path, path)
		}
		o.kind, o.path = ofPath, path
		return o, err
	default:
		return o, p.expected(what)
	}
	return o, p.advance()
}

// path reads a path.
func (p *parser) path(what string) (*Path, error) {
	p.offer(offer{kind: SuggestPath})
	path := p.tok.path
	switch {
	case p.tok.kind == tokenWord && rootOf(p.tok.text) != RootLatest:
		path = Path{Root: rootOf(p.tok.text)}
	case p.tok.kind != tokenPath:
		return nil, p.expected(what)
	}
	if path.Root == RootRelation && p.related == 0 {
		return nil, p.errorf(p.tok.from, "there is a relation only inside of related: related feeds to (relation.weight > 3)")
	}
	return p.intern(path), p.advance()
}

// intern keeps one pointer for each path.
func (p *parser) intern(path Path) *Path {
	known, ok := p.known[path]
	if !ok {
		known = &path
		p.known[path] = known
		p.paths = append(p.paths, known)
	}
	return known
}

// rootOf returns the root that a word stands for, RootLatest for none.
func rootOf(word string) Root {
	for root, name := range rootNames {
		if name == word {
			return Root(root)
		}
	}
	return RootLatest
}

// call reads ts(path) and age(path).
func (p *parser) call(o operand) (operand, error) {
	name := p.tok.text
	o.kind = ofTime
	if name == "age" {
		o.kind = ofAge
	}
	if err := p.advance(); err != nil {
		return o, err
	}
	if err := p.need("("); err != nil {
		return o, err
	}
	at := p.tok.from
	path, err := p.path("a path")
	if err != nil {
		return o, err
	}
	instant := path.Root.kind() == KindTime
	switch {
	case path.Root == RootID, path.Root == RootType, path.Root == RootRelation, instant && o.kind == ofTime, path.Root.document() && path.Name == "":
		return o, p.errorf(at, "%s(%s) is not known: %s is about the latest value of a key or a leaf of attributes, desired or reported", name, path, name)
	}
	o.path = path
	return o, p.need(")")
}

// now reads now, now - 5m and now + 5m.
func (p *parser) now(o operand) (operand, error) {
	o.kind = ofNow
	if err := p.advance(); err != nil {
		return o, err
	}
	if p.tok.kind == tokenLiteral && p.tok.value.kind == KindDuration && strings.HasPrefix(p.text[p.tok.from:], "-") {
		o.shift = p.tok.value.Int()
		return o, p.advance()
	}
	minus := p.symbol("-")
	if !minus && !p.symbol("+") {
		return o, nil
	}
	if err := p.advance(); err != nil {
		return o, err
	}
	p.offer(offer{kind: SuggestValue, text: "5m"})
	if p.tok.kind != tokenLiteral || p.tok.value.kind != KindDuration || p.tok.value.Int() < 0 {
		return o, p.expected("a duration such as 5m")
	}
	o.shift = p.tok.value.Int()
	if minus {
		o.shift = -o.shift
	}
	return o, p.advance()
}
