package sealed

import (
	"fmt"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
)

// A scan reads at most so many blocks and rows in one snapshot, and the next ones in another, so
// that it keeps the database from removing outdated rows only for a moment.
const (
	ScanBlocks = 64
	ScanRows   = 8192
)

// Unpacker unpacks blocks for a query.
type Unpacker struct {
	block.Decoder
	Columns block.Columns
}

// Unpackers is a pool of unused Unpackers. The zero value is empty. It is safe for concurrent use.
type Unpackers struct{ pool sync.Pool }

// Take returns an Unpacker for a query, which must give it back.
func (u *Unpackers) Take() *Unpacker {
	if u, ok := u.pool.Get().(*Unpacker); ok {
		return u
	}
	return new(Unpacker)
}

// Give returns an Unpacker to the pool.
func (u *Unpackers) Give(unpacker *Unpacker) { u.pool.Put(unpacker) }

// Scanner hands out a series in chunks, page by page: rows, and the blocks that they lie over.
type Scanner struct {
	From, To entity.Place              // what is left
	F        func(*entity.Chunk) error // gets the chunks
	Unpacker *Unpacker

	over    []entity.Point // of the rows of the page, from the place From on
	horizon entity.Place   // up to where over has all
	mixed   block.Columns  // a buffer
}

// Scan calls page until everything is handed out. page must call Begin, Block for each block, and
// End unless Block returned false.
func (p *Scanner) Scan(page func() error) error {
	for p.From.Compare(p.To) < 0 {
		before := p.From
		if err := page(); err != nil {
			return err
		}
		if p.From.Compare(before) <= 0 { // it would be read for ever
			return fmt.Errorf("%w: sealed values at %d are not in order", block.ErrDamaged, before.TS)
		}
	}
	return nil
}

// Begin begins a page with the rows that lie over blocks: all points from p.From up to the horizon.
func (p *Scanner) Begin(over []entity.Point, horizon entity.Place) {
	p.over, p.horizon = over, horizon
}

// End hands out what is left of a page.
func (p *Scanner) End() error {
	if err := p.loose(p.horizon); err != nil {
		return err
	}
	p.From = p.horizon
	return nil
}

// loose hands out the rows that lie before a place.
func (p *Scanner) loose(to entity.Place) error {
	for {
		n := 0
		for n < len(p.over) && n < block.MaxRows && p.over[n].Place().Compare(to) < 0 {
			n++
		}
		if n == 0 {
			return nil
		}
		p.mixed.Reset()
		AppendTo(&p.mixed, p.over[:n])
		p.over = p.over[n:]
		if err := p.F(entity.NewChunk(nil, func() (*block.Columns, error) { return &p.mixed, nil })); err != nil {
			return err
		}
	}
}

// Block hands out the rows before the next block, and the block, unchanged if no row lies over it.
// It reports whether the page can have more. b is not used afterwards.
func (p *Scanner) Block(b block.Block) (more bool, err error) {
	h, err := block.ReadHeader(b.Values)
	if err != nil {
		return false, err
	}
	first, last := entity.Place{TS: h.First, Seq: h.FirstSeq}, entity.Place{TS: h.Last, Seq: h.LastSeq}
	behind := entity.Place{TS: last.TS, Seq: last.Seq + 1}
	if last.Compare(p.From) < 0 {
		return false, fmt.Errorf("%w: it ends at place %d of %d, before place %d of %d, where it is kept", block.ErrDamaged, last.Seq, last.TS, p.From.Seq, p.From.TS)
	}
	if first.Compare(p.horizon) >= 0 {
		return false, p.End()
	}
	if err := p.loose(first); err != nil {
		return false, err
	}
	if first.Compare(p.From) >= 0 && behind.Compare(p.horizon) <= 0 && (len(p.over) == 0 || p.over[0].Place().Compare(behind) >= 0) {
		p.From = behind
		return true, p.F(entity.NewChunk(&h, func() (*block.Columns, error) {
			_, err := p.Unpacker.Decode(b, &p.Unpacker.Columns)
			return &p.Unpacker.Columns, err
		}))
	}
	if _, err := p.Unpacker.Decode(b, &p.Unpacker.Columns); err != nil {
		return false, err
	}
	if behind.Compare(p.horizon) > 0 {
		behind = p.horizon
	}
	return true, p.overlaid(behind)
}

// overlaid hands out the unpacked points up to a place, with the rows that lie over them.
func (p *Scanner) overlaid(end entity.Place) error {
	n := 0
	for n < len(p.over) && p.over[n].Place().Compare(end) < 0 {
		n++
	}
	var over, all block.Columns
	AppendTo(&over, p.over[:n])
	p.over = p.over[n:]
	part := Between(&p.Unpacker.Columns, p.From, end)
	Merge(&all, &part, &over)
	p.From = end
	for at := 0; at < all.Len(); at += block.MaxRows {
		piece := all.Slice(at, min(at+block.MaxRows, all.Len()))
		if err := p.F(entity.NewChunk(nil, func() (*block.Columns, error) { return &piece, nil })); err != nil {
			return err
		}
	}
	return nil
}
