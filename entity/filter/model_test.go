package filter

import (
	"math/big"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/greenroom-go/greenroom/entity/value"
)

// model answers a filter the slow and obvious way, from the tree as it was
// written: what the documentation says, without folding, ordering, compiling.
type model struct{ now int64 }

func (m model) is(n node, t *thing) bool {
	switch n := n.(type) {
	case constant:
		return bool(n)
	case *joined:
		held := 0
		for _, x := range n.list {
			if m.is(x, t) {
				held++
			}
		}
		return held == len(n.list) || n.any && held > 0
	case *not:
		return !m.is(n.node, t)
	case *compare:
		a, b := m.value(n.left, t), m.value(n.right, t)
		return a != nil && b != nil && m.compare(*a, n.op, *b)
	case *between:
		a, low, high := m.value(n.operand, t), m.value(n.low, t), m.value(n.high, t)
		if a == nil || low == nil || high == nil {
			return false
		}
		return (m.compare(*a, isAtLeast, *low) && m.compare(*a, isAtMost, *high)) != n.negated
	case *in:
		a := m.value(n.operand, t)
		return a != nil && slices.ContainsFunc(n.list, func(v value.Value) bool { return m.compare(*a, isEqual, v) }) != n.negated
	case *textual:
		a := m.value(n.operand, t)
		return a != nil && m.textual(*a, n) != n.negated
	case *exists:
		_, ok := t.Lookup(n.path)
		return ok
	case *is:
		return t.typ != "" && slices.Contains(t.types, n.typeID) != n.negated
	case *related:
		return slices.ContainsFunc(t.edges, func(x edge) bool {
			other := *x.to
			other.property = x.property
			return (n.typ == "" || n.typ == x.typ) && (n.direction == From) == x.from &&
				(n.id == "" || n.id == other.id) && (n.other == nil || m.is(n.other, &other))
		})
	}
	panic("an unknown node")
}

func (m model) value(o operand, t *thing) *value.Value {
	v, ok := o.value, true
	switch o.kind {
	case ofPath:
		v, ok = t.Lookup(o.path)
	case ofTime, ofAge:
		var ms int64
		if o.path.Root == RootCreated || o.path.Root == RootUpdated {
			v, ok = t.Lookup(o.path)
			ms = v.Int()
		} else {
			ms, ok = t.Time(o.path)
		}
		v = value.Time(ms)
		if o.kind == ofAge {
			v = value.Duration(m.now - ms)
		}
	case ofComputed: // as it was written, nothing worked out beforehand
		e := Env{Now: m.now}
		v = compileOperand(o)(t, &e)
		ok = !v.IsZero() && e.failure == nil
	case ofNow:
		v = value.Time(m.now + o.shift)
	case ofLiteral:
	}
	if !ok {
		return nil
	}
	return &v
}

// number is the exact worth of a number, an instant or a duration.
func number(v value.Value) *big.Rat {
	switch v.Kind() {
	case value.KindInt, value.KindTime, value.KindDuration:
		return new(big.Rat).SetInt64(v.Int())
	case value.KindFloat:
		return new(big.Rat).SetFloat64(v.Float()) // nil for an infinity or a NaN
	default:
		return nil
	}
}

func (m model) compare(a value.Value, op comparison, b value.Value) bool {
	if a.Kind() == value.KindString && b.Kind() == value.KindTime {
		a = readTime(a)
	}
	if b.Kind() == value.KindString && a.Kind() == value.KindTime {
		b = readTime(b)
	}
	x, y := number(a), number(b)
	inOrder, c := false, 0
	switch {
	case x != nil && y != nil:
		inOrder, c = true, x.Cmp(y)
	case a.Kind() == value.KindString && b.Kind() == value.KindString:
		inOrder, c = true, strings.Compare(a.Text(), b.Text())
	case a == b && a.Kind() != 0:
		return op == isEqual || op == isAtLeast || op == isAtMost
	}
	switch op {
	case isEqual:
		return inOrder && c == 0
	case isDifferent:
		return !inOrder || c != 0
	case isLess:
		return inOrder && c < 0
	case isAtMost:
		return inOrder && c <= 0
	case isGreater:
		return inOrder && c > 0
	default:
		return inOrder && c >= 0
	}
}

// readTime turns a string that is a time into one, by the standard library.
func readTime(v value.Value) value.Value {
	for _, layout := range []string{time.DateOnly, time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, v.Text()); err == nil {
			return value.Time(t.UnixMilli())
		}
	}
	return value.Value{}
}

func (m model) textual(v value.Value, n *textual) bool {
	if v.Kind() == value.KindJSON && n.op.word == "contains" && !n.op.fold {
		return value.Contains(v.Text(), n.pattern)
	}
	if v.Kind() != value.KindString || n.pattern.Kind() != value.KindString {
		return false
	}
	s, p := []rune(v.Text()), []rune(n.pattern.Text())
	if n.op.fold {
		s, p = lowest(s), lowest(p)
	}
	switch n.op.word {
	case "prefix":
		return strings.HasPrefix(string(s), string(p))
	case "suffix":
		return strings.HasSuffix(string(s), string(p))
	case "contains":
		return strings.Contains(string(s), string(p))
	default:
		return like(s, p)
	}
}

// lowest is a text in which the cases of a letter are one.
func lowest(s []rune) []rune {
	out := slices.Clone(s)
	for i, r := range out {
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			out[i] = min(out[i], f)
		}
	}
	return out
}

// like is the definition of like, each character of the pattern against each of
// the text: after what part of the text may the pattern so far end?
func like(s, p []rune) bool {
	ends := make([]bool, len(s)+1)
	ends[0] = true
	for i := 0; i < len(p); i++ {
		next := make([]bool, len(s)+1)
		if p[i] == '%' {
			for j, reached := 0, false; j <= len(s); j++ {
				reached = reached || ends[j]
				next[j] = reached
			}
			ends = next
			continue
		}
		one := p[i] == '_'
		if p[i] == '\\' && i+1 < len(p) {
			i++
		}
		for j, r := range s {
			next[j+1] = ends[j] && (one || r == p[i])
		}
		ends = next
	}
	return ends[len(s)]
}
