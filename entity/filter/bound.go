package filter

import "slices"

// Bound says that there is something at a path, and within which limits it is.
type Bound struct {
	Path Path
	// TS says that the bound is about when the value was measured or set, as a
	// KindTime, and not about the value.
	TS bool
	// Values, where it is not empty, are all that the value can equal; Low and
	// High are the zero Value then.
	Values []Value
	// Low and High are the ends of the range the value is in, the zero Value
	// where it has no end. What cannot be compared with them is not in it.
	Low, High Value
	// LowOpen and HighOpen say that the value does not equal the end.
	LowOpen, HighOpen bool
}

// Exists reports whether the bound says no more than that there is something.
func (b *Bound) Exists() bool { return len(b.Values) == 0 && b.Low.kind == 0 && b.High.kind == 0 }

// Contains reports whether a value is within the bound.
func (b *Bound) Contains(v Value) bool {
	if len(b.Values) > 0 {
		return slices.ContainsFunc(b.Values, func(w Value) bool { return relate(v, w) == equal })
	}
	return b.above(v) && b.below(v)
}

func (b *Bound) above(v Value) bool {
	if b.Low.kind == 0 {
		return true
	}
	if b.LowOpen {
		return isGreater.holds(relate(v, b.Low))
	}
	return isAtLeast.holds(relate(v, b.Low))
}

func (b *Bound) below(v Value) bool {
	if b.High.kind == 0 {
		return true
	}
	if b.HighOpen {
		return isLess.holds(relate(v, b.High))
	}
	return isAtMost.holds(relate(v, b.High))
}

// restrict sets the end or the value that a comparison with v says.
func (b *Bound) restrict(op comparison, v Value) {
	switch op {
	case isEqual:
		b.Values = []Value{v}
	case isLess, isAtMost:
		b.High, b.HighOpen = v, op == isLess
	case isGreater, isAtLeast:
		b.Low, b.LowOpen = v, op == isGreater
	case isDifferent: // bounds nothing
	}
}

func (b *Bound) sameSubject(c Bound) bool { return b.Path == c.Path && b.TS == c.TS }

// meet returns what is within both bounds, and whether anything can be.
func meet(b, c Bound) (Bound, bool) {
	if len(b.Values) == 0 && len(c.Values) > 0 {
		b, c = c, b
	}
	if len(b.Values) > 0 {
		b.Values = slices.DeleteFunc(slices.Clone(b.Values), func(v Value) bool { return !c.Contains(v) })
		return b, len(b.Values) > 0
	}
	low, high := equal, equal
	if b.Low.kind != 0 && c.Low.kind != 0 {
		low = relate(b.Low, c.Low)
	}
	if b.High.kind != 0 && c.High.kind != 0 {
		high = relate(b.High, c.High)
	}
	if low == apart || high == apart {
		return b, false
	}
	if b.Low.kind == 0 || low == less || low == equal && c.LowOpen {
		if c.Low.kind != 0 {
			b.Low, b.LowOpen = c.Low, c.LowOpen
		}
	}
	if b.High.kind == 0 || high == greater || high == equal && c.HighOpen {
		if c.High.kind != 0 {
			b.High, b.HighOpen = c.High, c.HighOpen
		}
	}
	return b, b.possible()
}

// possible reports whether a range has anything between its ends.
func (b *Bound) possible() bool {
	if b.Low.kind == 0 || b.High.kind == 0 {
		return true
	}
	switch relate(b.Low, b.High) {
	case less:
		return true
	case equal:
		return !b.LowOpen && !b.HighOpen
	default:
		return false
	}
}

// join returns a bound that has within it all that b and all that c have.
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
	if b.Low.kind != 0 && c.Low.kind != 0 {
		switch relate(b.Low, c.Low) {
		case less:
			sum.Low, sum.LowOpen = b.Low, b.LowOpen
		case greater:
			sum.Low, sum.LowOpen = c.Low, c.LowOpen
		case equal:
			sum.Low, sum.LowOpen = b.Low, b.LowOpen && c.LowOpen
		case apart: // no end that holds for both
		}
	}
	if b.High.kind != 0 && c.High.kind != 0 {
		switch relate(b.High, c.High) {
		case less:
			sum.High, sum.HighOpen = c.High, c.HighOpen
		case greater:
			sum.High, sum.HighOpen = b.High, b.HighOpen
		case equal:
			sum.High, sum.HighOpen = b.High, b.HighOpen && c.HighOpen
		case apart:
		}
	}
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
		case relate(v, h.Low) == less:
			h.Low = v
		case relate(v, h.High) == greater:
			h.High = v
		case relate(v, h.Low) == apart:
			return Bound{Path: b.Path, TS: b.TS}
		}
	}
	return h
}
