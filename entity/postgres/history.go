package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// series is the part of one series in a range of times.
const series = `FROM telemetry WHERE entity = (SELECT num FROM entity WHERE id = $1) AND key = (SELECT num FROM key WHERE name = $2)
	AND ts >= $3 AND ts < $4 `

// planned makes the server plan a query for its arguments: a plan for any
// arguments opens and locks all partitions.
const planned = pgx.QueryExecModeCacheDescribe

// points reads a range of one series, stretch by stretch. The SQL begins with
// "SELECT …" and ends after series; more are its parameters from $6 on.
func points[T any](ctx context.Context, s *Store, sql, id, key string, from, to int64, limit int, descending bool, scan pgx.RowToFunc[T], more ...any) (list []T, err error) {
	end, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	err = s.stretches(from, to, descending, func(from, to int64) (bool, error) {
		var some []T
		err := s.read(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, sql, append([]any{planned, id, key, from, to, limit - len(list)}, more...)...)
			if err != nil {
				return err
			}
			some, err = pgx.CollectRows(rows, scan)
			return err
		})
		list = append(list, some...)
		return len(list) < limit, err
	})
	return list, err
}

// History returns a range of one series. See [entity.Store].
func (s *Store) History(ctx context.Context, id, key string, from, to entity.Place, limit int, descending bool) (_ []entity.Point, err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	const sql = "SELECT ts, seq, number, whole, text, json " + series + "AND (ts, seq) >= ($6, $7) AND (ts, seq) < ($8, $9) "
	order := "ORDER BY ts, seq LIMIT $5"
	if descending {
		order = "ORDER BY ts DESC, seq DESC LIMIT $5"
	}
	end := to.TS
	if to.Seq > 0 {
		end++
	}
	return points(ctx, s, sql+order, id, key, from.TS, end, limit, descending, scanPoint, from.TS, int64(from.Seq), to.TS, int64(to.Seq))
}

func scanPoint(row pgx.CollectableRow) (p entity.Point, err error) {
	var c columns
	var seq int64
	if err := row.Scan(&p.TS, &seq, &c.number, &c.whole, &c.text, &c.json); err != nil {
		return p, err
	}
	p.Seq = uint64(seq)
	p.Value, err = c.value()
	return p, err
}

// Origins tells who computed a range of one series. See [entity.Store].
func (s *Store) Origins(ctx context.Context, id, key string, from, to int64, limit int) (_ []entity.PointOrigin, err error) {
	defer failure.In(&err, "origins of %q key %q", id, key)
	return points(ctx, s, "SELECT ts, origin "+series+"AND origin IS NOT NULL ORDER BY ts LIMIT $5", id, key, from, to, limit, false,
		func(row pgx.CollectableRow) (p entity.PointOrigin, err error) {
			var origin []byte
			if err := row.Scan(&p.TS, &origin); err != nil {
				return p, err
			}
			p.Origin, err = unpackOrigin(origin)
			return p, err
		})
}

// CountNumbers counts the numbers in a range of one series. See [entity.Store].
func (s *Store) CountNumbers(ctx context.Context, id, key string, from, to int64) (n int, err error) {
	const sql = "SELECT count(*) " + series + "AND (number IS NOT NULL OR whole IS NOT NULL)"
	defer failure.In(&err, "count the numbers of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	err = s.stretches(from, to, false, func(from, to int64) (bool, error) {
		some := 0
		err := s.read(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, sql, planned, id, key, from, to).Scan(&some)
		})
		n += some
		return true, err
	})
	return n, err
}

// Trim removes the oldest points of one series. See [entity.Store].
func (s *Store) Trim(ctx context.Context, id, key string, before int64, limit int) (n int, err error) {
	const sql = "WITH gone AS (DELETE " + series + "AND ts <= (SELECT max(ts) FROM (SELECT ts " + series + "ORDER BY ts LIMIT $5) oldest) RETURNING 1) SELECT count(*) FROM gone"
	defer failure.In(&err, "trim the history of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	err = s.stretches(entity.MinTS, before, false, func(from, to int64) (bool, error) {
		var some int
		err := pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, sql, planned, id, key, from, to, limit-n).Scan(&some)
		})
		n += some
		return n < limit, err
	})
	return n, err
}

// Scan calls f with the points of a range of one series. See [entity.Store].
func (s *Store) Scan(ctx context.Context, id, key string, from, to int64, f func(*entity.Chunk) error) error {
	var c block.Columns
	for at, end := entity.AllOf(from, to); ; {
		page, err := s.History(ctx, id, key, at, end, block.MaxRows, false)
		if err != nil || len(page) == 0 {
			return err
		}
		c.Reset()
		sealed.AppendTo(&c, page)
		if err := f(entity.NewChunk(nil, func() (*block.Columns, error) { return &c, nil })); err != nil {
			return err
		}
		if len(page) < block.MaxRows {
			return nil
		}
		at = page[len(page)-1].Place()
		at.Seq++
	}
}

// Compact does nothing: history is kept as rows. See [entity.Store].
func (s *Store) Compact(context.Context) error { return nil }
