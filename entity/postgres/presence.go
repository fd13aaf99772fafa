package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// presences writes the final presences in the batch.
func (t *transaction) presences(rows *pgx.Batch) {
	last := make(map[int32]*entity.Presence)
	for i := range t.b.Records {
		if r := &t.b.Records[i]; r.Presence != nil && !t.b.Entities[r.Entity].Deleted {
			last[t.nums[r.Entity]] = r.Presence
		}
	}
	if len(last) == 0 {
		return
	}
	nums, bits := make([]int32, 0, len(last)), make([]int16, 0, len(last))
	since, seen := make([]int64, 0, len(last)), make([]int64, 0, len(last))
	for num, p := range last {
		nums, bits, since, seen = append(nums, num), append(bits, int16(p.Bits())), append(since, p.Since), append(seen, p.Seen) //nolint:gosec // three bits
	}
	rows.Queue(`UPDATE entity e SET presence = g.presence, since = g.since, seen = greatest(e.seen, g.seen)
		FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[]) AS g (num, presence, since, seen) WHERE e.num = g.num`, nums, bits, since, seen)
}

// Online returns entities that are online. See [entity.Store].
func (s *Store) Online(ctx context.Context, after string, limit int) (list []entity.OnlineEntity, err error) {
	defer failure.In(&err, "list who is online")
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, "SELECT id, type, presence, seen FROM entity WHERE presence & 3 = 1 AND id > $1 ORDER BY id LIMIT $2", pgdb.PossiblePart(after), limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o entity.OnlineEntity, err error) {
			var typ pgtype.Text
			var bits int64
			err = row.Scan(&o.ID, &typ, &bits, &o.Seen)
			p := entity.PresenceOfBits(bits, 0, 0)
			o.Type, o.Connected = typ.String, p.Connected
			return o, err
		})
		return err
	})
	return list, err
}

// SaveSeen stores when devices were last seen, without waiting for the disk. See [entity.Store].
func (s *Store) SaveSeen(ctx context.Context, list []entity.SeenAt) (err error) {
	defer failure.In(&err, "save when %d devices were last heard of", len(list))
	ids, seen := make([]string, 0, len(list)), make([]int64, 0, len(list))
	for i := range list {
		if !pgdb.Impossible(list[i].Entity) {
			ids, seen = append(ids, list[i].Entity), append(seen, list[i].Seen)
		}
	}
	return s.update(ctx, func(ctx context.Context, w *writer) error {
		return w.transact(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = off"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE entity e SET seen = g.seen FROM (SELECT id, max(seen) AS seen FROM unnest($1::text[], $2::bigint[]) AS u (id, seen) GROUP BY id) g
				WHERE e.id = g.id AND e.seen < g.seen`, ids, seen)
			return err
		})
	})
}
