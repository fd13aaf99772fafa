package filter

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Within a computation a condition about something missing is neither true nor false, and a
// meaningless one, such as an order of a string and a number, is a failure. At the top of a filter
// both are false: see compile.

// test is a condition within a computation.
type test func(v View, e *Env) verdict

func compileVerdict(n node) test {
	switch n := n.(type) {
	case *joined:
		return verdictOfJoined(n.list, verdictOf(n.any))
	case *not:
		x := compileVerdict(n.node)
		return func(v View, e *Env) verdict {
			switch x(v, e) {
			case holds:
				return fails
			case fails:
				return holds
			default:
				return unknown
			}
		}
	case *compare:
		return verdictOfCompare(n)
	case *between:
		return verdictOfBetween(n)
	case *in, *textual:
		o, passes := compileTest(n)
		operand := compileOperand(o)
		return func(v View, e *Env) verdict {
			x := operand(v, e)
			if x.IsZero() {
				return unknown
			}
			return verdictOf(passes(x))
		}
	default:
		c := compile(n)
		return func(v View, e *Env) verdict { return verdictOf(c(v, e)) }
	}
}

// verdictOfJoined evaluates one node after the other until one decides the result, or is neither
// true nor false.
func verdictOfJoined(list []node, settles verdict) test {
	tests := make([]test, len(list))
	for i, n := range list {
		tests[i] = compileVerdict(n)
	}
	return func(v View, e *Env) (d verdict) {
		for _, t := range tests {
			if d = t(v, e); d == settles || d == unknown {
				return d
			}
		}
		return d
	}
}

func verdictOfCompare(n *compare) test {
	left, right, op := compileOperand(n.left), compileOperand(n.right), n.op
	if n.alone {
		return func(v View, e *Env) verdict { return truth(e, left(v, e)) }
	}
	return func(v View, e *Env) verdict {
		x := left(v, e)
		if x.IsZero() {
			return unknown
		}
		y := right(v, e)
		if y.IsZero() {
			return unknown
		}
		return inOrder(e, op, x, y)
	}
}

// inOrder compares two values; it fails if an order is asked of values that have none.
func inOrder(e *Env, op comparison, x, y value.Value) verdict {
	o := value.Compare(x, y)
	if o == value.Apart && op.inOrder() {
		if e.failure == nil {
			e.failure = fmt.Errorf("%s cannot be compared with %s", withArticle(x.Kind()), withArticle(y.Kind()))
		}
		return unknown
	}
	return verdictOf(op.holds(o))
}

func verdictOfBetween(n *between) test {
	operand, low, high, negated := compileOperand(n.operand), compileOperand(n.low), compileOperand(n.high), n.negated
	return func(v View, e *Env) verdict {
		x, from, to := operand(v, e), low(v, e), high(v, e)
		if x.IsZero() || from.IsZero() || to.IsZero() {
			return unknown
		}
		above, below := inOrder(e, isAtLeast, x, from), inOrder(e, isAtMost, x, to)
		if above == unknown || below == unknown {
			return unknown
		}
		return verdictOf((above == holds && below == holds) != negated)
	}
}

// kindName is what a kind is called in messages.
func kindName(k value.Kind) string {
	switch k {
	case 0:
		return "value"
	case value.KindInt:
		return "integer"
	case value.KindFloat:
		return "number"
	case value.KindJSON:
		return "JSON value"
	default:
		return k.String()
	}
}

func withArticle(k value.Kind) string {
	if k == value.KindInt {
		return "an " + kindName(k)
	}
	return "a " + kindName(k)
}
