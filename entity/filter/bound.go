package filter

import (
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Bound says that a path has a value, and within which limits the value is.
type Bound struct {
	Path Path
	// TS says that the bound is about when the value was measured or set, as a value.KindTime, not
	// about the value itself.
	TS bool
	// Values, if it is not empty, lists all values that it can equal; Low and High are then the
	// zero Value.
	Values []value.Value
	// Low and High are the ends of the range that the value is in, or the zero Value for no end. A
	// value that cannot be compared with them is outside.
	Low, High value.Value
	// LowOpen and HighOpen say that the value does not equal the end.
	LowOpen, HighOpen bool
}

// Exists reports whether the bound only says that there is a value.
func (b *Bound) Exists() bool { return len(b.Values) == 0 && b.Low.Kind() == 0 && b.High.Kind() == 0 }

// Contains reports whether a value is within the bound.
func (b *Bound) Contains(v value.Value) bool {
	if len(b.Values) > 0 {
		return slices.ContainsFunc(b.Values, func(w value.Value) bool { return value.Compare(v, w) == value.Equal })
	}
	return b.low().allows(v) && b.high().allows(v)
}

// end is one end of a range: values on its side of v are outside.
type end struct {
	v    value.Value // the zero Value if there is no end
	open bool
	side value.Order // Less of a low end, Greater of a high one
}

func (b *Bound) low() end { return end{b.Low, b.LowOpen, value.Less} }

func (b *Bound) high() end { return end{b.High, b.HighOpen, value.Greater} }

func (b *Bound) setEnds(low, high end) {
	b.Low, b.LowOpen, b.High, b.HighOpen = low.v, low.open, high.v, high.open
}

// allows reports whether a value is not outside.
func (e end) allows(v value.Value) bool {
	order := value.Compare(v, e.v)
	return e.v.IsZero() || order == value.Equal && !e.open || order == (value.Less|value.Greater)&^e.side
}

// inner returns the end that excludes what either end excludes, and false if the ends have no
// order.
func (e end) inner(f end) (end, bool) {
	if e.v.IsZero() || f.v.IsZero() {
		if e.v.IsZero() {
			e = f
		}
		return e, true
	}
	switch value.Compare(e.v, f.v) {
	case value.Apart:
		return e, false
	case value.Equal:
		e.open = e.open || f.open
	case e.side:
		return f, true
	default:
		return e, true
	}
	return e, true
}

// outer returns the end that excludes only what both ends exclude.
func (e end) outer(f end) end {
	if e.v.IsZero() || f.v.IsZero() {
		return end{}
	}
	switch value.Compare(e.v, f.v) {
	case value.Apart: // no end that holds for both
		return end{}
	case value.Equal:
		e.open = e.open && f.open
	case e.side:
	default:
		return f
	}
	return e
}

// restrict sets the end or the value implied by a comparison with v.
func (b *Bound) restrict(op comparison, v value.Value) {
	switch op {
	case isEqual:
		b.Values = []value.Value{v}
	case isLess, isAtMost:
		b.High, b.HighOpen = v, op == isLess
	case isGreater, isAtLeast:
		b.Low, b.LowOpen = v, op == isGreater
	case isDifferent: // bounds nothing
	}
}

func (b *Bound) sameSubject(c Bound) bool { return b.Path == c.Path && b.TS == c.TS }

// meet returns the intersection of two bounds, and whether it can be satisfied.
func meet(b, c Bound) (Bound, bool) {
	if len(b.Values) == 0 && len(c.Values) > 0 {
		b, c = c, b
	}
	if len(b.Values) > 0 {
		b.Values = slices.DeleteFunc(slices.Clone(b.Values), func(v value.Value) bool { return !c.Contains(v) })
		return b, len(b.Values) > 0
	}
	low, ok := b.low().inner(c.low())
	high, alsoOK := b.high().inner(c.high())
	b.setEnds(low, high)
	return b, ok && alsoOK && b.possible()
}

// possible reports whether a range has anything between its ends.
func (b *Bound) possible() bool {
	if b.Low.Kind() == 0 || b.High.Kind() == 0 {
		return true
	}
	switch value.Compare(b.Low, b.High) {
	case value.Less:
		return true
	case value.Equal:
		return !b.LowOpen && !b.HighOpen
	default:
		return false
	}
}

// join returns a bound that contains both b and c.
func join(b, c Bound) Bound {
	sum := Bound{Path: b.Path, TS: b.TS}
	if len(b.Values) > 0 && len(c.Values) > 0 {
		sum.Values = slices.Clone(b.Values)
		for _, v := range c.Values {
			if !b.Contains(v) {
				sum.Values = append(sum.Values, v)
			}
		}
		return sum
	}
	b, c = b.hull(), c.hull()
	sum.setEnds(b.low().outer(c.low()), b.high().outer(c.high()))
	return sum
}

// hull returns the range that the values of a bound are in, without ends if they
// are in no order.
func (b Bound) hull() Bound {
	if len(b.Values) == 0 {
		return b
	}
	h := Bound{Path: b.Path, TS: b.TS, Low: b.Values[0], High: b.Values[0]}
	for _, v := range b.Values[1:] {
		switch {
		case value.Compare(v, h.Low) == value.Less:
			h.Low = v
		case value.Compare(v, h.High) == value.Greater:
			h.High = v
		case value.Compare(v, h.Low) == value.Apart:
			return Bound{Path: b.Path, TS: b.TS}
		}
	}
	return h
}
