package filter

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// fold evaluates what is the same for all entities, and brings the rest into the form for matching:
// no constants except at the top, no list of one value, no double negation.
func fold(n node) node {
	switch n := n.(type) {
	case *joined:
		return foldJoined(n)
	case *not:
		return foldNot(n)
	case *compare:
		return foldCompare(n)
	case *between:
		return foldBetween(n)
	case *in:
		return foldIn(n)
	case *related:
		return foldRelated(n)
	default:
		return n
	}
}

// foldJoined folds the nodes. A constant true decides the result for any, a constant false
// otherwise.
func foldJoined(n *joined) node {
	left := &joined{any: n.any}
	for _, x := range n.list {
		x = fold(x)
		if c, ok := x.(constant); !ok {
			left.add(x)
		} else if bool(c) == n.any {
			return c
		}
	}
	switch len(left.list) {
	case 0:
		return constant(!n.any)
	case 1:
		return left.list[0]
	default:
		return left
	}
}

func foldNot(n *not) node {
	switch x := fold(n.node).(type) {
	case constant:
		return !x
	case *not:
		return x.node
	default:
		return &not{x}
	}
}

// foldOperand evaluates the parts of a computation that are the same for all entities.
func foldOperand(o operand) operand {
	if o.kind != ofComputed {
		return o
	}
	n, ok := o.node.(computation)
	if !ok {
		return o // a condition in a computation is matched as it is written
	}
	parts := slices.Clone(n.parts())
	same := true
	for i := range parts {
		parts[i] = foldOperand(parts[i])
		same = same && parts[i].kind == ofLiteral
	}
	o = computed(n.with(parts), o.at)
	if same {
		var e Env
		if v := compileOperand(o)(nil, &e); e.failure == nil && !v.IsZero() {
			return operand{kind: ofLiteral, value: v, at: o.at}
		}
	}
	return o
}

func foldCompare(n *compare) node {
	n = &compare{left: foldOperand(n.left), right: foldOperand(n.right), op: n.op, alone: n.alone}
	if n.left.kind == ofNow && n.right.kind == ofNow {
		return constant(n.op.holds(value.Compare(value.Time(n.left.shift), value.Time(n.right.shift))))
	}
	if n.left.kind == ofLiteral && n.right.kind == ofLiteral {
		return constant(n.op.holds(value.Compare(n.left.value, n.right.value)))
	}
	if n.left.kind == ofPath && n.right.kind == ofPath && n.left.path == n.right.path && n.op == isEqual && n.left.path.Root.kind() != 0 {
		return &exists{n.left.path} // not where a NaN may be
	}
	return n
}

func foldBetween(n *between) node {
	n = &between{operand: foldOperand(n.operand), low: foldOperand(n.low), high: foldOperand(n.high), negated: n.negated}
	low, high := n.low, n.high
	if low.kind != ofLiteral || high.kind != ofLiteral {
		return n
	}
	if n.operand.kind == ofLiteral {
		inside := isAtLeast.holds(value.Compare(n.operand.value, low.value)) && isAtMost.holds(value.Compare(n.operand.value, high.value))
		return constant(inside != n.negated)
	}
	if !n.negated && value.Compare(low.value, high.value)&value.Order(isAtMost) == 0 && n.operand.valueKind() != 0 {
		return constant(false)
	}
	return n
}

func foldIn(n *in) node {
	if n.operand.kind == ofLiteral {
		found := slices.ContainsFunc(n.list, func(v value.Value) bool { return value.Compare(n.operand.value, v) == value.Equal })
		return constant(found != n.negated)
	}
	var list []value.Value
	for _, v := range n.list {
		if !slices.ContainsFunc(list, func(w value.Value) bool { return w.Kind() == v.Kind() && value.Compare(w, v) == value.Equal }) {
			list = append(list, v)
		}
	}
	if len(list) > 1 {
		return &in{operand: n.operand, list: list, negated: n.negated}
	}
	op := isEqual
	if n.negated {
		op = isDifferent
	}
	return &compare{left: n.operand, op: op, right: operand{kind: ofLiteral, value: list[0]}}
}

func foldRelated(n *related) node {
	if n.other == nil {
		return n
	}
	switch other := fold(n.other).(type) {
	case constant:
		if !other {
			return other
		}
		return &related{typ: n.typ, direction: n.direction}
	default:
		if id, ok := idOf(other); ok {
			return &related{typ: n.typ, direction: n.direction, id: id}
		}
		return &related{typ: n.typ, direction: n.direction, other: other}
	}
}

// idOf returns the id if a condition only compares the id with it.
func idOf(n node) (id string, ok bool) {
	c, ok := n.(*compare)
	if !ok || c.op != isEqual || c.left.kind != ofPath || c.left.path.Root != RootID || c.right.kind != ofLiteral {
		return "", false
	}
	return c.right.value.Text(), c.right.value.Text() != ""
}
