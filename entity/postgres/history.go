package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// series is one series, and within a range of it.
const (
	series = "entity = (SELECT num FROM entity WHERE id = $1) AND key = (SELECT num FROM key WHERE name = $2) "
	within = series + "AND ts >= $3 AND ts < $4 "
)

// planned makes the server plan a query for its actual arguments: a generic plan opens and locks
// all partitions.
const planned = pgx.QueryExecModeCacheDescribe

// Planning the two queries of a page takes longer than running them. Those for blocks, which have no
// partitions, and for rows as long as there are few partitions, are planned once a connection. Such
// a plan may be made while a table is still empty, so it must use the indexes whatever its size.
const (
	keepPlans     = "SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)"
	plansAnew     = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true)"
	fewPartitions = 16
)

// selectRows is up to $7 rows between two places. The times alone say in which partitions.
const selectRows = "SELECT ts, seq, number, whole, text, json FROM telemetry WHERE " + series +
	"AND ts >= $3 AND ts <= $4 AND (ts, seq) >= ($3, $5) AND (ts, seq) < ($4, $6) ORDER BY ts, seq LIMIT $7"

// selectBlocks is up to $7 blocks with points between two places: of those that begin before the first
// place only the last may end behind it, since they do not overlap.
const selectBlocks = `SELECT b.first, b.last, b.data, coalesce(b.times, s.data, '') FROM (
		(SELECT * FROM block WHERE ` + series + `AND (first, first_seq) <= ($3, $5) AND (first, first_seq) < ($4, $6) ORDER BY first DESC, first_seq DESC LIMIT 1)
		UNION ALL (SELECT * FROM block WHERE ` + series + `AND (first, first_seq) > ($3, $5) AND (first, first_seq) < ($4, $6) ORDER BY first, first_seq LIMIT $7)
	) b LEFT JOIN stamp s ON s.num = b.stamp WHERE (b.last, b.last_seq) >= ($3, $5) ORDER BY b.first, b.first_seq LIMIT $7`

// descendingRows and descendingBlocks are the same from the end.
const (
	descendingRows = "SELECT ts, seq, number, whole, text, json FROM telemetry WHERE " + series +
		"AND ts >= $3 AND ts <= $4 AND (ts, seq) >= ($3, $5) AND (ts, seq) < ($4, $6) ORDER BY ts DESC, seq DESC LIMIT $7"
	descendingBlocks = `SELECT b.first, b.last, b.data, coalesce(b.times, s.data, '') FROM (
		SELECT * FROM block WHERE ` + series + `AND (first, first_seq) < ($4, $6) ORDER BY first DESC, first_seq DESC LIMIT $7
	) b LEFT JOIN stamp s ON s.num = b.stamp WHERE (b.last, b.last_seq) >= ($3, $5) ORDER BY b.first DESC, b.first_seq DESC`
)

// part is a part of a series, and how much of it is read at once.
type part struct {
	id, key      string
	from, to     entity.Place
	descending   bool
	rows, blocks int // at most
}

// page is the contents of a part at one moment: all rows, and all blocks over which they may lie,
// or the first of these.
type page struct {
	rows   []entity.Point
	blocks []packed
}

// packed is a block, whose row says from when to when it has points.
type packed struct {
	first, last int64
	block.Block
}

// page reads a part, in one snapshot, so that rows that are sealed meanwhile are in it once.
func (s *Store) page(ctx context.Context, q part) (p page, err error) {
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		var batch pgx.Batch
		batch.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
		p.queue(&batch, q, s.spans.all())
		batch.Queue("COMMIT")
		return conn.SendBatch(ctx, &batch).Close() // if it fails, the pool does not take conn back
	})
	return p, err
}

