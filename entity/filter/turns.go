package filter

import (
	"math"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Turns says when the result of a filter can change because time passes. It is immutable and safe
// for concurrent use. The Turns of a filter that does not use the clock has no such time.
type Turns struct{ crossings []crossing }

// crossing is two sides of a comparison whose difference grows by slope each millisecond.
type crossing struct {
	left, right source
	slope       int64
}

// Turns returns when the result of the filter can change by itself. It returns false if that is not
// known in advance, because the filter does more with now or with an age than add, subtract and
// compare.
func (f *Filter) Turns() (*Turns, bool) {
	t, ok := new(Turns), true
	walk(f.root, func(n node) { ok = t.add(n) && ok })
	if !ok {
		return nil, false
	}
	return t, true
}

// Next returns the first time after e.Now, in milliseconds since the epoch, at which the result of
// the filter for an entity may change, as long as nothing of the entity changes. It returns
// math.MaxInt64 if there is none.
func (t *Turns) Next(v View, e *Env) int64 {
	next := int64(math.MaxInt64)
	outer := e.failure
	for i := range t.crossings {
		c := &t.crossings[i]
		e.failure = nil
		left, right := c.left(v, e), c.right(v, e)
		if e.failure != nil {
			continue
		}
		if d, ok := difference(left, right); ok {
			next = min(next, c.after(e.Now, d))
		}
	}
	e.failure = outer
	return next
}

// difference returns by how many milliseconds two spans or two instants differ. What is compared
// with an instant is one as well: see [value.Compare].
func difference(left, right value.Value) (int64, bool) {
	if left.Kind() == value.KindDuration && right.Kind() == value.KindDuration {
		l, r := left.Int(), right.Int()
		switch d := l - r; {
		case r < 0 && d < l:
			return math.MaxInt64, true
		case r > 0 && d > l:
			return math.MinInt64, true
		default:
			return d, true
		}
	}
	a, ok := instant(left)
	b, also := instant(right)
	return a - b, ok && also && (left.Kind() == value.KindTime || right.Kind() == value.KindTime)
}

func instant(v value.Value) (ms int64, ok bool) {
	switch v.Kind() {
	case value.KindTime, value.KindInt:
		n := v.Int()
		return n, n > -maxInstant && n < maxInstant
	case value.KindFloat:
		n := math.Ceil(v.Float())
		return int64(n), n > -maxInstant && n < maxInstant
	case value.KindString:
		t, rest, ok := value.ScanTime(v.Text())
		return t, ok && rest == ""
	default:
		return 0, false
	}
}

// maxInstant bounds the instants, in milliseconds from the epoch, for which it is known when they
// are reached: in a quarter of a million years.
const maxInstant = 1 << 53

// after returns when the sign of a difference changes.
func (c *crossing) after(now, difference int64) int64 {
	switch {
	case difference == 0:
		return now + 1
	case (difference > 0) == (c.slope > 0):
		return math.MaxInt64 // it only grows
	}
	wait := (magnitude(difference)-1)/magnitude(c.slope) + 1
	if now > 0 && wait > uint64(math.MaxInt64-now) || wait > math.MaxInt64 {
		return math.MaxInt64 // never, as far as anybody can tell
	}
	return now + int64(wait)
}

// add records how one condition depends on the clock, and reports whether that is known. The parts
// of computations are visited separately.
func (t *Turns) add(n node) bool {
	switch n := n.(type) {
	case *compare:
		return t.compare(n.left, n.right)
	case *between:
		return t.compare(n.operand, n.low) && t.compare(n.operand, n.high)
	case *in:
		for _, v := range n.list {
			if !t.compare(n.operand, literal(v)) {
				return false
			}
		}
		return true
	case *textual:
		slope, ok := slopeOf(n.operand)
		return ok && slope == 0
	default:
		return true
	}
}

// compare records the two sides of a comparison.
func (t *Turns) compare(left, right operand) bool {
	a, ok := slopeOf(left)
	b, also := slopeOf(right)
	if ok && also && a != b {
		t.crossings = append(t.crossings, crossing{compileOperand(left), compileOperand(right), a - b})
	}
	return ok && also
}

// slopeOf returns by how much a value grows each millisecond, and false if that is not known. A
// condition within a computation is true or false, and changes with its own parts.
func slopeOf(o operand) (int64, bool) {
	switch o.kind {
	case ofNow, ofAge:
		return 1, true
	case ofComputed:
	default:
		return 0, true
	}
	switch n := o.node.(type) {
	case *arithmetic:
		a, ok := slopeOf(n.left)
		b, also := slopeOf(n.right)
		switch {
		case !ok || !also:
			return 0, false
		case n.op.sign == "+":
			return a + b, true
		case n.op.sign == "-":
			return a - b, true
		default:
			return 0, a == 0 && b == 0
		}
	case *negation:
		a, ok := slopeOf(n.operand)
		return -a, ok
	case computation:
		for _, part := range n.parts() {
			if a, ok := slopeOf(part); !ok || a != 0 {
				return 0, false
			}
		}
		return 0, true
	default:
		return 0, true
	}
}
