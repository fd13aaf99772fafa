package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// The store maintains its partitions some time after it was opened, to let waiting clients go
// first, and then periodically.
const (
	maintainFirst = time.Minute
	maintainEvery = 30 * time.Minute
)

// maintain starts the goroutine that makes partitions ahead of time, drops those
// that have expired, drops old changes from the log and, as soon as there are any,
// removes the telemetry of deleted entities, and the one that seals. It returns what ends them.
func (s *Store) maintain() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	if s.opts.SealAfter > 0 {
		working.Go(func() { s.seals(ctx) })
	}
	working.Go(func() {
		timer := time.NewTimer(maintainFirst)
		defer timer.Stop()
		var shorten <-chan time.Time
		if s.opts.ChangeLogAge > 0 {
			ticker := time.NewTicker(min(shortenEvery, s.opts.ChangeLogAge/4+time.Millisecond))
			defer ticker.Stop()
			shorten = ticker.C
		}
		for {
			work := s.tidy
			select {
			case <-timer.C:
				timer.Reset(maintainEvery)
			case <-shorten:
				work = s.shorten
			case <-s.work:
				work = func(ctx context.Context, _ time.Time) error { return s.purge(ctx) }
			case <-ctx.Done():
				return
			}
			if err := work(ctx, time.Now()); err != nil && ctx.Err() == nil {
				s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "maintenance of the store failed; will try again", slog.String("error", err.Error()))
			}
		}
	})
	return func() {
		cancel()
		working.Wait()
	}
}

// tidy does one round of maintenance of the partitions and of deleted entities.
func (s *Store) tidy(ctx context.Context, now time.Time) error {
	return errors.Join(s.ahead(ctx, now), s.expire(ctx, now), s.purge(ctx))
}

// ahead creates the partitions for now and the near future, so that no commit has to wait for them.
func (s *Store) ahead(ctx context.Context, now time.Time) error {
	return s.update(ctx, func(ctx context.Context, _ *writer) error {
		return s.cover(ctx, now.UnixMilli(), now.Add(s.opts.PartitionWidth).UnixMilli())
	})
}

// expire drops partitions in which everything has expired, and past ones that Trim has emptied.
func (s *Store) expire(ctx context.Context, now time.Time) error {
	errs := []error{s.expireBlocks(ctx, now)}
	if errs[0] != nil {
		return errs[0] // or what a late row has replaced would come back
	}
	for _, p := range s.spans.all() {
		old := s.expired(p, now)
		if !old && p.hi > now.Add(-s.opts.PartitionWidth).UnixMilli() {
			continue
		}
		if err := s.drop(ctx, p, old); err != nil {
			errs = append(errs, fmt.Errorf("drop the partition %s: %w", p.table(), err))
		}
	}
	return errors.Join(errs...)
}

// expired reports whether all telemetry of a partition has expired.
func (s *Store) expired(p span, now time.Time) bool {
	return s.opts.Retention > 0 && p.hi <= now.Add(-s.opts.Retention).UnixMilli()
}

// expireStep is how many numbers of blocks are looked at in one transaction.
const expireStep = 2000

// expireBlocks removes the blocks of the times of expired partitions: from then on the sealer
// leaves these alone.
func (s *Store) expireBlocks(ctx context.Context, now time.Time) error {
	before := int64(math.MinInt64)
	for _, p := range s.spans.all() {
		if s.expired(p, now) {
			before = p.hi
		}
	}
	if before == math.MinInt64 {
		return nil
	}
	var last int64
	if err := s.read(ctx, func(conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(max(num), 0) FROM block").Scan(&last)
	}); err != nil {
		return fmt.Errorf("look for blocks that have expired: %w", err)
	}
	var damaged []error
	for num := int64(0); num <= last; num += expireStep {
		err := s.changeBlocks(ctx, false, func(tx pgx.Tx) error {
			some, err := s.expireSome(ctx, tx, num, before)
			damaged = append(damaged, some...)
			return err
		})
		if err != nil {
			return fmt.Errorf("remove blocks that have expired: %w", err)
		}
	}
	err := pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "DELETE FROM computed WHERE ts < $1", before)
		return err
	})
	for _, err := range damaged {
		s.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a block of which a part has expired cannot be read, it is kept until all of it has", slog.String("error", err.Error()))
	}
	return err
}

// expireSome is expireBlocks for the blocks with the numbers from num on. It returns the errors of
// those that it cannot read.
func (s *Store) expireSome(ctx context.Context, tx pgx.Tx, num, before int64) (damaged []error, err error) {
	rows, err := tx.Query(ctx, "DELETE FROM block WHERE num >= $1 AND num < $2 AND last < $3 RETURNING coalesce(stamp, 0)", num, num+expireStep, before)
	if err != nil {
		return nil, err
	}
	stamps, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return nil, err
	}
	if err := releaseStamps(ctx, tx, stamps); err != nil {
		return nil, err
	}
	rows, err = tx.Query(ctx, "SELECT entity, key, num, first, first_seq, last, last_seq, n FROM block WHERE num >= $1 AND num < $2 AND first < $3", num, num+expireStep, before)
	if err != nil {
		return nil, err
	}
	var series seriesNum
	var b sealed.Stored
	type part struct {
		seriesNum
		sealed.Stored
	}
	var parts []part
	if _, err := pgx.ForEachRow(rows, []any{&series.entity, &series.key, &b.Num, &b.First.TS, &b.First.Seq, &b.Last.TS, &b.Last.Seq, &b.Count}, func() error {
		parts = append(parts, part{series, b})
		return nil
	}); err != nil {
		return nil, err
	}
	for i := range parts {
		_, _, err := s.packer.Cut(s.blocks(ctx, tx, parts[i].seriesNum), &parts[i].Stored, before, math.MaxInt)
		if sealed.Unreadable(err) {
			damaged = append(damaged, err)
		} else if err != nil {
			return nil, err
		}
	}
	return damaged, nil
}