// queue adds to a batch what reads the page from the blocks and the partitions.
func (p *page) queue(batch *pgx.Batch, q part, partitions []span) {
	*p = page{}
	rows, blocks := selectRows, selectBlocks
	if q.descending {
		rows, blocks = descendingRows, descendingBlocks
	}
	args := []any{q.id, q.key, q.from.TS, q.to.TS, int64(q.from.Seq), int64(q.to.Seq)}
	batch.Queue(keepPlans)
	batch.Queue(blocks, append(slices.Clip(args), q.blocks)...).Query(func(rows pgx.Rows) (err error) {
		p.blocks, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b packed, err error) {
			err = row.Scan(&b.first, &b.last, &b.Values, &b.Times)
			return b, err
		})
		return err
	})
	if !overlap(partitions, q.from.TS, q.to.TS) {
		return
	}
	if len(partitions) > fewPartitions {
		batch.Queue(plansAnew)
	}
	batch.Queue(rows, append(slices.Clip(args), q.rows)...).Query(func(rows pgx.Rows) (err error) {
		p.rows, err = pgx.CollectRows(rows, scanPoint)
		return err
	})
}

// points unpacks a page, and returns the next points of the part, at most limit, and the rest of
// the part.
func (p *page) points(u *sealed.Unpacker, q part, limit int) (list []entity.Point, left part, err error) {
	left = q
	narrow := func(at entity.Place) { // to what the page has all of
		if q.descending {
			q.from = maxPlace(q.from, at)
		} else if at.Seq++; at.Compare(q.to) < 0 {
			q.to = at
		}
	}
	if len(p.rows) == q.rows {
		narrow(p.rows[len(p.rows)-1].Place())
	}
	var old []entity.Point
	for i := range p.blocks {
		b := &p.blocks[i]
		h, err := u.Decode(b.Block, &u.Columns)
		if err != nil {
			return nil, left, sealed.Failed(err, b.first, b.last)
		}
		c := sealed.Between(&u.Columns, left.from, left.to)
		if old = sealed.AppendPoints(old, &c, limit, q.descending); len(old) == limit {
			narrow(old[limit-1].Place())
			break
		}
		switch {
		case i+1 < q.blocks:
		case q.descending:
			narrow(entity.Place{TS: h.First, Seq: h.FirstSeq})
		default:
			narrow(entity.Place{TS: h.Last, Seq: h.LastSeq})
		}
	}
	if q.from.Compare(q.to) >= 0 { // it would be read for ever
		return nil, left, fmt.Errorf("%w: sealed values between %d and %d are not in order", block.ErrDamaged, left.from.TS, left.to.TS)
	}
	list = sealed.OverlayPoints(q.within(old), q.within(p.rows), limit, q.descending)
	if q.descending {
		left.to = q.from
	} else {
		left.from = q.to
	}
	if len(list) == limit { // of more than these it is not known yet
		if at := list[limit-1].Place(); q.descending {
			left.to = at
		} else {
			at.Seq++
			left.from = at
		}
	}
	return list, left, nil
}

// within returns those of the points of the part that are in its range.
func (q *part) within(points []entity.Point) []entity.Point {
	if !q.descending {
		return sealed.Within(points, q.from, q.to)
	}
	n := 0
	for n < len(points) && points[n].Place().Compare(q.from) >= 0 {
		n++
	}
	return points[:n]
}

func maxPlace(a, b entity.Place) entity.Place {
	if a.Compare(b) > 0 {
		return a
	}
	return b
}

// blocksAtOnce bounds the blocks of a page, which is in memory as a whole. A scan continues with
// twice as many if they have at most smallBytes, and with blocksAtOnce if they have more.
const (
	blocksAtOnce = 16
	smallBytes   = 512 << 10
)

