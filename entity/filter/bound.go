package filter

import "github.com/greenroom-go/greenroom/entity/value"

import "slices"

// Bound says that there is something at a path, and within which limits it is.
type Bound struct {
	Path Path
	// TS says that the bound is about when the value was measured or set, as a
	// value.KindTime, and not about the value.
	TS bool
	// Values, where it is not empty, are all that the value can equal; Low and
	// High are the zero Value then.
	Values []value.Value
	// Low and High are the ends of the range the value is in, the zero Value
	// where it has no end. What cannot be compared with them is not in it.
	Low, High value.Value
	// LowOpen and HighOpen say that the value does not equal the end.
	LowOpen, HighOpen bool
}

// Exists reports whether the bound says no more than that there is something.
func (b *Bound) Exists() bool { return len(b.Values) == 0 && b.Low.Kind() == 0 && b.High.Kind() == 0 }

// Contains reports whether a value is within the bound.
func (b *Bound) Contains(v value.Value) bool {
	if len(b.Values) > 0 {
		return slices.ContainsFunc(b.Values, func(w value.Value) bool { return value.Compare(v, w) == value.Equal })
	}
	return b.above(v) && b.below(v)
}

func (b *Bound) above(v value.Value) bool {
	if b.Low.Kind() == 0 {
		return true
	}
	if b.LowOpen {
		return isGreater.holds(value.Compare(v, b.Low))
	}
	return isAtLeast.holds(value.Compare(v, b.Low))
}

func (b *Bound) below(v value.Value) bool {
	if b.High.Kind() == 0 {
		return true
	}
	if b.HighOpen {
		return isLess.holds(value.Compare(v, b.High))
	}
	return isAtMost.holds(value.Compare(v, b.High))
}

// restrict sets the end or the value that a comparison with v says.
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

// meet returns what is within both bounds, and whether anything can be.
func meet(b, c Bound) (Bound, bool) {
	if len(b.Values) == 0 && len(c.Values) > 0 {
		b, c = c, b
	}
	if len(b.Values) > 0 {
		b.Values = slices.DeleteFunc(slices.Clone(b.Values), func(v value.Value) bool { return !c.Contains(v) })
		return b, len(b.Values) > 0
	}
	low, high := value.Equal, value.Equal
	if b.Low.Kind() != 0 && c.Low.Kind() != 0 {
		low = value.Compare(b.Low, c.Low)
	}
	if b.High.Kind() != 0 && c.High.Kind() != 0 {
		high = value.Compare(b.High, c.High)
	}
	if low == value.Apart || high == value.Apart {
		return b, false
	}
	if b.Low.Kind() == 0 || low == value.Less || low == value.Equal && c.LowOpen {
		if c.Low.Kind() != 0 {
			b.Low, b.LowOpen = c.Low, c.LowOpen
		}
	}
	if b.High.Kind() == 0 || high == value.Greater || high == value.Equal && c.HighOpen {
		if c.High.Kind() != 0 {
			b.High, b.HighOpen = c.High, c.HighOpen
		}
	}
	return b, b.possible()
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
	if b.Low.Kind() != 0 && c.Low.Kind() != 0 {
		switch value.Compare(b.Low, c.Low) {
		case value.Less:
			sum.Low, sum.LowOpen = b.Low, b.LowOpen
		case value.Greater:
			sum.Low, sum.LowOpen = c.Low, c.LowOpen
		case value.Equal:
			sum.Low, sum.LowOpen = b.Low, b.LowOpen && c.LowOpen
		case value.Apart: // no end that holds for both
		}
	}
	if b.High.Kind() != 0 && c.High.Kind() != 0 {
		switch value.Compare(b.High, c.High) {
		case value.Less:
			sum.High, sum.HighOpen = c.High, c.HighOpen
		case value.Greater:
			sum.High, sum.HighOpen = b.High, b.HighOpen
		case value.Equal:
			sum.High, sum.HighOpen = b.High, b.HighOpen && c.HighOpen
		case value.Apart:
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
