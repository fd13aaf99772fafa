package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// edit makes a batch of one edit of an entity.
func (k *kit) edit(id, typ string, e entity.Edit) *entity.Batch {
	b := &entity.Batch{First: k.next, Committed: 1_700_000_000_000 + int64(k.next)}
	b.Entities = []entity.BatchEntity{{ID: id, Created: 1000, Edited: true, Type: typ, Revision: e.Revision, Deleted: e.Deleted}}
	b.Records = []entity.Record{{Reading: entity.Reading{TS: 5000 + int64(k.next)}, Edit: &e}}
	return b
}

func leaf(s entity.Section, path string, ts int64, v value.Value) entity.AttributeEdit {
	return entity.AttributeEdit{Section: s, Attribute: entity.Attribute{Path: path, TS: ts, Value: v}}
}

func edgeTo(typ, to string) entity.RelationEdit {
	return entity.RelationEdit{Relation: entity.Relation{Type: typ, To: to}}
}

// loadedOfOneCommit loads an entity beside commits: its revision and its attributes are
// always of the same one.
func loadedOfOneCommit(t *testing.T, k *kit) {
	edit := func(n int64) {
		k.commit(k.edit("a", "", entity.Edit{Revision: uint64(n), Attributes: []entity.AttributeEdit{leaf(entity.Attributes, "/n", n, value.Int(n))}}))
	}
	edit(1)
	done := make(chan struct{})
	var loading sync.WaitGroup
	for range 3 {
		loading.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				e, err := k.store.Load(t.Context(), "a")
				if err != nil || len(e.Attributes) != 1 || e.Attributes[0].Value != value.Int(int64(e.Revision)) {
					t.Errorf("loaded %+v, %v", e, err)
					return
				}
			}
		})
	}
	for n := range int64(200) {
		edit(n + 2)
	}
	close(done)
	loading.Wait()
}

func attributesAreKept(t *testing.T, k *kit) {
	values := []value.Value{
		value.Float(21), value.Float(0.1), value.Int(-7), value.Bool(true), value.Bool(false), value.String(""), value.String("nul\x00 é😀"),
		entity.ParseJSON([]byte(`[1,null,{"a":"b"}]`)), entity.ParseJSON([]byte(`{}`)),
	}
	e := entity.Edit{Revision: 3, Typed: true, Type: "Room", Created: true}
	for i, v := range values {
		for _, s := range []entity.Section{entity.Attributes, entity.Desired, entity.Reported} {
			e.Attributes = append(e.Attributes, leaf(s, fmt.Sprintf("/leaf %d/é~1", i), int64(100*i)+int64(s), v))
		}
	}
	k.commit(k.edit("a", "Room", e))
	want := map[string]entity.AttributeEdit{}
	for _, a := range e.Attributes {
		want[fmt.Sprint(a.Section, a.Path)] = a
	}
	check := func(what string, revision uint64, typ string) {
		t.Helper()
		a := k.load("a")
		if a.Type != typ || a.Revision != revision || a.Created != 1000 || a.Num == 0 || len(a.Attributes) != len(want) || len(a.Latest) != 0 {
			t.Errorf("%s: loaded %+v", what, a)
		}
		if !slices.IsSortedFunc(a.Attributes, func(x, y entity.StoredAttribute) int {
			return slices.Compare([]string{fmt.Sprint(x.Section), x.Path}, []string{fmt.Sprint(y.Section), y.Path})
		}) {
			t.Errorf("%s: attributes are not ordered by section and path", what)
		}
		for _, got := range a.Attributes {
			if w := want[fmt.Sprint(got.Section, got.Path)]; w.TS != got.TS || w.Value != got.Value {
				t.Errorf("%s: %v %s is %v at %d, want %v at %d", what, got.Section, got.Path, got.Value, got.TS, w.Value, w.TS)
			}
		}
	}
	check("first", 3, "Room")
	k.reopen()
	check("reopened", 3, "Room")

	// In one batch, in order: what is set and removed again is gone.
	b := k.edit("a", "", entity.Edit{Revision: 5, Typed: true})
	first, second := leaf(entity.Attributes, "/leaf 0/é~1", 900, value.Int(1)), leaf(entity.Attributes, "/x", 901, value.Int(2))
	b.Records = []entity.Record{
		{Edit: &entity.Edit{Revision: 4, Attributes: []entity.AttributeEdit{first, second, leaf(entity.Desired, "/leaf 1/é~1", 902, value.Value{})}}},
		{Edit: &entity.Edit{Revision: 5, Typed: true, Attributes: []entity.AttributeEdit{leaf(entity.Attributes, "/x", 903, value.Value{}), leaf(entity.Reported, "/never was", 1, value.Value{})}}},
	}
	k.commit(b)
	want[fmt.Sprint(first.Section, first.Path)] = first
	delete(want, fmt.Sprint(entity.Desired, "/leaf 1/é~1"))
	check("edited", 5, "")
	// A reading in between leaves type and revision alone.
	k.commit(k.batch(given{id: "b", seq: 1, ts: 1, values: one("t", value.Int(1))}))
	b = k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))})
	k.commit(b)
	if a := k.load("a"); a.Revision != 5 || len(a.Latest) != 1 || len(a.Attributes) != len(want) {
		t.Errorf("after a reading: %+v", a)
	}
}

