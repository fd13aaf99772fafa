package entity_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

func (s *stage) relate(from, typ string, to ...string) {
	s.t.Helper()
	var e entity.Edits
	for _, id := range to {
		e.Relate = append(e.Relate, entity.Relation{Type: typ, To: id})
	}
	s.edit(from, e)
}

// edges returns the relations of an entity in one line.
func (s *stage) edges(id string, d entity.Direction) string {
	s.t.Helper()
	list, err := s.Relations(s.t.Context(), id, d)
	if err != nil {
		s.t.Fatalf("relations of %q: %v", id, err)
	}
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "%s-%s-%s%s ", r.From, r.Type, r.To, r.Properties.Text())
	}
	return strings.TrimSpace(b.String())
}

func TestRelationsAreSeenFromBothEndsOnceAcknowledged(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	for _, id := range []string{"room", "floor", "house"} {
		s.edit(id, entity.Edits{})
	}
	s.edit("room", entity.Edits{Relate: []entity.Relation{{Type: "isIn", To: "floor", Properties: entity.ParseJSON([]byte(`{"since":2024}`))}, {Type: "feeds", To: "house"}}})
	s.relate("floor", "isIn", "house")
	s.relate("house", "likes", "house")
	for range 2 {
		for id, want := range map[string][3]string{
			"room":   {"room-feeds-house room-isIn-floor{\"since\":2024}", "", "room-feeds-house room-isIn-floor{\"since\":2024}"},
			"floor":  {"floor-isIn-house", "room-isIn-floor{\"since\":2024}", "floor-isIn-house room-isIn-floor{\"since\":2024}"},
			"house":  {"house-likes-house", "room-feeds-house floor-isIn-house house-likes-house", "house-likes-house room-feeds-house floor-isIn-house"},
			"nobody": {},
		} {
			for i, d := range []entity.Direction{entity.Out, entity.In, entity.Both} {
				if got := s.edges(id, d); got != want[i] {
					t.Errorf("%s %v: %s, want %s", id, d, got, want[i])
				}
			}
		}
		if n := s.Stats().Relations; n != 4 {
			t.Errorf("%d relations", n)
		}
		s = s.reopen(entity.Config{})
	}
	s.relate("room", "isIn", "floor") // without properties now
	s.edit("room", entity.Edits{Unrelate: []entity.Relation{{Type: "feeds", To: "house"}}})
	if got := s.edges("room", entity.Both); got != "room-isIn-floor" {
		t.Errorf("room: %s", got)
	}
	if _, err := s.Edit(t.Context(), "room", entity.Edits{Unrelate: []entity.Relation{{Type: "feeds", To: "house"}}}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("remove an edge again: %v", err)
	}
	if err := s.Delete(t.Context(), "floor", ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := s.edges("room", entity.Both) + s.edges("house", entity.Both) + s.edges("floor", entity.Both); got != "house-likes-house" {
			t.Errorf("after one end was deleted: %s", got)
		}
		s = s.reopen(entity.Config{})
	}
}

// What is related while the graph is still being loaded is in it afterwards.
func TestRelationsPutWhileTheGraphLoadsAreInIt(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	for _, id := range []string{"a", "b", "c", "d"} {
		s.edit(id, entity.Edits{})
	}
	s.relate("a", "x", "b", "c", "d")
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := newGate()
	held := func(disk *sqlite.Store) entity.Store { return &heldRelations{Store: disk, gate: g} }
	s = openOn(t, s.dir, entity.Config{}, held)
	wait(t, g.came, "the graph's load")
	if err := s.Delete(t.Context(), "d", ""); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { // waits for the graph
		if _, err := s.Edit(t.Context(), "b", entity.Edits{Relate: []entity.Relation{{Type: "y", To: "c"}}, Unrelate: nil}); err != nil {
			t.Error(err)
		}
	})
	g.open()
	wg.Wait()
	if got := s.edges("a", entity.Out) + " " + s.edges("b", entity.Out); got != "a-x-b a-x-c b-y-c" {
		t.Errorf("edges %s", got)
	}
}

// heldRelations has read the relations when it is held up.
type heldRelations struct {
	entity.Store
	gate *gate
}

