package filter

import (
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// A node is a condition of a filter as it was written. Nodes are immutable.
type node interface {
	// append writes the node in the canonical form.
	append(dst []byte) []byte
}

type (
	// constant is true or false.
	constant bool

	// joined is true if all of its nodes are or, with any, if one of them is. It has at least two
	// nodes, none of them joined in the same way.
	joined struct {
		any  bool
		list []node
	}

	not struct{ node node }

	// compare is a comparison with one of = != < <= > >=.
	compare struct {
		left, right operand
		op          comparison
		alone       bool // it is written as the left side alone, a bool
	}

	// between includes both ends.
	between struct {
		operand, low, high operand
		negated            bool
	}

	in struct {
		operand operand
		list    []value.Value
		negated bool
	}

	// text is a condition about a string, or for contains also about an array.
	textual struct {
		operand operand
		op      textOp
		pattern value.Value // a string, for contains also another scalar
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
type comparison value.Order

const (
	isEqual     = comparison(value.Equal)
	isDifferent = comparison(value.Less | value.Greater | value.Apart)
	isLess      = comparison(value.Less)
	isAtMost    = comparison(value.Less | value.Equal)
	isGreater   = comparison(value.Greater)
	isAtLeast   = comparison(value.Greater | value.Equal)
)

// comparisons maps signs to comparisons.
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

// holds reports whether two values in this order satisfy c.
func (c comparison) holds(o value.Order) bool { return value.Order(c)&o != 0 }

// inOrder reports whether the comparison is about an order.
func (c comparison) inOrder() bool { return c != isEqual && c != isDifferent }

// turned returns the comparison with its sides swapped.
func (c comparison) turned() comparison {
	t := c &^ comparison(value.Less|value.Greater)
	if c.holds(value.Less) {
		t |= comparison(value.Greater)
	}
	if c.holds(value.Greater) {
		t |= comparison(value.Less)
	}
	return t
}

// textOp is an operator about strings; the words are those of the grammar.
type textOp struct {
	word string
	fold bool // whether case is ignored
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
	ofLiteral  operandKind = iota // null is the zero Value
	ofPath                        // the value at the path
	ofTime                        // ts(path): when it was measured or set
	ofAge                         // age(path): how long that is ago; of an instant, how long it is ago
	ofNow                         // now, or now and a duration
	ofComputed                    // what a node gives: a computation, or true or false
)

// operand is one side of a comparison, or a part of a computation.
type operand struct {
	kind operandKind
	// computes is the kind of the computed value; determining it again would visit all operands of
	// operands. It is set with node.
	computes value.Kind
	value    value.Value // ofLiteral
	path     *Path       // ofPath, ofTime, ofAge
	shift    int64       // ofNow: milliseconds added to it
	node     node        // ofComputed
	at       int         // where it is in the text
}

// literal returns the operand of a value.
func literal(v value.Value) operand { return operand{kind: ofLiteral, value: v} }

// valueKind returns the kind that the operand always has, 0 if it is known only later. It is
// KindFloat for a number of either kind.
func (o operand) valueKind() value.Kind {
	switch o.kind {
	case ofLiteral:
		return o.value.Kind()
	case ofPath:
		return o.path.Root.kind()
	case ofAge:
		return value.KindDuration
	case ofComputed:
		return o.computes
	default:
		return value.KindTime
	}
}

// fixed reports whether the operand is the same for all entities.
func (o operand) fixed() bool { return o.kind == ofLiteral || o.kind == ofNow }

// looked reports whether the operand is a single path, or its time or age.
func (o operand) looked() bool { return o.kind == ofPath || o.kind == ofTime || o.kind == ofAge }

// resolve returns the value of a fixed operand at the time now.
func (o operand) resolve(now int64) value.Value {
	if o.kind == ofNow {
		return value.Time(now + o.shift)
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
	case ofComputed:
		return o.node.append(dst)
	case ofNow:
		dst = append(dst, "now"...)
	}
	switch {
	case o.shift > 0:
		return value.AppendDuration(append(dst, " + "...), o.shift)
	case o.shift < 0:
		return value.AppendDuration(append(dst, " - "...), -o.shift)
	}
	return dst
}

func (c constant) append(dst []byte) []byte { return appendLiteral(dst, value.Bool(bool(c))) }

// add adds a node, or those of one that is joined in the same way.
func (n *joined) add(x node) {
	if inner, ok := x.(*joined); ok && inner.any == n.any {
		n.list = append(n.list, inner.list...)
	} else {
		n.list = append(n.list, x)
	}
}

func (n *joined) append(dst []byte) []byte {
	between := " and "
	if n.any {
		between = " or "
	}
	for i, x := range n.list {
		if i > 0 {
			dst = append(dst, between...)
		}
		if inner, ok := x.(*joined); ok && inner.any { // or binds less than and
			dst = appendGroup(dst, x)
		} else {
			dst = x.append(dst)
		}
	}
	return dst
}

func appendGroup(dst []byte, n node) []byte {
	return append(n.append(append(dst, '(')), ')')
}

func (n *not) append(dst []byte) []byte {
	dst = append(dst, "not "...)
	if _, ok := n.node.(*joined); ok {
		return appendGroup(dst, n.node)
	}
	return n.node.append(dst)
}

func (n *compare) append(dst []byte) []byte {
	if n.alone {
		return n.left.append(dst)
	}
	dst = append(n.left.within(dst, bindsSum), ' ')
	dst = append(dst, n.op.String()...)
	return n.right.within(append(dst, ' '), bindsSum)
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
	dst = appendOperator(n.operand.within(dst, bindsSum), n.negated, "between")
	dst = append(n.low.within(dst, bindsSum), " and "...)
	return n.high.within(dst, bindsSum)
}

func (n *in) append(dst []byte) []byte {
	dst = append(appendOperator(n.operand.within(dst, bindsSum), n.negated, "in"), '(')
	for i, v := range n.list {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendLiteral(dst, v)
	}
	return append(dst, ')')
}

func (n *textual) append(dst []byte) []byte {
	dst = appendOperator(n.operand.within(dst, bindsSum), n.negated, n.op.String())
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
