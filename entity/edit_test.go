package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
)

func merge(s entity.Section, doc string) entity.Patch {
	return entity.Patch{Section: s, Form: entity.MergePatch, Body: []byte(doc)}
}

func (s *stage) edit(id string, e entity.Edits) entity.Edited {
	s.t.Helper()
	done, err := s.Edit(s.t.Context(), id, e)
	if err != nil {
		s.t.Fatalf("edit %q: %v", id, err)
	}
	return done
}

func (s *stage) patch(id string, sec entity.Section, doc string) entity.Edited {
	s.t.Helper()
	return s.edit(id, entity.Edits{Patches: []entity.Patch{merge(sec, doc)}})
}

// document returns a section of an entity as JSON.
func (s *stage) document(id string, sec entity.Section) string {
	s.t.Helper()
	snap := s.entity(id)
	return string(entity.AppendAttributes(nil, snap.Section(sec)))
}

func TestAttributesAreDurableOnceEdited(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	done := s.patch("room", entity.Attributes, `{"location":{"floor":2,"wing":"east"},"tags":["a","b"]}`)
	if !done.Created || done.ETag == "" || len(done.Attributes) != 3 {
		t.Errorf("the first edit did %+v", done)
	}
	again := s.edit("room", entity.Edits{If: done.ETag, Patches: []entity.Patch{
		merge(entity.Desired, `{"led":true}`), merge(entity.Reported, `{"led":false}`),
		{Section: entity.Attributes, Form: entity.JSONPatch, Body: []byte(`[{"op":"add","path":"/tags/0","value":"z"},{"op":"remove","path":"/location/wing"}]`)},
	}})
	if again.Created || again.ETag == done.ETag {
		t.Errorf("the second edit did %+v", again)
	}
	s.write("room", at(5, "t", value.Int(1)))
	for range 2 {
		snap := s.entity("room")
		if got := s.document("room", entity.Attributes); got != `{"location":{"floor":2},"tags":["z","a","b"]}` {
			t.Errorf("attributes %s", got)
		}
		if got := string(entity.AppendAttributes(nil, entity.Delta(snap.Section(entity.Desired), snap.Section(entity.Reported)))); got != `{"led":true}` {
			t.Errorf("delta %s", got)
		}
		if snap.ETag != again.ETag || len(snap.Latest) != 1 || snap.Created == 0 {
			t.Errorf("snapshot %+v, want the ETag %s", snap, again.ETag)
		}
		for _, a := range snap.Attributes {
			if a.TS < snap.Created-1000 || a.TS > snap.Created+600_000 {
				t.Errorf("leaf %+v was not set now", a)
			}
		}
		page, _, err := s.Entities(t.Context(), entity.Page{})
		if err != nil || len(page) != 1 || page[0].ETag != again.ETag || len(page[0].Attributes) != len(snap.Attributes) {
			t.Errorf("page %+v, %v", page, err)
		}
		s = s.reopen(entity.Config{})
	}
}

func TestEditWithAnotherETagIsAConflictAndChangesNothing(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	first := s.edit("a", entity.Edits{If: entity.IfNone, Patches: []entity.Patch{merge(entity.Attributes, `{"n":1}`)}})
	second := s.edit("a", entity.Edits{If: first.ETag, Patches: []entity.Patch{merge(entity.Attributes, `{"n":2}`)}})
	for _, tt := range []struct {
		id, condition string
		want          error
	}{
		{"a", first.ETag, entity.ErrConflict},
		{"a", "nonsense", entity.ErrConflict},
		{"a", entity.IfNone, entity.ErrConflict},
		{"b", entity.IfAny, entity.ErrNotFound},
		{"b", first.ETag, entity.ErrNotFound},
	} {
		_, err := s.Edit(t.Context(), tt.id, entity.Edits{If: tt.condition, Patches: []entity.Patch{merge(entity.Attributes, `{"n":3}`)}})
		if !errors.Is(err, tt.want) {
			t.Errorf("edit %q if %q: %v, want %v", tt.id, tt.condition, err, tt.want)
		}
	}
	if got := s.document("a", entity.Attributes); got != `{"n":2}` {
		t.Errorf("attributes %s", got)
	}
	if _, err := s.Entity(t.Context(), "b"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("the refused edit left an entity: %v", err)
	}
	if done := s.edit("a", entity.Edits{If: second.ETag}); done.ETag != second.ETag {
		t.Errorf("an edit that says nothing gave the ETag %s, was %s", done.ETag, second.ETag)
	}
	if done := s.patch("a", entity.Attributes, `{}`); done.ETag != second.ETag {
		t.Errorf("an empty patch gave the ETag %s, was %s", done.ETag, second.ETag)
	}
	if done := s.edit("empty", entity.Edits{}); !done.Created {
		t.Errorf("an entity of nothing: %+v", done)
	}
	if snap := s.entity("empty"); snap.Created == 0 {
		t.Errorf("an entity of nothing: %+v", snap)
	}
}

