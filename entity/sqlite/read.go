package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// queries are the prepared statements of the readers.
type queries struct {
	load, entities, typed, named, these  *sql.Stmt
	latest, attributes, applied, origins *sql.Stmt // of a JSON array of numbers
	open                                 *sql.Stmt // the same: commands
	commands, commanded, openCommands    *sql.Stmt
	online                               *sql.Stmt
	ascending, descending                *sql.Stmt
	relations, changes, computed         *sql.Stmt
	doc, docs                            *sql.Stmt
	items, itemsBack                     *sql.Stmt

	all []*sql.Stmt
}

// ofHour joins the rows of one series in its hours. CROSS JOIN fixes the order of the
// loops: hours outside, one seek into telemetry for each.
const ofHour = `FROM series_hour h CROSS JOIN telemetry t
	ON t.hour = h.hour AND t.entity = h.entity AND t.key = h.key `

// ofSeries are the hours of that series.
const ofSeries = `WHERE h.entity = (SELECT num FROM entity WHERE id = ?1) AND h.key = (SELECT num FROM key WHERE name = ?2) `

// series joins one series in a range of times.
const series = ofHour + `AND t.ts >= ?3 AND t.ts < ?4
	` + ofSeries + `AND h.hour BETWEEN ?3 / 3600000 AND (?4 - 1) / 3600000 `

// places joins one series between two places: (?3, ?5) <= (ts, seq) < (?4, ?6).
const places = ofHour + `AND (t.ts, t.seq) >= (?3, ?5) AND (t.ts, t.seq) < (?4, ?6)
	` + ofSeries + `AND h.hour BETWEEN ?3 / 3600000 AND ?4 / 3600000 `

// sealedBlocks are the blocks of one series that may have points between two places, after the
// columns of the rows. Blocks do not overlap: of those that begin before the first place only the
// last may end after it.
const sealedBlocks = ` UNION ALL SELECT * FROM (SELECT b.first, b.last, 0, b.data, coalesce(b.times, s.data)
	FROM block b LEFT JOIN stamp s ON s.num = b.stamp
	WHERE b.entity = (SELECT num FROM entity WHERE id = ?1) AND b.key = (SELECT num FROM key WHERE name = ?2)
	AND (b.first, b.first_seq) >= (SELECT coalesce(max(first), ?3), coalesce(max(first_seq), ?5) FROM (SELECT first, first_seq FROM block
		WHERE entity = (SELECT num FROM entity WHERE id = ?1) AND key = (SELECT num FROM key WHERE name = ?2)
		AND (first, first_seq) <= (?3, ?5) ORDER BY first DESC, first_seq DESC LIMIT 1))
	AND (b.first, b.first_seq) < (?4, ?6) AND (b.last, b.last_seq) >= (?3, ?5) `

// ascending and descending find ?7 rows, and the blocks that have as many points: each block has
// its first or its last point between the places, unless it spans them all, when it is the only
// one. The reader merges the two. SQLite would drop the order of a part without a limit.
//
// All limits are +? and not ?: if a parameter itself is the limit, SQLite plans by its value, and
// prepares the statement again whenever it is bound, which takes ten times as long as running it.
const (
	ascending = sealedRows + places + "ORDER BY h.hour, t.ts, t.seq LIMIT +?7)" +
		sealedBlocks + "ORDER BY b.first, b.first_seq LIMIT +?7)"
	descending = sealedRows + places + "ORDER BY h.hour DESC, t.ts DESC, t.seq DESC LIMIT +?7)" +
		sealedBlocks + "ORDER BY b.first DESC, b.first_seq DESC LIMIT +?7)"
)

const countRows = "SELECT count(*) " + series + "AND t.kind IN (1, 2)"

// isBlock takes the place of the kind of a value in the row of a block.
const isBlock = 0

const sealedRows = "SELECT * FROM (SELECT t.ts, t.seq, t.kind, t.value, NULL "

