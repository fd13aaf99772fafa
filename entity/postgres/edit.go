package postgres

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/greenroom-go/greenroom/entity"
)

// attributeKey and relationKey identify what an edit sets: of several edits in a batch, only the
// last is written.
type attributeKey struct {
	entity  int32
	section entity.Section
	path    string
}

type relationKey struct {
	source, target int32
	kind           string
}

// origins writes the last sequence of each source of computed readings.
func (t *transaction) origins(rows *pgx.Batch) {
	type key struct {
		entity int32
		source string
	}
	last := make(map[key]uint64)
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Origin.IsZero() || t.b.Entities[r.Entity].Deleted {
			continue
		}
		k := key{t.nums[r.Entity], r.Origin.Source}
		last[k] = max(last[k], r.Origin.Seq)
	}
	if len(last) == 0 {
		return
	}
	entities, sources, seqs := make([]int32, 0, len(last)), make([][]byte, 0, len(last)), make([]int64, 0, len(last))
	for k, seq := range last {
		entities, sources, seqs = append(entities, k.entity), append(sources, []byte(k.source)), append(seqs, int64(seq))
	}
	rows.Queue(`INSERT INTO applied (entity, source, n) SELECT * FROM unnest($1::integer[], $2::bytea[], $3::bigint[])
		ON CONFLICT (entity, source) DO UPDATE SET n = greatest(applied.n, excluded.n)`, entities, sources, seqs)
}

// edits writes the edits of the batch: the final state of each leaf and each edge.
func (t *transaction) edits(rows *pgx.Batch) {
	attributes := make(map[attributeKey]*entity.Attribute)
	relations := make(map[relationKey]*entity.RelationEdit)
	for i := range t.b.Records {
		r := &t.b.Records[i]
		if r.Edit == nil || t.b.Entities[r.Entity].Deleted {
			continue
		}
		num := t.nums[r.Entity]
		for j := range r.Edit.Attributes {
			a := &r.Edit.Attributes[j]
			attributes[attributeKey{num, a.Section, a.Path}] = &a.Attribute
		}
		for j := range r.Edit.Relations {
			e := &r.Edit.Relations[j]
			if target := t.targets[e.To]; target != 0 { // or it has been deleted since
				relations[relationKey{num, target, e.Type}] = e
			}
		}
	}
	t.attributes(rows, attributes)
	t.relations(rows, relations)
	t.headers(rows)
}

func (t *transaction) attributes(rows *pgx.Batch, edits map[attributeKey]*entity.Attribute) {
	var entities, gone []int32
	var sections, goneSections []int16
	var paths, gonePaths []string
	var ts []int64
	var values columnArrays
	for k, a := range edits {
		if a.Value.Kind() == 0 {
			gone, goneSections, gonePaths = append(gone, k.entity), append(goneSections, int16(k.section)), append(gonePaths, k.path)
			continue
		}
		entities, sections, paths = append(entities, k.entity), append(sections, int16(k.section)), append(paths, k.path)
		ts = append(ts, a.TS)
		values.add(columnsOf(a.Value))
	}
	if len(gone) > 0 {
		rows.Queue(`DELETE FROM attribute a USING unnest($1::integer[], $2::smallint[], $3::text[]) AS g (entity, section, path)
			WHERE a.entity = g.entity AND a.section = g.section AND a.path = g.path`, gone, goneSections, gonePaths)
	}
	if len(entities) > 0 {
		rows.Queue(`INSERT INTO attribute (entity, section, path, ts, number, whole, text, json)
			SELECT * FROM unnest($1::integer[], $2::smallint[], $3::text[], $4::bigint[], $5::double precision[], $6::bigint[], $7::text[], $8::text[])
			ON CONFLICT (entity, section, path) DO UPDATE SET ts = excluded.ts, number = excluded.number, whole = excluded.whole,
				text = excluded.text, json = excluded.json`,
			entities, sections, paths, ts, values.number, values.whole, values.text, values.json)
	}
}

func (t *transaction) relations(rows *pgx.Batch, edits map[relationKey]*entity.RelationEdit) {
	var sources, targets, goneSources, goneTargets []int32
	var kinds, goneKinds []string
	var properties []pgtype.Text
	for k, e := range edits {
		if e.Removed {
			goneSources, goneTargets, goneKinds = append(goneSources, k.source), append(goneTargets, k.target), append(goneKinds, k.kind)
			continue
		}
		sources, targets, kinds = append(sources, k.source), append(targets, k.target), append(kinds, k.kind)
		properties = append(properties, pgtype.Text{String: e.Properties.Text(), Valid: e.Properties.Kind() != 0})
	}
	if len(goneSources) > 0 {
		rows.Queue(`DELETE FROM relation r USING unnest($1::integer[], $2::integer[], $3::text[]) AS g (source, target, type)
			WHERE r.source = g.source AND r.target = g.target AND r.type = g.type`, goneSources, goneTargets, goneKinds)
	}
	if len(sources) > 0 {
		rows.Queue(`INSERT INTO relation (source, target, type, properties) SELECT * FROM unnest($1::integer[], $2::integer[], $3::text[], $4::text[])
			ON CONFLICT (source, type, target) DO UPDATE SET properties = excluded.properties`, sources, targets, kinds, properties)
	}
}

// headers writes the types and revisions of edited entities.
func (t *transaction) headers(rows *pgx.Batch) {
	var nums []int32
	var types []pgtype.Text
	var revisions []int64
	for i := range t.b.Entities {
		if e := &t.b.Entities[i]; e.Edited && !e.Deleted {
			nums, revisions = append(nums, t.nums[i]), append(revisions, int64(e.Revision))
			types = append(types, pgtype.Text{String: e.Type, Valid: e.Type != ""})
		}
	}
	if len(nums) > 0 {
		rows.Queue(`UPDATE entity e SET type = n.type, revision = n.revision
			FROM unnest($1::integer[], $2::text[], $3::bigint[]) AS n (num, type, revision) WHERE e.num = n.num`, nums, types, revisions)
	}
}

// deletions deletes entities. Their history can no longer be found, and is removed by purge.
func (t *transaction) deletions(rows *pgx.Batch) {
	var nums []int32
	for i := range t.b.Entities {
		if t.b.Entities[i].Deleted && t.nums[i] != 0 {
			nums = append(nums, t.nums[i])
		}
	}
	if len(nums) == 0 {
		return
	}
	for _, sql := range [...]string{
		"DELETE FROM latest WHERE entity = ANY($1)",
		"DELETE FROM attribute WHERE entity = ANY($1)",
		"DELETE FROM command WHERE entity = ANY($1)",
		"DELETE FROM relation WHERE source = ANY($1)",
		"DELETE FROM relation WHERE target = ANY($1)",
		"DELETE FROM applied WHERE entity = ANY($1)",
		"DELETE FROM entity WHERE num = ANY($1)",
		"INSERT INTO doomed (num) SELECT unnest($1::integer[]) ON CONFLICT DO NOTHING",
	} {
		rows.Queue(sql, nums)
	}
	t.next.entities -= int64(len(nums))
	t.doomed = true
}
