package filter

import (
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// parser builds the tree of a text, with one function for each rule of the grammar in
// docs/language.md. After the first error, which is kept in the lexer, the token is the end of the
// text, and what the functions return is meaningless.
type parser struct {
	lexer

	tok  token
	prev token // the previous token

	paths []*Path // each once
	known map[Path]*Path

	depth, related           int // how deep the place is in nesting, and in related
	conditions, items, terms int // how many there are so far

	// resolve, if not nil, resolves the names of an expression in another text.
	resolve func(Reference) Path

	// offers, if not nil, gathers what may follow the text: completion parses a filter up to the
	// cursor.
	offers *[]offer
}

func newParser(text string) parser {
	p := parser{lexer: lexer{text: text}, known: make(map[Path]*Path)}
	p.advance()
	return p
}

// parse returns the tree of a text and its paths.
func parse(text string) (node, []*Path, error) {
	p := newParser(text)
	n := p.filter()
	return n, p.paths, p.err
}

func (p *parser) filter() node {
	if len(p.text) > MaxBytes {
		p.fail(MaxBytes, "the filter has %d bytes; at most %d are allowed", len(p.text), MaxBytes)
	}
	if p.tok.kind == tokenEnd && p.offers == nil {
		return constant(true)
	}
	o := p.choice("a condition")
	switch {
	case p.tok.kind == tokenEnd:
	case o.looked():
		p.expected(operatorSigns)
	default:
		p.expected("'and', 'or' or the end")
	}
	return p.condition(o)
}

// advance advances to the next token.
func (p *parser) advance() { p.prev, p.tok = p.tok, p.next() }

// fail records what is wrong at an offset.
func (p *parser) fail(offset int, format string, args ...any) {
	p.lexer.fail(offset, format, args...)
	p.tok = p.next()
}

// refuse is fail for the kind of an operand. If the text ends within it, and it has its
// kind already, nothing that was offered there helps.
func (p *parser) refuse(k value.Kind, offset int, format string, args ...any) {
	if p.offers != nil && k != 0 {
		*p.offers = nil
	}
	p.fail(offset, format, args...)
}

// isWord reports whether the token is this word, which is not offered.
func (p *parser) isWord(w string) bool { return p.tok.kind == tokenWord && p.tok.text == w }

// isSymbol reports whether the token is this symbol, which is not offered.
func (p *parser) isSymbol(s string) bool { return p.tok.kind == tokenSymbol && p.tok.text == s }

// isLiteral reports whether the token is a literal of a kind.
func (p *parser) isLiteral(k value.Kind) bool {
	return p.tok.kind == tokenLiteral && p.tok.value.Kind() == k && !p.tok.least
}

// word reports whether the token is this word.
func (p *parser) word(w string) bool {
	p.offer(offer{kind: SuggestWord, text: w})
	return p.isWord(w)
}

func (p *parser) symbol(s string) bool {
	p.offer(offer{kind: SuggestOperator, text: s})
	return p.isSymbol(s)
}

// accept advances if the token is this word.
func (p *parser) accept(w string) bool {
	is := p.word(w)
	if is {
		p.advance()
	}
	return is
}

// need advances if the token is this symbol, and records an error otherwise.
func (p *parser) need(s string) {
	if !p.symbol(s) {
		p.expected("'" + s + "'")
	}
	p.advance()
}

// expected records an error at the current token.
func (p *parser) expected(what string) {
	if p.err != nil {
		return
	}
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
	p.fail(p.tok.from, "expected %s%s, found %s", what, after, found)
}

// nest counts a level of nesting; the caller takes it back.
func (p *parser) nest() {
	if p.depth++; p.depth > MaxDepth {
		p.fail(p.tok.from, "nested deeper than %d", MaxDepth)
	}
}

// term counts a value, an operator or a call.
func (p *parser) term() {
	if p.terms++; p.terms > MaxTerms {
		p.fail(p.tok.from, "more than %d values, operators and calls", MaxTerms)
	}
}

// computed makes an operand of a node.
func computed(n node, at int) operand {
	kind := value.KindBool
	if c, ok := n.(computation); ok {
		kind = c.kind()
	}
	return operand{kind: ofComputed, computes: kind, node: n, at: at}
}

const operatorSigns = "an operator such as =, <, in or like"

// condition makes a condition of an operand. A bool may stand alone.
func (p *parser) condition(o operand) node {
	switch k := o.valueKind(); {
	case o.kind == ofComputed && k == value.KindBool:
		if _, ok := o.node.(computation); !ok {
			return o.node
		}
	case o.kind == ofLiteral && k == value.KindBool:
		return constant(o.value.Bool())
	case k != 0 && k != value.KindBool || o.kind == ofLiteral:
		p.expected(operatorSigns)
	}
	return &compare{left: o, op: isEqual, right: literal(value.Bool(true)), alone: true}
}

// choice reads an expression: condition ? yes : no, or anything that binds tighter. what names the
// expected thing in messages.
func (p *parser) choice(what string) operand {
	p.nest()
	o := p.choices(what)
	p.depth--
	return o
}

func (p *parser) choices(what string) operand {
	o := p.joined("or", what, p.allOf)
	if !p.isSymbol("?") {
		return o
	}
	p.term()
	n := &choice{condition: o}
	if condition := p.condition(o); o.kind != ofComputed {
		n.condition = computed(condition, o.at)
	}
	p.advance()
	n.yes = p.choice("a value")
	p.need(":")
	n.no = p.choices("a value")
	return computed(n, o.at)
}

func (p *parser) allOf(what string) operand { return p.joined("and", what, p.negated) }

// joined reads what is joined by a word.
func (p *parser) joined(word, what string, element func(string) operand) operand {
	first := element(what)
	if !first.isCondition() && p.tok.kind == tokenEnd || !p.word(word) {
		return first
	}
	n := &joined{any: word == "or"}
	n.add(p.condition(first))
	for p.accept(word) {
		n.add(p.condition(element("a condition")))
	}
	return computed(n, first.at)
}

// negated reads not and what follows it.
func (p *parser) negated(what string) operand {
	at := p.tok.from
	p.offerCondition()
	if !p.accept("not") {
		return p.predicate(what)
	}
	p.nest()
	n := p.condition(p.negated("a condition"))
	p.depth--
	return computed(&not{n}, at)
}

// predicate reads an operand and the condition about it.
func (p *parser) predicate(what string) operand {
	left := p.sum(what)
	at := p.tok.from
	n := p.said(left)
	if n == nil {
		return left
	}
	if p.conditions++; p.conditions > MaxConditions {
		p.fail(at, "more than %d conditions", MaxConditions)
	}
	if _, ok := p.sign(); ok {
		p.fail(p.tok.from, "two comparisons in a row; a < b < c is written a < b and b < c")
	}
	return computed(n, left.at)
}

// sign returns the comparison that the token is, if it is one.
func (p *parser) sign() (op comparison, ok bool) {
	if p.tok.kind == tokenSymbol {
		op, ok = comparisons[p.tok.text]
	}
	return op, ok
}

// said reads the condition about an operand, nil if the operand stands alone.
func (p *parser) said(left operand) node {
	p.offerOperators(left)
	if op, ok := p.sign(); ok {
		return p.comparison(left, op)
	}
	negated := p.isWord("not")
	if negated {
		p.advance()
		p.offerWords(left)
	}
	if p.tok.kind == tokenWord {
		switch op, ok := textOps[p.tok.text]; {
		case ok:
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
		p.expected("'in', 'between', 'like' or another operator that is a word")
	}
	return nil
}

func (p *parser) comparison(left operand, op comparison) node {
	p.advance()
	p.offerValue(left)
	right := p.sum("a value")
	if left.fixed() && !right.fixed() {
		left, right, op = right, left, op.turned()
	}
	right = p.comparable(left, right, op.inOrder())
	if left.kind == ofLiteral && right.kind == ofNow { // 2026-01-01 < now
		left, right, op = right, left, op.turned()
	}
	return &compare{left: left, right: right, op: op}
}

// sum reads additions and subtractions, and anything that binds tighter.
func (p *parser) sum(what string) operand { return p.binary(what, bindsSum, p.product) }

func (p *parser) product(what string) operand { return p.binary(what, bindsProduct, p.signed) }

// binary reads operations that group from the left.
func (p *parser) binary(what string, bound binding, element func(string) operand) operand {
	left := element(what)
	for op := p.operator(bound); op != nil; op = p.operator(bound) {
		at := p.tok.from
		p.advance()
		p.offerRight(op, left)
		left = p.operation(at, op, left, p.right(left, element))
	}
	return left
}

// right reads the right side of an operator. If the left side cannot be a number, neither can the
// right, and nothing to compute with is offered.
func (p *parser) right(left operand, element func(string) operand) operand {
	if couldBe(left.valueKind(), value.KindFloat) {
		return element("a value")
	}
	return p.without(element, "a value")
}

// operator returns the operator that the token is, nil where it binds otherwise.
func (p *parser) operator(bound binding) *operator {
	if p.tok.kind == tokenSymbol {
		if op := operators[p.tok.text]; op != nil && op.bound == bound {
			return op
		}
	}
	return nil
}

// operation makes an operand of an operator and two others, of which one may be
// refused for its kind.
func (p *parser) operation(at int, op *operator, left, right operand) operand {
	p.term()
	if left.kind == ofNow && right.kind == ofLiteral && right.value.Kind() == value.KindDuration && op.bound == bindsSum {
		ms := right.value.Int()
		if op.sign == "-" {
			ms = -ms
		}
		if left.shift += ms; left.shift >= value.MaxDuration || left.shift <= -value.MaxDuration {
			p.fail(right.at, "%s is too far from now", right.append(nil))
		}
		return left
	}
	l, r := left.valueKind(), right.valueKind()
	ok := couldBe(l, value.KindFloat) && couldBe(r, value.KindFloat)
	if op.bound == bindsSum {
		_, ok = op.sumKind(l, r)
	}
	if !ok {
		p.refuse(r, at, "'%s' has no meaning for %s and %s", op.sign, withArticle(l), withArticle(r))
	}
	return computed(&arithmetic{op, left, right}, left.at)
}

// signed reads - and + before an operand, and powers.
func (p *parser) signed(what string) operand {
	at := p.tok.from
	op := p.operator(bindsSum)
	if op == nil {
		return p.power(what)
	}
	p.advance()
	if op.sign == "-" && p.tok.least && p.tok.from == at+1 {
		p.advance()
		return operand{kind: ofLiteral, value: value.Int(-1 << 63), at: at}
	}
	p.nest()
	p.offerPart()
	o := p.signed("a value")
	p.depth--
	o.at = at
	switch k := o.valueKind(); {
	case !couldBe(k, value.KindFloat) && k != value.KindDuration:
		p.refuse(k, at, "'%s' has no meaning for %s", op.sign, withArticle(k))
		return o
	case op.sign == "+" && k != 0:
		return o
	case op.sign == "+":
		return computed(&arithmetic{op, literal(value.Int(0)), o}, at)
	case o.kind == ofLiteral && k == value.KindFloat:
		return operand{kind: ofLiteral, value: value.Float(-o.value.Float()), at: at}
	case o.kind == ofLiteral:
		return operand{kind: ofLiteral, value: negate(&Env{}, o.value), at: at}
	}
	p.term()
	return computed(&negation{o}, at)
}

// power reads x ** y, which groups from the right.
func (p *parser) power(what string) operand {
	left := p.fallback(what)
	op := p.operator(bindsPower)
	if op == nil {
		return left
	}
	at := p.tok.from
	p.advance()
	p.offerRight(op, left)
	return p.operation(at, op, left, p.signed("a value"))
}

// fallback reads x ?? y.
func (p *parser) fallback(what string) operand {
	left := p.primary(what)
	for p.isSymbol("??") {
		p.advance()
		p.offerPart()
		left = computed(&fallback{left, p.primary("a value")}, left.at)
		p.term()
	}
	return left
}

// primary reads an operand without operators.
func (p *parser) primary(what string) operand {
	p.term()
	o := operand{at: p.tok.from}
	switch {
	case p.tok.least:
		p.fail(p.tok.from, tooLarge, brief(p.text[p.tok.from:p.tok.to]))
	case p.tok.kind == tokenLiteral:
		o.value = p.tok.value
		p.advance()
	case p.isSymbol("("):
		return p.group(what)
	case p.tok.kind == tokenPath:
		return p.named(o, what)
	case p.tok.kind == tokenWord:
		return p.reserved(o, what)
	default:
		p.expected(what)
	}
	return o
}

func (p *parser) group(what string) operand {
	p.advance()
	o := p.choice(what)
	if what == "a condition" && p.resolve == nil && p.tok.kind != tokenEnd && !p.isSymbol(")") && o.looked() {
		p.expected(operatorSigns)
	}
	p.need(")")
	return o
}

// reserved reads what begins with a word of the language.
func (p *parser) reserved(o operand, what string) operand {
	word := p.tok.text
	switch word {
	case "true", "false":
		o.value = value.Bool(word == "true")
		p.advance()
		return o
	case "null":
		if p.resolve == nil {
			p.fail(p.tok.from, "nothing equals null; what is missing is tested with 'not exists'")
		}
		p.advance()
		return o
	case "exists":
		return computed(p.exists(), o.at)
	}
	if p.resolve != nil && (word == "related" || word == "now" || word == "ts" || word == "age") {
		p.fail(p.tok.from, "'%s' has no place in a mapping, whose values depend on readings and attributes alone", word)
		return o
	}
	switch {
	case word == "related":
		return computed(p.relation(), o.at)
	case word == "now":
		o.kind = ofNow
		p.advance()
		p.offerShift()
	case word == "ts", word == "age":
		return p.time(o)
	case rootOf(word) != RootLatest:
		return p.named(o, what)
	default:
		p.expected(what)
	}
	return o
}

// named reads a path or a call.
func (p *parser) named(o operand, what string) operand {
	name := p.tok
	if len(name.names) == 1 && !name.names[0].Quoted && name.kind == tokenPath {
		after := p.lexer
		if t := after.next(); t.kind == tokenSymbol && t.text == "(" {
			return p.call(o)
		}
	}
	o.kind, o.path = ofPath, p.path(what)
	if path := o.path; p.resolve == nil && path.Root.document() && path.Name == "" {
		p.fail(o.at, "%s is a whole document; name a leaf as in %s.mode, or write exists %s", path, path, path)
	}
	return o
}

// call reads a function with its arguments.
func (p *parser) call(o operand) operand {
	name := strings.ToLower(p.tok.names[0].Text)
	if p.resolve != nil && p.isAggregate(name) {
		o.kind, o.path = ofPath, p.aggregate(name)
		return o
	}
	fn := functions[name]
	if fn == nil {
		p.noFunction(name)
		return o
	}
	p.advance()
	n := &call{fn: fn}
	for first := true; first || p.isSymbol(","); first = false {
		p.advance()
		if first && p.isSymbol(")") {
			break
		}
		p.offerPart()
		arg := p.choice("a value")
		if k := arg.valueKind(); fn.takes != 0 && !couldBe(k, fn.takes) {
			p.refuse(k, arg.at, "%s takes numbers, and this is %s", fn.name, withArticle(k))
		}
		n.args = append(n.args, arg)
		if len(n.args) > MaxArguments {
			p.fail(arg.at, "more than %d arguments", MaxArguments)
		}
	}
	if got := len(n.args); got < fn.least && p.tok.kind == tokenEnd {
		p.expected("another argument of " + fn.usage)
	} else if got < fn.least || got > fn.most {
		p.fail(o.at, "%s is called with %s: write %s", fn.name, counted(got), fn.usage)
	}
	p.need(")")
	return computed(n, o.at)
}

// counted returns the number of arguments in words.
func counted(arguments int) string {
	if arguments == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", arguments)
}

func (p *parser) noFunction(name string) {
	switch aggregate := slices.Contains(aggregates, name); {
	case aggregate && p.resolve == nil:
		p.fail(p.tok.from, "%s is over many values, which mappings have and filters do not", name)
	case aggregate:
		p.fail(p.tok.from, "%s is over one source, as in %s(meters.power); combine several values with operators", name, name)
	}
	hint := ""
	if p.resolve != nil {
		hint = ", and over many values " + strings.Join(aggregates, ", ")
	}
	p.fail(p.tok.from, "there is no function %s; there are %s%s", brief(name), strings.Join(functionNames, ", "), hint)
}

func (p *parser) between(x operand, negated bool) node {
	n := &between{operand: x, negated: negated}
	p.advance()
	n.low = p.end(x)
	if !p.accept("and") {
		p.expected("'and'")
	}
	n.high = p.end(x)
	return n
}

// end reads an end of the range that an operand is between.
func (p *parser) end(x operand) operand {
	p.offerValue(x)
	return p.comparable(x, p.sum("a value"), true)
}

func (p *parser) in(x operand, negated bool) node {
	p.advance()
	p.need("(")
	n := &in{operand: x, negated: negated}
	terms := p.terms // the items are counted by themselves
	for {
		if p.items++; p.items > MaxItems {
			p.fail(p.tok.from, "more than %d values in lists", MaxItems)
		}
		p.offerLiteral(x)
		item := p.without(p.sum, "a value")
		p.terms = terms
		if item.kind != ofLiteral {
			p.fail(item.at, "a list has values only; %s is compared with = and 'or'", item.append(nil))
		}
		n.list = append(n.list, p.comparable(x, item, false).value)
		if !p.symbol(",") {
			p.need(")")
			return n
		}
		p.advance()
	}
}

// without reads an operand and offers nothing to compute it of.
func (p *parser) without(read func(what string) operand, what string) operand {
	offers := p.offers
	p.offers = nil
	o := read(what)
	p.offers = offers
	return o
}

func (p *parser) textual(x operand, op textOp, negated bool) node {
	at := p.tok.from
	p.advance()
	p.offerString(x)
	pattern := p.without(p.sum, "a string")
	p.checkText(at, x, op, pattern)
	return &textual{operand: x, op: op, pattern: pattern.value, negated: negated}
}

func (p *parser) is(x operand) node {
	if x.kind != ofPath || x.path.Root != RootType {
		p.fail(p.tok.from, "'is' is about the type: type is \"meter\"; other things are compared with '='")
	}
	p.advance()
	n := &is{negated: p.accept("not")}
	p.offerString(x)
	if !p.isLiteral(value.KindString) {
		p.expected("the id of a type as a string")
	}
	n.typeID = p.tok.value.Text()
	p.advance()
	return n
}

func (p *parser) exists() node {
	p.advance()
	group := p.symbol("(")
	if group {
		p.advance()
	}
	at := p.tok.from
	path := p.path("a path")
	if path.Root == RootRelation && path.Name == "" {
		p.fail(at, "name a property, as in relation.weight")
	}
	if group {
		p.need(")")
	}
	return &exists{path: path}
}

func (p *parser) relation() node {
	if p.related++; p.related > MaxRelated {
		p.fail(p.tok.from, "more than %d related inside of each other", MaxRelated)
	}
	p.advance()
	n := &related{}
	p.offer(offer{kind: SuggestRelation})
	switch {
	case p.tok.kind == tokenPath && len(p.tok.names) == 1:
		n.typ = p.tok.names[0].Text
	case p.word("any"):
	case p.tok.kind == tokenWord: // such as contains; none but any has a meaning here
		n.typ = p.text[p.tok.from:p.tok.to]
	case p.isLiteral(value.KindString):
		p.fail(p.tok.from, "a type of relation is a name: without quotes, or in backquotes")
	default:
		p.expected("a type of relation or 'any'")
	}
	p.advance()
	switch {
	case p.word("from"):
		n.direction = From
	case p.word("to"):
	default:
		p.expected("'to' or 'from'")
	}
	p.advance()
	p.target(n)
	p.related--
	return n
}

// target reads what the other end of a relation must be.
func (p *parser) target(n *related) {
	p.offer(offer{kind: SuggestID})
	switch {
	case p.symbol("("):
		n.other = p.condition(p.group("a condition"))
		return
	case p.word("any"):
	case p.isLiteral(value.KindString) && p.tok.value.Text() != "":
		n.id = p.tok.value.Text()
	default:
		p.expected(`the id of an entity as a string, 'any', or a condition in parentheses`)
	}
	p.advance()
}

// path reads a path.
func (p *parser) path(what string) *Path {
	p.offerPath()
	t := p.tok
	switch {
	case t.kind != tokenPath && (t.kind != tokenWord || rootOf(t.text) == RootLatest):
		p.expected(what)
		return &Path{}
	case p.resolve != nil:
		return p.resolved(Reference{at: t.from})
	}
	path := p.pathOf(t)
	if path.Root == RootRelation && p.related == 0 {
		p.fail(t.from, "there is a relation only inside of related: related feeds to (relation.weight > 3)")
	}
	p.advance()
	return p.intern(path)
}

// pathOf returns the path that names stand for in a filter.
func (p *parser) pathOf(t token) Path {
	first := t.names[0]
	switch root := rootOf(strings.ToLower(first.Text)); {
	case t.at:
		p.fail(t.from, "'@' has no meaning here; an attribute is written attributes.floor")
	case !first.Quoted && len(t.names) > 1 && strings.EqualFold(first.Text, presenceRoot):
		return p.presence(t)
	case first.Quoted, !isReserved(first.Text):
		list := make([]string, len(t.names))
		for i, n := range t.names {
			list[i] = n.Text
		}
		return Path{Root: RootLatest, Name: strings.Join(list, ".")}
	case root.document():
		return Path{Root: root, Name: pointer(t.names[1:])}
	case root != RootLatest && len(t.names) == 1:
		return Path{Root: root}
	default:
		p.fail(t.from, "'%s' has nothing below it; a key of this name must be in backquotes: `%s`", first.Text, p.text[t.from:t.to])
	}
	return Path{}
}

// presence returns the path of a member of the presence.
func (p *parser) presence(t token) Path {
	member := t.names[1]
	if len(t.names) > 2 || member.Quoted || !slices.Contains(PresenceMembers(), member.Text) {
		p.fail(t.from, "of the presence there are %s; a key of this name must be in backquotes: `%s`",
			presenceRoot+"."+strings.Join(PresenceMembers(), ", "+presenceRoot+"."), p.text[t.from:t.to])
		return Path{}
	}
	return Path{Root: RootPresence, Name: member.Text}
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
func rootOf(word string) Root { return Root(max(0, slices.Index(rootNames[:], word))) }

// time reads ts(path) and age(path).
func (p *parser) time(o operand) operand {
	name := p.tok.text
	o.kind = ofTime
	if name == "age" {
		o.kind = ofAge
	}
	p.advance()
	p.need("(")
	at := p.tok.from
	o.path = p.path("a path")
	instant := o.path.Root.kind() == value.KindTime
	switch path := o.path; {
	case path.Root == RootID, path.Root == RootType, path.Root == RootRelation, path.Root == RootPresence, instant && o.kind == ofTime, path.Root.document() && path.Name == "":
		p.fail(at, "%s(%s) is not known: %s is about the latest value of a key or a leaf of attributes, desired or reported", name, path, name)
	}
	p.need(")")
	return o
}