func (s *heldRelations) Relations(ctx context.Context, after entity.Relation, limit int) ([]entity.Relation, error) {
	list, err := s.Store.Relations(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	return list, s.gate.pass(ctx)
}

// reach returns what a traversal comes to, in one line.
func (s *stage) reach(q entity.Traversal) string {
	s.t.Helper()
	reached, more, err := s.Traverse(s.t.Context(), q)
	if err != nil {
		s.t.Fatalf("traverse %+v: %v", q, err)
	}
	var b strings.Builder
	for _, r := range reached {
		fmt.Fprintf(&b, "%s%d ", r.ID, r.Depth)
	}
	if more {
		b.WriteString("more")
	}
	return strings.TrimSpace(b.String())
}

func TestTraversalGoesByDirectionTypeDepthAndFilters(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.types(`{"id":"Room"}`, `{"id":"Cell","extends":["Room"]}`)
	for _, id := range []string{"h", "f", "g", "a", "b", "c", "d", "alone"} {
		s.edit(id, entity.Edits{})
	}
	s.edit("a", entity.Edits{Type: new("Room"), Patches: []entity.Patch{merge(entity.Attributes, `{"area":10}`)}})
	s.edit("b", entity.Edits{Type: new("Cell"), Patches: []entity.Patch{merge(entity.Attributes, `{"area":20}`)}})
	for _, e := range []string{"f in h", "g in h", "a in f", "b in f", "c in g", "d in c", "h knows a", "d feeds a"} {
		w := strings.Fields(e)
		s.relate(w[0], w[1], w[2])
	}
	s.edit("b", entity.Edits{Relate: []entity.Relation{{Type: "in", To: "f", Properties: entity.ParseJSON([]byte(`{"door":true}`))}}})
	area := func(more int64) func(entity.View) bool {
		return func(v entity.View) bool {
			a, ok := v.Attribute(entity.Attributes, "/area")
			return ok && a.Value.Int() > more
		}
	}
	for want, q := range map[string]entity.Traversal{
		"d0 a1 c1 f2 g2 h3":          {From: "d"},
		"d0 c1 g2 h3":                {From: "d", Types: []string{"in"}},
		"h0 f1 g1 a2 b2 c2 d3":       {From: "h", Direction: entity.In, Types: []string{"in"}},
		"h0 f1 g1 a2 b2 c2":          {From: "h", Direction: entity.In, Types: []string{"in"}, Depth: 2},
		"h0 f1 g1 more":              {From: "h", Direction: entity.In, Types: []string{"in"}, Limit: 3},
		"h0 a1 f1 g1":                {From: "h", Direction: entity.Both, Depth: 1},
		"alone0":                     {From: "alone", Direction: entity.Both},
		"h0":                         {From: "h", Types: []string{"never"}},
		"a2 b2":                      {From: "h", Direction: entity.In, Types: []string{"in", "never"}, Match: func(v entity.View) bool { return v.IsA("Room") }},
		"b2":                         {From: "h", Direction: entity.In, Types: []string{"in"}, Match: area(10)},
		"f0 b1":                      {From: "f", Direction: entity.In, Edge: func(r entity.Relation) bool { return r.Properties.Kind() != 0 }},
		"h0 f1 g1 a2 b2":             {From: "h", Direction: entity.In, Types: []string{"in"}, Through: func(v entity.View) bool { return v.ID() != "g" }},
		"h0 f1 g1 a2 b2 c2 d3 alone": {From: "h", Direction: entity.In, Types: []string{"in"}, Edge: func(r entity.Relation) bool { return s.edges(r.From, entity.Out) != "" }},
	} {
		if got := s.reach(q); got != strings.TrimSuffix(want, " alone") {
			t.Errorf("%+v: %s, want %s", q, got, want)
		}
	}
	for name, q := range map[string]entity.Traversal{
		"no id": {}, "a depth": {From: "a", Depth: 99}, "a limit": {From: "a", Limit: -1}, "a direction": {From: "a", Direction: 7},
	} {
		if _, _, err := s.Traverse(t.Context(), q); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, _, err := s.Traverse(t.Context(), entity.Traversal{From: "nobody"}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("from nobody: %v", err)
	}
}
