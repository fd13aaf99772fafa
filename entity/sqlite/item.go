package sqlite

import (
	"context"
	"database/sql"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// PutItems writes and removes items. See [entity.Store].
func (s *Store) PutItems(ctx context.Context, items []entity.Item) (err error) {
	defer failure.In(&err, "put items")
	return s.update(ctx, func(tx *sql.Tx) error {
		put, err := tx.PrepareContext(ctx, "INSERT INTO item (kind, key, body) VALUES (?, ?, ?) ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body")
		if err != nil {
			return err
		}
		defer func() { _ = put.Close() }()
		remove, err := tx.PrepareContext(ctx, "DELETE FROM item WHERE kind = ? AND key = ?")
		if err != nil {
			return err
		}
		defer func() { _ = remove.Close() }()
		for i := range items {
			it := &items[i]
			if it.Body == nil {
				_, err = remove.ExecContext(ctx, it.Kind, []byte(it.Key))
			} else {
				_, err = put.ExecContext(ctx, it.Kind, []byte(it.Key), it.Body)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Items returns items of a kind. See [entity.Store].
func (s *Store) Items(ctx context.Context, q entity.ItemsQuery) (_ []entity.Item, err error) {
	defer failure.In(&err, "list items of kind %s", q.Kind)
	stmt := s.queries.items
	if q.Descending {
		stmt = s.queries.itemsBack
	}
	return collect(ctx, stmt, func(rows *sql.Rows) (entity.Item, error) {
		it := entity.Item{Kind: q.Kind}
		var key sql.RawBytes
		err := rows.Scan(&key, &it.Body)
		it.Key = string(key)
		return it, err
	}, q.Kind, []byte(q.From), q.Until(), q.Limit)
}
