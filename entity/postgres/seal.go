package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// Rows of the telemetry to which nothing is added any more are sealed: packed into blocks
// (entity/block), at a tenth of their size. The sealer goes partition by partition, within a
// partition series by series, and takes from each the rows of the hours that are due. It works in
// slices: short transactions on a connection of its own, whose commits do not wait for the disk,
// and which leave the database in an equivalent state. If a slice is lost, or the process ends
// between two, there are rows instead of a block, and they are sealed again.
//
//   - The blocks of a series do not overlap. A row may lie in the range of a block if it came
//     later. If both have the same place the row counts, until the sealer folds it in.
//   - DELETE … RETURNING determines what is sealed: a row that a commit has changed since the
//     sealer looked is returned in its new form, and an added one is left. A commit that writes a
//     row that is being sealed waits for the end of the slice, and adds a row that lies over the
//     block. Both lock rows in the order of the index, so they cannot deadlock.
//   - Readers read rows and blocks in one snapshot.
//   - A transaction that changes blocks holds Store.sealer and a lock of the schema (changeBlocks).
const (
	// DefaultSealAfter is how long nothing must have arrived for an hour before it is sealed.
	DefaultSealAfter = sealed.DefaultAfter

	// runRows bounds how many rows of a series are sealed at once, and sealBytes, roughly, the
	// bytes of their texts. A slice ends with the run after which it has lasted for sliceTime.
	runRows   = block.MaxRows
	sealBytes = 1 << 20
	sliceTime = 20 * time.Millisecond

	// seriesPage is how many series of a partition are looked up at once, and maxRanges how many
	// ranges of due hours are looked at in one pass over a partition.
	seriesPage = 256
	maxRanges  = 32
)

// sealing is what the sealer knows about the unsealed rows.
type sealing struct {
	after time.Duration // Options.SealAfter

	mu     sync.Mutex
	hours  sealed.Hours      // guarded by mu
	walked map[span]struct{} // partitions whose rows are all of hours that were touched; guarded by mu
	// failed says when rows of a partition could not be sealed, which are tried again later.
	failed map[span]time.Time // guarded by mu

	failures sealed.Failures
}

func newSealing(after time.Duration) sealing {
	return sealing{after: after, hours: sealed.NewHours(after), walked: make(map[span]struct{}), failed: make(map[span]time.Time)}
}

// touch records new rows.
func (s *Store) touch(rows []telemetryRow, now time.Time) {
	if s.opts.SealAfter < 0 {
		return
	}
	s.sealing.mu.Lock()
	defer s.sealing.mu.Unlock()
	for from := 0; from < len(rows); {
		hour, n := rows[from].ts/sealed.HourMS, from
		for n < len(rows) && rows[n].ts/sealed.HourMS == hour {
			n++
		}
		if s.sealing.hours.Touch(hour, n-from, now) {
			clear(s.sealing.walked)
		}
		from = n
	}
}

// forget records that any hour may have new rows.
func (p *sealing) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.walked)
}

// pass is the work of sealing a partition: the rows in some ranges of times.
type pass struct {
	span
	froms, tos []int64
	whole      bool // the ranges have all hours of the partition but those that are not due
	begun      sealed.Mark
}

// plan returns the pass for a partition, and whether there may be anything to seal.
func (p *sealing) plan(s span, now time.Time, all bool) (pass, bool) {
	one := pass{span: s, froms: []int64{s.lo}, tos: []int64{s.hi}, whole: true}
	p.mu.Lock()
	defer p.mu.Unlock()
	one.begun = p.hours.Mark()
	if all {
		return one, true
	}
	_, walked := p.walked[s]
	if at, ok := p.failed[s]; ok && now.Sub(at) < p.after {
		walked = true
	}
	due, early := p.hours.Split(s.lo, s.hi, now)
	if len(due) == 0 && (walked || !p.hours.Settled(now)) {
		return one, false
	}
	if !p.hours.Settled(now) { // of the others it is not known yet when they got their rows
		one.froms, one.tos, one.whole = nil, nil, false
		for _, hour := range due[:min(len(due), maxRanges)] {
			one.froms, one.tos = append(one.froms, hour*sealed.HourMS), append(one.tos, (hour+1)*sealed.HourMS)
		}
		return one, true
	}
	for _, hour := range early {
		last := len(one.froms) - 1
		if len(one.froms) == maxRanges {
			one.tos[last], one.whole = hour*sealed.HourMS, false
			break
		}
		one.tos[last] = hour * sealed.HourMS
		one.froms, one.tos = append(one.froms, (hour+1)*sealed.HourMS), append(one.tos, s.hi)
	}
	return one, true
}

