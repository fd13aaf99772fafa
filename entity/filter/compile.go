package filter

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// condition is a compiled node. A condition keeps nothing between calls, so goroutines can share
// it.
type condition func(v View, e *Env) bool

// compile makes a closure of a folded node.
func compile(n node) condition {
	switch n := n.(type) {
	case constant:
		return func(View, *Env) bool { return bool(n) }
	case *joined:
		return compileJoined(n.any, sorted(n.list))
	case *not:
		x := compile(n.node)
		return func(v View, e *Env) bool { return !x(v, e) && e.Err() == nil }
	case *compare:
		return guard(compileCompare(n), n)
	case *between:
		return guard(compileBetween(n), n)
	case *in, *textual:
		return guard(compileTested(n), n)
	case *exists:
		path := n.path
		return func(v View, _ *Env) bool { _, ok := v.Lookup(path); return ok }
	case *is:
		return compileIs(n)
	case *related:
		r := newRelation(n)
		return func(v View, e *Env) bool { return v.Related(r, e) && e.Err() == nil }
	}
	return nil // there are no other nodes
}

func newRelation(n *related) *Relation {
	r := &Relation{Type: n.typ, Direction: n.direction, ID: n.id}
	if n.other != nil {
		r.match = compile(n.other)
	}
	return r
}

// sorted orders nodes so that cheap ones are evaluated first. The result is the same in any order,
// because conditions have no effects.
func sorted(list []node) []condition {
	var out []condition
	for _, n := range slices.SortedStableFunc(slices.Values(list), func(a, b node) int { return cost(a) - cost(b) }) {
		out = append(out, compile(n))
	}
	return out
}

// cost returns the rough cost of a node, in comparisons of an id.
func cost(n node) int {
	switch n := n.(type) {
	case *joined:
		sum := 0
		for _, x := range n.list {
			sum += cost(x)
		}
		return sum
	case *not:
		return cost(n.node)
	case *compare:
		return n.left.cost() + n.right.cost()
	case *between:
		return n.operand.cost() + n.low.cost() + n.high.cost()
	case *in:
		return n.operand.cost() + 1
	case *textual:
		return n.operand.cost() + 3
	case *related:
		if n.other == nil {
			return 50
		}
		return 100 + cost(n.other)
	default:
		return 2
	}
}

func (o operand) cost() int {
	switch {
	case o.fixed():
		return 0
	case o.kind == ofComputed:
		sum := 1
		for _, part := range operandsOf(o.node) {
			sum += part.cost()
		}
		return sum
	case o.path.Root.kind() != 0:
		return 1
	default:
		return 4
	}
}

// compileJoined evaluates one condition after the other until one decides the result.
func compileJoined(settles bool, list []condition) condition {
	if len(list) == 2 && !settles {
		a, b := list[0], list[1]
		return func(v View, e *Env) bool { return a(v, e) && b(v, e) }
	}
	return func(v View, e *Env) bool {
		for _, c := range list {
			if c(v, e) == settles {
				return settles
			}
		}
		return !settles
	}
}

// source is a compiled operand. It returns the zero Value if the operand has no value.
type source func(v View, e *Env) value.Value

func compileOperand(o operand) source {
	path, literal, shift := o.path, o.value, o.shift
	switch o.kind {
	case ofPath:
		return func(v View, _ *Env) value.Value {
			if x, ok := v.Lookup(path); ok {
				return x
			}
			return value.Value{}
		}
	case ofTime, ofAge:
		return compileTime(o)
	case ofNow:
		return func(_ View, e *Env) value.Value { return value.Time(e.Now + shift) }
	case ofComputed:
		if n, ok := o.node.(computation); ok {
			parts := make([]source, len(n.parts()))
			for i, part := range n.parts() {
				parts[i] = compileOperand(part)
			}
			return n.compile(parts)
		}
		condition := compileVerdict(o.node)
		return func(v View, e *Env) value.Value { return condition(v, e).value() }
	default:
		return func(View, *Env) value.Value { return literal }
	}
}

