package filter

import (
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// parser makes the tree of a text: one function for each rule of the grammar in
// docs/language.md.
type parser struct {
	lexer

	tok  token
	prev token // the one before

	paths []*Path // each once
	known map[Path]*Path

	depth, related           int // how deep the place is in nesting, and in related
	conditions, items, terms int // how many there are so far

	// resolve, where it is not nil, is what reads the names of an expression in
	// another text.
	resolve func(Reference) (Path, error)

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
	o, err := p.choice("a condition")
	if err != nil {
		return nil, err
	}
	if p.tok.kind != tokenEnd {
		if o.looked() {
			return nil, p.expected(operatorSigns)
		}
		return nil, p.expected("'and', 'or' or the end")
	}
	return p.condition(o)
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

// term counts a value, an operator or a call.
func (p *parser) term() error {
	p.terms++
	if p.terms > MaxTerms {
		return p.errorf(p.tok.from, "more than %d values, operators and calls", MaxTerms)
	}
	return nil
}

// computed makes an operand of a node.
func computed(n node, at int) operand { return operand{kind: ofComputed, node: n, at: at} }

const operatorSigns = "an operator such as =, <, in or like"

// condition makes a condition of an operand. A bool may stand alone.
func (p *parser) condition(o operand) (node, error) {
	switch k := o.valueKind(); {
	case o.kind == ofComputed && k == value.KindBool:
		if _, ok := o.node.(computation); !ok {
			return o.node, nil
		}
	case o.kind == ofLiteral && k == value.KindBool:
		return constant(o.value.Bool()), nil
	case k != 0 && k != value.KindBool || o.kind == ofLiteral:
		return nil, p.expected(operatorSigns)
	}
	return &compare{left: o, op: isEqual, right: literal(value.Bool(true)), alone: true}, nil
}

// choice reads an expression: condition ? yes : no, or what binds closer. what says
// in messages what it is to be.
func (p *parser) choice(what string) (operand, error) {
	if err := p.nest(); err != nil {
		return operand{}, err
	}
	defer func() { p.depth-- }()
	return p.choices(what)
}

func (p *parser) choices(what string) (operand, error) {
	o, err := p.anyOf(what)
	if err != nil || p.tok.kind != tokenSymbol || p.tok.text != "?" {
		return o, err
	}
	if err := p.term(); err != nil {
		return o, err
	}
	condition, err := p.condition(o)
	if err == nil {
		err = p.advance()
	}
	if err != nil {
		return o, err
	}
	n := &choice{condition: o}
	if o.kind != ofComputed {
		n.condition = computed(condition, o.at)
	}
	if n.yes, err = p.choice("a value"); err == nil {
		err = p.need(":")
	}
	if err == nil {
		n.no, err = p.choices("a value")
	}
	return computed(n, o.at), err
}

func (p *parser) anyOf(what string) (operand, error) {
	return p.list("or", what, p.allOf, func(list []node) node {
		n := &anyOf{}
		for _, x := range list {
			if inner, ok := x.(*anyOf); ok { // from parentheses that were not needed
				n.list = append(n.list, inner.list...)
			} else {
				n.list = append(n.list, x)
			}
		}
		return n
	})
}

func (p *parser) allOf(what string) (operand, error) {
	return p.list("and", what, p.negated, func(list []node) node {
		n := &allOf{}
		for _, x := range list {
			if inner, ok := x.(*allOf); ok {
				n.list = append(n.list, inner.list...)
			} else {
				n.list = append(n.list, x)
			}
		}
		return n
	})
}

// list reads what is joined by a word.
func (p *parser) list(word, what string, element func(string) (operand, error), join func([]node) node) (operand, error) {
	first, err := element(what)
	if err != nil || !first.isCondition() && p.tok.kind == tokenEnd || !p.word(word) {
		return first, err
	}
	n, err := p.condition(first)
	list := []node{n}
	for err == nil && p.word(word) {
		if err = p.advance(); err != nil {
			break
		}
		var o operand
		if o, err = element("a condition"); err != nil {
			break
		}
		n, err = p.condition(o)
		list = append(list, n)
	}
	if err != nil {
		return first, err
	}
	return computed(join(list), first.at), nil
}

// negated reads not and what follows it.
func (p *parser) negated(what string) (operand, error) {
	at := p.tok.from
	p.offerCondition()
	is, err := p.accept("not")
	if err != nil || !is {
		o, e := p.predicate(what)
		if err == nil {
			err = e
		}
		return o, err
	}
	if err := p.nest(); err != nil {
		return operand{}, err
	}
	defer func() { p.depth-- }()
	o, err := p.negated("a condition")
	if err != nil {
		return o, err
	}
	n, err := p.condition(o)
	return computed(&not{n}, at), err
}

// predicate reads an operand and what is said of it.
func (p *parser) predicate(what string) (operand, error) {
	left, err := p.sum(what)
	if err != nil {
		return left, err
	}
	before := p.tok
	n, err := p.said(left)
	if n == nil || err != nil {
		return left, err
	}
	p.conditions++
	if p.conditions > MaxConditions {
		return left, p.errorf(before.from, "more than %d conditions", MaxConditions)
	}
	if _, ok := comparisons[p.tok.text]; ok && p.tok.kind == tokenSymbol {
		return left, p.errorf(p.tok.from, "two comparisons in a row; a < b < c is written a < b and b < c")
	}
	return computed(n, left.at), nil
}

// said reads what is said of an operand, nothing where it stands alone.
func (p *parser) said(left operand) (node, error) {
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
		return nil, p.expected("'in', 'between', 'like' or another operator that is a word")
	}
	return nil, nil //nolint:nilnil // nothing is said
}

func (p *parser) comparison(left operand, op comparison) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.offerValue(left)
	right, err := p.sum("a value")
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

// sum reads additions and subtractions, and what binds closer.
func (p *parser) sum(what string) (operand, error) {
	return p.binary(what, []string{"+", "-"}, p.product)
}

func (p *parser) product(what string) (operand, error) {
	return p.binary(what, []string{"*", "/", "%"}, p.sign)
}

// binary reads operations that group from the left.
func (p *parser) binary(what string, signs []string, element func(string) (operand, error)) (operand, error) {
	left, err := element(what)
	for err == nil {
		op := p.operator(signs)
		if op == nil {
			return left, nil
		}
		at := p.tok.from
		if err = p.advance(); err != nil {
			break
		}
		if left.valueKind() == value.KindTime {
			p.offer(offer{kind: SuggestValue, text: "5m"})
		} else {
			p.offerPart()
		}
		var right operand
		if right, err = element("a value"); err == nil {
			left, err = p.operation(at, op, left, right)
		}
	}
	return left, err
}

// operator returns the operator that the token is, if it is one of these.
func (p *parser) operator(signs []string) *operator {
	if p.tok.kind != tokenSymbol {
		return nil
	}
	for _, s := range signs {
		if p.tok.text == s {
			return operators[s]
		}
	}
	return nil
}

// operation makes an operand of an operator and two others, of which one may be
// refused for its kind.
func (p *parser) operation(at int, op *operator, left, right operand) (operand, error) {
	if err := p.term(); err != nil {
		return left, err
	}
	if left.kind == ofNow && right.kind == ofLiteral && right.value.Kind() == value.KindDuration && op.bound == bindsSum {
		ms := right.value.Int()
		if op.sign == "-" {
			ms = -ms
		}
		if sum := left.shift + ms; sum < value.MaxDuration && sum > -value.MaxDuration {
			left.shift = sum
			return left, nil
		}
		return left, p.errorf(right.at, "%s is too far from now", right.append(nil))
	}
	l, r := left.valueKind(), right.valueKind()
	ok := couldBe(l, value.KindFloat) && couldBe(r, value.KindFloat)
	if op.bound == bindsSum {
		_, ok = op.sumKind(l, r)
	}
	if !ok {
		return left, p.errorf(at, "'%s' has no meaning for %s and %s", op.sign, withArticle(l), withArticle(r))
	}
	return computed(&arithmetic{op, left, right}, left.at), nil
}

// sign reads - and + before an operand, and powers.
func (p *parser) sign(what string) (operand, error) {
	at := p.tok.from
	op := p.operator([]string{"+", "-"})
	if op == nil {
		return p.power(what)
	}
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	if op.sign == "-" && p.tok.least && p.tok.from == at+1 {
		return operand{kind: ofLiteral, value: value.Int(-1 << 63), at: at}, p.advance()
	}
	if err := p.nest(); err != nil {
		return operand{}, err
	}
	defer func() { p.depth-- }()
	p.offerPart()
	o, err := p.sign("a value")
	if err != nil {
		return o, err
	}
	o.at = at
	switch k := o.valueKind(); {
	case !couldBe(k, value.KindFloat) && k != value.KindDuration:
		return o, p.errorf(at, "'%s' has no meaning for %s", op.sign, withArticle(k))
	case op.sign == "+" && k != 0:
		return o, nil
	case op.sign == "+":
		return computed(&arithmetic{operators["+"], literal(value.Int(0)), o}, at), nil
	case o.kind == ofLiteral && k == value.KindFloat:
		return operand{kind: ofLiteral, value: value.Float(-o.value.Float()), at: at}, nil
	case o.kind == ofLiteral:
		return operand{kind: ofLiteral, value: negate(&Env{}, o.value), at: at}, nil
	}
	return computed(&negation{o}, at), p.term()
}

// power reads x ** y, which groups from the right.
func (p *parser) power(what string) (operand, error) {
	left, err := p.fallback(what)
	if err != nil {
		return left, err
	}
	op := p.operator([]string{"**"})
	if op == nil {
		return left, nil
	}
	at := p.tok.from
	if err := p.advance(); err != nil {
		return left, err
	}
	p.offerPart()
	right, err := p.sign("a value")
	if err != nil {
		return left, err
	}
	return p.operation(at, op, left, right)
}

// fallback reads x ?? y.
func (p *parser) fallback(what string) (operand, error) {
	left, err := p.primary(what)
	for err == nil && p.tok.kind == tokenSymbol && p.tok.text == "??" {
		if err = p.advance(); err != nil {
			break
		}
		p.offerPart()
		var right operand
		if right, err = p.primary("a value"); err == nil {
			left, err = computed(&fallback{left, right}, left.at), p.term()
		}
	}
	return left, err
}

// primary reads what no operator is in.
func (p *parser) primary(what string) (operand, error) {
	if err := p.term(); err != nil {
		return operand{}, err
	}
	o := operand{at: p.tok.from}
	switch {
	case p.tok.kind == tokenLiteral && p.tok.least:
		return o, p.tooLarge(p.tok.from, p.text[p.tok.from:p.tok.to])
	case p.tok.kind == tokenLiteral:
		o.value = p.tok.value
	case p.symbolIs("("):
		return p.group(what)
	case p.tok.kind == tokenPath:
		return p.named(o, what)
	case p.tok.kind == tokenWord:
		return p.reserved(o, what)
	default:
		return o, p.expected(what)
	}
	return o, p.advance()
}

// symbolIs reports whether the token is this symbol, which is not offered.
func (p *parser) symbolIs(s string) bool { return p.tok.kind == tokenSymbol && p.tok.text == s }

func (p *parser) group(what string) (operand, error) {
	if err := p.advance(); err != nil {
		return operand{}, err
	}
	o, err := p.choice(what)
	if err == nil && what == "a condition" && p.resolve == nil && p.tok.kind != tokenEnd && !p.symbolIs(")") && o.looked() {
		return o, p.expected(operatorSigns)
	}
	if err != nil {
		return o, err
	}
	return o, p.need(")")
}

// reserved reads what begins with a word of the language.
func (p *parser) reserved(o operand, what string) (operand, error) {
	word := p.tok.text
	switch word {
	case "true", "false":
		o.value = value.Bool(word == "true")
		return o, p.advance()
	case "null":
		if p.resolve == nil {
			return o, p.errorf(p.tok.from, "nothing equals null; what is missing is tested with 'not exists'")
		}
		return o, p.advance()
	case "exists":
		n, err := p.exists()
		return computed(n, o.at), err
	}
	if p.resolve != nil && (word == "related" || word == "now" || word == "ts" || word == "age") {
		return o, p.errorf(p.tok.from, "'%s' has no place in a mapping, whose values depend on readings and attributes alone", word)
	}
	switch {
	case word == "related":
		n, err := p.relation()
		return computed(n, o.at), err
	case word == "now":
		o.kind = ofNow
		if err := p.advance(); err != nil {
			return o, err
		}
		p.offerShift()
		return o, nil
	case word == "ts", word == "age":
		return p.time(o)
	case rootOf(word) != RootLatest:
		return p.named(o, what)
	default:
		return o, p.expected(what)
	}
}

// named reads a path or a call.
func (p *parser) named(o operand, what string) (operand, error) {
	name := p.tok
	if len(name.names) == 1 && !name.names[0].quoted && name.kind == tokenPath {
		after := p.lexer
		if t, err := after.next(); err == nil && t.kind == tokenSymbol && t.text == "(" {
			return p.call(o)
		}
	}
	path, err := p.path(what)
	if err == nil && p.resolve == nil && path.Root.document() && path.Name == "" {
		err = p.errorf(o.at, "%s is a whole document; name a leaf as in %s.mode, or write exists %s", path, path, path)
	}
	o.kind, o.path = ofPath, path
	return o, err
}

// call reads a function with its arguments.
func (p *parser) call(o operand) (operand, error) {
	name := strings.ToLower(p.tok.names[0].text)
	if p.resolve != nil && isAggregate(name) {
		if path, ok, err := p.aggregate(name); ok || err != nil {
			o.kind, o.path = ofPath, path
			return o, err
		}
	}
	fn := functions[name]
	if fn == nil {
		return o, p.noFunction(name)
	}
	if err := p.advance(); err != nil {
		return o, err
	}
	n := &call{fn: fn}
	for first := true; first || p.symbolIs(","); first = false {
		if err := p.advance(); err != nil {
			return o, err
		}
		if first && p.symbolIs(")") {
			break
		}
		p.offerPart()
		arg, err := p.choice("a value")
		if err != nil {
			return o, err
		}
		if k := arg.valueKind(); fn.takes != 0 && !couldBe(k, fn.takes) {
			return o, p.errorf(arg.at, "%s takes numbers, and this is %s", fn.name, withArticle(k))
		}
		n.args = append(n.args, arg)
		if len(n.args) > MaxArguments {
			return o, p.errorf(arg.at, "more than %d arguments", MaxArguments)
		}
	}
	if got := len(n.args); got < fn.least || got > fn.most {
		return o, p.errorf(o.at, "%s has %d arguments, and must be %s", fn.name, got, fn.usage)
	}
	return computed(n, o.at), p.need(")")
}

func (p *parser) noFunction(name string) error {
	if isAggregate(name) {
		if p.resolve == nil {
			return p.errorf(p.tok.from, "%s is over many values, which mappings have and filters do not", name)
		}
		return p.errorf(p.tok.from, "%s is over one source, as in %s(meters.power); values are put together with operators", name, name)
	}
	hint := ""
	if p.resolve != nil {
		hint = ", and over many values " + strings.Join(aggregates, ", ")
	}
	return p.errorf(p.tok.from, "there is no function %s; there are %s%s", brief(name), strings.Join(functionNames, ", "), hint)
}

func (p *parser) between(x operand, negated bool) (node, error) {
	if err := p.advance(); err != nil {
		return nil, err
	}
	p.offerValue(x)
	low, err := p.sum("a value")
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
	high, err := p.sum("a value")
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
	terms := p.terms // the items are counted by themselves
	for {
		p.items++
		if p.items > MaxItems {
			return nil, p.errorf(p.tok.from, "more than %d values in lists", MaxItems)
		}
		p.offerLiteral(x)
		item, err := p.sum("a value")
		p.terms = terms
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
	pattern, err := p.sum("a string")
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
	if p.tok.kind != tokenLiteral || p.tok.value.Kind() != value.KindString {
		return nil, p.expected("the id of a type as a string")
	}
	n := &is{typeID: p.tok.value.Text(), negated: negated}
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
	case p.tok.kind == tokenPath && len(p.tok.names) == 1:
		n.typ = p.tok.names[0].text
	case p.word("any"):
	case p.tok.kind == tokenWord: // such as contains; none but any has a meaning here
		n.typ = p.text[p.tok.from:p.tok.to]
	case p.tok.kind == tokenLiteral && p.tok.value.Kind() == value.KindString:
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
		return p.other(n)
	case p.word("any"):
	case p.tok.kind == tokenLiteral && p.tok.value.Kind() == value.KindString && p.tok.value.Text() != "":
		n.id = p.tok.value.Text()
	default:
		return p.expected(`the id of an entity as a string, 'any', or a condition in parentheses`)
	}
	return p.advance()
}

// other reads the condition about the entity at the other end.
func (p *parser) other(n *related) error {
	o, err := p.group("a condition")
	if err == nil {
		n.other, err = p.condition(o)
	}
	return err
}

// path reads a path.
func (p *parser) path(what string) (*Path, error) {
	p.offer(offer{kind: SuggestPath})
	if p.tok.kind != tokenPath && (p.tok.kind != tokenWord || rootOf(p.tok.text) == RootLatest) {
		return nil, p.expected(what)
	}
	t := p.tok
	if p.resolve != nil {
		return p.resolved(Reference{at: t.from})
	}
	path, err := p.pathOf(t)
	if err != nil {
		return nil, err
	}
	if path.Root == RootRelation && p.related == 0 {
		return nil, p.errorf(t.from, "there is a relation only inside of related: related feeds to (relation.weight > 3)")
	}
	return p.intern(path), p.advance()
}

// pathOf returns the path that names stand for in a filter.
func (p *parser) pathOf(t token) (Path, error) {
	first := t.names[0]
	switch root := rootOf(strings.ToLower(first.text)); {
	case t.at:
		return Path{}, p.errorf(t.from, "'@' has no meaning here; an attribute is written attributes.floor")
	case first.quoted, !isReserved(first.text):
		list := make([]string, len(t.names))
		for i, n := range t.names {
			list[i] = n.text
		}
		return Path{Root: RootLatest, Name: strings.Join(list, ".")}, nil
	case root.document():
		return Path{Root: root, Name: pointer(t.names[1:])}, nil
	case root != RootLatest && len(t.names) == 1:
		return Path{Root: root}, nil
	default:
		return Path{}, p.errorf(t.from, "'%s' has nothing below it; a key of this name must be in backquotes: `%s`", first.text, p.text[t.from:t.to])
	}
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

// time reads ts(path) and age(path).
func (p *parser) time(o operand) (operand, error) {
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
	instant := path.Root.kind() == value.KindTime
	switch {
	case path.Root == RootID, path.Root == RootType, path.Root == RootRelation, instant && o.kind == ofTime, path.Root.document() && path.Name == "":
		return o, p.errorf(at, "%s(%s) is not known: %s is about the latest value of a key or a leaf of attributes, desired or reported", name, path, name)
	}
	o.path = path
	return o, p.need(")")
}