// Many clients that read, compute and write with If-Match: each increment counts.
func TestConditionalEditsLoseNoUpdate(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{BatchDelay: -1})
	s.patch("counter", entity.Attributes, `{"n":0}`)
	const clients, times = 8, 25
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for done := 0; done < times; {
				snap, err := s.Entity(t.Context(), "counter")
				if err != nil {
					t.Error(err)
					return
				}
				n := snap.Section(entity.Attributes)[0].Value.Int()
				_, err = s.Edit(t.Context(), "counter", entity.Edits{If: snap.ETag, Patches: []entity.Patch{merge(entity.Attributes, fmt.Sprintf(`{"n":%d}`, n+1))}})
				switch {
				case err == nil:
					done++
				case !errors.Is(err, entity.ErrConflict):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got, want := s.document("counter", entity.Attributes), fmt.Sprintf(`{"n":%d}`, clients*times); got != want {
		t.Errorf("counted %s, want %s", got, want)
	}
}

func TestBadEditsAreRefusedWithoutATrace(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	var many strings.Builder
	for i := range entity.MaxAttributes + 1 {
		fmt.Fprintf(&many, `,"k%d":1`, i)
	}
	typ := "no such type"
	for name, e := range map[string]entity.Edits{
		"no section":           {Patches: []entity.Patch{merge(0, `{"a":1}`)}},
		"no form":              {Patches: []entity.Patch{{Section: entity.Desired, Form: 9, Body: []byte(`{}`)}}},
		"not JSON":             {Patches: []entity.Patch{merge(entity.Desired, `{"a"`)}},
		"not UTF-8":            {Patches: []entity.Patch{merge(entity.Desired, "{\"a\":\"\xff\"}")}},
		"the second is bad":    {Patches: []entity.Patch{merge(entity.Desired, `{"a":1}`), merge(entity.Reported, `[]`)}},
		"too many leaves":      {Patches: []entity.Patch{merge(entity.Desired, "{"+many.String()[1:]+"}")}},
		"too large":            {Patches: []entity.Patch{merge(entity.Desired, `{"a":"`+strings.Repeat("x", entity.MaxPatchBytes)+`"}`)}},
		"a long path":          {Patches: []entity.Patch{merge(entity.Desired, `{"`+strings.Repeat("x", entity.MaxPathBytes)+`":1}`)}},
		"null that would stay": {Patches: []entity.Patch{{Section: entity.Desired, Form: entity.Replace, Body: []byte(`{"a":null}`)}}},
		"relation to a bad id": {Relate: []entity.Relation{{Type: "in", To: "a/b"}}},
		"relation of no type":  {Relate: []entity.Relation{{To: "b"}}},
		"bad properties":       {Relate: []entity.Relation{{Type: "in", To: "b", Properties: value.Int(1)}}},
		"unknown type":         {Type: &typ},
	} {
		if _, err := s.Edit(t.Context(), "a", e); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := s.Edit(t.Context(), "a", entity.Edits{Relate: []entity.Relation{{Type: "in", To: "nobody"}}}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("a relation to nobody: %v, want ErrNotFound", err)
	}
	if _, err := s.Edit(t.Context(), "a/b", entity.Edits{}); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("a bad id: %v", err)
	}
	if _, err := s.Entity(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("they left an entity: %v", err)
	}
	s.untilIdle()
}

func TestEditsAreInTheStreamOfThoseWhoAskForThem(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	from := s.subscribe(entity.ChangesQuery{}).Cursor()
	live := s.subscribe(entity.ChangesQuery{Edits: true})
	readings := s.subscribe(entity.ChangesQuery{})
	s.patch("a", entity.Desired, `{"x":{"y":1}}`)
	s.write("a", at(7, "t", value.Int(1)))
	s.patch("a", entity.Desired, `{"x":null}`)
	if err := s.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	check := func(what string, sub *entity.Subscription) {
		t.Helper()
		var seq uint64
		for i, want := range []string{"[{desired {/x/y set}}]", "reading", "[{desired {/x/y removed}}]", "deleted"} {
			c := next(t, sub)
			got := "reading"
			if c.Edit != nil {
				got = "["
				for _, a := range c.Edit.Attributes {
					how := "set"
					if a.Removed() {
						how = "removed"
					}
					got += fmt.Sprintf("{%v {%s %s}}", a.Section, a.Path, how)
				}
				got += "]"
				if c.Edit.Deleted {
					got = "deleted"
				}
			}
			if got != want || c.Entity != "a" || i > 0 && c.Seq != seq+1 {
				t.Errorf("%s: change %d is %s (%d), want %s", what, i, got, c.Seq, want)
			}
			seq = c.Seq
		}
		nothing(t, sub)
	}
	check("live", live)
	check("resumed", s.subscribe(entity.ChangesQuery{Cursor: from, Edits: true}))
	if c := next(t, readings); c.TS != 7 || c.Edit != nil {
		t.Errorf("who wants readings only got %+v", c)
	}
	nothing(t, readings)
}

func TestDeletedEntityIsGoneAndComesBackAsAnother(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	first := s.patch("a", entity.Attributes, `{"n":1}`)
	s.write("a", at(1, "t", value.Int(1)))
	if err := s.Delete(t.Context(), "a", "other"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("delete with another ETag: %v", err)
	}
	if err := s.Delete(t.Context(), "a", first.ETag); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := s.Entity(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("entity: %v", err)
		}
		if err := s.Delete(t.Context(), "a", ""); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("delete again: %v", err)
		}
		if _, _, err := s.History(t.Context(), entity.HistoryQuery{ID: "a", Key: "t"}); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("history: %v", err)
		}
		s = s.reopen(entity.Config{})
	}
	s.write("a", at(2, "u", value.Int(2)))
	snap := s.entity("a")
	if len(snap.Latest) != 1 || len(snap.Attributes) != 0 || snap.ETag == first.ETag {
		t.Errorf("the new one is %+v", snap)
	}
	if n := s.Stats().Registered; n != 1 {
		t.Errorf("%d are registered", n)
	}
	if got := s.history("a", "u"); len(got) != 1 {
		t.Errorf("its history is %v", got)
	}
}