func entitiesAreFoundByType(t *testing.T, k *kit) {
	for i, id := range []string{"a", "b", "c", "d"} {
		k.commit(k.edit(id, []string{"Room", "Hall", "", "Room"}[i], entity.Edit{Revision: 1, Typed: true}))
	}
	for want, q := range map[string]entity.ListQuery{
		"[a b c d]": {Limit: 10},
		"[a d]":     {Limit: 10, Types: []string{"Room"}},
		"[a b d]":   {Limit: 10, Types: []string{"Hall", "Room"}},
		"[a b]":     {Limit: 2, Types: []string{"Hall", "Room"}},
		"[d]":       {Limit: 2, Types: []string{"Hall", "Room"}, After: "b"},
		"[b]":       {Limit: 2, Types: []string{"Hall", "Room"}, Search: "B"},
		"[]":        {Limit: 2, Types: []string{"Attic"}},
		"[b c]":     {Limit: 2, IDs: []string{"d", "nobody", "c", "b"}},
		"[c d]":     {Limit: 9, IDs: []string{"d", "nobody", "c", "b"}, After: "b"},
		"[b]  ":     {Limit: 9, IDs: []string{"d", "nobody", "c", "b"}, Types: []string{"Hall"}},
	} {
		list, err := k.store.Entities(t.Context(), q)
		got := []string{}
		for _, e := range list {
			got = append(got, e.ID)
		}
		if err != nil || fmt.Sprint(got) != strings.TrimSpace(want) {
			t.Errorf("%+v: %v, %v, want %s", q, got, err, want)
		}
	}
}

// relations returns all edges, by pages.
func (k *kit) relations(limit int) (all []string) {
	k.t.Helper()
	var after entity.Relation
	for {
		page, err := k.store.Relations(k.t.Context(), after, limit)
		if err != nil {
			k.t.Fatalf("relations: %v", err)
		}
		for _, r := range page {
			all = append(all, fmt.Sprintf("%s-%s-%s%s", r.From, r.Type, r.To, r.Properties.Text()))
		}
		if len(page) < limit {
			return all
		}
		after = page[len(page)-1]
	}
}

