package sqlite

import (
	"errors"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/entity/value"
)

// fillMillisecond commits a reading at 100, n without a time of their own that arrive at 1000,
// and one at 2000, and seals them.
func fillMillisecond(t *testing.T, s *Store, n int) {
	t.Helper()
	b := &entity.Batch{First: 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
	add := func(ts int64, arrived bool) {
		seq := uint64(len(b.Records) + 1)
		b.Records = append(b.Records, entity.Record{Seq: seq, Reading: entity.Reading{
			TS: ts, Arrived: arrived, Values: []entity.Sample{{Key: "t", Value: value.Int(int64(seq))}},
		}})
	}
	add(100, false)
	for range n {
		add(1000, true)
	}
	add(2000, false)
	if err := errors.Join(s.Commit(t.Context(), b), s.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// scanPages scans "t" of "a" in pages of so many blocks and rows.
func scanPages(t *testing.T, s *Store, blocks, rows int) (list []entity.Point, err error) {
	t.Helper()
	p := scanner{s: s, blocks: blocks, rows: rows, Scanner: sealed.Scanner{To: entity.Place{TS: entity.MaxTS}, F: func(c *entity.Chunk) error {
		columns, err := c.Columns()
		if err != nil {
			return err
		}
		n := columns.Len()
		if n == 0 || n > block.MaxRows {
			t.Errorf("a chunk of %d points", n)
		}
		for i := range n {
			list = append(list, entity.Point{TS: columns.TS[i], Seq: columns.SeqAt(i), Value: columns.Value(i)})
		}
		return nil
	}}}
	err = p.scan(t.Context(), "a", "t")
	return list, err
}

// TestAMillisecondCanHaveManyBlocks asks for parts of it, and for what lies before and behind.
func TestAMillisecondCanHaveManyBlocks(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = 4 * block.MaxRows
	fillMillisecond(t, s, n)
	if blocks := count(t, s, "SELECT count(*) FROM block WHERE first = 1000 AND last = 1000"); blocks < 3 {
		t.Fatalf("%d blocks are within a millisecond, want 3 or more", blocks)
	}
	want := points(t, s, "a", "t")
	if len(want) != n+2 {
		t.Fatalf("%d points, want %d", len(want), n+2)
	}
	ends := []entity.Place{{}, {TS: 1000}, {TS: 1000, Seq: n + 2}, {TS: 1001}, {TS: entity.MaxTS}}
	for i := block.MaxRows / 2; i < n; i += block.MaxRows {
		ends = append(ends, want[i].Place())
	}
	for _, from := range ends {
		for _, to := range ends {
			var between []entity.Point
			for i := range want {
				if p := want[i].Place(); p.Compare(from) >= 0 && p.Compare(to) < 0 {
					between = append(between, want[i])
				}
			}
			for _, limit := range []int{1, 3} {
				first := between[:min(limit, len(between))]
				last := slices.Clone(between[max(0, len(between)-limit):])
				slices.Reverse(last)
				for _, tt := range []struct {
					descending bool
					want       []entity.Point
				}{{false, first}, {true, last}} {
					got, err := s.History(t.Context(), "a", "t", from, to, limit, tt.descending)
					if err != nil || !slices.Equal(got, tt.want) {
						t.Errorf("from %v to %v, limit %d, descending %v: %v, %v, want %v", from, to, limit, tt.descending, got, err, tt.want)
					}
				}
			}
		}
	}
	for _, limits := range [][2]int{{1, sealed.ScanRows}, {2, sealed.ScanRows}, {sealed.ScanBlocks, 2}, {sealed.ScanBlocks, sealed.ScanRows}} {
		if got, err := scanPages(t, s, limits[0], limits[1]); err != nil || !slices.Equal(got, want) {
			t.Errorf("pages of %d blocks and %d rows: %d points of %d, %v", limits[0], limits[1], len(got), len(want), err)
		}
	}
	if numbers, err := s.CountNumbers(t.Context(), "a", "t", 1000, 1001); err != nil || numbers != n {
		t.Errorf("%d numbers in the millisecond, want %d, %v", numbers, n, err)
	}
}

// TestChunksOfABlockAndManyRowsAreBounded has as many late values in the range of a block as it
// has points.
func TestChunksOfABlockAndManyRowsAreBounded(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	const n = block.MaxRows - 1
	late := func(ts int64) *entity.Batch {
		b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "a", Created: 1}}}
		for i := range int64(n) {
			b.Records = append(b.Records, entity.Record{Seq: b.First + uint64(i), Reading: entity.Reading{
				TS: ts + 2*i, Values: []entity.Sample{{Key: "t", Value: value.Int(i)}},
			}})
		}
		return b
	}
	if err := errors.Join(s.Commit(t.Context(), late(1000)), s.Compact(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Commit(t.Context(), late(1001)), moveAll(s)); err != nil {
		t.Fatal(err)
	}
	want := points(t, s, "a", "t")
	for _, rows := range []int{sealed.ScanRows, block.MaxRows + 1000, 1000} {
		got, err := scanPages(t, s, sealed.ScanBlocks, rows)
		if err != nil || len(got) != 2*n || !slices.Equal(got, want) {
			t.Errorf("pages of %d rows: %d points, %v, want %d", rows, len(got), err, 2*n)
		}
	}
}

// TestAScanEndsAtABlockInAWrongPlace has the points of one block in the place of another: it
// must neither be skipped nor be read for ever.
func TestAScanEndsAtABlockInAWrongPlace(t *testing.T) {
	s := open(t, t.TempDir(), Options{SealAfter: -1})
	defer closeStore(t, s)
	s.halt() // nobody else writes
	fillMillisecond(t, s, 3*block.MaxRows)
	if _, err := s.w.Conn.ExecContext(t.Context(), `UPDATE block SET (stamp, times, data) = (SELECT stamp, times, data FROM block ORDER BY first, first_seq LIMIT 1)
		WHERE num = (SELECT num FROM block ORDER BY first, first_seq LIMIT 1 OFFSET 1)`); err != nil {
		t.Fatal(err)
	}
	for _, blocks := range []int{1, sealed.ScanBlocks} {
		if list, err := scanPages(t, s, blocks, sealed.ScanRows); !errors.Is(err, block.ErrDamaged) {
			t.Errorf("pages of %d blocks: %d points, %v, want ErrDamaged", blocks, len(list), err)
		}
	}
}
