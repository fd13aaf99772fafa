package filter

import "github.com/greenroom-go/greenroom/entity/value"

// A computation is a node that gives a value other than just true or false.
type computation interface {
	node
	// kind is the kind of the value, 0 if it is known only later.
	kind() value.Kind
	// parts are its operands.
	parts() []operand
	// with returns the same computation with other operands.
	with(parts []operand) computation
	// compile compiles it to a closure, given those of its operands.
	compile(parts []source) source
	// binds says how tightly its operator binds.
	binds() binding
}

// binding is how tightly an operator binds, from the loosest.
type binding uint8

const (
	bindsChoice binding = iota
	bindsOr
	bindsAnd
	bindsNot
	bindsCondition
	bindsSum
	bindsProduct
	bindsSign
	bindsPower
	bindsFallback
	bindsPrimary
)

// binds returns how tightly the operand binds as it is written.
func (o operand) binds() binding {
	switch o.kind {
	case ofLiteral:
		switch v := o.value; v.Kind() {
		case value.KindInt, value.KindDuration:
			if v.Int() < 0 {
				return bindsSign
			}
		case value.KindFloat:
			if appendLiteral(nil, v)[0] == '-' {
				return bindsSign
			}
		default:
		}
		return bindsPrimary
	case ofNow:
		if o.shift != 0 {
			return bindsSum
		}
		return bindsPrimary
	case ofComputed:
		switch n := o.node.(type) {
		case computation:
			return n.binds()
		case *joined:
			if n.any {
				return bindsOr
			}
			return bindsAnd
		case *not:
			return bindsNot
		default:
			return bindsCondition
		}
	default:
		return bindsPrimary
	}
}

// isCondition reports whether the operand is true or false and is written as a
// condition.
func (o operand) isCondition() bool {
	return o.kind == ofComputed && o.valueKind() == value.KindBool || o.kind == ofLiteral && o.value.Kind() == value.KindBool
}

// within writes the operand, in parentheses if it binds less tightly than is needed there.
func (o operand) within(dst []byte, least binding) []byte {
	if o.binds() >= least {
		return o.append(dst)
	}
	return append(o.append(append(dst, '(')), ')')
}

type (
	// arithmetic is an operation of two operands.
	arithmetic struct {
		op          *operator
		left, right operand
	}

	// negation is -x. The sign + leaves nothing in the tree but a check.
	negation struct{ operand operand }

	// call is a function with its arguments.
	call struct {
		fn   *function
		args []operand
	}

	// choice is condition ? yes : no.
	choice struct{ condition, yes, no operand }

	// fallback is left ?? right: right if left is missing.
	fallback struct{ left, right operand }
)

// operator is a sign between two operands.
type operator struct {
	sign  string
	bound binding
	apply func(e *Env, x, y value.Value) value.Value
}

// operators maps signs to operators.
var operators = map[string]*operator{
	"+":  {"+", bindsSum, add},
	"-":  {"-", bindsSum, subtract},
	"*":  {"*", bindsProduct, multiply},
	"/":  {"/", bindsProduct, divide},
	"%":  {"%", bindsProduct, remainder},
	"**": {"**", bindsPower, power},
}

// sumKind returns the kind of a sum or a difference of two operands, and whether
// there is one.
func (o *operator) sumKind(l, r value.Kind) (value.Kind, bool) {
	const instant, span = value.KindTime, value.KindDuration
	switch {
	case l == span && r == span:
		return span, true
	case l == instant && r == span, l == span && r == instant && o.sign == "+":
		return instant, true
	case l == instant && r == instant && o.sign == "-":
		return span, true
	case o.sign == "+" && (l == value.KindString || r == value.KindString):
		return value.KindString, couldBe(l, value.KindString) && couldBe(r, value.KindString)
	case o.sign == "+" && (l == 0 || r == 0):
		return plain(l) | plain(r), couldBe(l, value.KindFloat) && couldBe(r, value.KindFloat)
	default:
		return value.KindFloat, couldBe(l, value.KindFloat) && couldBe(r, value.KindFloat)
	}
}

