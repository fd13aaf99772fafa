package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// span is a partition of the telemetry: the times in [lo, hi), in milliseconds since the epoch.
type span struct{ lo, hi int64 }

// For times with little telemetry a span is a year, and everything before and after these years is
// in one span each: a device with a wrong clock creates at most a hundred partitions.
var (
	firstYear = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	lastYear  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
)

// nearWidths is within how many widths of now a time is in a partition of the normal width.
const nearWidths = 10

// monday is the origin of spans, so that spans of a week begin on Mondays.
var monday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC).UnixMilli()

// around returns the new span for a time that is in none.
func around(ts int64, now time.Time, width time.Duration) span {
	w := width.Milliseconds()
	if distance := ts - now.UnixMilli(); distance > -nearWidths*w && distance < nearWidths*w {
		lo := ts - ((ts-monday)%w+w)%w
		return span{lo, lo + w}
	}
	switch t := time.UnixMilli(ts).UTC(); {
	case t.Before(firstYear):
		return span{math.MinInt64, firstYear.UnixMilli()}
	case !t.Before(lastYear):
		return span{lastYear.UnixMilli(), math.MaxInt64}
	default:
		lo := time.Date(t.Year(), 1, 1, 0, 0, 0, 0, time.UTC)
		return span{lo.UnixMilli(), lo.AddDate(1, 0, 0).UnixMilli()}
	}
}

// table returns the name of the partition, which depends only on the time.
func (p span) table() string {
	if p.lo == math.MinInt64 {
		return "telemetry_before"
	}
	return "telemetry_" + time.UnixMilli(p.lo).UTC().Format("20060102")
}

// spans holds the existing partitions, in order. It only changes while Store.writing is held.
type spans struct {
	mu   sync.RWMutex
	list []span // guarded by mu; never modified in place
}

func (p *spans) all() []span {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.list
}

func (p *spans) set(list []span) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
}

func (p *spans) load(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT lo, hi FROM span ORDER BY lo")
	if err != nil {
		return err
	}
	var list []span
	var s span
	if _, err := pgx.ForEachRow(rows, []any{&s.lo, &s.hi}, func() error {
		list = append(list, s)
		return nil
	}); err != nil {
		return err
	}
	p.set(list)
	return nil
}

// at returns the index of the span that contains a time, or where it would be.
func at(list []span, ts int64) (i int, ok bool) {
	return slices.BinarySearchFunc(list, ts, func(s span, ts int64) int {
		switch {
		case s.hi <= ts:
			return -1
		case s.lo > ts:
			return 1
		default:
			return 0
		}
	})
}

// overlap reports whether a partition has times from <= ts <= to.
func overlap(list []span, from, to int64) bool {
	i, _ := at(list, from)
	return i < len(list) && list[i].lo <= to
}

// with returns the list with a span for the time, which is clipped by its neighbors.
func with(list []span, ts int64, now time.Time, width time.Duration) ([]span, span) {
	i, ok := at(list, ts)
	if ok {
		return list, list[i]
	}
	s := around(ts, now, width)
	if i > 0 {
		s.lo = max(s.lo, list[i-1].hi)
	}
	if i < len(list) {
		s.hi = min(s.hi, list[i].lo)
	}
	return slices.Insert(slices.Clone(list), i, s), s
}

// cover creates missing partitions for the times, in a separate transaction. REQUIRES: s.writing
// held.
func (s *Store) cover(ctx context.Context, times ...int64) error {
	list := s.spans.all()
	var missing []span
	for _, ts := range times {
		if _, ok := at(list, ts); ok {
			continue
		}
		var made span
		list, made = with(list, ts, time.Now(), s.opts.PartitionWidth)
		missing = append(missing, made)
	}
	if len(missing) == 0 {
		return nil
	}
	err := s.w.transact(ctx, func(tx pgx.Tx) error {
		for _, p := range missing {
			if err := makePartition(ctx, tx, p); err != nil {
				return fmt.Errorf("%s: %w", p.table(), err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	s.spans.set(list)
	return nil
}

// makePartition creates a partition. It creates the table first and then attaches it, which unlike
// CREATE TABLE PARTITION OF waits for no reader.
func makePartition(ctx context.Context, tx pgx.Tx, p span) error {
	from, to := fmt.Sprint(p.lo), fmt.Sprint(p.hi)
	if p.lo == math.MinInt64 {
		from = "MINVALUE"
	}
	if p.hi == math.MaxInt64 {
		to = "MAXVALUE"
	}
	for _, sql := range []string{
		fmt.Sprintf("CREATE TABLE %s (LIKE telemetry INCLUDING ALL)", p.table()),
		fmt.Sprintf("ALTER TABLE telemetry ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)", p.table(), from, to),
	} {
		if _, err := tx.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, "INSERT INTO span (lo, hi) VALUES ($1, $2)", p.lo, p.hi)
	return err
}

// stretches calls f for one range of times after the other that together are [from, to), each with a
// few partitions only: a query over all of them at once would lock them all, and the server has a limit
// to that. They come in order, or from the end, until f returns false.
func (s *Store) stretches(from, to int64, descending bool, f func(from, to int64) (more bool, err error)) error {
	list := s.spans.all()
	first, _ := at(list, from)
	end, in := at(list, to-1)
	if in {
		end++
	}
	list = list[min(first, end):end]
	for size := 2; from < to; size = min(2*size, 64) {
		lo, hi := from, to
		switch n := len(list) - size; {
		case n <= 0: // with what lies between partitions, and before and behind all
		case descending:
			lo, list = list[n].lo, list[:n]
		default:
			hi, list = list[size-1].hi, list[size:]
		}
		if more, err := f(lo, hi); err != nil || !more {
			return err
		}
		if descending {
			to = lo
		} else {
			from = hi
		}
	}
	return nil
}
