package filter

import "strings"

// A node is a condition of a filter as it was written. Nodes are not changed
// once they are made.
type node interface {
	// append writes the node in the canonical form.
	append(dst []byte) []byte
}

type (
	// constant is true or false.
	constant bool

	// allOf is true when each of its nodes is, and anyOf when one of them is. They
	// have at least two nodes, none of them of their own type.
	allOf struct{ list []node }
	anyOf struct{ list []node }

	not struct{ node node }

	// compare is a comparison with one of = != < <= > >=.
	compare struct {
		left, right operand
		op          comparison
	}

	// between includes both ends.
	between struct {
		operand, low, high operand
		negated            bool
	}

	in struct {
		operand operand
		list    []Value
		negated bool
	}

	// text is a condition about a string, or for contains also about an array.
	textual struct {
		operand operand
		op      textOp
		pattern Value // a string, for contains also another scalar
		negated bool
	}

	exists struct{ path *Path }

	is struct {
		typeID  string
		negated bool
	}

	related struct {
		typ       string // "" for any
		direction Direction
		id        string // "" for any
		other     node   // nil for any
	}
)

// comparison is the set of relations that make a comparison true.
type comparison relation

const (
	isEqual     = comparison(equal)
	isDifferent = comparison(less | greater | apart)
	isLess      = comparison(less)
	isAtMost    = comparison(less | equal)
	isGreater   = comparison(greater)
	isAtLeast   = comparison(greater | equal)
)

// comparisons has them by their signs.
var comparisons = map[string]comparison{
	"=": isEqual, "!=": isDifferent, "<": isLess, "<=": isAtMost, ">": isGreater, ">=": isAtLeast,
}

func (c comparison) String() string {
	for sign, op := range comparisons {
		if op == c {
			return sign
		}
	}
	return "?"
}

// holds reports whether two values that stand to each other like r satisfy c.
func (c comparison) holds(r relation) bool { return relation(c)&r != 0 }

// inOrder reports whether the comparison is about an order.
func (c comparison) inOrder() bool { return c != isEqual && c != isDifferent }

// turned is the comparison with its sides changed.
func (c comparison) turned() comparison {
	t := c &^ comparison(less|greater)
	if c.holds(less) {
		t |= comparison(greater)
	}
	if c.holds(greater) {
		t |= comparison(less)
	}
	return t
}

// textOp is an operator about strings; the words are those of the grammar.
type textOp struct {
	word string
	fold bool // whether case is passed over
}

var textOps = map[string]textOp{
	"like": {"like", false}, "ilike": {"like", true},
	"prefix": {"prefix", false}, "iprefix": {"prefix", true},
	"suffix": {"suffix", false}, "isuffix": {"suffix", true},
	"contains": {"contains", false}, "icontains": {"contains", true},
}

func (o textOp) String() string {
	if o.fold {
		return "i" + o.word
	}
	return o.word
}

// operandKind says where an operand's value comes from.
type operandKind uint8

const (
	ofLiteral operandKind = iota
	ofPath                // the value at the path
	ofTime                // ts(path): when it was measured or set
	ofAge                 // age(path): how long that is ago; of an instant, how long it is ago
	ofNow                 // now, or now and a duration
)

// operand is one side of a comparison.
type operand struct {
	kind  operandKind
	value Value // ofLiteral
	path  *Path // ofPath, ofTime, ofAge
	shift int64 // ofNow: milliseconds added to it
	at    int   // where it is in the text
}

// valueKind is the kind that the operand always has, 0 when it is only known later.
func (o operand) valueKind() Kind {
	switch o.kind {
	case ofLiteral:
		return o.value.kind
	case ofPath:
		return o.path.Root.kind()
	case ofAge:
		return KindDuration
	default:
		return KindTime
	}
}

// fixed reports whether the operand is the same for all entities.
func (o operand) fixed() bool { return o.kind == ofLiteral || o.kind == ofNow }

