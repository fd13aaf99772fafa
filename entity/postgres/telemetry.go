package postgres

import (
	"cmp"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// telemetryRow is a row of the table telemetry.
type telemetryRow struct {
	ts          int64
	seq         uint64 // see entity.Place
	entity, key int32
	order       int // in the batch
	value       value.Value
	origin      *entity.Origin // owned by the batch
}

// telemetryColumns are the columns of the table, in the order of Values.
var telemetryColumns = []string{"ts", "entity", "key", "number", "whole", "text", "json", "origin", "seq"}

// history creates the rows of the telemetry, for each entity, key and place the last one. They are
// sorted like the index, so that insertions proceed along it.
func (t *transaction) history() {
	n := 0
	for i := range t.b.Records {
		n += len(t.b.Records[i].Values)
	}
	t.rows = slices.Grow(t.w.rows[:0], n)
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit != nil || r.Command != nil || r.Presence != nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		for j := range r.Values {
			t.rows = append(t.rows, telemetryRow{r.TS, r.Place().Seq, t.nums[r.Entity], t.key(r.Values[j].Key), len(t.rows), r.Values[j].Value, &r.Origin})
		}
	}
	slices.SortFunc(t.rows, func(a, b telemetryRow) int {
		return cmp.Or(cmp.Compare(a.entity, b.entity), cmp.Compare(a.key, b.key), cmp.Compare(a.ts, b.ts), cmp.Compare(a.seq, b.seq), cmp.Compare(a.order, b.order))
	})
	kept := t.rows[:0]
	for i := range t.rows {
		if n := len(kept); n > 0 && kept[n-1].same(&t.rows[i]) {
			kept = kept[:n-1]
		}
		kept = append(kept, t.rows[i])
	}
	clear(t.rows[len(kept):])
	t.rows = kept
}

func (r *telemetryRow) same(o *telemetryRow) bool {
	return r.entity == o.entity && r.key == o.key && r.ts == o.ts && r.seq == o.seq
}

// copySource is the source of a COPY.
type copySource struct {
	rows   []telemetryRow // the remaining ones; after Next, the first is the current one
	began  bool
	values [9]any
}

// Next advances to the next row.
func (c *copySource) Next() bool {
	if c.began {
		c.rows = c.rows[1:]
	}
	c.began = true
	return len(c.rows) > 0
}

// Values returns the current row, in the order of telemetryColumns. nil means NULL: all but one of
// the columns of a value are.
func (c *copySource) Values() ([]any, error) {
	r := &c.rows[0]
	c.values = [9]any{r.ts, r.entity, r.key, 8: int64(r.seq)}
	switch v := columnsOf(r.value); {
	case v.number.Valid:
		c.values[3] = v.number.Float64
	case v.whole.Valid:
		c.values[4] = v.whole.Int64
	case v.text.Valid:
		c.values[5] = v.text.String
	default:
		c.values[6] = v.json.String
	}
	if !r.origin.IsZero() {
		c.values[7] = packOrigin(*r.origin)
	}
	return c.values[:], nil
}

// Err returns nil: a copySource does not fail.
func (c *copySource) Err() error { return nil }

// merge writes the rows, replacing existing ones.
func (t *transaction) merge(rows *pgx.Batch) {
	n := len(t.rows)
	if n == 0 {
		return
	}
	ts, seqs, entities, keys, origins := make([]int64, n), make([]int64, n), make([]int32, n), make([]int32, n), make([][]byte, n)
	values := newColumnArrays(n)
	for i := range t.rows {
		r := &t.rows[i]
		ts[i], seqs[i], entities[i], keys[i], origins[i] = r.ts, int64(r.seq), r.entity, r.key, packOrigin(*r.origin)
		values.add(columnsOf(r.value))
	}
	rows.Queue(`INSERT INTO telemetry (ts, entity, key, number, whole, text, json, origin, seq)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[], $4::double precision[], $5::bigint[], $6::text[], $7::text[], $8::bytea[], $9::bigint[])
		ON CONFLICT (entity, key, ts, seq) DO UPDATE SET number = excluded.number, whole = excluded.whole, text = excluded.text,
			json = excluded.json, origin = excluded.origin`,
		ts, entities, keys, values.number, values.whole, values.text, values.json, origins, seqs)
}
