package filter

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Plan says what is true of every entity that a filter matches, in a form that an index can use. A
// search that examines only the entities that satisfy the whole plan misses none. It does not
// replace [Filter.Match]: an entity that satisfies the plan may still not match.
type Plan struct {
	// Never says that no entity matches.
	Never bool
	// Bounds has one bound for each path and its time, ordered by root, name and
	// TS.
	Bounds []Bound
	// Is has ids of types: the entity's type is, or extends, all of them.
	Is []string
	// Edges has relations that the entity has: all of them.
	Edges []Edge
}

// Edge is a relation between the entity and the one with the ID.
type Edge struct {
	Type      string // "" for any
	Direction Direction
	ID        string
}

// Plan returns what is true of every entity that the filter matches at the time now, in
// milliseconds since the epoch.
func (f *Filter) Plan(now int64) Plan {
	p := planner{now: now}.node(f.root)
	if p.Never {
		return Plan{Never: true}
	}
	slices.SortFunc(p.Bounds, func(a, b Bound) int {
		order := cmp.Or(cmp.Compare(a.Path.Root, b.Path.Root), strings.Compare(a.Path.Name, b.Path.Name))
		if order == 0 && a.TS { // there is one with and one without
			return 1
		}
		return order
	})
	return p
}

type planner struct{ now int64 }

func (p planner) node(n node) Plan {
	switch n := n.(type) {
	case constant:
		return Plan{Never: !bool(n)}
	case *joined:
		return p.joined(n)
	case *compare:
		return p.compare(n)
	case *between:
		return p.between(n)
	case *in:
		return p.in(n)
	case *textual:
		return p.textual(n)
	case *exists:
		return plan(Bound{Path: *n.path})
	case *is:
		if n.negated {
			return plan(Bound{Path: Path{Root: RootType}})
		}
		return Plan{Is: []string{n.typeID}}
	case *related:
		if n.id != "" {
			return Plan{Edges: []Edge{{n.typ, n.direction, n.id}}}
		}
	}
	return Plan{}
}

func plan(bounds ...Bound) Plan { return Plan{Bounds: bounds} }

// subject returns the bound that an operand is about, with no limits yet, and
// whether there is one.
func (o operand) subject() (Bound, bool) {
	if !o.looked() {
		return Bound{}, false
	}
	b := Bound{Path: *o.path, TS: o.kind != ofPath && o.path.Root.kind() != value.KindTime}
	b.Path.Slot = 0
	return b, true
}

// sound reports whether an index finds all values that compare with v. An instant also compares
// with numbers and strings, which does not matter only if the path is always an instant.
func (o operand) sound(v value.Value) bool { return v.Kind() != value.KindTime || o.valueKind() != 0 }

// limit is an operator with its right side, for an operand that may be an age:
// age(x) < 5m is ts(x) > now - 5m.
func (p planner) limit(o operand, op comparison, v value.Value) (comparison, value.Value) {
	if o.kind == ofAge {
		return op.turned(), value.Time(p.now - v.Int())
	}
	return op, v
}

func (p planner) compare(n *compare) Plan {
	b, ok := n.left.subject()
	if !ok {
		return Plan{}
	}
	if !n.right.fixed() {
		if other, ok := n.right.subject(); ok {
			return p.both(plan(b), plan(other))
		}
		return plan(b)
	}
	v := n.right.resolve(p.now)
	if n.op == isDifferent || !n.left.sound(v) {
		return plan(b)
	}
	op, v := p.limit(n.left, n.op, v)
	b.restrict(op, v)
	return plan(b)
}

func (p planner) between(n *between) Plan {
	if n.negated {
		b, ok := n.operand.subject()
		if !ok {
			return Plan{}
		}
		return plan(b)
	}
	low := p.compare(&compare{left: n.operand, op: isAtLeast, right: n.low})
	high := p.compare(&compare{left: n.operand, op: isAtMost, right: n.high})
	return p.both(low, high)
}

func (p planner) in(n *in) Plan {
	b, ok := n.operand.subject()
	if !ok {
		return Plan{}
	}
	for _, v := range n.list {
		if n.negated || !n.operand.sound(v) {
			b.Values = nil
			break
		}
		_, v = p.limit(n.operand, isEqual, v)
		b.Values = append(b.Values, v)
	}
	return plan(b)
}

func (p planner) textual(n *textual) Plan {
	b, ok := n.operand.subject()
	if !ok {
		return Plan{}
	}
	return plan(p.begins(n, b))
}

// begins bounds by what the text begins with.
func (p planner) begins(n *textual, b Bound) Bound {
	if n.negated || n.op.fold || n.op.word != "prefix" && n.op.word != "like" {
		return b
	}
	x := newPattern(n.op, n.pattern.Text())
	if !x.fromStart {
		return b
	}
	first := x.pieces[0].all()
	if i := slices.Index(first, anyRune); i >= 0 {
		first = first[:i]
	} else if x.exact {
		b.Values = []value.Value{value.String(string(first))}
		return b
	}
	b.Low = value.String(string(first))
	if after, ok := successor(first); ok {
		b.High, b.HighOpen = value.String(after), true
	}
	return b
}

// successor returns the least string that is greater than all that begin with
// the prefix, and whether there is one.
func successor(prefix []rune) (after string, ok bool) {
	for i, last := range slices.Backward(prefix) {
		next := last + 1
		if !utf8.ValidRune(next) && next < utf8.MaxRune {
			next = 0xE000 // the first after the surrogates
		}
		if next <= utf8.MaxRune {
			return string(append(slices.Clone(prefix[:i]), next)), true
		}
	}
	return "", false
}

func (p planner) joined(n *joined) Plan {
	sum := Plan{Never: n.any}
	for _, x := range n.list {
		switch next := p.node(x); {
		case !n.any:
			sum = p.both(sum, next)
		case sum.Never:
			sum = next
		case !next.Never:
			sum = either(sum, next)
		}
	}
	return sum
}

// both returns what is true if both a and b are.
func (p planner) both(a, b Plan) Plan {
	if a.Never || b.Never {
		return Plan{Never: true}
	}
	sum := Plan{Bounds: slices.Clone(a.Bounds), Is: slices.Clone(a.Is), Edges: slices.Clone(a.Edges)}
	for _, x := range b.Bounds {
		i := slices.IndexFunc(sum.Bounds, x.sameSubject)
		if i < 0 {
			sum.Bounds = append(sum.Bounds, x)
			continue
		}
		var ok bool
		if sum.Bounds[i], ok = meet(sum.Bounds[i], x); !ok {
			return Plan{Never: true}
		}
	}
	sum.Is = append(sum.Is, selected(b.Is, a.Is, false)...)
	sum.Edges = append(sum.Edges, selected(b.Edges, a.Edges, false)...)
	return sum
}

// either returns what is true if a or b is.
func either(a, b Plan) (sum Plan) {
	for _, x := range a.Bounds {
		if i := slices.IndexFunc(b.Bounds, x.sameSubject); i >= 0 {
			sum.Bounds = append(sum.Bounds, join(x, b.Bounds[i]))
		}
	}
	sum.Is, sum.Edges = selected(a.Is, b.Is, true), selected(a.Edges, b.Edges, true)
	return sum
}

// selected returns the elements of a list that are in other, or those that are not.
func selected[T comparable](list, other []T, in bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return slices.Contains(other, x) != in })
}
