package sqlite

import (
	"context"
	"database/sql/driver"
	"math"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// trim is Trim once the tables have all. It begins with the blocks, so that no value comes
// back that a later one has replaced: rows that lie over a block are folded into it first,
// some at a time. REQUIRES: s.writing held; it is given up between two transactions.
func (s *Store) trim(ctx context.Context, id, key string, before int64, limit int) (n int, err error) {
	for {
		done := false
		err := s.withRoom(func() error {
			some := 0
			err := s.w.transact(ctx, true, func(t *transaction) (err error) {
				some, done, err = t.trim(id, key, before, limit-n)
				return err
			})
			if err == nil {
				n += some
			}
			return err
		})
		if err != nil || done || n >= limit {
			return n, err
		}
		s.commits.Add(1)
		s.writing.Unlock()
		s.begin()
	}
}

// trim removes a part of the points of a series before a time, and reports whether there
// are no others.
func (t *transaction) trim(id, key string, before int64, limit int) (n int, done bool, err error) {
	row, err := t.query("SELECT e.num, k.num FROM entity e, key k WHERE e.id = ? AND k.name = ?", 2, id, key)
	if err != nil || row == nil {
		return 0, true, err
	}
	s := sealedSeries{t, first[int64](row), first[int64](row[1:])}
	b, err := s.block("AND first < ?3 ORDER BY first, first_seq LIMIT 1", before)
	if err != nil {
		return 0, false, err
	}
	if b == nil {
		n, err = s.trimRows(id, key, before, limit)
		return n, true, err
	}
	row, err = t.query("SELECT h.hour "+series+"ORDER BY h.hour LIMIT 1", 1, id, key, b.First.TS, b.Last.TS+1)
	if err != nil {
		return 0, false, err
	}
	if row != nil {
		_, err = t.sealSeries(first[int64](row), s.entity, s.key)
		if sealed.Unreadable(err) && b.Last.TS < before {
			n, err = s.drop(b)
		}
		return n, false, err
	}
	n, _, err = t.w.packer.Cut(s, b, before, limit)
	return n, false, err
}

// trimRows removes rows that lie before a time, the first ones.
func (s sealedSeries) trimRows(id, key string, before int64, limit int) (n int, err error) {
	from, to := int64(math.MaxInt64), int64(math.MinInt64) // the hours
	err = s.Each(`DELETE FROM telemetry WHERE (hour, entity, key, ts, seq) IN
		(SELECT t.hour, t.entity, t.key, t.ts, t.seq `+series+`ORDER BY h.hour, t.ts, t.seq LIMIT +?5) RETURNING hour`, 1,
		func(row []driver.Value) (bool, error) {
			n, from, to = n+1, min(from, first[int64](row)), max(to, first[int64](row))
			return true, nil
		}, id, key, entity.MinTS, before, int64(limit))
	if err != nil || n == 0 {
		return 0, err
	}
	return n, s.endHours(from, to)
}

// drop removes a block that cannot be read, with the rows in its range, and returns how many points
// there were at most.
func (s sealedSeries) drop(b *sealed.Stored) (n int, err error) {
	from, to := b.First.TS/hourMS, b.Last.TS/hourMS
	n, err = s.count(`DELETE FROM telemetry WHERE entity = ?1 AND key = ?2 AND ts BETWEEN ?3 AND ?4
		AND hour IN (SELECT hour FROM series_hour WHERE entity = ?1 AND key = ?2 AND hour BETWEEN ?5 AND ?6) RETURNING 1`,
		s.entity, s.key, b.First.TS, b.Last.TS, from, to)
	if err == nil {
		err = s.endHours(from, to)
	}
	if err != nil {
		return 0, err
	}
	return n + b.Count, s.Replace([]*sealed.Stored{b}, nil)
}

// count runs a statement and returns how many rows it returns.
func (t *transaction) count(sql string, args ...any) (n int, err error) {
	err = t.Each(sql, 1, func([]driver.Value) (bool, error) {
		n++
		return true, nil
	}, args...)
	return n, err
}
