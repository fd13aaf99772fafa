package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// commandKey identifies a command: only the last of its records in a batch is written.
type commandKey struct {
	entity int32
	id     string
}

// commands writes the final states of the commands in the batch.
func (t *transaction) commands(rows *pgx.Batch) {
	last := make(map[commandKey]*entity.Command)
	ended := make(map[int32]int) // by entity
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Command == nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		num := t.nums[r.Entity]
		last[commandKey{num, r.Command.ID}] = r.Command
		if r.Command.State.Ended() {
			ended[num]++
		}
	}
	if len(last) == 0 {
		return
	}
	n := len(last)
	entities, ids, states := make([]int32, 0, n), make([]string, 0, n), make([]int16, 0, n)
	keys, data := make([]pgtype.Text, 0, n), make([][]byte, 0, n)
	dues, ends := make([]pgtype.Int8, 0, n), make([]pgtype.Int8, 0, n)
	for k, c := range last {
		entities, ids, states = append(entities, k.entity), append(ids, c.ID), append(states, int16(c.State))
		keys = append(keys, pgtype.Text{String: c.Key, Valid: c.Key != ""})
		dues = append(dues, pgtype.Int8{Int64: c.Due(), Valid: !c.State.Ended()})
		ends = append(ends, pgtype.Int8{Int64: c.Ended, Valid: c.State.Ended()})
		data = append(data, changelog.AppendCommand(nil, c))
	}
	rows.Queue(`INSERT INTO command (entity, id, state, key, due, ended, data)
		SELECT * FROM unnest($1::integer[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[], $7::bytea[])
		ON CONFLICT (entity, id) DO UPDATE SET state = excluded.state, due = excluded.due, ended = excluded.ended, data = excluded.data`,
		entities, ids, states, keys, dues, ends, data)
	var shorten []int32
	for num, n := range ended {
		if t.w.ended.Due(int64(num), n) {
			shorten = append(shorten, num)
		}
	}
	if len(shorten) > 0 {
		// Order by the end: a command that took long is kept as long as others, and with it its
		// answer and its key. The commands are sorted once for each entity, not for each row.
		rows.Queue(`WITH last AS MATERIALIZED (SELECT n.entity, o.ended, o.id FROM unnest($1::integer[]) AS n (entity), LATERAL
				(SELECT ended, id FROM command WHERE entity = n.entity AND due IS NULL ORDER BY ended DESC, id DESC LIMIT 1 OFFSET $2) o)
			DELETE FROM command c USING last WHERE c.entity = last.entity AND c.due IS NULL AND (c.ended, c.id) <= (last.ended, last.id)`, shorten, entity.MaxEndedCommands)
	}
}

// commands adds the open commands.
func (f *filler) commands(rows pgx.Rows) error {
	var num int32
	var data pgtype.DriverBytes
	_, err := pgx.ForEachRow(rows, []any{&num, &data}, func() error {
		e := &f.list[f.at[num]]
		c, err := changelog.DecodeCommand(data, e.ID)
		e.Commands = append(e.Commands, c)
		return err
	})
	return err
}

// Commands returns commands of an entity. See [entity.Store].
func (s *Store) Commands(ctx context.Context, id string, q entity.CommandsQuery) (list []entity.Command, err error) {
	defer failure.In(&err, "commands of %q", id)
	if pgdb.Impossible(id) {
		return nil, entity.ErrNotFound
	}
	impossible := pgdb.Impossible(q.ID) || pgdb.Impossible(q.Key)
	states := make([]int16, len(q.States))
	for i, state := range q.States {
		states[i] = int16(state)
	}
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		var num int32
		err := tx.QueryRow(ctx, "SELECT num FROM entity WHERE id = $1", id).Scan(&num)
		if errors.Is(err, pgx.ErrNoRows) {
			return entity.ErrNotFound
		}
		if err != nil || impossible {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT data FROM command WHERE entity = $1 AND ($2 = '' OR id < $2)
				AND (cardinality($3::smallint[]) = 0 OR state = ANY($3)) AND ($4 = '' OR id = $4) AND ($5 = '' OR key = $5)
			ORDER BY id DESC LIMIT $6`, planned, num, pgdb.PossiblePart(q.Before), states, q.ID, q.Key, q.Limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (entity.Command, error) {
			var data []byte
			if err := row.Scan(&data); err != nil {
				return entity.Command{}, err
			}
			return changelog.DecodeCommand(data, id)
		})
		return err
	})
	return list, err
}

// OpenCommands returns the entities with open commands. See [entity.Store].
func (s *Store) OpenCommands(ctx context.Context) (list []entity.OpenCommands, err error) {
	defer failure.In(&err, "list open commands")
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, `SELECT e.id, min(c.due) FROM command c JOIN entity e ON e.num = c.entity
			WHERE c.due IS NOT NULL GROUP BY e.id ORDER BY e.id`)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, pgx.RowToStructByPos[entity.OpenCommands])
		return err
	})
	return list, err
}