// compileTime compiles ts and age.
func compileTime(o operand) source {
	path := o.path
	when := func(v View) (int64, bool) { return v.Time(path) }
	if path.Root.kind() == value.KindTime {
		when = func(v View) (int64, bool) {
			x, ok := v.Lookup(path)
			return x.Int(), ok && x.Kind() == value.KindTime
		}
	}
	age := o.kind == ofAge
	return func(v View, e *Env) value.Value {
		switch ms, ok := when(v); {
		case !ok:
			return value.Value{}
		case age:
			return value.Duration(e.Now - ms)
		default:
			return value.Time(ms)
		}
	}
}

// guard makes a condition false if one of its operands fails, and hides the failure from a
// computation that contains the condition.
func guard(c condition, n node) condition {
	if !slices.ContainsFunc(operandsOf(n), func(o operand) bool { return o.kind == ofComputed }) {
		return c
	}
	return func(v View, e *Env) bool {
		outer := e.failure
		e.failure = nil
		ok := c(v, e) && e.failure == nil
		e.failure = outer
		return ok
	}
}

func compileCompare(n *compare) condition {
	op := n.op
	if n.left.kind == ofPath && n.right.kind == ofLiteral { // most of them
		path, want := n.left.path, n.right.value
		return func(v View, _ *Env) bool {
			x, ok := v.Lookup(path)
			return ok && op.holds(value.Compare(x, want))
		}
	}
	left, right := compileOperand(n.left), compileOperand(n.right)
	return func(v View, e *Env) bool {
		x := left(v, e)
		if x.IsZero() {
			return false
		}
		y := right(v, e)
		return !y.IsZero() && op.holds(value.Compare(x, y))
	}
}

func compileBetween(n *between) condition {
	x, low, high, inside := compileOperand(n.operand), compileOperand(n.low), compileOperand(n.high), !n.negated
	return func(v View, e *Env) bool {
		y := x(v, e)
		if y.IsZero() {
			return false
		}
		from := low(v, e)
		if from.IsZero() {
			return false
		}
		to := high(v, e)
		return !to.IsZero() && (isAtLeast.holds(value.Compare(y, from)) && isAtMost.holds(value.Compare(y, to))) == inside
	}
}

// compileTest compiles a test of one existing value.
func compileTest(n node) (operand, func(x value.Value) bool) {
	switch n := n.(type) {
	case *in:
		return n.operand, compileIn(n)
	case *textual:
		return n.operand, compileText(n)
	default:
		return operand{}, nil
	}
}

// compileTested turns a test into a condition, which is false for a missing value.
func compileTested(n node) condition {
	o, test := compileTest(n)
	operand := compileOperand(o)
	return func(v View, e *Env) bool {
		x := operand(v, e)
		return !x.IsZero() && test(x)
	}
}

// compileIn looks strings up in a set and compares other values one by one, because only lists of
// ids are long.
func compileIn(n *in) func(x value.Value) bool {
	found := !n.negated
	texts := make(map[string]struct{})
	var others []value.Value
	for _, v := range n.list {
		if v.Kind() == value.KindString {
			texts[v.Text()] = struct{}{}
		} else {
			others = append(others, v)
		}
	}
	return func(x value.Value) bool {
		if x.Kind() == value.KindString {
			if _, ok := texts[x.Text()]; ok {
				return found
			}
		}
		for _, w := range others {
			if value.Compare(x, w) == value.Equal {
				return found
			}
		}
		return !found
	}
}

func compileText(n *textual) func(x value.Value) bool {
	want, holds := n.pattern, !n.negated
	array := n.op == textOps["contains"]
	var p *pattern
	if want.Kind() == value.KindString {
		p = newPattern(n.op, want.Text())
	}
	return func(x value.Value) bool {
		ok := false
		switch {
		case x.Kind() == value.KindString && p != nil:
			ok = p.match(x.Text())
		case x.Kind() == value.KindJSON && array:
			ok = value.Contains(x.Text(), want)
		}
		return ok == holds
	}
}

// compileIs needs a type for the negated form as well, as all operators do.
func compileIs(n *is) condition {
	typeID := n.typeID
	if !n.negated {
		return func(v View, _ *Env) bool { return v.Is(typeID) }
	}
	typ := &Path{Root: RootType}
	return func(v View, _ *Env) bool {
		x, ok := v.Lookup(typ)
		return ok && x.Text() != "" && !v.Is(typeID)
	}
}