// History returns a range of one series. See [entity.Store].
func (s *Store) History(ctx context.Context, id, key string, from, to entity.Place, limit int, descending bool) (list []entity.Point, err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	done, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	u := s.unpackers.Take()
	defer s.unpackers.Give(u)
	end := to.TS
	if to.Seq > 0 {
		end++
	}
	blocks := 1
	err = s.stretches(from.TS, end, descending, func(lo, hi int64) (bool, error) {
		q := part{id: id, key: key, from: maxPlace(from, entity.Place{TS: lo}), to: to, descending: descending}
		if hi := (entity.Place{TS: hi}); hi.Compare(to) < 0 {
			q.to = hi
		}
		for len(list) < limit && q.from.Compare(q.to) < 0 {
			q.rows, q.blocks = min(limit-len(list), sealed.ScanRows), blocks
			blocks = min(2*blocks, blocksAtOnce)
			p, err := s.page(ctx, q)
			if err != nil {
				return false, err
			}
			some, left, err := p.points(u, q, limit-len(list))
			if err != nil {
				return false, err
			}
			list, q = append(list, some...), left
		}
		return len(list) < limit, nil
	})
	return list, err
}

func scanPoint(row pgx.CollectableRow) (p entity.Point, err error) {
	var c columns
	if err := row.Scan(&p.TS, &p.Seq, &c.number, &c.whole, &c.text, &c.json); err != nil {
		return p, err
	}
	p.Value, err = c.value()
	return p, err
}

// Scan calls f with the points of a range of one series. See [entity.Store].
func (s *Store) Scan(ctx context.Context, id, key string, from, to int64, f func(*entity.Chunk) error) (err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	first, end := entity.AllOf(from, to)
	sc := scanner{Scanner: sealed.Scanner{From: first, F: f}, s: s, blocks: blocksAtOnce, rows: sealed.ScanRows}
	return sc.scan(ctx, id, key, end)
}

// scanner scans a series.
type scanner struct {
	sealed.Scanner
	s            *Store
	blocks, rows int // of a page
}

// scan scans what is left.
func (c *scanner) scan(ctx context.Context, id, key string, end entity.Place) error {
	c.Unpacker = c.s.unpackers.Take()
	defer c.s.unpackers.Give(c.Unpacker)
	return c.s.stretches(c.From.TS, end.TS, false, func(_, hi int64) (bool, error) {
		if c.To = (entity.Place{TS: hi}); c.To.Compare(end) > 0 {
			c.To = end
		}
		return true, c.Scan(func() error { return c.page(ctx, id, key) })
	})
}

// page reads what is next: rows, and the blocks that they lie over.
func (c *scanner) page(ctx context.Context, id, key string) error {
	end, err := c.s.beginLong(ctx) // others get their turn after each page
	if err != nil {
		return err
	}
	p, err := c.s.page(ctx, part{id: id, key: key, from: c.From, to: c.To, rows: c.rows, blocks: c.blocks})
	end()
	if err != nil {
		return err
	}
	horizon := c.To
	if len(p.rows) == c.rows {
		horizon = p.rows[len(p.rows)-1].Place()
		horizon.Seq++
	}
	c.Begin(p.rows, horizon)
	bytes := 0
	for i := range p.blocks {
		b := &p.blocks[i]
		bytes += len(b.Values) + len(b.Times)
		more, err := c.Block(b.Block)
		if sealed.Unreadable(err) {
			err = sealed.Failed(err, b.first, b.last)
		}
		if err != nil || !more {
			return err
		}
		if i+1 == c.blocks {
			if c.blocks >= blocksAtOnce {
				c.blocks = blocksAtOnce
				if bytes <= smallBytes {
					c.blocks = 2 * blocksAtOnce
				}
			}
			return nil
		}
	}
	return c.End()
}