// has reports whether the pass has gone over an hour.
func (p *pass) has(hour int64) bool {
	for i := range p.froms {
		if hour*sealed.HourMS >= p.froms[i] && hour*sealed.HourMS < p.tos[i] {
			return true
		}
	}
	return false
}

// done records that a pass has sealed its rows, and whether some have failed, which are retried
// later.
func (p *sealing) done(one pass, failed bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hours.SealedSince(one.begun, one.has)
	if one.whole {
		p.walked[one.span] = struct{}{}
	}
	delete(p.failed, one.span)
	if failed {
		delete(p.walked, one.span)
		p.failed[one.span] = now
	}
}

// seals seals hours until ctx ends.
func (s *Store) seals(ctx context.Context) {
	ticker := time.NewTicker(sealed.Every(s.opts.SealAfter))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		// Rows that could not be sealed stay, and sealing them is retried.
		if err := s.sealSpans(ctx, false); err != nil && ctx.Err() == nil {
			s.sealing.failures.Note(s.opts.Logger, err)
		}
	}
}

// sealSpans seals the hours that are due, or all, slice by slice, until ctx ends.
func (s *Store) sealSpans(ctx context.Context, all bool) error {
	var errs []error
	for _, p := range s.spans.all() {
		if s.expired(p, time.Now()) {
			continue
		}
		if one, ok := s.sealing.plan(p, time.Now(), all); ok {
			err := s.sealSpan(ctx, &one)
			errs = append(errs, err)
			if err != nil && !sealed.Unreadable(err) {
				break
			}
		}
	}
	return errors.Join(errs...)
}

// seriesNum is a series by the numbers of its entity and its key.
type seriesNum struct{ entity, key int32 }

// sealSpan seals the rows of a pass.
func (s *Store) sealSpan(ctx context.Context, p *pass) error {
	c := sealCursor{}
	for after := (seriesNum{math.MinInt32, math.MinInt32}); ; {
		list, last, err := s.seriesAfter(ctx, p, after)
		if err != nil {
			return fmt.Errorf("seal: %w", err)
		}
		for c.list = list; len(c.list) > 0; {
			took, err := s.sealSlice(ctx, p, &c)
			if err != nil {
				return fmt.Errorf("seal: %w", err)
			}
			if err := pause.For(ctx, took); err != nil { // the server has to do the commits as well
				return err
			}
		}
		if last == (seriesNum{}) {
			break
		}
		after = last
	}
	s.sealing.done(*p, len(c.failed) > 0, time.Now())
	var errs []error
	for _, f := range c.failed {
		errs = append(errs, f)
	}
	return errors.Join(errs...)
}

// nextSeries is one step along the index for each series of a partition after one, and one more for
// each of its ranges: of series whose entity exists, whether it has rows in the ranges.
const nextSeries = `WITH RECURSIVE s AS (
		(SELECT entity, key FROM %[1]s WHERE (entity, key) > ($1, $2) ORDER BY entity, key LIMIT 1)
		UNION ALL SELECT n.entity, n.key FROM s CROSS JOIN LATERAL (
			SELECT t.entity, t.key FROM %[1]s t WHERE (t.entity, t.key) > (s.entity, s.key) ORDER BY t.entity, t.key LIMIT 1) n)
	SELECT s.entity, s.key, EXISTS (SELECT FROM entity WHERE num = s.entity)
		AND EXISTS (SELECT FROM unnest($3::bigint[], $4::bigint[]) r (lo, hi) CROSS JOIN LATERAL (
			SELECT FROM %[1]s t WHERE t.entity = s.entity AND t.key = s.key AND t.ts >= r.lo AND t.ts < r.hi LIMIT 1) t)
	FROM s LIMIT $5`

