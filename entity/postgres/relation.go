package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// Relations returns a page of all edges. See [entity.Store].
//
// It proceeds from entity to entity, several at a time: for a single query that joins the tables,
// the server would sort all edges for each page.
func (s *Store) Relations(ctx context.Context, after entity.Relation, limit int) (list []entity.Relation, err error) {
	defer failure.In(&err, "list relations")
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		// Without statistics, for example after an import, the planner would scan whole tables.
		if _, err := tx.Exec(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
			return err
		}
		list = nil
		at := "id >= $1" // the entity of the last edge may have more
		for from, some := after.From, 64; len(list) < limit; some = min(2*some, 4096) {
			ids, nums, err := sources(ctx, tx, at, from, some)
			if err != nil || len(nums) == 0 {
				return err
			}
			edges, err := edgesOf(ctx, tx, ids, nums)
			if err != nil {
				return err
			}
			list = append(list, slices.DeleteFunc(edges, func(r entity.Relation) bool { return compareRelations(r, after) <= 0 })...)
			at, from = "id > $1", ids[nums[len(nums)-1]]
		}
		return nil
	})
	return list[:min(len(list), limit)], err
}

// sources returns the numbers of some entities in the order of their ids, and the ids by number.
func sources(ctx context.Context, tx pgx.Tx, at, from string, limit int) (ids map[int32]string, nums []int32, err error) {
	rows, err := tx.Query(ctx, "SELECT num, id FROM entity WHERE "+at+" ORDER BY id LIMIT $2", from, limit)
	if err != nil {
		return nil, nil, err
	}
	ids = make(map[int32]string, limit)
	var num int32
	var id string
	_, err = pgx.ForEachRow(rows, []any{&num, &id}, func() error {
		ids[num] = id
		nums = append(nums, num)
		return nil
	})
	return ids, nums, err
}

// edgesOf returns the edges from some entities, in order. OFFSET 0 keeps the planner from
// reordering the joins.
func edgesOf(ctx context.Context, tx pgx.Tx, ids map[int32]string, nums []int32) ([]entity.Relation, error) {
	rows, err := tx.Query(ctx, `SELECT r.source, r.type, t.id, r.properties
		FROM unnest($1::integer[]) AS f (num)
		CROSS JOIN LATERAL (SELECT * FROM relation WHERE source = f.num OFFSET 0) r
		CROSS JOIN LATERAL (SELECT id FROM entity WHERE num = r.target OFFSET 0) t`, nums)
	if err != nil {
		return nil, err
	}
	edges, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (entity.Relation, error) {
		var r entity.Relation
		var source int32
		var properties pgtype.Text
		err := row.Scan(&source, &r.Type, &r.To, &properties)
		if r.From = ids[source]; properties.Valid {
			r.Properties = entity.ParseJSON([]byte(properties.String))
		}
		return r, err
	})
	slices.SortFunc(edges, compareRelations)
	return edges, err
}

func compareRelations(a, b entity.Relation) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Type, b.Type), cmp.Compare(a.To, b.To))
}
