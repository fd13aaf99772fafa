package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// PutItems writes and removes items. See [entity.Store]. Commits of readings wait for it: it writes
// many items with each statement, and all in the order of the table.
func (s *Store) PutItems(ctx context.Context, items []entity.Item) (err error) {
	defer failure.In(&err, "put items")
	if err := context.Cause(ctx); err != nil {
		return err
	}
	put, gone := lastItems(items)
	s.begin()
	defer s.writing.Unlock()
	return s.withRoom(func() error {
		return s.w.transact(context.WithoutCancel(ctx), true, func(t *transaction) error { // see Commit
			for _, it := range gone { // one by one: of many SQLite looks at all items of their kinds
				if err := t.Exec("DELETE FROM item WHERE kind = ? AND key = ?", it.Kind, []byte(it.Key)); err != nil {
					return err
				}
			}
			return t.Bulk(&t.w.item, len(put), func(i int, row []driver.NamedValue) {
				row[0].Value, row[1].Value, row[2].Value = put[i].Kind, []byte(put[i].Key), put[i].Body
			})
		})
	})
}

// lastItems returns what is to be written and what is to be removed, each in the order of the table
// and each key once: the last one counts.
func lastItems(items []entity.Item) (put, gone []*entity.Item) {
	order := make([]*entity.Item, len(items))
	for i := range items {
		order[i] = &items[i]
	}
	slices.SortStableFunc(order, func(a, b *entity.Item) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Key, b.Key))
	})
	for i, it := range order {
		switch {
		case i+1 < len(order) && order[i+1].Kind == it.Kind && order[i+1].Key == it.Key:
		case it.Body == nil:
			gone = append(gone, it)
		default:
			put = append(put, it)
		}
	}
	return put, gone
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
