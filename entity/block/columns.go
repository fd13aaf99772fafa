package block

import (
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Columns are points in the order of their places, column by column. The zero Columns have
// none. They are used by one goroutine at a time.
type Columns struct {
	// TS and Seq are the places. Seq is nil if all are 0.
	TS  []int64
	Seq []uint64
	// Kind is the kind of all values, or 0 if they differ; Kinds then has the kind of each.
	Kind  value.Kind
	Kinds []value.Kind
	// Bits has the bits of each value, as [value.Value.Raw] returns them.
	Bits []uint64
	// Texts has the texts of strings and of JSON, "" for other values. It is nil if there are
	// neither.
	Texts []string
}

// Len returns how many points there are.
func (c *Columns) Len() int { return len(c.TS) }

// Reset removes all points and keeps the memory, but not that of texts.
func (c *Columns) Reset() {
	clear(c.Texts)
	*c = Columns{TS: c.TS[:0], Bits: c.Bits[:0]}
}

// Append adds a point, which must lie after the last one. v must not be the zero Value.
func (c *Columns) Append(ts int64, seq uint64, v value.Value) {
	kind, bits, text := v.Raw()
	n := len(c.TS)
	c.TS, c.Bits = append(c.TS, ts), append(c.Bits, bits)
	if seq != 0 && c.Seq == nil {
		c.Seq = make([]uint64, n, n+1)
	}
	if c.Seq != nil {
		c.Seq = append(c.Seq, seq)
	}
	switch {
	case n == 0:
		c.Kind, c.Kinds = kind, nil
	case c.Kinds == nil && kind != c.Kind:
		c.Kinds = make([]value.Kind, n, n+1)
		for i := range c.Kinds {
			c.Kinds[i] = c.Kind
		}
		c.Kind = 0
	}
	if c.Kinds != nil {
		c.Kinds = append(c.Kinds, kind)
	}
	if isText(kind) && c.Texts == nil {
		c.Texts = make([]string, n, n+1)
	}
	if c.Texts != nil {
		c.Texts = append(c.Texts, text)
	}
}

func isText(k value.Kind) bool { return k == value.KindString || k == value.KindJSON }

// KindAt returns the kind of a value.
func (c *Columns) KindAt(i int) value.Kind {
	if c.Kinds != nil {
		return c.Kinds[i]
	}
	return c.Kind
}

// SeqAt returns the sequence of a point.
func (c *Columns) SeqAt(i int) uint64 {
	if c.Seq != nil {
		return c.Seq[i]
	}
	return 0
}

// Value returns a value.
func (c *Columns) Value(i int) value.Value {
	text := ""
	if c.Texts != nil {
		text = c.Texts[i]
	}
	return value.FromRaw(c.KindAt(i), c.Bits[i], text)
}

// Slice returns the points from i up to j. It shares the memory of c, but what is appended
// to it is its own.
func (c *Columns) Slice(i, j int) Columns {
	s := Columns{TS: c.TS[i:j:j], Kind: c.Kind, Bits: c.Bits[i:j:j]}
	if c.Seq != nil {
		s.Seq = c.Seq[i:j:j]
	}
	if c.Kinds != nil {
		s.Kinds = c.Kinds[i:j:j]
	}
	if c.Texts != nil {
		s.Texts = c.Texts[i:j:j]
	}
	return s
}

// Clone returns a copy that shares no memory with c, except the texts.
func (c *Columns) Clone() Columns {
	return Columns{
		TS: slices.Clone(c.TS), Seq: slices.Clone(c.Seq), Kind: c.Kind, Kinds: slices.Clone(c.Kinds),
		Bits: slices.Clone(c.Bits), Texts: slices.Clone(c.Texts),
	}
}

// Search returns how many points lie before a place.
func (c *Columns) Search(ts int64, seq uint64) int {
	low, high := 0, len(c.TS)
	for low < high {
		mid := int(uint(low+high) / 2)
		if c.TS[mid] < ts || c.TS[mid] == ts && c.SeqAt(mid) < seq {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// infinity has the bits that are set in all float64s that are not finite.
const infinity = 0x7ff << 52

// check checks that the points can be a block.
func (c *Columns) check() error {
	n := len(c.TS)
	if n == 0 || n > MaxRows {
		return fmt.Errorf("%w: there must be from 1 to %d, not %d", ErrLimit, MaxRows, n)
	}
	if err := c.checkLengths(); err != nil {
		return err
	}
	for i := range n {
		switch k := c.KindAt(i); {
		case k < value.KindFloat || k > value.KindJSON:
			return fmt.Errorf("%w: row %d has a value of the kind %s", ErrLimit, i, k)
		case k == value.KindFloat && c.Bits[i]&infinity == infinity:
			return fmt.Errorf("%w: row %d has a float64 that is not finite", ErrLimit, i)
		case isText(k) && c.Texts == nil:
			return fmt.Errorf("%w: row %d is a %s, and there are no texts", ErrLimit, i, k)
		case k == value.KindBool && c.Bits[i] > 1:
			return fmt.Errorf("%w: row %d has a bool that is neither true nor false", ErrLimit, i)
		}
		if i > 0 && (c.TS[i] < c.TS[i-1] || c.TS[i] == c.TS[i-1] && c.SeqAt(i) <= c.SeqAt(i-1)) {
			return fmt.Errorf("%w: row %d does not lie after the one before", ErrLimit, i)
		}
	}
	return nil
}

// checkLengths checks that all columns have the same length.
func (c *Columns) checkLengths() error {
	if (c.Kind == 0) != (c.Kinds != nil) {
		return fmt.Errorf("%w: either Kind or Kinds must say the kinds", ErrLimit)
	}
	for _, column := range []struct {
		name  string
		n     int
		isNil bool
	}{{"Seq", len(c.Seq), c.Seq == nil}, {"Kinds", len(c.Kinds), c.Kinds == nil}, {"Bits", len(c.Bits), false}, {"Texts", len(c.Texts), c.Texts == nil}} {
		if !column.isNil && column.n != len(c.TS) {
			return fmt.Errorf("%w: %s must have %d rows, as TS has, not %d", ErrLimit, column.name, len(c.TS), column.n)
		}
	}
	return nil
}
