package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// A scan reads one moment of the database for so many blocks and rows at most; the next ones
// are read in another. So it keeps the WAL from beginning anew for a moment only.
const (
	scanBlocks = 64
	scanRows   = 8192
)

// Scan calls f with the points of a range of one series. See [entity.Store].
func (s *Store) Scan(ctx context.Context, id, key string, from, to int64, f func(*entity.Chunk) error) (err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	first, last := entity.AllOf(from, to)
	p := scanner{s: s, from: first, to: last, f: f, blocks: scanBlocks, rows: scanRows}
	return p.scan(ctx, id, key)
}

// scan scans what is left.
func (p *scanner) scan(ctx context.Context, id, key string) error {
	for p.from.Compare(p.to) < 0 {
		end, err := p.s.beginLong(ctx) // others get their turn after each page
		if err != nil {
			return err
		}
		before := p.from
		err = p.page(ctx, id, key)
		end()
		if err != nil {
			return err
		}
		if p.from.Compare(before) <= 0 { // it would be read for ever
			return fmt.Errorf("%w: sealed values at %d are not in order", block.ErrDamaged, before.TS)
		}
	}
	return nil
}

// scanner scans a series.
type scanner struct {
	s        *Store
	from, to entity.Place // what is left
	f        func(*entity.Chunk) error
	blocks   int
	rows     int

	over     []entity.Point // of the rows and the tail, from the place from on
	horizon  entity.Place   // up to where over has all
	mixed    block.Columns  // a buffer
	unpacker *unpacker
}

// page reads what is next: rows, then the blocks that they lie over.
func (p *scanner) page(ctx context.Context, id, key string) error {
	p.unpacker = p.s.unpacker()
	defer p.s.unpackers.Put(p.unpacker)
	p.horizon = p.to
	tail := p.s.tail.points(id, key, p.from, p.to)
	rows, err := p.s.queries.ascending.QueryContext(ctx, id, key, p.from.TS, p.to.TS, int64(p.from.Seq), int64(p.to.Seq), p.rows) //nolint:sqlclosecheck // scan does
	if err != nil {
		return err
	}
	var open []entity.Point
	begun, blocks := false, 0
	begin := func() { // all rows are read
		begun = true
		if len(open) == p.rows {
			p.horizon = open[len(open)-1].Place()
			p.horizon.Seq++
		}
		p.over = merge(open, within(tail, p.from, p.horizon), len(open)+len(tail), false, (*entity.Point).Place)
	}
	err = scan(rows, func() error {
		var first, second, kind int64
		var col any
		var times sql.RawBytes
		if err := rows.Scan(&first, &second, &kind, &col, &times); err != nil {
			return err
		}
		if kind != isBlock {
			v, err := valueOf(kind, col)
			open = append(open, entity.Point{TS: first, Seq: uint64(second), Value: v})
			return err
		}
		if !begun {
			begin()
		}
		data, _ := col.([]byte)
		if err := p.block(block.Block{Values: data, Times: times}); err != nil {
			if errors.Is(err, block.ErrDamaged) || errors.Is(err, block.ErrVersion) {
				err = sealed.Failed(err, first, second)
			}
			return err
		}
		if blocks++; blocks == min(p.blocks, p.rows) { // the query finds no more than p.rows
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	if err != nil {
		return err
	}
	if !begun {
		begin()
	}
	return p.rest(p.horizon)
}

// rest hands out what is left of the rows up to a place, and goes on behind it.
func (p *scanner) rest(to entity.Place) error {
	if err := p.loose(to); err != nil {
		return err
	}
	p.from = to
	return nil
}

// loose hands out the rows that lie before a place.
func (p *scanner) loose(to entity.Place) error {
	for {
		n := 0
		for n < len(p.over) && n < block.MaxRows && p.over[n].Place().Compare(to) < 0 {
			n++
		}
		if n == 0 {
			return nil
		}
		p.mixed.Reset()
		sealed.AppendTo(&p.mixed, p.over[:n])
		p.over = p.over[n:]
		if err := p.f(entity.NewChunk(nil, func() (*block.Columns, error) { return &p.mixed, nil })); err != nil {
			return err
		}
	}
}

// block hands out a block, as it is where no row lies over it.
func (p *scanner) block(b block.Block) error {
	h, err := block.ReadHeader(b.Values)
	if err != nil {
		return err
	}
	first, last := entity.Place{TS: h.First, Seq: h.FirstSeq}, entity.Place{TS: h.Last, Seq: h.LastSeq}
	behind := entity.Place{TS: last.TS, Seq: last.Seq + 1}
	if last.Compare(p.from) < 0 {
		return fmt.Errorf("%w: it ends at place %d of %d, before place %d of %d, where it is kept", block.ErrDamaged, last.Seq, last.TS, p.from.Seq, p.from.TS)
	}
	if first.Compare(p.horizon) >= 0 {
		if err := p.rest(p.horizon); err != nil {
			return err
		}
		return errEnough
	}
	if err := p.loose(first); err != nil {
		return err
	}
	if first.Compare(p.from) >= 0 && behind.Compare(p.horizon) <= 0 && (len(p.over) == 0 || p.over[0].Place().Compare(behind) >= 0) {
		p.from = behind
		return p.f(entity.NewChunk(&h, func() (*block.Columns, error) {
			_, err := p.unpacker.Decode(b, &p.unpacker.columns)
			return &p.unpacker.columns, err
		}))
	}
	if _, err := p.unpacker.Decode(b, &p.unpacker.columns); err != nil {
		return err
	}
	end := behind
	if end.Compare(p.horizon) > 0 {
		end = p.horizon
	}
	n := 0
	for n < len(p.over) && p.over[n].Place().Compare(end) < 0 {
		n++
	}
	var over, all block.Columns
	sealed.AppendTo(&over, p.over[:n])
	p.over = p.over[n:]
	part := sealed.Between(&p.unpacker.columns, p.from, end)
	sealed.Merge(&all, &part, &over)
	p.from = end
	for at := 0; at < all.Len(); at += block.MaxRows {
		piece := all.Slice(at, min(at+block.MaxRows, all.Len()))
		if err := p.f(entity.NewChunk(nil, func() (*block.Columns, error) { return &piece, nil })); err != nil {
			return err
		}
	}
	return nil
}