func (q *queries) prepare(ctx context.Context, db *sql.DB) error {
	const one = "SELECT num, created, type, revision, presence, since, seen FROM entity "
	const page = "SELECT num, id, created, type, revision, presence, since, seen FROM entity "
	const found = "id > ?1 AND (?2 = '' OR instr(coalesce(fold, id), ?2) > 0) ORDER BY id LIMIT +?3"
	for stmt, text := range map[**sql.Stmt]string{
		&q.load:     one + "WHERE id = ?",
		&q.entities: page + "WHERE " + found,
		&q.typed:    page + "WHERE type IN (SELECT value FROM json_each(?4)) AND " + found,
		&q.named:    page + "WHERE id IN (SELECT value FROM json_each(?5)) AND (?4 = '' OR type IN (SELECT value FROM json_each(?4))) AND " + found,
		&q.these:    "SELECT e.num, j.key, e.created, e.revision, e.type, e.presence, e.since, e.seen FROM json_each(?1) j CROSS JOIN entity e ON e.id = j.value",
		// The filler adds names and orders rows, in half the time.
		&q.latest:     "SELECT j.key, l.key, l.ts, l.seq, l.kind, l.value FROM json_each(?1) j CROSS JOIN latest l ON l.entity = j.value",
		&q.attributes: "SELECT j.key, a.path, a.ts, a.section, a.kind, a.value FROM json_each(?1) j CROSS JOIN attribute a ON a.entity = j.value",
		&q.applied:    "SELECT j.key, a.source, a.n FROM json_each(?1) j CROSS JOIN applied a ON a.entity = j.value",
		&q.open: `SELECT j.key, c.id, c.data FROM json_each(?1) j CROSS JOIN command c INDEXED BY command_open
			ON c.entity = j.value AND c.due IS NOT NULL`,
		&q.commands: `SELECT data FROM command WHERE entity = ?1 AND (?2 = '' OR id < ?2)
			AND (?3 = '' OR state IN (SELECT value FROM json_each(?3))) AND (?4 = '' OR id = ?4) AND (?5 = '' OR key = ?5)
			ORDER BY id DESC LIMIT +?6`,
		&q.commanded: `SELECT data FROM command INDEXED BY command_key WHERE entity = ?1 AND (?2 = '' OR id < ?2)
			AND (?3 = '' OR state IN (SELECT value FROM json_each(?3))) AND (?4 = '' OR id = ?4) AND key = ?5 AND key IS NOT NULL
			ORDER BY id DESC LIMIT +?6`,
		&q.openCommands: `SELECT e.id, c.due FROM (SELECT entity, min(due) AS due FROM command INDEXED BY command_open WHERE due IS NOT NULL GROUP BY entity) c
			CROSS JOIN entity e ON e.num = c.entity ORDER BY e.id`,
		&q.online: "SELECT id, type, presence, seen FROM entity INDEXED BY entity_online WHERE presence & 3 = 1 AND id > ? ORDER BY id LIMIT +?",
		&q.origins: `SELECT j.key, k.name, s.name, c.n
			FROM json_each(?1) j CROSS JOIN latest l ON l.entity = j.value
			JOIN computed c ON c.entity = l.entity AND c.key = l.key AND c.ts = l.ts AND c.seq = l.seq
			JOIN key k ON k.num = l.key JOIN key s ON s.num = c.source`,
		&q.relations: `SELECT e.id, k.name, t.id, r.properties
			FROM entity e CROSS JOIN relation r ON r.source = e.num CROSS JOIN key k ON k.num = r.type CROSS JOIN entity t ON t.num = r.target
			WHERE e.id >= ?1 AND (e.id, k.name, t.id) > (?1, ?2, ?3) ORDER BY e.id, k.name, t.id LIMIT +?4`,
		&q.ascending:  ascending,
		&q.descending: descending,
		&q.doc:        docColumns,
		&q.docs:       "SELECT id, version, updated, body FROM doc WHERE kind = ? AND id > ? ORDER BY id LIMIT +?",
		&q.items:      "SELECT key, body FROM item WHERE kind = ?1 AND key >= ?2 AND key < ?3 ORDER BY key LIMIT +?4",
		&q.itemsBack:  "SELECT key, body FROM item WHERE kind = ?1 AND key >= ?2 AND key < ?3 ORDER BY key DESC LIMIT +?4",
		&q.computed: `SELECT c.ts, k.name, c.n FROM computed c JOIN key k ON k.num = c.source
			WHERE c.entity = (SELECT num FROM entity WHERE id = ?1) AND c.key = (SELECT num FROM key WHERE name = ?2)
			AND c.ts >= ?3 AND c.ts < ?4 ORDER BY c.ts LIMIT +?5`,
		&q.changes: `SELECT first, n, committed, data FROM change
			WHERE first >= (SELECT max(first) FROM change WHERE first <= ?1) ORDER BY first`,
	} {
		var err error
		if *stmt, err = db.PrepareContext(ctx, text); err != nil { //nolint:sqlclosecheck // queries.close does
			return fmt.Errorf("prepare a query: %w", err)
		}
		q.all = append(q.all, *stmt)
	}
	return nil
}

