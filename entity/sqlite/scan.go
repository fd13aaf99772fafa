package sqlite

import (
	"context"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// Scan calls f with the points of a range of one series. See [entity.Store].
func (s *Store) Scan(ctx context.Context, id, key string, from, to int64, f func(*entity.Chunk) error) (err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	first, last := entity.AllOf(from, to)
	p := scanner{Scanner: sealed.Scanner{From: first, To: last, F: f}, s: s, blocks: sealed.ScanBlocks, rows: sealed.ScanRows}
	return p.scan(ctx, id, key)
}

// scanner scans a series.
type scanner struct {
	sealed.Scanner
	s            *Store
	blocks, rows int // of a page
}

// scan scans what is left.
func (p *scanner) scan(ctx context.Context, id, key string) error {
	return p.Scan(func() error {
		end, err := p.s.beginLong(ctx) // others get their turn after each page
		if err != nil {
			return err
		}
		defer end()
		return p.page(ctx, id, key)
	})
}

// page reads what is next: rows, then the blocks that they lie over.
func (p *scanner) page(ctx context.Context, id, key string) error {
	p.Unpacker = p.s.unpackers.Take()
	defer p.s.unpackers.Give(p.Unpacker)
	tail := p.s.tail.points(id, key, p.From, p.To, noLimit, false)
	rows, err := p.s.queries.ascending.QueryContext(ctx, id, key, p.From.TS, p.To.TS, int64(p.From.Seq), int64(p.To.Seq), p.rows)
	if err != nil {
		return err
	}
	var open []entity.Point
	begun, ended, blocks := false, false, 0
	begin := func() { // all rows are read
		begun = true
		horizon := p.To
		if len(open) == p.rows {
			horizon = open[len(open)-1].Place()
			horizon.Seq++
		}
		p.Begin(sealed.OverlayPoints(open, sealed.Within(tail, p.From, horizon), len(open)+len(tail), false), horizon)
	}
	err = eachFound(rows, func(point entity.Point) { open = append(open, point) }, func(b block.Block) (bool, error) {
		if !begun {
			begin()
		}
		more, err := p.Block(b)
		blocks++
		ended = !more || blocks == min(p.blocks, p.rows) // the query finds no more than p.rows
		return !ended, err
	})
	if err != nil || ended {
		return err
	}
	if !begun {
		begin()
	}
	return p.End()
}
