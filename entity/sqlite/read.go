package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
)

// queries are the prepared statements of the readers.
type queries struct {
	load, entities, typed, named         *sql.Stmt
	latest, attributes, applied, origins *sql.Stmt // of a JSON array of numbers
	ascending, descending, aggregate     *sql.Stmt
	relations, changes                   *sql.Stmt
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
	const one = "SELECT num, created, type, revision FROM entity "
	const page = "SELECT num, id, created, type, revision FROM entity "
	const found = "id > ?1 AND (?2 = '' OR instr(coalesce(fold, id), ?2) > 0) ORDER BY id LIMIT ?3"
	for stmt, text := range map[**sql.Stmt]string{
		&q.load:     one + "WHERE id = ?",
		&q.entities: page + "WHERE " + found,
		&q.typed:    page + "WHERE type IN (SELECT value FROM json_each(?4)) AND " + found,
		&q.named:    page + "WHERE id IN (SELECT value FROM json_each(?5)) AND (?4 = '' OR type IN (SELECT value FROM json_each(?4))) AND " + found,
		&q.latest: `SELECT l.entity, k.name, l.ts, l.seq, l.kind, l.value
			FROM json_each(?1) j CROSS JOIN latest l ON l.entity = j.value JOIN key k ON k.num = l.key ORDER BY l.entity, k.name`,
		&q.attributes: `SELECT a.entity, a.section, k.name, a.ts, a.kind, a.value
			FROM json_each(?1) j CROSS JOIN attribute a ON a.entity = j.value JOIN key k ON k.num = a.path ORDER BY a.entity, a.section, k.name`,
		&q.applied: `SELECT a.entity, k.name, a.n
			FROM json_each(?1) j CROSS JOIN applied a ON a.entity = j.value JOIN key k ON k.num = a.source ORDER BY a.entity, k.name`,
		&q.origins: `SELECT l.entity, k.name, s.name, c.n
			FROM json_each(?1) j CROSS JOIN latest l ON l.entity = j.value
			JOIN computed c ON c.entity = l.entity AND c.key = l.key AND c.ts = l.ts AND c.seq = l.seq
			JOIN key k ON k.num = l.key JOIN key s ON s.num = c.source`,
		&q.relations: `SELECT e.id, k.name, t.id, r.properties
			FROM entity e CROSS JOIN relation r ON r.source = e.num CROSS JOIN key k ON k.num = r.type CROSS JOIN entity t ON t.num = r.target
			WHERE e.id >= ?1 AND (e.id, k.name, t.id) > (?1, ?2, ?3) ORDER BY e.id, k.name, t.id LIMIT ?4`,
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
	for _, stmt := range []*sql.Stmt{
		q.load, q.entities, q.typed, q.named, q.latest, q.attributes, q.applied, q.origins,
		q.ascending, q.descending, q.aggregate, q.relations, q.changes,
	} {
		if stmt != nil {
			_ = stmt.Close() // the connections are closed next
		}
	}
}

// Load returns an entity with what it has. See [entity.Store].
func (s *Store) Load(ctx context.Context, id string) (entity.Stored, error) {
	e, err := s.load(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		err = entity.ErrNotFound
	}
	if err != nil {
		return entity.Stored{}, fmt.Errorf("load %q: %w", id, err)
	}
	return e, nil
}

func (s *Store) load(ctx context.Context, id string) (e entity.Stored, err error) {
	e.ID = id
	var typ sql.NullString
	var revision int64
	if err := s.queries.load.QueryRowContext(ctx, id).Scan(&e.Num, &e.Created, &typ, &revision); err != nil {
		return e, err
	}
	e.Type, e.Revision = typ.String, uint64(revision)
	list := []entity.Stored{e}
	err = s.fill(ctx, list)
	return list[0], err
}

// fill adds to entities whatever is in the other tables, with one query for all
// of them each.
func (s *Store) fill(ctx context.Context, list []entity.Stored) error {
	f := filler{ctx: ctx, list: list, nums: make([]byte, 0, 8*len(list)), at: make(map[int64]int, len(list))}
	edited := false
	for i := range list {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		f.nums = strconv.AppendInt(append(f.nums, sep), list[i].Num, 10)
		f.at[list[i].Num] = i
		edited = edited || list[i].Revision > 0
	}
	f.nums = append(f.nums, ']')
	tail := make([][]tailRow, len(list)) // before the tables are read
	for i := range list {
		tail[i] = s.tail.newest(list[i].ID, list[i].Num)
	}
	if err := s.fillStored(&f, edited); err != nil {
		return err
	}
	for i := range list {
		overlay(&list[i], tail[i])
	}
	return nil
}

// fillStored adds what the tables have.
func (s *Store) fillStored(f *filler, edited bool) error {
	q := &s.queries
	if err := f.each(q.latest, f.latest); err != nil {
		return err
	}
	if edited { // attributes come by edits only
		if err := f.each(q.attributes, f.attribute); err != nil {
			return err
		}
	}
	computed := false
	err := f.each(q.applied, func(rows *sql.Rows) error { computed = true; return f.applied(rows) })
	if err != nil || !computed {
		return err
	}
	return f.each(q.origins, f.origin)
}

// filler adds rows of other tables to entities.
type filler struct {
	ctx  context.Context //nolint:containedctx // lives as long as one call of fill
	list []entity.Stored
	nums []byte // a JSON array
	at   map[int64]int
}

func (f *filler) each(stmt *sql.Stmt, row func(*sql.Rows) error) error {
	rows, err := stmt.QueryContext(f.ctx, string(f.nums))
	if err != nil {
		return err
	}
	return scan(rows, func() error { return row(rows) })
}

// latest adds a latest value. What an entity is beyond its latest values follows
// of them: a reading that is the newest, by time or by sequence of what can still
// be seen, is the latest of its keys.
func (f *filler) latest(rows *sql.Rows) error {
	var num, ts, seq, kind int64
	var name string
	var col any
	if err := rows.Scan(&num, &name, &ts, &seq, &kind, &col); err != nil {
		return err
	}
	e := &f.list[f.at[num]]
	v, err := valueOf(kind, col)
	if err != nil {
		return fmt.Errorf("entity %q key %q: %w", e.ID, name, err)
	}
	e.Latest = append(e.Latest, entity.Latest{Key: name, TS: ts, Seq: uint64(seq), Value: v})
	e.Updated = max(e.Updated, ts)
	e.Seq = max(e.Seq, uint64(seq))
	return nil
}

func (f *filler) attribute(rows *sql.Rows) error {
	var num, section, ts, kind int64
	var path string
	var col any
	if err := rows.Scan(&num, &section, &path, &ts, &kind, &col); err != nil {
		return err
	}
	e := &f.list[f.at[num]]
	v, err := valueOf(kind, col)
	if err != nil {
		return fmt.Errorf("entity %q attribute %q: %w", e.ID, path, err)
	}
	e.Attributes = append(e.Attributes, entity.StoredAttribute{
		Section: entity.Section(section), Attribute: entity.Attribute{Path: path, TS: ts, Value: v},
	})
	return nil
}

func (f *filler) applied(rows *sql.Rows) error {
	var num, n int64
	var source string
	if err := rows.Scan(&num, &source, &n); err != nil {
		return err
	}
	e := &f.list[f.at[num]]
	e.Applied = append(e.Applied, entity.Origin{Source: source, Seq: uint64(n)})
	return nil
}

func (f *filler) origin(rows *sql.Rows) error {
	var num, n int64
	var key, source string
	if err := rows.Scan(&num, &key, &source, &n); err != nil {
		return err
	}
	latest := f.list[f.at[num]].Latest
	if i, ok := slices.BinarySearchFunc(latest, key, func(l entity.Latest, key string) int { return strings.Compare(l.Key, key) }); ok {
		latest[i].Origin = entity.Origin{Source: source, Seq: uint64(n)}
	}
	return nil
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

// Entities returns a page of entities. See [entity.Store].
func (s *Store) Entities(ctx context.Context, q entity.ListQuery) ([]entity.Stored, error) {
	types, err := jsonArray(q.Types)
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	ids, err := jsonArray(q.IDs)
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	stmt := s.queries.entities
	switch {
	case ids != "":
		stmt = s.queries.named
	case types != "":
		stmt = s.queries.typed
	}
	rows, err := stmt.QueryContext(ctx, q.After, strings.ToLower(q.Search), q.Limit, types, ids)
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	var list []entity.Stored
	err = scan(rows, func() error {
		var e entity.Stored
		var typ sql.NullString
		var revision int64
		if err := rows.Scan(&e.Num, &e.ID, &e.Created, &typ, &revision); err != nil {
			return err
		}
		e.Type, e.Revision = typ.String, uint64(revision)
		list = append(list, e)
		return nil
	})
	if err == nil && len(list) > 0 {
		err = s.fill(ctx, list)
	}
	if err != nil {
		return nil, fmt.Errorf("list entities: %w", err)
	}
	return list, nil
}

// jsonArray is a list as a parameter, "" for none.
func jsonArray(list []string) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	text, err := json.Marshal(list)
	return string(text), err
}

// Relations returns a page of all edges. See [entity.Store].
func (s *Store) Relations(ctx context.Context, after entity.Relation, limit int) ([]entity.Relation, error) {
	rows, err := s.queries.relations.QueryContext(ctx, after.From, after.Type, after.To, limit)
	if err != nil {
		return nil, fmt.Errorf("list relations: %w", err)
	}
	var list []entity.Relation
	err = scan(rows, func() error {
		var r entity.Relation
		var properties sql.NullString
		if err := rows.Scan(&r.From, &r.Type, &r.To, &properties); err != nil {
			return err
		}
		if properties.Valid {
			r.Properties = entity.JSON([]byte(properties.String))
		}
		list = append(list, r)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list relations: %w", err)
	}
	return list, nil
}

// Origins tells who computed a range of one series. See [entity.Store].
func (s *Store) Origins(ctx context.Context, id, key string, from, to int64, limit int) ([]entity.PointOrigin, error) {
	var tail []entity.PointOrigin
	for _, r := range s.tail.series(id, key, from, to) {
		if r.source != nil {
			tail = append(tail, entity.PointOrigin{TS: r.ts, Origin: r.origin()})
		}
	}
	rows, err := s.readDB.QueryContext(ctx, `SELECT c.ts, k.name, c.n FROM computed c JOIN key k ON k.num = c.source
		WHERE c.entity = (SELECT num FROM entity WHERE id = ?1) AND c.key = (SELECT num FROM key WHERE name = ?2)
		AND c.ts >= ?3 AND c.ts < ?4 ORDER BY c.ts LIMIT ?5`, id, key, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("origins of %q key %q: %w", id, key, err)
	}
	var list []entity.PointOrigin
	err = scan(rows, func() error {
		var p entity.PointOrigin
		var n int64
		err := rows.Scan(&p.TS, &p.Source, &n)
		p.Seq = uint64(n)
		list = append(list, p)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("origins of %q key %q: %w", id, key, err)
	}
	return merge(list, tail, limit, false, func(p *entity.PointOrigin) int64 { return p.TS }), nil
}

// History returns a range of one series. See [entity.Store].
func (s *Store) History(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	end, err := s.beginLong(ctx)
	if err == nil {
		defer end()
		var points []entity.Point
		if points, err = s.history(ctx, id, key, from, to, limit, descending); err == nil {
			return points, nil
		}
	}
	return nil, fmt.Errorf("history of %q key %q: %w", id, key, err)
}

func (s *Store) history(ctx context.Context, id, key string, from, to int64, limit int, descending bool) ([]entity.Point, error) {
	stmt := s.queries.ascending
	if descending {
		stmt = s.queries.descending
	}
	var tail []entity.Point
	for _, r := range s.tail.series(id, key, from, to) {
		tail = append(tail, entity.Point{TS: r.ts, Value: r.value})
	}
	rows, err := stmt.QueryContext(ctx, id, key, from, to, limit)
	if err != nil {
		return nil, err
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
	return merge(points, tail, limit, descending, func(p *entity.Point) int64 { return p.TS }), err
}

// Aggregate sums up a range of one series. See [entity.Store].
func (s *Store) Aggregate(ctx context.Context, id, key string, from, to, step int64, limit int) ([]entity.Bucket, error) {
	end, err := s.beginLong(ctx)
	if err == nil {
		defer end()
		a := aggregation{s: s, ctx: ctx, id: id, key: key, step: step, limit: limit}
		if err = a.run(from, to); err == nil {
			return a.buckets, nil
		}
	}
	return nil, fmt.Errorf("aggregate of %q key %q: %w", id, key, err)
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
		err := changelog.Decode(data, uint64(first), n, committed, func(c entity.LoggedChange, _ uint64) bool {
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
