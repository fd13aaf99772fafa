package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Compact seals everything that can be sealed, slice by slice concurrently with commits, and makes
// large blocks of small ones. Then it returns space to the disk as far as that does not delay
// others: it drops empty partitions of the past, and lets PostgreSQL clean up the rest with VACUUM,
// which returns the end of a table if nothing is left in it, and TRUNCATE, which returns the index
// of an empty partition. Other free space is reused. Rows that cannot be sealed stay, and the error
// says why.
func (s *Store) Compact(ctx context.Context) (err error) {
	defer failure.In(&err, "compact")
	select { // one at a time: each takes its share of the time between commits
	case s.compacting <- struct{}{}:
		defer func() { <-s.compacting }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	failed := s.sealSpans(ctx, true)
	if failed != nil && !sealed.Unreadable(failed) {
		return failed
	}
	return errors.Join(failed, s.join(ctx), s.expire(ctx, time.Now()), s.giveBack(ctx))
}

// join makes large blocks of those that follow each other and are small enough.
func (s *Store) join(ctx context.Context) error {
	at := joinCursor{seriesNum: seriesNum{math.MinInt32, math.MinInt32}}
	for done := false; !done; {
		began := time.Now()
		var next joinCursor
		err := s.changeBlocks(ctx, false, func(tx pgx.Tx) (err error) {
			next = at
			for end := time.Now().Add(sliceTime); err == nil && !done; {
				if done, err = s.joinNext(ctx, tx, &next); !time.Now().Before(end) {
					break
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		at = next
		if err := pause.For(ctx, time.Since(began)); err != nil { // the commits have their share of the server, too
			return err
		}
	}
	return nil
}

// joinCursor is the block that was looked at last.
type joinCursor struct {
	seriesNum
	first entity.Place
}

// joinNext joins blocks with the next one, and reports whether there is none.
func (s *Store) joinNext(ctx context.Context, tx pgx.Tx, c *joinCursor) (done bool, err error) {
	err = tx.QueryRow(ctx, `SELECT entity, key, first, first_seq FROM block WHERE (entity, key, first, first_seq) > ($1, $2, $3, $4)
		ORDER BY entity, key, first, first_seq LIMIT 1`, c.entity, c.key, c.first.TS, int64(c.first.Seq)).Scan(&c.entity, &c.key, &c.first.TS, &c.first.Seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, s.packer.Join(s.blocks(ctx, tx, c.seriesNum), c.first)
}

// giveBack returns as much space to the disk as it can.
func (s *Store) giveBack(ctx context.Context) error {
	var errs []error
	for _, table := range [...]string{"block", "stamp", "computed"} {
		errs = append(errs, s.vacuum(ctx, table))
	}
	for _, p := range s.spans.all() {
		err := s.vacuum(ctx, p.table())
		if err == nil {
			err = s.truncate(ctx, p)
		}
		if code := pgdb.Code(err); code != codeNoTable && code != pgdb.CodeNoLock { // it has been dropped, or is in use
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// vacuum cleans up what deleted rows have left in a table. Afterwards a table has no pages if no
// transaction can see any row of it.
func (s *Store) vacuum(ctx context.Context, table string) error {
	return pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		// It may last for longer than a query.
		if _, err := conn.Exec(ctx, "SET statement_timeout = 0"); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "VACUUM (ANALYZE) "+table, pgx.QueryExecModeSimpleProtocol)
		_, reset := conn.Exec(context.WithoutCancel(ctx), "RESET statement_timeout")
		return errors.Join(err, reset)
	})
}

// truncate returns the index of a partition that has no pages to the disk, unless the partition is
// in use for long. If there were rows that only some transactions see, these would miss them.
func (s *Store) truncate(ctx context.Context, p span) error {
	return pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgdb.ReadCommitted)
		if err != nil {
			return err
		}
		vacant := false
		for _, sql := range []string{"SET LOCAL lock_timeout = '1s'", "LOCK TABLE " + p.table() + " IN ACCESS EXCLUSIVE MODE"} {
			if err == nil {
				_, err = tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
			}
		}
		if err == nil {
			vacant, err = isVacant(ctx, tx, p)
		}
		if err == nil && vacant {
			_, err = tx.Exec(ctx, "TRUNCATE "+p.table(), pgx.QueryExecModeSimpleProtocol)
		}
		if err != nil {
			return errors.Join(err, pgdb.Abort(ctx, tx))
		}
		return tx.Commit(ctx)
	})
}

// codeNoTable says that a table does not exist.
const codeNoTable = "42P01"

// Check unpacks all blocks, compares them with their rows, and reports what is wrong. It takes as long
// as reading all of them does.
func (s *Store) Check(ctx context.Context) error {
	var wrong []error
	at := joinCursor{seriesNum: seriesNum{math.MinInt32, math.MinInt32}}
	var last entity.Place
	u := s.unpackers.Take()
	defer s.unpackers.Give(u)
	for more := true; more; {
		list, err := s.checkPage(ctx, at)
		if err != nil {
			return errors.Join(append(wrong, err)...)
		}
		for i := range list {
			b := &list[i]
			h, err := u.Decode(b.Block, &u.Columns)
			switch {
			case err != nil:
			case h.Count != b.Count || h.Numbers != b.Numbers || (entity.Place{TS: h.First, Seq: h.FirstSeq}) != b.First || (entity.Place{TS: h.Last, Seq: h.LastSeq}) != b.Last:
				err = fmt.Errorf("%w: its row says other than the block", block.ErrDamaged)
			case b.seriesNum == at.seriesNum && b.First.Compare(last) <= 0:
				err = fmt.Errorf("%w: it overlaps the block before", block.ErrDamaged)
			}
			if err != nil {
				wrong = append(wrong, fmt.Errorf("entity %q key %q: %w", b.id, b.name, sealed.Failed(err, b.First.TS, b.Last.TS)))
			}
			at, last = joinCursor{b.seriesNum, b.First}, b.Last
		}
		more = len(list) > 0
	}
	return errors.Join(wrong...)
}

// checkedBlock is a block with what its row says.
type checkedBlock struct {
	seriesNum
	sealed.Part
	id, name string
}

// checkPage returns blocks after one.
func (s *Store) checkPage(ctx context.Context, after joinCursor) (list []checkedBlock, err error) {
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, `SELECT b.entity, b.key, coalesce(e.id, ''), coalesce(k.name, ''), b.first, b.first_seq, b.last, b.last_seq, b.n, b.numbers, b.data, coalesce(b.times, s.data, '')
			FROM block b LEFT JOIN stamp s ON s.num = b.stamp LEFT JOIN entity e ON e.num = b.entity LEFT JOIN key k ON k.num = b.key
			WHERE (b.entity, b.key, b.first, b.first_seq) > ($1, $2, $3, $4) ORDER BY b.entity, b.key, b.first, b.first_seq LIMIT $5`,
			after.entity, after.key, after.first.TS, int64(after.first.Seq), sealed.ScanBlocks)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b checkedBlock, err error) {
			err = row.Scan(&b.entity, &b.key, &b.id, &b.name, &b.First.TS, &b.First.Seq, &b.Last.TS, &b.Last.Seq, &b.Count, &b.Numbers, &b.Values, &b.Times)
			return b, err
		})
		return err
	})
	return list, err
}