// drop drops a partition, which must be empty unless it is old.
func (s *Store) drop(ctx context.Context, p span, old bool) error {
	if !old {
		if empty, err := s.empty(ctx, p); err != nil || !empty {
			return err
		}
		if err := s.vacuum(ctx, p.table()); err != nil {
			return err
		}
	}
	dropped := false
	err := s.update(ctx, func(ctx context.Context, w *writer) (err error) {
		if err = w.transact(ctx, func(tx pgx.Tx) (err error) {
			dropped, err = dropPartition(ctx, tx, p, old)
			return err
		}); err == nil && dropped {
			s.spans.set(slices.DeleteFunc(slices.Clone(s.spans.all()), func(o span) bool { return o == p }))
		}
		return err
	})
	if err != nil || !dropped {
		return err
	}
	s.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "dropped a partition of the telemetry", slog.String("table", p.table()), slog.Bool("expired", old))
	return nil
}

// dropPartition drops a partition if it is old or empty.
func dropPartition(ctx context.Context, tx pgx.Tx, p span, old bool) (dropped bool, err error) {
	// The table cannot be dropped while somebody is reading, and later readers wait behind the
	// lock: it is better to try again later than to hold it for long.
	for _, sql := range []string{
		"SET LOCAL lock_timeout = '1s'",
		"LOCK TABLE telemetry IN ACCESS EXCLUSIVE MODE",
	} {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return false, err
		}
	}
	if !old { // it may have got readings since, or somebody may see those that it had
		if vacant, err := isVacant(ctx, tx, p); err != nil || !vacant {
			return false, err
		}
	}
	if _, err := tx.Exec(ctx, "DROP TABLE "+p.table(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return false, err
	}
	_, err = tx.Exec(ctx, "DELETE FROM span WHERE lo = $1", p.lo)
	return err == nil, err
}

func (s *Store) empty(ctx context.Context, p span) (empty bool, err error) {
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		empty, err = isEmpty(ctx, conn, p)
		return err
	})
	return empty, err
}

func isEmpty(ctx context.Context, conn querier, p span) (empty bool, err error) {
	err = conn.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM telemetry WHERE ts >= $1 AND ts < $2)", planned, p.lo, p.hi).Scan(&empty)
	return empty, err
}

// isVacant reports whether a partition has no pages: no transaction sees any row of it then.
func isVacant(ctx context.Context, conn querier, p span) (vacant bool, err error) {
	err = conn.QueryRow(ctx, "SELECT pg_relation_size($1::text::regclass) = 0", p.table()).Scan(&vacant)
	return vacant, err
}

// purgeRows and purgeBlocks are how many rows, and how many blocks, of deleted entities are removed at
// once.
const (
	purgeRows   = 10_000
	purgeBlocks = 1000
)

// purge removes the telemetry and the blocks of deleted entities.
func (s *Store) purge(ctx context.Context) error {
	for {
		var num int32
		err := s.read(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, "SELECT num FROM doomed LIMIT 1").Scan(&num) })
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for deleted entities: %w", err)
		}
		if err := s.purgeOne(ctx, num); err != nil {
			return fmt.Errorf("remove the telemetry of a deleted entity: %w", err)
		}
	}
}

func (s *Store) purgeOne(ctx context.Context, num int32) error {
	list := s.spans.all()
	if len(list) > 0 {
		err := s.stretches(list[0].lo, list[len(list)-1].hi, false, func(from, to int64) (bool, error) {
			for more := true; more; {
				var err error
				if more, err = s.purgeSome(ctx, num, from, to); err != nil {
					return false, err
				}
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	for _, table := range [...]string{"block", "stamp", "computed"} {
		for more := true; more; {
			err := s.changeBlocks(ctx, false, func(tx pgx.Tx) error {
				tag, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE ctid = ANY(ARRAY(SELECT ctid FROM "+table+" WHERE entity = $1 LIMIT $2))", num, purgeBlocks)
				more = tag.RowsAffected() > 0
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, "DELETE FROM doomed WHERE num = $1", num)
		return err
	})
}

// purgeSome removes the oldest rows of one series of an entity, and reports whether there were any.
func (s *Store) purgeSome(ctx context.Context, num int32, from, to int64) (some bool, err error) {
	const series = "FROM telemetry WHERE entity = $1 AND key = $2 AND ts >= $3 AND ts < $4 "
	err = pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		var key int32
		err := conn.QueryRow(ctx, "SELECT key FROM telemetry WHERE entity = $1 AND ts >= $2 AND ts < $3 ORDER BY key LIMIT 1", planned, num, from, to).Scan(&key)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		tag, err := conn.Exec(ctx, "DELETE "+series+"AND ts <= (SELECT max(ts) FROM (SELECT ts "+series+"ORDER BY ts LIMIT $5) oldest)", planned, num, key, from, to, purgeRows)
		some = tag.RowsAffected() > 0
		return err
	})
	return some, err
}
