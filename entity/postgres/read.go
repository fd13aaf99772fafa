package postgres

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// read is [pgdb.Read].
func (s *Store) read(ctx context.Context, f func(conn *pgxpool.Conn) error) error {
	return pgdb.Read(ctx, s.pool, f)
}

// snapshot is read in a transaction that sees one state of the database
// throughout.
func (s *Store) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return s.read(ctx, func(conn *pgxpool.Conn) error {
		tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return errors.Join(err, pgdb.Abort(ctx, tx))
		}
		return tx.Commit(ctx)
	})
}

// What entities have in addition to their own rows, for an array of numbers.
const (
	selectLatest = `SELECT l.entity, k.name, l.ts, l.seq, l.number, l.whole, l.text, l.json, l.origin
		FROM latest l JOIN key k ON k.num = l.key WHERE l.entity = ANY($1) ORDER BY l.entity, k.name`
	selectAttributes = `SELECT entity, section, path, ts, number, whole, text, json
		FROM attribute WHERE entity = ANY($1) ORDER BY entity, section, path`
	selectOpen    = "SELECT entity, data FROM command WHERE entity = ANY($1) AND due IS NOT NULL ORDER BY entity, id"
	selectApplied = "SELECT entity, source, n FROM applied WHERE entity = ANY($1) ORDER BY entity, source"
)

// Load returns an entity with what it has. See [entity.Store].
func (s *Store) Load(ctx context.Context, id string) (e entity.Stored, err error) {
	defer failure.In(&err, "load %q", id)
	if pgdb.Impossible(id) {
		return entity.Stored{}, entity.ErrNotFound
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		e = entity.Stored{ID: id}
		var typ pgtype.Text
		var bits, since, seen int64
		err := tx.QueryRow(ctx, "SELECT num, type, created, revision, presence, since, seen FROM entity WHERE id = $1", id).
			Scan(&e.Num, &typ, &e.Created, &e.Revision, &bits, &since, &seen)
		if errors.Is(err, pgx.ErrNoRows) {
			return entity.ErrNotFound
		}
		if err != nil {
			return err
		}
		e.Type, e.Presence = typ.String, entity.PresenceOfBits(bits, since, seen)
		list := []entity.Stored{e}
		err = fill(ctx, tx, list)
		e = list[0]
		return err
	})
	return e, err
}

// fill adds to entities what is in the other tables.
func fill(ctx context.Context, conn querier, list []entity.Stored) error {
	f := filler{list: list, at: make(map[int32]int, len(list))}
	nums := make([]int32, len(list))
	for i := range list {
		nums[i] = int32(list[i].Num)
		f.at[nums[i]] = i
	}
	var rows pgx.Batch
	rows.Queue(selectLatest, nums).Query(f.latest)
	rows.Queue(selectAttributes, nums).Query(f.attributes)
	rows.Queue(selectOpen, nums).Query(f.commands)
	rows.Queue(selectApplied, nums).Query(f.applied)
	return conn.SendBatch(ctx, &rows).Close()
}

// filler adds rows of other tables to entities.
type filler struct {
	list []entity.Stored
	at   map[int32]int
}

// latest adds the latest values. Other properties of the entity follow from its latest values: the
// newest visible reading, by time or by sequence, is the latest of its keys.
func (f *filler) latest(rows pgx.Rows) error {
	var num int32
	var l entity.Latest
	var c columns
	var origin []byte
	_, err := pgx.ForEachRow(rows, []any{&num, &l.Key, &l.TS, &l.Seq, &c.number, &c.whole, &c.text, &c.json, &origin}, func() (err error) {
		if l.Value, err = c.value(); err != nil {
			return err
		}
		if l.Origin, err = unpackOrigin(origin); err != nil {
			return err
		}
		e := &f.list[f.at[num]]
		e.Latest = append(e.Latest, l)
		e.Updated, e.Seq = max(e.Updated, l.TS), max(e.Seq, l.Seq)
		return nil
	})
	return err
}

func (f *filler) attributes(rows pgx.Rows) error {
	var num int32
	var section int16
	var a entity.StoredAttribute
	var c columns
	_, err := pgx.ForEachRow(rows, []any{&num, &section, &a.Path, &a.TS, &c.number, &c.whole, &c.text, &c.json}, func() (err error) {
		a.Section = entity.Section(section)
		a.Value, err = c.value()
		e := &f.list[f.at[num]]
		e.Attributes = append(e.Attributes, a)
		return err
	})
	return err
}

func (f *filler) applied(rows pgx.Rows) error {
	var num int32
	var source []byte
	var seq uint64
	_, err := pgx.ForEachRow(rows, []any{&num, &source, &seq}, func() error {
		e := &f.list[f.at[num]]
		e.Applied = append(e.Applied, entity.Origin{Source: string(source), Seq: seq})
		return nil
	})
	return err
}

// Entities returns a page of entities. See [entity.Store].
func (s *Store) Entities(ctx context.Context, q entity.ListQuery) (list []entity.Stored, err error) {
	defer failure.In(&err, "list entities")
	types, ids := slices.DeleteFunc(slices.Clone(q.Types), pgdb.Impossible), slices.DeleteFunc(slices.Clone(q.IDs), pgdb.Impossible)
	if pgdb.Impossible(q.Search) || len(types) == 0 && len(q.Types) > 0 || len(ids) == 0 && len(q.IDs) > 0 {
		return nil, nil // nothing has such a name
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		// Planned for its arguments, so that those that keep all cost nothing.
		rows, err := tx.Query(ctx, `SELECT num, id, type, created, revision, presence, since, seen FROM entity
			WHERE id > $1 AND ($2 = '' OR strpos(coalesce(fold, id), $2) > 0)
				AND (cardinality($3::text[]) = 0 OR type = ANY($3)) AND (cardinality($4::text[]) = 0 OR id = ANY($4))
			ORDER BY id LIMIT $5`, planned, pgdb.PossiblePart(q.After), strings.ToLower(q.Search), append([]string{}, types...), append([]string{}, ids...), q.Limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (entity.Stored, error) {
			var e entity.Stored
			var typ pgtype.Text
			var bits, since, seen int64
			err := row.Scan(&e.Num, &e.ID, &typ, &e.Created, &e.Revision, &bits, &since, &seen)
			e.Type, e.Presence = typ.String, entity.PresenceOfBits(bits, since, seen)
			return e, err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		return fill(ctx, tx, list)
	})
	return list, err
}

// fold returns the id in lower case if that differs, otherwise nil.
func fold(id string) *string {
	lower := strings.ToLower(id)
	if lower == id {
		return nil
	}
	return &lower
}

// Changes returns changes from the log. See [entity.Store].
func (s *Store) Changes(ctx context.Context, after uint64, limit int) ([]entity.LoggedChange, error) {
	return changelog.Page(s.Info(), after, limit, func(row func(data []byte, first uint64, n, committed int64) error) error {
		return s.read(ctx, func(conn *pgxpool.Conn) error {
			// No change of the sequence is left out, so this is no row too many.
			rows, err := conn.Query(ctx, `SELECT first, n, committed, data FROM change
				WHERE first >= (SELECT max(first) FROM change WHERE first <= $1) AND first < $1 + $2::bigint ORDER BY first`, int64(after)+1, limit)
			if err != nil {
				return err
			}
			var first uint64
			var n, committed int64
			var data pgtype.DriverBytes
			_, err = pgx.ForEachRow(rows, []any{&first, &n, &committed, &data}, func() error { return row(data, first, n, committed) })
			return err
		})
	})
}