// Origins returns the origins of the points in a range of one series. See [entity.Store].
func (s *Store) Origins(ctx context.Context, id, key string, from, to int64, limit int) (list []entity.PointOrigin, err error) {
	const sql = `SELECT ts, origin FROM (SELECT ts, seq, origin FROM telemetry WHERE ` + within + `AND origin IS NOT NULL
			UNION ALL SELECT c.ts, c.seq, c.origin FROM (SELECT * FROM computed WHERE ` + within + `) c WHERE NOT EXISTS (
				SELECT FROM telemetry t WHERE t.entity = c.entity AND t.key = c.key AND t.ts = c.ts AND t.seq = c.seq AND t.ts >= $3 AND t.ts < $4)
		) o ORDER BY ts, seq LIMIT $5`
	defer failure.In(&err, "origins of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	err = s.stretches(from, to, false, func(from, to int64) (bool, error) {
		var some []entity.PointOrigin
		err := s.read(ctx, func(conn *pgxpool.Conn) error {
			rows, err := conn.Query(ctx, sql, planned, id, key, from, to, limit-len(list))
			if err != nil {
				return err
			}
			some, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p entity.PointOrigin, err error) {
				var origin []byte
				if err := row.Scan(&p.TS, &origin); err != nil {
					return p, err
				}
				p.Origin, err = unpackOrigin(origin)
				return p, err
			})
			return err
		})
		list = append(list, some...)
		return len(list) < limit, err
	})
	return list, err
}

// CountNumbers counts the numbers in a range of one series. See [entity.Store].
func (s *Store) CountNumbers(ctx context.Context, id, key string, from, to int64) (n int, err error) {
	defer failure.In(&err, "count the numbers of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	err = s.stretches(from, to, false, func(from, to int64) (bool, error) {
		some := 0
		err := s.snapshot(ctx, func(tx pgx.Tx) (err error) {
			c := counted{s: s, ctx: ctx, tx: tx, id: id, key: key, plan: planned}
			if len(s.spans.all()) <= fewPartitions {
				c.plan = pgx.QueryExecModeCacheStatement
				if _, err := tx.Exec(ctx, keepPlans); err != nil {
					return err
				}
			}
			some, err = sealed.CountNumbers(&c, from, to)
			return err
		})
		n += some
		return true, err
	})
	return n, err
}

// counted is a series at one moment of the database. It is a [sealed.Counted].
type counted struct {
	s       *Store
	ctx     context.Context //nolint:containedctx // of the question that it lives for
	tx      pgx.Tx
	id, key string
	plan    pgx.QueryExecMode
}

// Ranges returns the blocks with points in a range of times, and whether there are rows in their range.
func (c *counted) Ranges(from, to int64) ([]sealed.Range, error) {
	rows, err := c.tx.Query(c.ctx, `SELECT b.first, b.last, b.numbers, EXISTS (SELECT FROM telemetry t
				WHERE t.entity = b.entity AND t.key = b.key AND t.ts >= b.first AND t.ts <= b.last AND t.ts >= $3 AND t.ts < $4)
		FROM block b WHERE `+series+`AND b.first < $4 AND b.last >= $3
			AND b.first >= coalesce((SELECT max(first) FROM block WHERE `+series+`AND first < $3), $3)
		ORDER BY b.first, b.first_seq`, c.plan, c.id, c.key, from, to)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sealed.Range, err error) {
		err = row.Scan(&r.First, &r.Last, &r.Numbers, &r.Mixed)
		return r, err
	})
}

// Rows counts the numbers in rows.
func (c *counted) Rows(from, to int64) (n int, err error) {
	err = c.tx.QueryRow(c.ctx, "SELECT count(*) FROM telemetry WHERE "+within+"AND (number IS NOT NULL OR whole IS NOT NULL)", c.plan, c.id, c.key, from, to).Scan(&n)
	return n, err
}

// Points counts the numbers among all points.
func (c *counted) Points(from, to int64) (n int, err error) {
	u := c.s.unpackers.Take()
	defer c.s.unpackers.Give(u)
	q := part{id: c.id, key: c.key, rows: sealed.ScanRows, blocks: blocksAtOnce}
	for q.from, q.to = entity.AllOf(from, to); q.from.Compare(q.to) < 0; {
		var p page
		var batch pgx.Batch
		p.queue(&batch, q, c.s.spans.all())
		if err := c.tx.SendBatch(c.ctx, &batch).Close(); err != nil {
			return 0, err
		}
		list, left, err := p.points(u, q, sealed.ScanRows)
		if err != nil {
			return 0, err
		}
		for i := range list {
			if list[i].Value.IsNumber() {
				n++
			}
		}
		q = left
	}
	return n, nil
}
