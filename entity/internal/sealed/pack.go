package sealed

import (
	"errors"
	"math"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
)

// Stored is a block in a store, without what it contains.
type Stored struct {
	Num         int64 // the store's own
	First, Last entity.Place
	Count       int
}

// Has reports whether a place is in the range of a block that begins at it or before.
func (b *Stored) Has(at entity.Place) bool { return at.Compare(b.Last) <= 0 }

// Series gives access to the blocks of a series, to the only goroutine that changes them. The
// blocks do not overlap.
type Series interface {
	// Find returns the last block that begins at a place or before, or, if behind, the first one
	// that begins after it, nil for none.
	Find(at entity.Place, behind bool) (*Stored, error)
	// Open unpacks a block. It fails with an error that is Unreadable if the block is damaged.
	Open(b *Stored, c *block.Columns) error
	// Replace puts blocks in place of others.
	Replace(old []*Stored, parts []Part) error
}

// Unreadable reports whether an error means that a block cannot be read; the block stays as it is.
// After any other error the database may have ended the transaction, and nothing must be written
// any more.
func Unreadable(err error) bool {
	return errors.Is(err, block.ErrDamaged) || errors.Is(err, block.ErrVersion)
}

// Packer makes blocks. The zero value is ready for use, by one goroutine at a time.
type Packer struct {
	encoder        block.Encoder
	opened, merged block.Columns
}

// Seal makes blocks of rows of a series, at least one row, merging the blocks over which they lie,
// and returns how many rows it took: only those before the next block.
func (p *Packer) Seal(s Series, run *block.Columns) (n int, err error) {
	first := placeAt(run, 0)
	over, err := s.Find(first, false)
	if err != nil {
		return 0, err
	}
	next, err := s.Find(first, true)
	if err != nil {
		return 0, err
	}
	rows := *run
	if next != nil {
		rows = run.Slice(0, run.Search(next.First.TS, next.First.Seq))
	}
	return rows.Len(), p.fold(s, &rows, over)
}

// fold makes a block of rows. over is the block in whose range they begin, which is merged with
// them, or the one before them, nil for none: that is absorbed, with those before it, while they
// are small.
func (p *Packer) fold(s Series, rows *block.Columns, over *Stored) error {
	if over != nil && over.Has(placeAt(rows, 0)) {
		if err := s.Open(over, &p.opened); err != nil {
			return err
		}
		Merge(&p.merged, &p.opened, rows)
		return p.replace(s, []*Stored{over}, &p.merged)
	}
	var old []*Stored
	all := *rows
	for over != nil && over.Count < 2*all.Len() && over.Count+all.Len() <= block.MaxRows {
		if err := s.Open(over, &p.opened); Unreadable(err) {
			break
		} else if err != nil {
			return err
		}
		if TextBytes(&p.opened)+TextBytes(&all) > block.MaxTextBytes {
			break
		}
		var merged block.Columns
		Merge(&merged, &p.opened, &all)
		all = merged
		old = append(old, over)
		var err error
		if over, err = s.Find(before(over.First), false); err != nil {
			return err
		}
	}
	return p.replace(s, old, &all)
}

// before is the place before another one.
func before(p entity.Place) entity.Place {
	if p.Seq > 0 {
		return entity.Place{TS: p.TS, Seq: p.Seq - 1}
	}
	return entity.Place{TS: p.TS - 1, Seq: math.MaxInt64} // as large as stores keep it
}

func (p *Packer) replace(s Series, old []*Stored, c *block.Columns) error {
	parts, err := Encode(&p.encoder, c)
	if err != nil {
		return err
	}
	return s.Replace(old, parts)
}

// Join merges the block at a place with the following blocks that fit.
func (p *Packer) Join(s Series, at entity.Place) error {
	b, err := s.Find(at, false)
	if err != nil || b == nil {
		return err
	}
	var old []*Stored
	var all block.Columns
	for n := 0; b != nil && n+b.Count <= block.MaxRows; {
		if err := s.Open(b, &p.opened); Unreadable(err) {
			break
		} else if err != nil {
			return err
		}
		if TextBytes(&p.opened)+TextBytes(&all) > block.MaxTextBytes {
			break
		}
		var merged block.Columns
		Merge(&merged, &all, &p.opened)
		all, old, n = merged, append(old, b), n+b.Count
		if b, err = s.Find(b.First, true); err != nil {
			return err
		}
	}
	if len(old) < 2 {
		return nil
	}
	return p.replace(s, old, &all)
}

// Cut removes a block, or its points before a time, at most limit of them. It returns how many it
// removed, and the place of the last.
func (p *Packer) Cut(s Series, b *Stored, before int64, limit int) (n int, last entity.Place, err error) {
	if b.Last.TS < before && b.Count <= limit {
		return b.Count, b.Last, s.Replace([]*Stored{b}, nil)
	}
	if err := s.Open(b, &p.opened); err != nil {
		return 0, last, err
	}
	if n = min(limit, p.opened.Search(before, 0)); n == 0 {
		return 0, last, nil
	}
	left := p.opened.Slice(n, p.opened.Len())
	return n, placeAt(&p.opened, n-1), p.replace(s, []*Stored{b}, &left)
}