// plain is KindFloat for a number.
func plain(k value.Kind) value.Kind {
	if k == value.KindInt {
		return value.KindFloat
	}
	return k
}

// couldBe reports whether an operand of kind k, 0 for an unknown one, can have the
// kind want, which is KindFloat for any number.
func couldBe(k, want value.Kind) bool { return k == 0 || plain(k) == want }

func (n *arithmetic) kind() value.Kind {
	if n.op.bound != bindsSum {
		return value.KindFloat
	}
	k, _ := n.op.sumKind(n.left.valueKind(), n.right.valueKind())
	return k
}

func (n *arithmetic) parts() []operand { return []operand{n.left, n.right} }

func (n *arithmetic) with(parts []operand) computation {
	return &arithmetic{n.op, parts[0], parts[1]}
}

func (n *arithmetic) binds() binding { return n.op.bound }

func (n *arithmetic) append(dst []byte) []byte {
	left, right := n.op.bound, n.op.bound+1
	if n.op.bound == bindsPower { // groups from the right, and a sign may follow
		left, right = bindsFallback, bindsSign
	}
	dst = append(n.left.within(dst, left), ' ')
	dst = append(append(dst, n.op.sign...), ' ')
	return n.right.within(dst, right)
}

func (n *negation) kind() value.Kind {
	if k := n.operand.valueKind(); k == value.KindDuration {
		return k
	}
	return value.KindFloat
}

func (n *negation) parts() []operand { return []operand{n.operand} }

func (n *negation) with(parts []operand) computation { return &negation{parts[0]} }

func (n *negation) binds() binding { return bindsSign }

func (n *negation) append(dst []byte) []byte {
	return n.operand.within(append(dst, '-'), bindsPower)
}

func (n *call) kind() value.Kind { return n.fn.kind }

func (n *call) parts() []operand { return n.args }

func (n *call) with(parts []operand) computation { return &call{n.fn, parts} }

func (n *call) binds() binding { return bindsPrimary }

func (n *call) append(dst []byte) []byte {
	dst = append(append(dst, n.fn.name...), '(')
	for i, arg := range n.args {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = arg.append(dst)
	}
	return append(dst, ')')
}

func (n *choice) kind() value.Kind {
	if yes := n.yes.valueKind(); plain(yes) == plain(n.no.valueKind()) {
		return plain(yes)
	}
	return 0
}

func (n *choice) parts() []operand { return []operand{n.condition, n.yes, n.no} }

func (n *choice) with(parts []operand) computation { return &choice{parts[0], parts[1], parts[2]} }

func (n *choice) binds() binding { return bindsChoice }

func (n *choice) append(dst []byte) []byte {
	dst = append(n.condition.within(dst, bindsOr), " ? "...)
	dst = append(n.yes.append(dst), " : "...)
	return n.no.append(dst)
}

func (n *fallback) kind() value.Kind {
	if left := n.left.valueKind(); plain(left) == plain(n.right.valueKind()) {
		return plain(left)
	}
	return 0
}

func (n *fallback) parts() []operand { return []operand{n.left, n.right} }

func (n *fallback) with(parts []operand) computation { return &fallback{parts[0], parts[1]} }

func (n *fallback) binds() binding { return bindsFallback }

func (n *fallback) append(dst []byte) []byte {
	dst = append(n.left.within(dst, bindsFallback), " ?? "...)
	return n.right.within(dst, bindsPrimary)
}

// operandsOf returns the operands of a condition.
func operandsOf(n node) []operand {
	switch n := n.(type) {
	case *compare:
		return []operand{n.left, n.right}
	case *between:
		return []operand{n.operand, n.low, n.high}
	case *in:
		return []operand{n.operand}
	case *textual:
		return []operand{n.operand}
	case computation:
		return n.parts()
	default:
		return nil
	}
}
