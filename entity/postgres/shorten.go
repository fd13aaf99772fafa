package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// shortenEvery is the interval at which old changes are dropped.
	shortenEvery = time.Minute
	// shortenStep is how many commits are dropped from the log at a time.
	shortenStep = 1000
)

// shorten drops old changes, some at a time with commits in between, but never the newest commit.
// It does nothing for a while after the store was opened, because clients that followed the changes
// before resume from the log.
func (s *Store) shorten(ctx context.Context, now time.Time) error {
	if now.Sub(s.opened) < s.opts.ChangeLogAge {
		return nil
	}
	before := now.Add(-s.opts.ChangeLogAge).UnixMilli()
	for more := true; more; {
		err := s.update(ctx, func(ctx context.Context, w *writer) (err error) {
			more, err = s.shortenSome(ctx, w, before)
			return err
		})
		if err != nil {
			return fmt.Errorf("shorten the change log: %w", err)
		}
	}
	return nil
}

// shortenSome drops some of the oldest commits from before a time, and reports whether there may be
// more.
func (s *Store) shortenSome(ctx context.Context, w *writer, before int64) (more bool, err error) {
	var n, dropped, bytes int64
	err = w.transact(ctx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `WITH gone AS (
				DELETE FROM change WHERE first <= (SELECT max(first) FROM
					(SELECT first, committed FROM change WHERE first < (SELECT max(first) FROM change) ORDER BY first LIMIT $1) c WHERE committed < $2)
				RETURNING first + n - 1 AS last, length(data) AS bytes),
			sums AS (SELECT count(*) AS n, coalesce(max(last), 0) AS last, coalesce(sum(bytes), 0)::bigint AS bytes FROM gone)
			UPDATE greenroom SET log_bytes = log_bytes - bytes FROM sums WHERE epoch = $3 RETURNING n, last, sums.bytes`, shortenStep, before, w.epoch).Scan(&n, &dropped, &bytes)
	})
	if err != nil || n == 0 {
		return false, err
	}
	w.state.logBytes -= bytes
	info := s.Info()
	info.FirstChange = max(info.FirstChange, uint64(dropped)+1)
	s.setInfo(info)
	return n >= shortenStep, nil
}