func relationsAreKept(t *testing.T, k *kit) {
	for _, id := range []string{"a", "b", "B", "é"} {
		k.commit(k.edit(id, "", entity.Edit{Revision: 1}))
	}
	withProperties := edgeTo("in", "b")
	withProperties.Properties = entity.ParseJSON([]byte(`{"since":1}`))
	k.commit(k.edit("a", "", entity.Edit{Revision: 2, Relations: []entity.RelationEdit{withProperties, edgeTo("in", "B"), edgeTo("feeds", "é"), edgeTo("in", "a"), edgeTo("in", "nobody")}}))
	k.commit(k.edit("é", "", entity.Edit{Revision: 2, Relations: []entity.RelationEdit{edgeTo("in", "b")}}))
	want := []string{"a-feeds-é", "a-in-B", "a-in-a", `a-in-b{"since":1}`, "é-in-b"}
	for range 2 {
		for _, limit := range []int{1, 2, 5, 100} {
			if got := k.relations(limit); !slices.Equal(got, want) {
				t.Errorf("limit %d: %q, want %q", limit, got, want)
			}
		}
		k.reopen()
	}
	gone := edgeTo("in", "B")
	gone.Removed = true
	never := edgeTo("never", "B")
	never.Removed = true
	k.commit(k.edit("a", "", entity.Edit{Revision: 3, Relations: []entity.RelationEdit{gone, edgeTo("in", "b"), never}}))
	if got, want := k.relations(10), []string{"a-feeds-é", "a-in-a", "a-in-b", "é-in-b"}; !slices.Equal(got, want) {
		t.Errorf("after an edit: %q, want %q", got, want)
	}
	k.commit(k.edit("b", "", entity.Edit{Revision: 2, Deleted: true}))
	k.commit(k.edit("é", "", entity.Edit{Revision: 3, Deleted: true}))
	if got, want := k.relations(10), []string{"a-in-a"}; !slices.Equal(got, want) {
		t.Errorf("after two ends of them were deleted: %q, want %q", got, want)
	}
}

func deletedEntityIsGone(t *testing.T, k *kit) {
	for i := range uint64(5) {
		k.commit(k.batch(
			given{id: "a", seq: i + 1, ts: int64(i) * 40_000_000, values: one("t", value.Int(int64(i)))},
			given{id: "b", seq: i + 1, ts: int64(i) * 40_000_000, values: one("t", value.Int(int64(i)))},
		))
	}
	k.commit(k.edit("a", "Room", entity.Edit{Revision: 1, Typed: true, Attributes: []entity.AttributeEdit{leaf(entity.Desired, "/x", 1, value.Int(1))}}))
	computed := k.batch(given{id: "a", seq: 6, ts: 9, values: one("c", value.Int(1))})
	computed.Records[0].Origin = entity.Origin{Source: "m", Seq: 1}
	k.commit(computed)
	old := k.load("a").Num
	entities := k.store.Info().Entities
	k.commit(k.edit("a", "", entity.Edit{Revision: 2, Deleted: true}))
	gone := func(what string) {
		t.Helper()
		if _, err := k.store.Load(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("%s: load: %v, want ErrNotFound", what, err)
		}
		if n := k.store.Info().Entities; n != entities-1 {
			t.Errorf("%s: %d entities, want %d", what, n, entities-1)
		}
		if list, err := k.store.Entities(t.Context(), entity.ListQuery{Limit: 10}); err != nil || len(list) != 1 || list[0].ID != "b" {
			t.Errorf("%s: entities %+v, %v", what, list, err)
		}
	}
	gone("deleted")
	k.reopen()
	gone("reopened")
	// One of the same name has nothing of the old one, however long the store
	// takes to remove its history.
	for i := range uint64(8) {
		k.commit(k.batch(given{id: "a", seq: i + 1, ts: 7 + int64(i), values: one("u", value.Int(8))}))
		if got := k.history("a", "t", 0, forever, 10, false); len(got) != 0 {
			t.Fatalf("the new one has the old one's history: %v", got)
		}
		if got, err := k.store.Origins(t.Context(), "a", "c", 0, forever, 10); err != nil || len(got) != 0 {
			t.Fatalf("the new one has the old one's origins: %v, %v", got, err)
		}
		if e := k.load("a"); e.Num == old || e.Type != "" || e.Revision != 0 || len(e.Attributes) != 0 || len(e.Latest) != 1 || len(e.Applied) != 0 {
			t.Fatalf("the new one: %+v", e)
		}
	}
	if got := k.history("b", "t", 0, forever, 10, false); len(got) != 5 {
		t.Errorf("the other one's history has %d points, want 5", len(got))
	}
	// Readings and the end in one batch.
	b := k.edit("a", "", entity.Edit{Revision: 1, Deleted: true})
	b.Records = append([]entity.Record{{Seq: 90, Reading: entity.Reading{TS: 90, Values: one("t", value.Int(1))}}}, b.Records...)
	b.Latest = []entity.LatestRow{{Latest: entity.Latest{Key: "t", TS: 90, Seq: 90, Value: value.Int(1)}}}
	k.commit(b)
	gone("deleted in the batch of its last reading")
}

