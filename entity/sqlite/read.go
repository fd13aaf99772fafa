package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// queries are the prepared statements of the readers.
type queries struct {
	load, latest, entities, ascending, descending, aggregate, changes *sql.Stmt
}

// series joins one series over the hours that have data at all. CROSS JOIN fixes
// the order of the loops: hours outside, one seek into telemetry for each.
const series = `FROM hour h CROSS JOIN telemetry t
	ON t.hour = h.hour
	AND t.entity = (SELECT num FROM entity WHERE id = ?1)
	AND t.key = (SELECT num FROM key WHERE name = ?2)
	AND t.ts >= ?3 AND t.ts < ?4
	WHERE h.hour BETWEEN ?3 / 3600000 AND (?4 - 1) / 3600000 `

func (q *queries) prepare(ctx context.Context, db *sql.DB) error {
	for stmt, text := range map[**sql.Stmt]string{
		&q.load: "SELECT num, created FROM entity WHERE id = ?",
		&q.latest: `SELECT k.name, l.ts, l.seq, l.kind, l.value
			FROM latest l JOIN key k ON k.num = l.key WHERE l.entity = ? ORDER BY k.name`,
		&q.entities: `SELECT e.num, e.id, e.created, k.name, l.ts, l.seq, l.kind, l.value
			FROM (SELECT num, id, created FROM entity
				WHERE id > ?1 AND (?2 = '' OR instr(coalesce(fold, id), ?2) > 0) ORDER BY id LIMIT ?3) e
			JOIN latest l ON l.entity = e.num JOIN key k ON k.num = l.key ORDER BY e.id, k.name`,
		&q.ascending:  "SELECT t.ts, t.kind, t.value " + series + "ORDER BY h.hour, t.ts LIMIT ?5",
		&q.descending: "SELECT t.ts, t.kind, t.value " + series + "ORDER BY h.hour DESC, t.ts DESC LIMIT ?5",
		&q.aggregate: `SELECT t.ts / ?5 * ?5 AS start, count(*), avg(t.value), min(t.value), max(t.value), total(t.value) ` +
			series + "AND t.kind IN (1, 2) GROUP BY start ORDER BY start LIMIT ?6",
		&q.changes: `SELECT first, n, committed, data FROM change
			WHERE first >= (SELECT max(first) FROM change WHERE first <= ?1) ORDER BY first`,
	} {
		var err error
		if *stmt, err = db.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // queries.close does
			return fmt.Errorf("prepare a query: %w", err)
		}
	}
	return nil
}

func (q *queries) close() {
	for _, stmt := range []*sql.Stmt{q.load, q.latest, q.entities, q.ascending, q.descending, q.aggregate, q.changes} {
		if stmt != nil {
			_ = stmt.Close() // the connections are closed next
		}
	}
}

// Load returns an entity with its latest values. See [entity.Store].
func (s *Store) Load(ctx context.Context, id string) (entity.Stored, error) {
	e := entity.Stored{ID: id}
	err := s.queries.load.QueryRowContext(ctx, id).Scan(&e.Num, &e.Created)
	if errors.Is(err, sql.ErrNoRows) {
		return entity.Stored{}, fmt.Errorf("load %q: %w", id, entity.ErrNotFound)
	}
	if err != nil {
		return entity.Stored{}, fmt.Errorf("load %q: %w", id, err)
	}
	rows, err := s.queries.latest.QueryContext(ctx, e.Num)
	if err != nil {
		return entity.Stored{}, fmt.Errorf("load %q: %w", id, err)
	}
	err = scan(rows, func() error {
		var l latestColumns
		if err := rows.Scan(&l.name, &l.ts, &l.seq, &l.kind, &l.value); err != nil {
			return err
		}
		return l.addTo(&e)
	})
	if err != nil {
		return entity.Stored{}, fmt.Errorf("load %q: %w", id, err)
	}
	return e, nil
}

// scan calls row for each row and closes rows.
func scan(rows *sql.Rows, row func() error) error {
	defer rows.Close()
	for rows.Next() {
		if err := row(); err != nil {
			return err
		}
	}
	return rows.Err()
}

type latestColumns struct {
	name          string
	ts, seq, kind int64
	value         any
}