// seriesAfter returns series of a partition with rows to seal, after one. The last one is that from
// which to go on, zero if there are no others.
func (s *Store) seriesAfter(ctx context.Context, p *pass, after seriesNum) (list []seriesNum, last seriesNum, err error) {
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		list, last = nil, seriesNum{}
		if _, ok := at(s.spans.all(), p.lo); !ok {
			return nil // it is gone
		}
		rows, err := conn.Query(ctx, fmt.Sprintf(nextSeries, p.table()), after.entity, after.key, p.froms, p.tos, seriesPage)
		if err != nil {
			return err
		}
		var found seriesNum
		var due bool
		n := 0
		_, err = pgx.ForEachRow(rows, []any{&found.entity, &found.key, &due}, func() error {
			if n++; due {
				list = append(list, found)
			}
			if n == seriesPage {
				last = found
			}
			return nil
		})
		return err
	})
	if pgdb.Code(err) == codeNoTable { // it has been dropped since
		err = nil
	}
	return list, last, err
}

// sealCursor is how far a page of series is sealed.
type sealCursor struct {
	list   []seriesNum // that are left
	at     int         // the range of the first one that is in work
	from   int64       // where its next run begins in that range, if it is later than the range's start
	failed []*runError
}

// next moves the cursor on to the next range, or the next series.
func (c *sealCursor) next(p *pass) {
	c.from = 0
	if c.at++; c.at == len(p.froms) {
		c.at, c.list = 0, c.list[1:]
	}
}

// runError says why the rows of a series in a range of times stay as they are.
type runError struct {
	seriesNum
	from, to int64
	error
}

func (f *runError) Unwrap() error { return f.error }

// sealSlice seals rows from the cursor on, and returns how long it took. It advances the cursor
// when that is committed.
func (s *Store) sealSlice(ctx context.Context, p *pass, c *sealCursor) (took time.Duration, err error) {
	began := time.Now()
	var next sealCursor
	err = s.changeBlocks(ctx, false, func(tx pgx.Tx) error {
		next = *c
		if s.expired(p.span, time.Now()) {
			next.list = nil
		}
		for end := time.Now().Add(sliceTime); len(next.list) > 0; {
			if err := s.sealNext(ctx, tx, p, &next); err != nil {
				return err
			}
			if !time.Now().Before(end) {
				break
			}
		}
		return nil
	})
	if err == nil {
		*c = next
	} else if failed, ok := errors.AsType[*runError](err); ok {
		// The slice was rolled back as a whole, and is tried again without these rows.
		c.failed = append(c.failed, failed)
		err = nil
	}
	return time.Since(began), err
}

// sealNext seals the next rows of the first series of the cursor.
func (s *Store) sealNext(ctx context.Context, tx pgx.Tx, p *pass, c *sealCursor) error {
	series, from, to := c.list[0], max(c.from, p.froms[c.at]), p.tos[c.at]
	for _, f := range c.failed {
		if f.seriesNum == series && f.from <= from && from < f.to {
			from = f.to
		}
	}
	if from >= to {
		c.next(p)
		return nil
	}
	_, next, err := s.sealRun(ctx, tx, series, from, to)
	switch {
	case err != nil:
		return err
	case next < to: // from the start of the range, each run would walk over what those before it have deleted
		c.from = next
	default:
		c.next(p)
	}
	return nil
}

// runEnd finds the first and the last place of a run, and whether there are other rows in the range: of
// so many rows at most, whose texts have so many bytes together but for the first one's. It finds
// nothing of an entity that has been deleted: that is for purge.
const runEnd = `WITH run AS (SELECT ts, seq, row_number() OVER w AS n, sum(size) OVER w AS size FROM (
		SELECT ts, seq, octet_length(coalesce(text, json, '')) AS size FROM telemetry
		WHERE entity = $1 AND key = $2 AND ts >= $3 AND ts < $4 ORDER BY ts, seq LIMIT $5 + 1) t WINDOW w AS (ORDER BY ts, seq))
	SELECT a.ts, a.seq, b.ts, b.seq, b.n < (SELECT max(n) FROM run) FROM (SELECT ts, seq FROM run WHERE n = 1) a,
		(SELECT ts, seq, n FROM run WHERE n = 1 OR n <= $5 AND size <= $6 ORDER BY n DESC LIMIT 1) b
	WHERE EXISTS (SELECT FROM entity WHERE num = $1)`

