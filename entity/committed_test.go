package entity_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// While the store takes nothing, readers see what is committed, and an ETag that somebody
// was shown is of a state that stays.
func TestReadersSeeWhatIsCommitted(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	s.edit("a", entity.Edits{Patches: []entity.Patch{merge(entity.Attributes, `{"c":1}`)}})
	s.edit("gone", entity.Edits{})
	before := s.entity("a")
	g := newGate()
	s.store.onCommit(func(ctx context.Context, _ *entity.Batch) error { return g.pass(ctx) })
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Edit(context.Background(), "a", entity.Edits{Patches: []entity.Patch{merge(entity.Attributes, `{"c":2}`)}}); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := s.Delete(context.Background(), "gone", ""); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := s.Write(context.Background(), "new", []entity.Reading{at(1, "t", value.Int(1))}, 0); err != nil {
			t.Error(err)
		}
	})
	for { // all of it has been taken in
		a, _ := s.Accepted(t.Context(), "a")
		_, gone := s.Accepted(t.Context(), "gone")
		_, fresh := s.Accepted(t.Context(), "new")
		if a.ETag != before.ETag && gone != nil && fresh == nil {
			break
		}
	}
	if a := s.entity("a"); a.ETag != before.ETag || len(a.Attributes) != 1 || a.Attributes[0].Value != value.Int(1) || a.Actor == "" {
		t.Errorf("a reader sees %+v, committed is %+v", a, before)
	}
	if err := s.View(t.Context(), "a", func(v entity.View) error {
		if c, _ := v.Attribute(entity.Attributes, "/c"); v.ETag() != before.ETag || c.Value != value.Int(1) {
			t.Errorf("a view has %s and %v", v.ETag(), c.Value)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	s.entity("gone")
	if _, err := s.Entity(t.Context(), "new"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("a reader sees an entity that is not committed: %v", err)
	}
	g.open()
	wg.Wait()
	if a := s.entity("a"); a.ETag == before.ETag || a.Attributes[0].Value != value.Int(2) {
		t.Errorf("after the commit: %+v", a)
	}
	s.entity("new")
}