// Readings, ends and readings again of one entity may gather for one commit.
func TestEntityThatEndsAndGoesOnWhileACommitRunsKeepsTheOrder(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	settled := newSettlements(t)
	if err := settled.ingest(t.Context(), s, "holds the commit", "other", at(1, "t", value.Int(1))); err != nil {
		t.Fatal(err)
	}
	wait(t, g.came, "the commit")
	var wg sync.WaitGroup
	gone := make(chan error, 2)
	for i := range int64(3) {
		if err := settled.ingest(t.Context(), s, fmt.Sprint(i), "a", at(i, fmt.Sprintf("life %d", i), value.Int(i))); err != nil {
			t.Fatal(err)
		}
		s.taken("a") // the reading has been taken in
		if i < 2 {
			wg.Go(func() { gone <- s.Delete(context.Background(), "a", "") })
			for {
				if _, err := s.Accepted(t.Context(), "a"); err != nil {
					break // the end has been taken in
				}
			}
		}
	}
	g.open()
	wg.Wait()
	settled.wait()
	for range 2 {
		if err := <-gone; err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if snap := s.entity("a"); len(snap.Latest) != 1 || snap.Latest[0].Key != "life 2" {
			t.Errorf("the entity is %+v", snap)
		}
		if got := s.history("a", "life 1"); len(got) != 0 {
			t.Errorf("it has the history of an earlier life: %v", got)
		}
		if got := s.history("a", "life 2"); len(got) != 1 {
			t.Errorf("it has not its own history: %v", got)
		}
		s = s.reopen(entity.Config{})
	}
}