// sealRun seals the first rows of a series in a range of times, and returns how many, and the time
// from which on there are others: to if there are none. If it fails with a runError the transaction
// has to be rolled back.
func (s *Store) sealRun(ctx context.Context, tx pgx.Tx, series seriesNum, from, to int64) (n int, next int64, err error) {
	var first, last entity.Place
	var more bool
	err = tx.QueryRow(ctx, runEnd, planned, series.entity, series.key, from, to, s.runRows, sealBytes).Scan(&first.TS, &first.Seq, &last.TS, &last.Seq, &more)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, to, nil
	}
	if err != nil {
		return 0, 0, err
	}
	b := s.blocks(ctx, tx, series)
	after, err := b.Find(first, true)
	if err != nil {
		return 0, 0, err
	}
	until := "<="
	if after != nil && after.First.Compare(last) <= 0 {
		until, last, more = "<", after.First, true
	}
	rows, err := tx.Query(ctx, "DELETE FROM telemetry WHERE entity = $1 AND key = $2 AND ts >= $3 AND ts <= $5 AND (ts, seq) >= ($3, $4) AND (ts, seq) "+until+
		" ($5, $6) RETURNING ts, seq, number, whole, text, json, origin", planned, series.entity, series.key, first.TS, int64(first.Seq), last.TS, int64(last.Seq))
	if err != nil {
		return 0, 0, err
	}
	list, err := pgx.CollectRows(rows, scanSealed)
	if err != nil || len(list) == 0 { // purge was faster
		return 0, to, err
	}
	slices.SortFunc(list, func(a, b sealedRow) int { return a.Place().Compare(b.Place()) })
	var run block.Columns
	for i := range list {
		run.Append(list[i].TS, list[i].Seq, list[i].Value)
	}
	// These are all of them: no other block begins among them.
	if _, err := s.packer.Seal(b, &run); sealed.Unreadable(err) {
		return 0, 0, &runError{series, from, run.TS[run.Len()-1] + 1, err}
	} else if err != nil {
		return 0, 0, err
	}
	if next = to; more {
		next = last.TS
	}
	return len(list), next, keepOrigins(ctx, tx, series, list)
}

// sealedRow is a row on its way into a block.
type sealedRow struct {
	entity.Point
	origin []byte
}

func scanSealed(row pgx.CollectableRow) (r sealedRow, err error) {
	var c columns
	if err := row.Scan(&r.TS, &r.Seq, &c.number, &c.whole, &c.text, &c.json, &r.origin); err != nil {
		return r, err
	}
	r.Value, err = c.value()
	return r, err
}

// keepOrigins stores the origins of sealed rows. A row without an origin removes that of the point
// that it replaces.
func keepOrigins(ctx context.Context, tx pgx.Tx, series seriesNum, list []sealedRow) error {
	var ts, seqs []int64
	var origins [][]byte
	for i := range list {
		if list[i].origin != nil {
			ts, seqs, origins = append(ts, list[i].TS), append(seqs, int64(list[i].Seq)), append(origins, list[i].origin)
		}
	}
	var batch pgx.Batch
	if len(ts) < len(list) {
		all, allSeqs := make([]int64, len(list)), make([]int64, len(list))
		for i := range list {
			all[i], allSeqs[i] = list[i].TS, int64(list[i].Seq)
		}
		batch.Queue(`DELETE FROM computed WHERE entity = $1 AND key = $2 AND ts BETWEEN $3 AND $4
			AND (ts, seq) IN (SELECT * FROM unnest($5::bigint[], $6::bigint[]))`, series.entity, series.key, list[0].TS, list[len(list)-1].TS, all, allSeqs)
	}
	if len(ts) > 0 {
		batch.Queue(`INSERT INTO computed (entity, key, ts, seq, origin) SELECT $1, $2, * FROM unnest($3::bigint[], $4::bigint[], $5::bytea[])
			ON CONFLICT (entity, key, ts, seq) DO UPDATE SET origin = excluded.origin`, series.entity, series.key, ts, seqs, origins)
	}
	return tx.SendBatch(ctx, &batch).Close()
}