// resolve makes the value of a fixed operand for the time now.
func (o operand) resolve(now int64) Value {
	if o.kind == ofNow {
		return Time(now + o.shift)
	}
	return o.value
}

func (o operand) append(dst []byte) []byte {
	switch o.kind {
	case ofLiteral:
		return appendLiteral(dst, o.value)
	case ofPath:
		return o.path.append(dst)
	case ofTime:
		return append(o.path.append(append(dst, "ts("...)), ')')
	case ofAge:
		return append(o.path.append(append(dst, "age("...)), ')')
	case ofNow:
		dst = append(dst, "now"...)
	}
	switch {
	case o.shift > 0:
		return appendDuration(append(dst, " + "...), o.shift)
	case o.shift < 0:
		return appendDuration(append(dst, " - "...), -o.shift)
	}
	return dst
}

func (c constant) append(dst []byte) []byte { return appendLiteral(dst, Bool(bool(c))) }

func (n *allOf) append(dst []byte) []byte { return appendList(dst, n.list, " and ") }

func (n *anyOf) append(dst []byte) []byte { return appendList(dst, n.list, " or ") }

func appendList(dst []byte, list []node, between string) []byte {
	for i, n := range list {
		if i > 0 {
			dst = append(dst, between...)
		}
		if _, ok := n.(*anyOf); ok {
			dst = appendGroup(dst, n) // or binds less than and, so the other way round needs none
		} else {
			dst = n.append(dst)
		}
	}
	return dst
}

func appendGroup(dst []byte, n node) []byte {
	return append(n.append(append(dst, '(')), ')')
}

func (n *not) append(dst []byte) []byte {
	dst = append(dst, "not "...)
	switch n.node.(type) {
	case *allOf, *anyOf:
		return appendGroup(dst, n.node)
	default:
		return n.node.append(dst)
	}
}

func (n *compare) append(dst []byte) []byte {
	dst = append(n.left.append(dst), ' ')
	dst = append(dst, n.op.String()...)
	return n.right.append(append(dst, ' '))
}

// appendOperator writes an operator that is a word, with its not.
func appendOperator(dst []byte, negated bool, word string) []byte {
	dst = append(dst, ' ')
	if negated {
		dst = append(dst, "not "...)
	}
	dst = append(dst, word...)
	return append(dst, ' ')
}

func (n *between) append(dst []byte) []byte {
	dst = appendOperator(n.operand.append(dst), n.negated, "between")
	dst = append(n.low.append(dst), " and "...)
	return n.high.append(dst)
}

func (n *in) append(dst []byte) []byte {
	dst = append(appendOperator(n.operand.append(dst), n.negated, "in"), '(')
	for i, v := range n.list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendLiteral(dst, v)
	}
	return append(dst, ')')
}

func (n *textual) append(dst []byte) []byte {
	dst = appendOperator(n.operand.append(dst), n.negated, n.op.String())
	return appendLiteral(dst, n.pattern)
}

func (n *exists) append(dst []byte) []byte { return n.path.append(append(dst, "exists "...)) }

func (n *is) append(dst []byte) []byte {
	dst = appendOperator(append(dst, "type"...), false, "is")
	if n.negated {
		dst = append(dst, "not "...)
	}
	return appendString(dst, n.typeID)
}

func (n *related) append(dst []byte) []byte {
	dst = append(dst, "related "...)
	if n.typ == "" {
		dst = append(dst, "any"...)
	} else {
		dst = appendRelationType(dst, n.typ)
	}
	dst = append(dst, ' ')
	dst = append(append(dst, n.direction.String()...), ' ')
	switch {
	case n.id != "":
		return appendString(dst, n.id)
	case n.other != nil:
		return appendGroup(dst, n.other)
	default:
		return append(dst, "any"...)
	}
}

// appendRelationType writes a type of relations, which must not be taken for any.
func appendRelationType(dst []byte, name string) []byte {
	if strings.EqualFold(name, "any") {
		return appendQuoted(dst, name)
	}
	return appendName(dst, name)
}