func TestComputedReadingIsKeptOnceWithItsOrigin(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	from := func(seq uint64, ts int64) error {
		settled := make(chan error, 1)
		o := entity.Origin{Source: "mapping", Seq: seq}
		if err := s.IngestFrom(t.Context(), "a", o, []entity.Reading{at(ts, "t", value.Int(ts))}, 50, func(err error) { settled <- err }); err != nil {
			return err
		}
		return wait(t, settled, "the commit")
	}
	sub := s.subscribe(entity.ChangesQuery{})
	for i, ts := range []int64{10, 20, 30} {
		if err := from(uint64(i+5), ts); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for seq := uint64(5); seq < 8; seq++ { // again, and now it would say something else
			if err := from(seq, 99); err != nil {
				t.Fatal(err)
			}
		}
		if l := s.latest("a", "t"); l.TS != 30 || l.Origin != (entity.Origin{Source: "mapping", Seq: 7}) {
			t.Errorf("latest %+v", l)
		}
		if got := s.history("a", "t"); len(got) != 3 {
			t.Errorf("history %v", got)
		}
		s = s.reopen(entity.Config{})
	}
	for i := range uint64(3) {
		if c := next(t, sub); c.Origin != (entity.Origin{Source: "mapping", Seq: i + 5}) {
			t.Errorf("change %+v", c)
		}
	}
	origins, err := s.Origins(t.Context(), entity.HistoryQuery{ID: "a", Key: "t", From: 11})
	if err != nil || fmt.Sprint(origins) != "[{20 {mapping 6}} {30 {mapping 7}}]" {
		t.Errorf("origins %v, %v", origins, err)
	}
	s.write("a", at(40, "t", value.Int(40)))
	if l := s.latest("a", "t"); !l.Origin.IsZero() {
		t.Errorf("a device's value has the origin %+v", l)
	}
	for name, o := range map[string]entity.Origin{
		"no sequence": {Source: "m"}, "no source": {Seq: 1}, "a long name": {Source: strings.Repeat("x", entity.MaxSourceBytes+1), Seq: 1}, "a huge sequence": {Source: "m", Seq: 1 << 63},
	} {
		if err := s.IngestFrom(t.Context(), "a", o, []entity.Reading{at(1, "t", value.Int(1))}, 50, nil); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// A repetition says nothing about whether the first one is durable: it waits for
// it.
func TestRepetitionIsAcknowledgedAfterWhatItRepeats(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	var order []string
	settled := make(chan string, 2)
	for _, name := range []string{"first", "again"} {
		err := s.IngestFrom(t.Context(), "a", entity.Origin{Source: "m", Seq: 1}, []entity.Reading{at(1, "t", value.Int(1))}, 50, func(err error) {
			if err != nil {
				t.Error(err)
			}
			settled <- name
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wait(t, g.came, "the commit")
	s.taken("a") // both have been taken in
	select {
	case name := <-settled:
		t.Errorf("%s was acknowledged before the commit", name)
	default:
	}
	g.open()
	for range 2 {
		order = append(order, wait(t, settled, "the acknowledgements"))
	}
	if fmt.Sprint(order) != "[first again]" {
		t.Errorf("acknowledged %v", order)
	}
}

func TestViewReadsAnEntityInItsTurnAndScanReadsAllWithoutBringingThemToLife(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.patch("b", entity.Attributes, `{"x":{"y":"z"},"list":[1]}`)
	s.write("a", at(5, "t", value.Int(1)), at(6, "u", value.Float(2.5)))
	s.edit("a", entity.Edits{Relate: []entity.Relation{{Type: "in", To: "b"}}, Patches: []entity.Patch{merge(entity.Reported, `{"r":true}`)}})
	check := func(v entity.View) {
		t.Helper()
		var all []string
		for l := range v.EachLatest() {
			all = append(all, l.Key)
		}
		for a := range v.EachAttribute(entity.Attributes) {
			all = append(all, a.Path)
		}
		for r := range v.Relations(entity.Both) {
			all = append(all, r.From+">"+r.To)
		}
		want := map[string]string{"a": "[t u a>b]", "b": "[/list /x/y a>b]"}[v.ID()]
		if fmt.Sprint(all) != want || v.Created() == 0 || v.ETag() == "" || v.Type() != "" || v.IsA("") {
			t.Errorf("%s has %v, want %s", v.ID(), all, want)
		}
		u, ok := v.Latest("u")
		r, rok := v.Attribute(entity.Reported, "/r")
		y, yok := v.Attribute(entity.Attributes, "/x/y")
		_, xok := v.Attribute(entity.Attributes, "/x")
		if v.ID() == "a" && (!ok || u.Value.Float() != 2.5 || !rok || !r.Value.Bool() || yok || v.Updated() != 6) {
			t.Errorf("a: %+v %+v %v", u, r, v.Updated())
		}
		if v.ID() == "b" && (ok || !yok || y.Value.Text() != "z" || xok || !v.Has(entity.Attributes, "/x") || !v.Has(entity.Attributes, "/list") || v.Has(entity.Attributes, "/li") || v.Has(entity.Desired, "/x")) {
			t.Errorf("b: %+v", y)
		}
	}
	for _, id := range []string{"a", "b"} {
		if err := s.View(t.Context(), id, func(v entity.View) error { check(v); return nil }); err != nil {
			t.Error(err)
		}
	}
	broken := errors.New("broken")
	if err := s.View(t.Context(), "a", func(entity.View) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("view: %v", err)
	}
	if err := s.View(t.Context(), "a", func(entity.View) error { panic("no") }); err == nil || !strings.Contains(err.Error(), "panicked") {
		t.Errorf("view that panics: %v", err)
	}
	if err := s.View(t.Context(), "nobody", func(entity.View) error { return nil }); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("view of nobody: %v", err)
	}
	s = s.reopen(entity.Config{})
	n := 0
	if err := s.Scan(t.Context(), entity.ListQuery{}, func(v entity.View) bool { check(v); n++; return true }); err != nil || n != 2 {
		t.Errorf("scanned %d, %v", n, err)
	}
	if err := s.Scan(t.Context(), entity.ListQuery{}, func(entity.View) bool { n++; return false }); err != nil || n != 3 {
		t.Errorf("scanned %d, %v", n, err)
	}
	if s.IsLive("a") || s.IsLive("b") {
		t.Error("a scan brought entities to life")
	}
}

func TestDocumentsAreKeptByTheRuntime(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	d, err := s.PutDoc(t.Context(), "query", "hot rooms", []byte("t > 30"), entity.IfNone)
	if err != nil || d.ETag() == "" {
		t.Fatalf("%+v, %v", d, err)
	}
	s = s.reopen(entity.Config{})
	if got, err := s.Doc(t.Context(), "query", "hot rooms"); err != nil || string(got.Body) != "t > 30" || got.ETag() != d.ETag() {
		t.Errorf("%+v, %v", got, err)
	}
	for name, err := range map[string]error{
		"no kind":     first(s.PutDoc(t.Context(), "", "x", nil, "")),
		"no id":       first(s.PutDoc(t.Context(), "query", "", nil, "")),
		"a long id":   first(s.PutDoc(t.Context(), "query", strings.Repeat("x", 257), nil, "")),
		"a large one": first(s.PutDoc(t.Context(), "query", "x", make([]byte, entity.MaxDocBytes+1), "")),
		"a bad id":    first(s.PutDoc(t.Context(), "query", "a\n", nil, "")),
	} {
		if !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if err := s.DeleteDoc(t.Context(), "query", "hot rooms", "old"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("delete with an old version: %v", err)
	}
	if err := s.DeleteDoc(t.Context(), "query", "hot rooms", d.ETag()); err != nil {
		t.Error(err)
	}
	if docs, err := s.Docs(t.Context(), "query"); err != nil || len(docs) != 0 {
		t.Errorf("%v, %v", docs, err)
	}
}

func TestNamesOfTypesHaveNoControlCharacters(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	for _, name := range []string{"a\x07b", "line\nbreak", "del\x7f", "next\u0085"} {
		_, typeErr := s.PutType(t.Context(), &model.Type{ID: name}, "")
		_, editErr := s.Edit(t.Context(), "a", entity.Edits{Type: &name})
		_, relateErr := s.Edit(t.Context(), "a", entity.Edits{Relate: []entity.Relation{{Type: name, To: "b"}}})
		if !errors.Is(editErr, entity.ErrInvalid) {
			t.Errorf("an entity of the type %q: %v, want ErrInvalid", name, editErr)
		}
		for what, err := range map[string]error{"type": typeErr, "relation": relateErr} {
			if err == nil || !strings.Contains(err.Error(), "control character U+00") {
				t.Errorf("%s %q: %v, want it to name the control character", what, name, err)
			}
		}
	}
	if n := s.Stats().Registered; n != 0 {
		t.Errorf("%d entities have come to be", n)
	}
}

// A mapping that is replaced again and again computes on: its earlier versions are
// forgotten. Other sources are counted as ever.
func TestASourceMayHaveAnyNumberOfVersions(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	var settled sync.WaitGroup
	compute := func(source string, ts int64) error {
		settled.Add(1)
		return s.IngestFrom(t.Context(), "a", entity.Origin{Source: source, Seq: 1}, []entity.Reading{at(ts, "t", value.Int(ts))}, 50, func(err error) {
			defer settled.Done()
			if err != nil {
				t.Error(err)
			}
		})
	}
	const last = entity.MaxEntitySources + 5
	for i := range int64(last) {
		source := fmt.Sprintf("mapping:m@%d", i/2)
		if i%2 == 1 {
			source += ":again"
		}
		if err := compute(source, i); err != nil {
			t.Fatalf("version %d: %v", i, err)
		}
	}
	settled.Wait()
	if got := s.latest("a", "t"); got.TS != last-1 {
		t.Errorf("the latest value is of %d, want %d", got.TS, last-1)
	}
}
