// Package sealed is shared by stores that keep a part of a history in blocks. Rows that came later
// lie over a block until they are folded into it.
package sealed

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Part is a part of a history to be written to a store.
type Part struct {
	First, Last    entity.Place
	Count, Numbers int
	block.Block
}

// Encode packs points into as few blocks as possible, of about the same size. It does not change c.
func Encode(e *block.Encoder, c *block.Columns) ([]Part, error) {
	n := c.Len()
	if n <= block.MaxRows {
		b, err := e.Encode(c)
		if err == nil {
			return []Part{{placeAt(c, 0), placeAt(c, n-1), n, numbers(c), b}}, nil
		}
		if !errors.Is(err, block.ErrLimit) || n < 2 {
			return nil, err
		}
	}
	first, last := c.Slice(0, n/2), c.Slice(n/2, n)
	list, err := Encode(e, &first)
	if err != nil {
		return nil, err
	}
	more, err := Encode(e, &last)
	return append(list, more...), err
}

func numbers(c *block.Columns) (n int) {
	for i := range c.Len() {
		if k := c.KindAt(i); k == value.KindInt || k == value.KindFloat {
			n++
		}
	}
	return n
}

func placeAt(c *block.Columns, i int) entity.Place { return entity.Place{TS: c.TS[i], Seq: c.SeqAt(i)} }

// Merge sets dst to the points of old and over. Of two in the same place, the one of over counts.
// dst must be neither of them.
func Merge(dst, old, over *block.Columns) {
	dst.Reset()
	for i, j := 0, 0; i < old.Len() || j < over.Len(); {
		order := 0
		switch {
		case i == old.Len():
			order = 1
		case j == over.Len():
			order = -1
		default:
			order = placeAt(old, i).Compare(placeAt(over, j))
		}
		if order < 0 {
			add(dst, old, i)
		} else {
			add(dst, over, j)
			j++
		}
		if order <= 0 {
			i++
		}
	}
}

func add(dst, from *block.Columns, i int) { dst.Append(from.TS[i], from.SeqAt(i), from.Value(i)) }

// TextBytes returns how many bytes the texts have.
func TextBytes(c *block.Columns) (n int) {
	for _, text := range c.Texts {
		n += len(text)
	}
	return n
}

// Between returns the points in from <= place < to, which share the memory of c.
func Between(c *block.Columns, from, to entity.Place) block.Columns {
	first := c.Search(from.TS, from.Seq)
	return c.Slice(first, max(first, c.Search(to.TS, to.Seq)))
}

// AppendPoints appends the points to dst until it has limit, from the last one on if
// descending.
func AppendPoints(dst []entity.Point, c *block.Columns, limit int, descending bool) []entity.Point {
	n := c.Len()
	for k := 0; k < n && len(dst) < limit; k++ {
		i := k
		if descending {
			i = n - 1 - k
		}
		dst = append(dst, entity.Point{TS: c.TS[i], Seq: c.SeqAt(i), Value: c.Value(i)})
	}
	return dst
}

// AppendTo appends points, which lie after those of c, to c.
func AppendTo(c *block.Columns, points []entity.Point) {
	for i := range points {
		c.Append(points[i].TS, points[i].Seq, points[i].Value)
	}
}

// Failed names the times of a block that could not be read.
func Failed(err error, first, last int64) error {
	return fmt.Errorf("sealed values from %d to %d: %w", first, last, err)
}
