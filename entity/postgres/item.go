package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// PutItems writes and removes items. See [entity.Store].
func (s *Store) PutItems(ctx context.Context, items []entity.Item) (err error) {
	defer failure.In(&err, "put items")
	return s.update(ctx, func(ctx context.Context, w *writer) error {
		return w.transact(ctx, func(tx pgx.Tx) error {
			var b pgx.Batch
			for i := range items {
				it := &items[i]
				if it.Body == nil {
					b.Queue("DELETE FROM item WHERE kind = $1 AND key = $2", it.Kind, []byte(it.Key))
				} else {
					b.Queue(`INSERT INTO item (kind, key, body) VALUES ($1, $2, $3)
						ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body`, it.Kind, []byte(it.Key), it.Body)
				}
			}
			return tx.SendBatch(ctx, &b).Close()
		})
	})
}

// Items returns items of a kind. See [entity.Store].
func (s *Store) Items(ctx context.Context, q entity.ItemsQuery) (list []entity.Item, err error) {
	defer failure.In(&err, "list items of kind %s", q.Kind)
	query := "SELECT key, body FROM item WHERE kind = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4"
	if q.Descending {
		query = "SELECT key, body FROM item WHERE kind = $1 AND key >= $2 AND key < $3 ORDER BY key DESC LIMIT $4"
	}
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, query, q.Kind, []byte(q.From), q.Until(), q.Limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (entity.Item, error) {
			it := entity.Item{Kind: q.Kind}
			var key []byte
			err := row.Scan(&key, &it.Body)
			it.Key = string(key)
			return it, err
		})
		return err
	})
	return list, err
}
