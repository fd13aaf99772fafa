package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// ownTimes is the size up to which a block has its times itself.
const ownTimes = 64

// blocks gives access to the blocks of a series, in the only transaction that changes them. It is a
// [sealed.Series].
type blocks struct {
	ctx     context.Context //nolint:containedctx // of the transaction that it lives for
	tx      pgx.Tx
	decoder *block.Decoder
	seriesNum
}

// blocks returns those of a series. REQUIRES: tx is one of changeBlocks.
func (s *Store) blocks(ctx context.Context, tx pgx.Tx, series seriesNum) *blocks {
	return &blocks{ctx, tx, &s.decoder, series}
}

const blockColumns = "SELECT num, first, first_seq, last, last_seq, n FROM block WHERE entity = $1 AND key = $2 "

// Find returns the last block that begins at a place or before, or the first one that begins
// after it.
func (s *blocks) Find(at entity.Place, behind bool) (*sealed.Stored, error) {
	if behind {
		return s.one(blockColumns+"AND (first, first_seq) > ($3, $4) ORDER BY first, first_seq LIMIT 1", at.TS, int64(at.Seq))
	}
	return s.one(blockColumns+"AND (first, first_seq) <= ($3, $4) ORDER BY first DESC, first_seq DESC LIMIT 1", at.TS, int64(at.Seq))
}

// one returns the block that a query finds, nil for none.
func (s *blocks) one(sql string, args ...any) (*sealed.Stored, error) {
	var b sealed.Stored
	err := s.tx.QueryRow(s.ctx, sql, append([]any{s.entity, s.key}, args...)...).Scan(&b.Num, &b.First.TS, &b.First.Seq, &b.Last.TS, &b.Last.Seq, &b.Count)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &b, err
}

// Open unpacks a block.
func (s *blocks) Open(b *sealed.Stored, c *block.Columns) error {
	var packed block.Block
	err := s.tx.QueryRow(s.ctx, "SELECT b.data, coalesce(b.times, s.data, '') FROM block b LEFT JOIN stamp s ON s.num = b.stamp WHERE b.num = $1", b.Num).
		Scan(&packed.Values, &packed.Times)
	if err != nil {
		return fmt.Errorf("block %d: %w", b.Num, err)
	}
	if _, err := s.decoder.Decode(packed, c); err != nil {
		return fmt.Errorf("entity number %d key number %d: %w", s.entity, s.key, sealed.Failed(err, b.First.TS, b.Last.TS))
	}
	return nil
}

// Replace puts blocks in place of others.
func (s *blocks) Replace(old []*sealed.Stored, parts []sealed.Part) error {
	var stamps []int64
	if len(old) > 0 {
		nums := make([]int64, len(old))
		for i, b := range old {
			nums[i] = b.Num
		}
		rows, err := s.tx.Query(s.ctx, "DELETE FROM block WHERE num = ANY($1) RETURNING coalesce(stamp, 0)", nums)
		if err != nil {
			return err
		}
		if stamps, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
		if len(stamps) != len(old) {
			return fmt.Errorf("of the blocks %d %d are gone", nums, len(old)-len(stamps))
		}
	}
	for i := range parts {
		if err := s.insert(&parts[i]); err != nil {
			return err
		}
	}
	return releaseStamps(s.ctx, s.tx, stamps)
}

// releaseStamps deletes the stamps that no block has any more.
func releaseStamps(ctx context.Context, tx pgx.Tx, stamps []int64) error {
	if len(stamps) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, "DELETE FROM stamp s WHERE num = ANY($1) AND NOT EXISTS (SELECT FROM block WHERE stamp = s.num)", stamps)
	return err
}

func (s *blocks) insert(p *sealed.Part) (err error) {
	own, stamp := p.Times, (*int64)(nil)
	if len(p.Times) > ownTimes {
		own = nil
		if stamp, err = s.stamp(p.Times); err != nil {
			return err
		}
	}
	_, err = s.tx.Exec(s.ctx, "INSERT INTO block (entity, key, first, first_seq, last, last_seq, n, numbers, stamp, times, data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
		s.entity, s.key, p.First.TS, int64(p.First.Seq), p.Last.TS, int64(p.Last.Seq), p.Count, p.Numbers, stamp, own, p.Values)
	return err
}

// stamp returns the number of the times, which are stored if the entity does not have them.
func (s *blocks) stamp(times []byte) (*int64, error) {
	h := fnv.New64a()
	_, _ = h.Write(times) // it cannot fail
	hash := int64(h.Sum64())
	rows, err := s.tx.Query(s.ctx, "SELECT num, data FROM stamp WHERE entity = $1 AND hash = $2", s.entity, hash)
	if err != nil {
		return nil, err
	}
	var num, found int64
	var data []byte
	if _, err := pgx.ForEachRow(rows, []any{&num, &data}, func() error {
		if bytes.Equal(data, times) {
			found = num
		}
		return nil
	}); err != nil || found != 0 {
		return &found, err
	}
	err = s.tx.QueryRow(s.ctx, "INSERT INTO stamp (entity, hash, data) VALUES ($1, $2, $3) RETURNING num", s.entity, hash, times).Scan(&found)
	return &found, err
}

// blockLockClass identifies the advisory lock for changing blocks, in addition to the writer's.
const blockLockClass = lockClass + 1

// changeBlocks runs f in a transaction that may change blocks. Nobody else does meanwhile, not even
// a server that has lost the schema, so what f knows about a block holds until the end.
//
// It has a connection of its own, so that commits do not wait for it, except a commit that
// overwrites a row that f removes: that commit writes another row when f has ended. Unless it is
// durable, a crash of the server may undo the whole transaction.
func (s *Store) changeBlocks(ctx context.Context, durable bool, f func(tx pgx.Tx) error) error {
	select {
	case s.sealer <- struct{}{}:
		defer func() { <-s.sealer }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return fullError(pgdb.Try(ctx, s.pool, func(conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgdb.ReadCommitted)
		if err != nil {
			return err
		}
		if err := s.lockBlocks(ctx, tx, durable); err != nil {
			return errors.Join(err, pgdb.Abort(ctx, tx))
		}
		if err := f(tx); err != nil {
			return errors.Join(err, pgdb.Abort(ctx, tx))
		}
		return tx.Commit(ctx)
	}))
}

// lockBlocks makes the transaction the only one that changes blocks.
func (s *Store) lockBlocks(ctx context.Context, tx pgx.Tx, durable bool) error {
	var batch pgx.Batch
	if !durable {
		batch.Queue("SET LOCAL synchronous_commit = off")
	}
	batch.Queue("SELECT pg_advisory_xact_lock($1, $2)", int32(blockLockClass), lockKey(s.opts.Schema))
	batch.Queue("SELECT epoch FROM greenroom").QueryRow(func(row pgx.Row) error { // once the lock is there
		var epoch int64
		if err := row.Scan(&epoch); err != nil {
			return err
		}
		if epoch != s.epoch {
			return s.takenOver()
		}
		return nil
	})
	return tx.SendBatch(ctx, &batch).Close()
}
