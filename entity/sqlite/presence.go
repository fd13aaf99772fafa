package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// presences writes the final presences in the batch, at commit: they change rarely compared with
// readings, and Online depends on them.
func (t *transaction) presences() error {
	var last map[int]*entity.Presence
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Presence == nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		if last == nil {
			last = make(map[int]*entity.Presence)
		}
		last[r.Entity] = r.Presence
	}
	if len(last) == 0 {
		return nil
	}
	places := make([]int, 0, len(last))
	for place := range last {
		places = append(places, place)
	}
	slices.SortFunc(places, func(a, b int) int { return int(t.w.nums[a] - t.w.nums[b]) })
	err := t.Bulk(&t.w.presence, len(places), func(i int, row []driver.NamedValue) {
		p := last[places[i]]
		row[0].Value, row[1].Value, row[2].Value, row[3].Value = t.w.nums[places[i]], p.Bits(), p.Since, p.Seen
	})
	if err != nil {
		return fmt.Errorf("presences: %w", err)
	}
	return nil
}

// Online returns entities that are online. See [entity.Store].
func (s *Store) Online(ctx context.Context, after string, limit int) (_ []entity.OnlineEntity, err error) {
	defer failure.In(&err, "list who is online")
	return collect(ctx, s.queries.online, func(rows *sql.Rows) (o entity.OnlineEntity, err error) {
		var typ sql.NullString
		var bits int64
		err = rows.Scan(&o.ID, &typ, &bits, &o.Seen)
		p := entity.PresenceOfBits(bits, 0, 0)
		o.Type, o.Connected = typ.String, p.Connected
		return o, err
	}, after, limit)
}

// SaveSeen stores when devices were last seen, without a sync. See [entity.Store].
func (s *Store) SaveSeen(ctx context.Context, list []entity.SeenAt) (err error) {
	defer failure.In(&err, "save when %d devices were last heard of", len(list))
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.begin()
	defer s.writing.Unlock()
	return s.w.transact(context.WithoutCancel(ctx), false, func(t *transaction) error {
		for i := range list {
			if _, err := t.query("UPDATE entity SET seen = ?1 WHERE id = ?2 AND seen < ?1", 1, list[i].Seen, list[i].Entity); err != nil {
				return err
			}
		}
		return nil
	})
}