func (q *queries) close() {
	for _, stmt := range q.all {
		_ = stmt.Close() // the connections are closed next
	}
	q.all = nil
}

// Load returns an entity with what it has. See [entity.Store].
func (s *Store) Load(ctx context.Context, id string) (e entity.Stored, err error) {
	defer failure.In(&err, "load %q", id)
	err = s.consistently(func() error {
		found := []entity.Stored{{ID: id}}
		var typ sql.NullString
		var revision, presence, since, seen int64
		if err := s.queries.load.QueryRowContext(ctx, id).Scan(&found[0].Num, &found[0].Created, &typ, &revision, &presence, &since, &seen); err != nil {
			return err
		}
		found[0].Type, found[0].Revision, found[0].Presence = typ.String, uint64(revision), entity.PresenceOfBits(presence, since, seen)
		err := s.fill(ctx, found)
		e = found[0]
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = entity.ErrNotFound
	}
	return e, err
}

// consistentTries is how often entities are read again before commits have to wait.
const consistentTries = 3

// consistently calls read, which reads the tables and the tail, and again if rows of edits were
// moved from the tail to the tables meanwhile.
func (s *Store) consistently(read func() error) error {
	for range consistentTries {
		moves := s.tail.moves.Load()
		if err := read(); err != nil || s.tail.moves.Load() == moves {
			return err
		}
	}
	s.begin()
	defer s.writing.Unlock()
	return read()
}

// fill adds to entities whatever is in the other tables, with one query for all
// of them each.
func (s *Store) fill(ctx context.Context, list []entity.Stored) error {
	f := filler{ctx: ctx, names: s.names, list: list, nums: make([]byte, 0, 8*len(list))}
	edited := false
	if len(list) == 0 {
		return nil
	}
	for i := range list {
		sep := byte(',')
		if i == 0 {
			sep = '['
		}
		f.nums = strconv.AppendInt(append(f.nums, sep), list[i].Num, 10)
		edited = edited || list[i].Revision > 0
	}
	f.nums = append(f.nums, ']')
	tail := make([]struct{ latest, edits []tailRow }, len(list)) // before the tables are read
	for i := range list {
		tail[i].latest, tail[i].edits = s.tail.newest(list[i].ID, list[i].Num)
	}
	if err := s.fillStored(&f, edited); err != nil {
		return err
	}
	for i := range list {
		overlay(&list[i], tail[i].latest)
		overlayEdits(&list[i], tail[i].edits)
	}
	return nil
}

// fillStored adds what the tables have.
func (s *Store) fillStored(f *filler, edited bool) error {
	q, nums := &s.queries, string(f.nums)
	if err := f.each(q.latest, nums, 6, f.latest); err != nil {
		return err
	}
	if edited { // attributes come by edits only
		if err := f.each(q.attributes, nums, 6, f.attribute); err != nil {
			return err
		}
	}
	if s.names.commanded.Load() {
		if err := f.each(q.open, nums, 3, f.command); err != nil {
			return err
		}
	}
	computed := false
	if s.names.computed.Load() {
		if err := f.each(q.applied, nums, 3, func() error { computed = true; return f.applied() }); err != nil {
			return err
		}
	}
	for i := range f.list {
		order(&f.list[i])
	}
	if !computed {
		return nil
	}
	rows, err := q.origins.QueryContext(f.ctx, nums)
	if err != nil {
		return err
	}
	return scan(rows, func() error { return f.origin(rows) })
}

// order sorts the contents of an entity as [entity.Stored] requires.
func order(e *entity.Stored) {
	slices.SortFunc(e.Latest, func(a, b entity.Latest) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(e.Attributes, func(a, b entity.StoredAttribute) int {
		return cmp.Or(cmp.Compare(a.Section, b.Section), strings.Compare(a.Path, b.Path))
	})
	slices.SortFunc(e.Commands, func(a, b entity.Command) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(e.Applied, func(a, b entity.Origin) int { return strings.Compare(a.Source, b.Source) })
}

// filler adds rows of other tables to entities.
type filler struct {
	ctx   context.Context //nolint:containedctx // lives as long as one call of fill
	names *names
	list  []entity.Stored
	nums  []byte // of list, as a JSON array
	row   [8]any // the driver's values: database/sql takes longer to convert a number than to read it
}

// each runs a query about a JSON array and calls row for each row, with its columns in
// f.row.
func (f *filler) each(stmt *sql.Stmt, array string, columns int, row func() error) error {
	rows, err := stmt.QueryContext(f.ctx, array) //nolint:sqlclosecheck // scan does
	if err != nil {
		return err
	}
	var into [len(f.row)]any
	for i := range into {
		into[i] = &f.row[i]
	}
	return scan(rows, func() error {
		if err := rows.Scan(into[:columns]...); err != nil {
			return err
		}
		return row()
	})
}

// int returns a column that is an integer: the tables are STRICT.
func (f *filler) int(column int) int64 {
	n, _ := f.row[column].(int64)
	return n
}

// entity returns the entity of the row, whose place is the first column, and the name
// whose number is the second one.
func (f *filler) entity() (e *entity.Stored, name string, err error) {
	e = &f.list[f.int(0)]
	name, ok := f.names.of(f.int(1))
	if !ok {
		err = fmt.Errorf("entity %q has something of the unknown key %d: the database is damaged", e.ID, f.int(1))
	}
	return e, name, err
}

// latest adds a latest value. Other properties of the entity follow from its latest values: the
// newest visible reading, by time or by sequence, is the latest of its keys.
func (f *filler) latest() error {
	e, name, err := f.entity()
	if err != nil {
		return err
	}
	ts, seq := f.int(2), f.int(3)
	v, err := valueOf(f.int(4), f.row[5])
	if err != nil {
		return fmt.Errorf("entity %q key %q: %w", e.ID, name, err)
	}
	e.Latest = append(e.Latest, entity.Latest{Key: name, TS: ts, Seq: uint64(seq), Value: v})
	e.Updated = max(e.Updated, ts)
	e.Seq = max(e.Seq, uint64(seq))
	return nil
}

func (f *filler) attribute() error {
	e, path, err := f.entity()
	if err != nil {
		return err
	}
	v, err := valueOf(f.int(4), f.row[5])
	if err != nil {
		return fmt.Errorf("entity %q attribute %q: %w", e.ID, path, err)
	}
	e.Attributes = append(e.Attributes, entity.StoredAttribute{
		Section: entity.Section(f.int(3)), Attribute: entity.Attribute{Path: path, TS: f.int(2), Value: v},
	})
	return nil
}

func (f *filler) applied() error {
	e, source, err := f.entity()
	e.Applied = append(e.Applied, entity.Origin{Source: source, Seq: uint64(f.int(2))})
	return err
}

func (f *filler) origin(rows *sql.Rows) error {
	var place, n int64
	var key, source string
	if err := rows.Scan(&place, &key, &source, &n); err != nil {
		return err
	}
	latest := f.list[place].Latest
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

// collect makes a list of what a query finds.
func collect[T any](ctx context.Context, stmt *sql.Stmt, row func(rows *sql.Rows) (T, error), args ...any) (list []T, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	err = scan(rows, func() error {
		x, err := row(rows)
		list = append(list, x)
		return err
	})
	return list, err
}

// Entities returns a page of entities. See [entity.Store].
func (s *Store) Entities(ctx context.Context, q entity.ListQuery) (list []entity.Stored, err error) {
	defer failure.In(&err, "list entities")
	if len(q.IDs) > 0 && len(q.Types) == 0 && q.Search == "" {
		return s.these(ctx, q)
	}
	types, err := jsonArray(q.Types)
	if err != nil {
		return nil, err
	}
	ids, err := jsonArray(q.IDs)
	if err != nil {
		return nil, err
	}
	stmt := s.queries.entities
	switch {
	case ids != "":
		stmt = s.queries.named
	case types != "":
		stmt = s.queries.typed
	}
	err = s.consistently(func() (err error) {
		list, err = s.page(ctx, stmt, q.After, strings.ToLower(q.Search), q.Limit, types, ids)
		return err
	})
	return list, err
}

// these is Entities for a query with only IDs. It takes half the time, because the ids are already
// in order.
func (s *Store) these(ctx context.Context, q entity.ListQuery) (list []entity.Stored, err error) {
	ids := slices.Compact(slices.Sorted(slices.Values(q.IDs)))
	after, _ := slices.BinarySearch(ids, q.After+"\x00") // the least text after it
	err = s.consistently(func() error {
		list = make([]entity.Stored, 0, min(q.Limit, len(ids)-after))
		for left := ids[after:]; len(left) > 0 && len(list) < q.Limit; {
			n := min(q.Limit-len(list), len(left))
			if err := s.appendThese(ctx, &list, left[:n]); err != nil {
				return err
			}
			left = left[n:]
		}
		return s.fill(ctx, list)
	})
	return list, err
}

// appendThese appends those of the entities that exist, in the order of the ids.
func (s *Store) appendThese(ctx context.Context, list *[]entity.Stored, ids []string) error {
	array, err := jsonArray(ids)
	if err != nil {
		return err
	}
	f := filler{ctx: ctx}
	return f.each(s.queries.these, array, 8, func() error {
		typ, _ := f.row[4].(string)
		*list = append(*list, entity.Stored{Num: f.int(0), ID: ids[f.int(1)], Created: f.int(2), Revision: uint64(f.int(3)), Type: typ, Presence: entity.PresenceOfBits(f.int(5), f.int(6), f.int(7))})
		return nil
	})
}

// page returns what a query for entities finds.
func (s *Store) page(ctx context.Context, stmt *sql.Stmt, args ...any) (list []entity.Stored, err error) {
	list, err = collect(ctx, stmt, func(rows *sql.Rows) (e entity.Stored, err error) {
		var typ sql.NullString
		var revision, presence, since, seen int64
		err = rows.Scan(&e.Num, &e.ID, &e.Created, &typ, &revision, &presence, &since, &seen)
		e.Type, e.Revision, e.Presence = typ.String, uint64(revision), entity.PresenceOfBits(presence, since, seen)
		return e, err
	}, args...)
	if err == nil {
		err = s.fill(ctx, list)
	}
	return list, err
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
func (s *Store) Relations(ctx context.Context, after entity.Relation, limit int) (_ []entity.Relation, err error) {
	defer failure.In(&err, "list relations")
	return collect(ctx, s.queries.relations, func(rows *sql.Rows) (r entity.Relation, err error) {
		var properties sql.NullString
		err = rows.Scan(&r.From, &r.Type, &r.To, &properties)
		if properties.Valid {
			r.Properties = entity.ParseJSON([]byte(properties.String))
		}
		return r, err
	}, after.From, after.Type, after.To, limit)
}

// Origins tells who computed a range of one series. See [entity.Store].
func (s *Store) Origins(ctx context.Context, id, key string, from, to int64, limit int) (_ []entity.PointOrigin, err error) {
	defer failure.In(&err, "origins of %q key %q", id, key)
	var tail []entity.PointOrigin
	first, end := entity.AllOf(from, to)
	for _, r := range s.tail.series(id, key, first, end, noLimit, false) {
		if r.source != nil {
			tail = append(tail, entity.PointOrigin{TS: r.ts, Origin: r.origin()})
		}
	}
	list, err := collect(ctx, s.queries.computed, func(rows *sql.Rows) (p entity.PointOrigin, err error) {
		var n int64
		err = rows.Scan(&p.TS, &p.Source, &n)
		p.Seq = uint64(n)
		return p, err
	}, id, key, from, to, limit)
	return sealed.Overlay(list, tail, limit, false, func(p *entity.PointOrigin) entity.Place { return entity.Place{TS: p.TS} }), err
}

// History returns a range of one series. See [entity.Store].
func (s *Store) History(ctx context.Context, id, key string, from, to entity.Place, limit int, descending bool) (_ []entity.Point, err error) {
	defer failure.In(&err, "history of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return s.history(ctx, id, key, from, to, limit, descending)
}

func (s *Store) history(ctx context.Context, id, key string, from, to entity.Place, limit int, descending bool) ([]entity.Point, error) {
	stmt := s.queries.ascending
	if descending {
		stmt = s.queries.descending
	}
	tail := s.tail.points(id, key, from, to, limit, descending)
	rows, err := stmt.QueryContext(ctx, id, key, from.TS, to.TS, int64(from.Seq), int64(to.Seq), limit)
	if err != nil {
		return nil, err
	}
	points, err := s.stored(rows, from, to, limit, descending)
	if descending {
		slices.Reverse(tail)
	}
	return sealed.OverlayPoints(points, tail, limit, descending), err
}

// errEnough ends a scan of rows of which no more are needed.
var errEnough = errors.New("no more rows are needed")

// eachFound calls row with each row that a query for a series finds, and block with each block, until that
// returns false. The bytes of a block are valid until it returns.
func eachFound(rows *sql.Rows, row func(p entity.Point), found func(b block.Block) (more bool, err error)) error {
	err := scan(rows, func() error {
		var first, second, kind int64
		var col any
		var times sql.RawBytes
		if err := rows.Scan(&first, &second, &kind, &col, &times); err != nil {
			return err
		}
		if kind != isBlock {
			v, err := valueOf(kind, col)
			row(entity.Point{TS: first, Seq: uint64(second), Value: v})
			return err
		}
		data, _ := col.([]byte)
		more, err := found(block.Block{Values: data, Times: times})
		switch {
		case sealed.Unreadable(err):
			return sealed.Failed(err, first, second)
		case err == nil && !more:
			return errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// stored reads what the tables have of a series: first rows, then the blocks that they lie
// over.
func (s *Store) stored(rows *sql.Rows, from, to entity.Place, limit int, descending bool) ([]entity.Point, error) {
	u := s.unpackers.Take()
	defer s.unpackers.Give(u)
	var open, packed []entity.Point
	err := eachFound(rows, func(p entity.Point) { open = append(open, p) }, func(b block.Block) (bool, error) {
		if len(packed) >= limit {
			return false, nil
		}
		if _, err := u.Decode(b, &u.Columns); err != nil {
			return false, err
		}
		c := sealed.Between(&u.Columns, from, to)
		packed = sealed.AppendPoints(packed, &c, limit, descending)
		return true, nil
	})
	return sealed.OverlayPoints(packed, open, limit, descending), err
}

// CountNumbers counts the numbers in a range of one series. See [entity.Store].
func (s *Store) CountNumbers(ctx context.Context, id, key string, from, to int64) (n int, err error) {
	defer failure.In(&err, "count the numbers of %q key %q", id, key)
	end, err := s.beginLong(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	return s.countNumbers(ctx, id, key, from, to)
}

// countNumbers counts the tail, which is small, point by point. Rows that are sealed meanwhile must
// not be counted twice: it reads one moment of the database.
func (s *Store) countNumbers(ctx context.Context, id, key string, from, to int64) (n int, err error) {
	c := counted{s: s, ctx: ctx, id: id, key: key}
	begin, end := entity.AllOf(from, to)
	var apart [][2]int64
	if c.tail = s.tail.points(id, key, begin, end, noLimit, false); len(c.tail) > 0 {
		apart = append(apart, [2]int64{c.tail[0].TS, c.tail[len(c.tail)-1].TS + 1})
	}
	err = s.snapshot(ctx, func(conn *sql.Conn) error {
		c.conn = conn
		n, err = sealed.CountNumbers(&c, from, to, apart...)
		return err
	})
	return n, err
}

// snapshot calls f with a connection that sees one moment of the database throughout. It
// keeps nobody from writing.
func (s *Store) snapshot(ctx context.Context, f func(conn *sql.Conn) error) error {
	conn, err := s.readDB.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "BEGIN DEFERRED"); err != nil {
		return err
	}
	err = f(conn)
	// Even if ctx has ended: the connection is another one's next.
	_, ended := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return errors.Join(err, ended)
}

// counted is a [sealed.Counted].
type counted struct {
	s       *Store
	ctx     context.Context //nolint:containedctx // of the question that it lives for
	conn    *sql.Conn
	id, key string
	tail    []entity.Point
}

// ranges are the blocks of a series, with the points, the numbers, and whether there are
// rows in the range.
const ranges = `SELECT b.first, b.last, b.numbers, EXISTS (SELECT 1 ` + ofHour + `AND t.ts >= b.first AND t.ts <= b.last
		WHERE h.entity = b.entity AND h.key = b.key AND h.hour BETWEEN b.first / 3600000 AND b.last / 3600000)
	FROM block b WHERE b.entity = (SELECT num FROM entity WHERE id = ?1) AND b.key = (SELECT num FROM key WHERE name = ?2)
	AND b.first >= coalesce((SELECT max(first) FROM block
		WHERE entity = (SELECT num FROM entity WHERE id = ?1) AND key = (SELECT num FROM key WHERE name = ?2) AND first < ?3), ?3)
	AND b.first < ?4 AND b.last >= ?3 ORDER BY b.first, b.first_seq`

// Ranges returns the blocks with points in a range of times.
func (c *counted) Ranges(from, to int64) (list []sealed.Range, err error) {
	rows, err := c.conn.QueryContext(c.ctx, ranges, c.id, c.key, from, to)
	if err != nil {
		return nil, err
	}
	err = scan(rows, func() error {
		var r sealed.Range
		err := rows.Scan(&r.First, &r.Last, &r.Numbers, &r.Mixed)
		list = append(list, r)
		return err
	})
	return list, err
}

// Rows counts the numbers in rows.
func (c *counted) Rows(from, to int64) (n int, err error) {
	err = c.conn.QueryRowContext(c.ctx, countRows, c.id, c.key, from, to).Scan(&n)
	return n, err
}

// Points counts the numbers among all points.
func (c *counted) Points(from, to int64) (n int, err error) {
	for at, end := entity.AllOf(from, to); at.Compare(end) < 0; {
		const pageSize = 10_000
		rows, err := c.conn.QueryContext(c.ctx, ascending, c.id, c.key, at.TS, end.TS, int64(at.Seq), int64(end.Seq), pageSize)
		if err != nil {
			return 0, err
		}
		page, err := c.s.stored(rows, at, end, pageSize, false)
		if err != nil {
			return 0, err
		}
		page = sealed.OverlayPoints(page, sealed.Within(c.tail, at, end), pageSize, false)
		for i := range page {
			if page[i].Value.IsNumber() {
				n++
			}
		}
		if len(page) < pageSize {
			break
		}
		at = page[len(page)-1].Place()
		at.Seq++
	}
	return n, nil
}

// Changes returns changes from the log. See [entity.Store].
func (s *Store) Changes(ctx context.Context, after uint64, limit int) ([]entity.LoggedChange, error) {
	return changelog.Page(s.Info(), after, limit, func(row func(data []byte, first uint64, n, committed int64) error) error {
		rows, err := s.queries.changes.QueryContext(ctx, int64(after)+1) //nolint:sqlclosecheck // scan does
		if err != nil {
			return err
		}
		return scan(rows, func() error {
			var first, n, committed int64
			var data sql.RawBytes
			if err := rows.Scan(&first, &n, &committed, &data); err != nil {
				return err
			}
			return row(data, uint64(first), n, committed)
		})
	})
}