func computedEditsKeepTheirOrigin(t *testing.T, k *kit) {
	from := entity.Origin{Source: "script é", Seq: 30}
	b := k.edit("a", "Room", entity.Edit{Revision: 1, Typed: true, Type: "Room", Attributes: []entity.AttributeEdit{leaf(entity.Attributes, "/x", 1, value.Int(1))}})
	b.Records[0].Origin = from
	k.commit(b)
	k.commit(k.edit("a", "Room", entity.Edit{Revision: 2}))
	check := func() {
		t.Helper()
		if a := k.load("a"); !slices.Equal(a.Applied, []entity.Origin{from}) || len(a.Attributes) != 1 {
			t.Errorf("applied %v, attributes %v", a.Applied, a.Attributes)
		}
		list, err := k.store.Changes(t.Context(), 0, 10)
		if err != nil || len(list) != 2 || list[0].Origin != from || list[0].Edit == nil || !list[1].Origin.IsZero() {
			t.Errorf("changes %+v, %v", list, err)
		}
	}
	check()
	k.reopen()
	check()
	k.commit(k.edit("a", "", entity.Edit{Revision: 3, Deleted: true}))
	k.commit(k.batch(given{id: "a", seq: 1, ts: 7, values: one("u", value.Int(8))}))
	if a := k.load("a"); len(a.Applied) != 0 {
		t.Errorf("the new one has the old one's %v", a.Applied)
	}
}

func computedReadingsKeepTheirOrigin(t *testing.T, k *kit) {
	m := func(n uint64) entity.Origin { return entity.Origin{Source: "mapping é", Seq: n} }
	commit := func(seq uint64, ts int64, o entity.Origin, late bool) {
		b := k.batch(given{id: "a", seq: seq, ts: ts, values: one("t", value.Int(int64(seq))), late: late})
		b.Records[0].Origin = o
		for i := range b.Latest {
			b.Latest[i].Origin = o
		}
		k.commit(b)
	}
	commit(1, 1000, m(10), false)
	commit(2, 2000, m(20), false)
	commit(3, 3000, entity.Origin{}, false)
	commit(4, 500, m(30), true)
	for range 2 {
		a := k.load("a")
		if want := []entity.Origin{m(30)}; !slices.Equal(a.Applied, want) {
			t.Errorf("applied %v, want %v", a.Applied, want)
		}
		if o := a.Latest[0].Origin; !o.IsZero() {
			t.Errorf("a device's latest value has the origin %v", o)
		}
		got, err := k.store.Origins(t.Context(), "a", "t", 0, 2001, 10)
		want := []entity.PointOrigin{{TS: 500, Origin: m(30)}, {TS: 1000, Origin: m(10)}, {TS: 2000, Origin: m(20)}}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("origins %v, %v, want %v", got, err, want)
		}
		k.reopen()
	}
	commit(5, 4000, entity.Origin{Source: "other", Seq: 1}, false)
	commit(6, 4000, m(40), false)
	a := k.load("a")
	if want := []entity.Origin{m(40), {Source: "other", Seq: 1}}; !slices.Equal(a.Applied, want) || a.Latest[0].Origin != m(40) {
		t.Errorf("applied %v, latest %+v", a.Applied, a.Latest)
	}
	if got, err := k.store.Origins(t.Context(), "a", "t", 2001, forever, 1); err != nil || len(got) != 1 || got[0] != (entity.PointOrigin{TS: 4000, Origin: m(40)}) {
		t.Errorf("origins %v, %v", got, err)
	}
}

