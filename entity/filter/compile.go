package filter

import (
	"slices"
	"sort"
)

// condition is a compiled node. Conditions keep nothing between calls, so that
// many goroutines can use the same one.
type condition func(v View, e *Env) bool

// compile makes a closure of a folded node.
func compile(n node) condition {
	switch n := n.(type) {
	case constant:
		return func(View, *Env) bool { return bool(n) }
	case *allOf:
		return compileAll(sorted(n.list))
	case *anyOf:
		return compileAny(sorted(n.list))
	case *not:
		x := compile(n.node)
		return func(v View, e *Env) bool { return !x(v, e) && e.Err() == nil }
	case *compare:
		return compileCompare(n)
	case *between:
		return compileBetween(n)
	case *in:
		return compileIn(n)
	case *textual:
		return compileText(n)
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

// sorted orders nodes so that what costs little is looked at first. The result
// is the same in any order: conditions have no effects.
func sorted(list []node) []condition {
	list = slices.Clone(list)
	sort.SliceStable(list, func(i, j int) bool { return cost(list[i]) < cost(list[j]) })
	out := make([]condition, len(list))
	for i, n := range list {
		out[i] = compile(n)
	}
	return out
}

// cost is what a node costs, roughly, in comparisons of an id.
func cost(n node) int {
	switch n := n.(type) {
	case *allOf:
		return costs(n.list)
	case *anyOf:
		return costs(n.list)
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

func costs(list []node) (sum int) {
	for _, n := range list {
		sum += cost(n)
	}
	return sum
}

func (o operand) cost() int {
	switch {
	case o.fixed():
		return 0
	case o.path.Root.kind() != 0:
		return 1
	default:
		return 4
	}
}

func compileAll(list []condition) condition {
	if len(list) == 2 {
		a, b := list[0], list[1]
		return func(v View, e *Env) bool { return a(v, e) && b(v, e) }
	}
	return func(v View, e *Env) bool {
		for _, c := range list {
			if !c(v, e) {
				return false
			}
		}
		return true
	}
}

func compileAny(list []condition) condition {
	return func(v View, e *Env) bool {
		for _, c := range list {
			if c(v, e) {
				return true
			}
		}
		return false
	}
}

// source is a compiled operand.
type source func(v View, e *Env) (Value, bool)

func compileOperand(o operand) source {
	path, value, shift := o.path, o.value, o.shift
	switch o.kind {
	case ofPath:
		return func(v View, _ *Env) (Value, bool) { return v.Lookup(path) }
	case ofTime:
		return func(v View, _ *Env) (Value, bool) {
			ms, ok := v.Time(path)
			return Time(ms), ok
		}
	case ofAge:
		if path.Root.kind() == KindTime {
			return func(v View, e *Env) (Value, bool) {
				x, ok := v.Lookup(path)
				return Duration(e.Now - x.Int()), ok && x.kind == KindTime
			}
		}
		return func(v View, e *Env) (Value, bool) {
			ms, ok := v.Time(path)
			return Duration(e.Now - ms), ok
		}
	case ofNow:
		return func(_ View, e *Env) (Value, bool) { return Time(e.Now + shift), true }
	default:
		return func(View, *Env) (Value, bool) { return value, true }
	}
}

func compileCompare(n *compare) condition {
	op := n.op
	if n.left.kind == ofPath && n.right.kind == ofLiteral { // most of them
		path, want := n.left.path, n.right.value
		return func(v View, _ *Env) bool {
			x, ok := v.Lookup(path)
			return ok && op.holds(relate(x, want))
		}
	}
	left, right := compileOperand(n.left), compileOperand(n.right)
	return func(v View, e *Env) bool {
		x, ok := left(v, e)
		if !ok {
			return false
		}
		y, ok := right(v, e)
		return ok && op.holds(relate(x, y))
	}
}

func compileBetween(n *between) condition {
	x, low, high, inside := compileOperand(n.operand), compileOperand(n.low), compileOperand(n.high), !n.negated
	return func(v View, e *Env) bool {
		y, ok := x(v, e)
		if !ok {
			return false
		}
		from, ok := low(v, e)
		if !ok {
			return false
		}
		to, ok := high(v, e)
		return ok && (isAtLeast.holds(relate(y, from)) && isAtMost.holds(relate(y, to))) == inside
	}
}

// compileIn looks strings up in a set and compares with all else one by one:
// lists of ids are long, others short.
func compileIn(n *in) condition {
	x, found := compileOperand(n.operand), !n.negated
	texts := make(map[string]struct{})
	var others []Value
	for _, v := range n.list {
		if v.kind == KindString {
			texts[v.text] = struct{}{}
		} else {
			others = append(others, v)
		}
	}
	return func(v View, e *Env) bool {
		y, ok := x(v, e)
		if !ok {
			return false
		}
		if y.kind == KindString {
			if _, ok := texts[y.text]; ok {
				return found
			}
		}
		for _, w := range others {
			if relate(y, w) == equal {
				return found
			}
		}
		return !found
	}
}

func compileText(n *textual) condition {
	x, want, holds := compileOperand(n.operand), n.pattern, !n.negated
	array := n.op == textOps["contains"]
	var p *pattern
	if want.kind == KindString {
		p = newPattern(n.op, want.text)
	}
	return func(v View, e *Env) bool {
		y, ok := x(v, e)
		if !ok {
			return false
		}
		switch {
		case y.kind == KindString && p != nil:
			ok = p.match(y.text)
		case y.kind == KindJSON && array:
			ok = arrayHas(y.text, want)
		default:
			ok = false
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
		return ok && x.text != "" && !v.Is(typeID)
	}
}
