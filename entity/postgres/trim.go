package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// Trim removes the oldest points of one series. See [entity.Store]. It begins with the blocks, so that
// no value comes back that a later one has replaced: rows that lie over a block are folded into it first.
func (s *Store) Trim(ctx context.Context, id, key string, before int64, limit int) (n int, err error) {
	defer failure.In(&err, "trim the history of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	var num seriesNum
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT e.num, k.num FROM entity e, key k WHERE e.id = $1 AND k.name = $2", id, key).Scan(&num.entity, &num.key)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	for done := false; !done && n < limit; {
		some := 0
		if some, done, err = s.trimBlock(ctx, num, before, limit-n); err != nil {
			return n, err
		}
		n += some
	}
	if n >= limit {
		return n, nil
	}
	const row = "FROM telemetry WHERE entity = $1 AND key = $2 AND ts >= $3 AND ts < $4 "
	err = s.stretches(entity.MinTS, before, false, func(from, to int64) (bool, error) {
		some := 0
		err := s.changeBlocks(ctx, true, func(tx pgx.Tx) error {
			// Up to the last one, and not those of a list: without statistics of the table, the server
			// compares each row with all of the list.
			const last = "(SELECT ts, seq FROM (SELECT ts, seq " + row + "ORDER BY ts, seq LIMIT $5) AS oldest ORDER BY ts DESC, seq DESC LIMIT 1)"
			return tx.QueryRow(ctx, "WITH gone AS (DELETE "+row+"AND (ts, seq) <= "+last+" RETURNING 1) SELECT count(*) FROM gone",
				planned, num.entity, num.key, from, to, limit-n).Scan(&some)
		})
		n += some
		return n < limit, err
	})
	return n, err
}

// trimBlock removes the first block of a series that begins before a time, or the points of it that lie
// before, or folds rows into it, and reports whether there is none.
func (s *Store) trimBlock(ctx context.Context, series seriesNum, before int64, limit int) (n int, done bool, err error) {
	var b *sealed.Stored
	err = s.changeBlocks(ctx, true, func(tx pgx.Tx) (err error) {
		all := s.blocks(ctx, tx, series)
		if b, err = all.one(blockColumns+"AND first < $3 ORDER BY first, first_seq LIMIT 1", before); err != nil || b == nil {
			return err
		}
		rows, _, err := s.sealRun(ctx, tx, series, b.First.TS, b.Last.TS+1)
		if err != nil || rows > 0 {
			return err
		}
		var last entity.Place
		if n, last, err = s.packer.Cut(all, b, before, limit); err == nil {
			_, err = tx.Exec(ctx, "DELETE FROM computed WHERE entity = $1 AND key = $2 AND (ts, seq) <= ($3, $4)", series.entity, series.key, last.TS, int64(last.Seq))
		}
		return err
	})
	if sealed.Unreadable(err) && b.Last.TS < before {
		n, err = s.dropBlock(ctx, series, b)
	}
	return n, b == nil, err
}

// dropBlock removes a block that cannot be read, with the rows in its range, and returns how many points
// there were at most.
func (s *Store) dropBlock(ctx context.Context, series seriesNum, b *sealed.Stored) (n int, err error) {
	err = s.changeBlocks(ctx, true, func(tx pgx.Tx) error {
		n = b.Count
		for _, table := range [...]string{"telemetry", "computed"} {
			tag, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE entity = $1 AND key = $2 AND ts >= $3 AND ts <= $4", planned, series.entity, series.key, b.First.TS, b.Last.TS)
			if err != nil {
				return err
			}
			if table == "telemetry" {
				n += int(tag.RowsAffected())
			}
		}
		return s.blocks(ctx, tx, series).Replace([]*sealed.Stored{b}, nil)
	})
	return n, err
}