func editsAreInTheChangeLog(t *testing.T, k *kit) {
	edits := []entity.Edit{
		{Revision: 1, Created: true},
		{
			Revision: 2, Typed: true, Type: "Room",
			Attributes: []entity.AttributeEdit{leaf(entity.Attributes, "/a", 7, value.Float(1.5)), leaf(entity.Reported, "/b", 8, value.Value{})},
			Relations: []entity.RelationEdit{
				{Relation: entity.Relation{From: "a", Type: "in", To: "a", Properties: entity.ParseJSON([]byte(`{"x":1}`))}},
				{Relation: entity.Relation{From: "a", Type: "in", To: "b"}, Removed: true},
			},
		},
		{Revision: 3, Deleted: true},
	}
	for i := range edits {
		k.commit(k.edit("a", "Room", edits[i]))
		b := k.batch(given{id: "z", seq: uint64(i + 1), ts: int64(i), values: one("t", value.Int(int64(i)))})
		b.Records[0].Origin = entity.Origin{Source: "m", Seq: uint64(i + 1)}
		k.commit(b)
	}
	for range 2 {
		changes, err := k.store.Changes(t.Context(), 0, 100)
		if err != nil || len(changes) != 2*len(edits) {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		for i := range edits {
			c, r := changes[2*i], changes[2*i+1]
			if c.Entity != "a" || c.TS != 5001+int64(2*i) || len(c.Values) != 0 || c.Edit == nil || !reflect.DeepEqual(*c.Edit, edits[i]) {
				t.Errorf("change %d: %+v with %+v, want %+v", c.Seq, c, c.Edit, edits[i])
			}
			if r.Edit != nil || r.Origin != (entity.Origin{Source: "m", Seq: uint64(i + 1)}) || len(r.Values) != 1 {
				t.Errorf("change %d: %+v", r.Seq, r)
			}
		}
		k.reopen()
	}
}

func documentsAreKept(t *testing.T, k *kit) {
	ctx := t.Context()
	put := func(kind, id, body, condition string) entity.Doc {
		t.Helper()
		d, err := k.store.PutDoc(ctx, entity.Doc{Kind: kind, ID: id, Body: []byte(body)}, condition)
		if err != nil {
			t.Fatalf("put %s %s: %v", kind, id, err)
		}
		return d
	}
	fails := func(target, err error, what string) {
		t.Helper()
		if !errors.Is(err, target) {
			t.Errorf("%s: %v, want %v", what, err, target)
		}
	}
	first := put("type", "Room", "one", entity.IfNone)
	put("type", "Älter", "", "")
	put("mapping", "Room", "other\x00", "")
	_, err := k.store.PutDoc(ctx, entity.Doc{Kind: "type", ID: "Room"}, entity.IfNone)
	fails(entity.ErrConflict, err, "put where nothing should be")
	second := put("type", "Room", "two", first.ETag())
	if second.Version <= first.Version || second.ETag() == first.ETag() {
		t.Errorf("versions %d and %d", first.Version, second.Version)
	}
	_, err = k.store.PutDoc(ctx, entity.Doc{Kind: "type", ID: "Room", Body: []byte("three")}, first.ETag())
	fails(entity.ErrConflict, err, "put with an old version")
	_, err = k.store.PutDoc(ctx, entity.Doc{Kind: "type", ID: "Hall"}, entity.IfAny)
	fails(entity.ErrNotFound, err, "put where something should be")
	for range 2 {
		docs, err := k.store.Docs(ctx, "type", "", 10)
		if err != nil || len(docs) != 2 || docs[0].ID != "Room" || docs[1].ID != "Älter" || string(docs[0].Body) != "two" || docs[0].Updated == 0 {
			t.Errorf("documents %+v, %v", docs, err)
		}
		if d, err := k.store.Doc(ctx, "mapping", "Room"); err != nil || string(d.Body) != "other\x00" || d.Version == 0 {
			t.Errorf("document %+v, %v", d, err)
		}
		_, err = k.store.Doc(ctx, "type", "room")
		fails(entity.ErrNotFound, err, "a document that never was")
		k.reopen()
	}
	fails(entity.ErrConflict, k.store.DeleteDoc(ctx, "type", "Room", first.ETag()), "delete with an old version")
	fails(entity.ErrNotFound, k.store.DeleteDoc(ctx, "type", "Hall", ""), "delete nothing")
	if err := k.store.DeleteDoc(ctx, "type", "Room", second.ETag()); err != nil {
		t.Error(err)
	}
	_, err = k.store.Doc(ctx, "type", "Room")
	fails(entity.ErrNotFound, err, "a deleted document")
	if again := put("type", "Room", "two", entity.IfNone); again.Version <= second.Version {
		t.Errorf("the version %d comes after a deleted one's %d", again.Version, second.Version)
	}
}

// A page of documents ends by its number and by the bytes of its bodies, and has one at least.
func documentsComeInPages(t *testing.T, k *kit) {
	const quarter = entity.DocsBytes / 4
	size := map[string]int{"a": 10, "b": 2 * quarter, "c": 2*quarter - 10, "d": quarter, "e": 3 * quarter, "f": 4 * quarter, "g": 0}
	for id, n := range size {
		if _, err := k.store.PutDoc(t.Context(), entity.Doc{Kind: "paged", ID: id, Body: make([]byte, n)}, ""); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		after string
		limit int
		want  string
	}{{"", 2, "ab"}, {"", 10, "abc"}, {"a", 10, "bc"}, {"bb", 1, "c"}, {"c", 10, "de"}, {"d", 10, "e"}, {"e", 10, "fg"}, {"g", 10, ""}} {
		page, err := k.store.Docs(t.Context(), "paged", tt.after, tt.limit)
		var ids []string
		for i := range page {
			ids = append(ids, page[i].ID)
			if len(page[i].Body) != size[page[i].ID] || page[i].Version == 0 {
				t.Errorf("%s has %d bytes and the version %d", page[i].ID, len(page[i].Body), page[i].Version)
			}
		}
		if got := strings.Join(ids, ""); err != nil || got != tt.want {
			t.Errorf("%d after %q: %q, %v; want %q", tt.limit, tt.after, got, err, tt.want)
		}
	}
}

func historyIsTrimmed(t *testing.T, k *kit) {
	const n = 50
	var readings []given
	for i := range uint64(n) {
		readings = append(readings, given{id: "a", seq: i + 1, ts: int64(i) * 1_000_000, values: []entity.Sample{{Key: "t", Value: value.Int(int64(i))}, {Key: "u", Value: value.Int(1)}}},
			given{id: "b", seq: i + 1, ts: int64(i) * 1_000_000, values: one("t", value.Int(1))})
	}
	k.commit(k.batch(readings...))
	const before = 30 * 1_000_000
	for _, want := range []int{20, 10, 0} {
		if got, err := k.store.Trim(t.Context(), "a", "t", before, 20); err != nil || got != want {
			t.Errorf("trimmed %d, %v, want %d", got, err, want)
		}
	}
	if got := k.history("a", "t", 0, forever, n, false); len(got) != n-30 || got[0].TS != before {
		t.Errorf("%d points are left, from %v", len(got), got[0])
	}
	if got, err := k.store.Trim(t.Context(), "a", "t", forever, n); err != nil || got != n-30 {
		t.Errorf("trimmed %d, %v", got, err)
	}
	if a := k.load("a"); len(a.Latest) != 2 || a.Latest[0].TS != (n-1)*1_000_000 {
		t.Errorf("the latest values are %+v", a.Latest)
	}
	for _, other := range [][2]string{{"a", "u"}, {"b", "t"}} {
		if got := k.history(other[0], other[1], 0, forever, n, false); len(got) != n {
			t.Errorf("%v has %d points, want %d", other, len(got), n)
		}
	}
	if got, err := k.store.Trim(t.Context(), "nobody", "t", forever, n); err != nil || got != 0 {
		t.Errorf("of nobody: %d, %v", got, err)
	}
}