// addTo adds a latest value to an entity. What an entity is beyond its latest
// values follows of them: a reading that is the newest, by time or by sequence
// of what can still be seen, is the latest of its keys.
func (l *latestColumns) addTo(e *entity.Stored) error {
	v, err := valueOf(l.kind, l.value)
	if err != nil {
		return fmt.Errorf("entity %q key %q: %w", e.ID, l.name, err)
	}
	e.Latest = append(e.Latest, entity.Latest{Key: l.name, TS: l.ts, Seq: uint64(l.seq), Value: v})
	e.Updated = max(e.Updated, l.ts)
	e.Seq = max(e.Seq, uint64(l.seq))
	return nil
}

// Entities returns a page of entities. See [entity.Store].
func (s *Store) Entities(ctx context.Context, after string, limit int, search string) ([]entity.Stored, error) {
	rows, err := s.queries.entities.QueryContext(ctx, after, strings.ToLower(search), limit)
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	var list []entity.Stored
	err = scan(rows, func() error {
		var e entity.Stored
		var l latestColumns
		if err := rows.Scan(&e.Num, &e.ID, &e.Created, &l.name, &l.ts, &l.seq, &l.kind, &l.value); err != nil {
			return err
		}
		if n := len(list); n == 0 || list[n-1].Num != e.Num {
			list = append(list, e)
		}
		return l.addTo(&list[len(list)-1])
	})
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	return list, nil
}

// History returns a range of one series. See [entity.Store].
func (s *Store) History(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	stmt := s.queries.ascending
	if descending {
		stmt = s.queries.descending
	}
	end, err := s.beginLong(ctx)
	if err != nil {
		return nil, fmt.Errorf("history of %q key %q: %w", id, key, err)
	}
	defer end()
	rows, err := stmt.QueryContext(ctx, id, key, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("history of %q key %q: %w", id, key, err)
	}
	var points []entity.Point
	err = scan(rows, func() error {
		var p entity.Point
		var kind int64
		var col any
		if err := rows.Scan(&p.TS, &kind, &col); err != nil {
			return err
		}
		var err error
		p.Value, err = valueOf(kind, col)
		points = append(points, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("history of %q key %q: %w", id, key, err)
	}
	return points, nil
}

// Aggregate sums up a range of one series. See [entity.Store].
func (s *Store) Aggregate(ctx context.Context, id, key string, from, to, step int64, limit int) ([]entity.Bucket, error) {
	end, err := s.beginLong(ctx)
	if err != nil {
		return nil, fmt.Errorf("aggregate of %q key %q: %w", id, key, err)
	}
	defer end()
	rows, err := s.queries.aggregate.QueryContext(ctx, id, key, from, to, step, limit)
	if err != nil {
		return nil, fmt.Errorf("aggregate of %q key %q: %w", id, key, err)
	}
	var buckets []entity.Bucket
	err = scan(rows, func() error {
		var b entity.Bucket
		err := rows.Scan(&b.TS, &b.Count, &b.Avg, &b.Min, &b.Max, &b.Sum)
		buckets = append(buckets, b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("aggregate of %q key %q: %w", id, key, err)
	}
	return buckets, nil
}

// Changes returns changes from the log. See [entity.Store].
func (s *Store) Changes(ctx context.Context, after uint64, limit int) ([]entity.LoggedChange, error) {
	info := s.Info()
	if after > info.LastChange || after+1 < info.FirstChange {
		return nil, fmt.Errorf("changes after %d, with %d to %d in the log: %w", after, info.FirstChange, info.LastChange, entity.ErrCursorExpired)
	}
	if after == info.LastChange {
		return nil, nil
	}
	rows, err := s.queries.changes.QueryContext(ctx, int64(after)+1)
	if err != nil {
		return nil, fmt.Errorf("changes after %d: %w", after, err)
	}
	list, err := collectChanges(rows, after, limit)
	if err != nil {
		return nil, fmt.Errorf("changes after %d: %w", after, err)
	}
	if len(list) == 0 || list[0].Seq != after+1 { // the log was shortened meanwhile
		return nil, fmt.Errorf("changes after %d: %w", after, entity.ErrCursorExpired)
	}
	return list, nil
}

func collectChanges(rows *sql.Rows, after uint64, limit int) ([]entity.LoggedChange, error) {
	defer rows.Close()
	var list []entity.LoggedChange
	for len(list) < limit && rows.Next() {
		var first, n, committed int64
		var data sql.RawBytes
		if err := rows.Scan(&first, &n, &committed, &data); err != nil {
			return nil, err
		}
		err := decodeChanges(data, uint64(first), n, committed, func(c entity.LoggedChange) bool {
			if c.Seq > after {
				list = append(list, c)
			}
			return len(list) < limit
		})
		if err != nil {
			return nil, err
		}
	}
	return list, rows.Err()
}
