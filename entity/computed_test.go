package entity_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestAComputedEditIsMadeOnceAlsoOverARestart(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	cursor := func() string {
		sub, err := s.Changes(t.Context(), entity.ChangesQuery{Edits: true})
		if err != nil {
			t.Fatal(err)
		}
		defer sub.Close()
		return sub.Cursor()
	}()
	edit := func(seq uint64, body string) entity.Edited {
		t.Helper()
		done, err := s.Edit(t.Context(), "a", entity.Edits{From: entity.Origin{Source: "r@1", Seq: seq}, Patches: []entity.Patch{merge(entity.Attributes, body)}})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	first := edit(5, `{"x":1}`)
	if again := edit(5, `{"x":2}`); again.ETag != first.ETag || len(again.Attributes) != 0 {
		t.Errorf("a repetition has made %+v, after %+v", again, first)
	}
	s = s.reopen(entity.Config{})
	if again := edit(4, `{"x":3}`); again.ETag != first.ETag {
		t.Errorf("after a restart a repetition has made %+v, after %+v", again, first)
	}
	edit(6, `{"x":4}`)
	if _, err := s.Edit(t.Context(), "a", entity.Edits{Patches: []entity.Patch{merge(entity.Attributes, `{"x":5}`)}}); err != nil { // of somebody
		t.Fatal(err)
	}
	sub, err := s.Changes(t.Context(), entity.ChangesQuery{Cursor: cursor, Edits: true})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for i, want := range []struct {
		x    int64
		from entity.Origin
	}{{1, entity.Origin{Source: "r@1", Seq: 5}}, {4, entity.Origin{Source: "r@1", Seq: 6}}, {5, entity.Origin{}}} {
		c, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Origin != want.from || c.Edit == nil || c.Edit.Attributes[0].Value != value.Int(want.x) {
			t.Errorf("change %d: %+v, want %+v", i, c, want)
		}
	}
	if _, err := s.Edit(t.Context(), "a", entity.Edits{From: entity.Origin{Source: "r@1"}}); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("an edit from the number 0: %v, want ErrInvalid", err)
	}
}

// A program that computes something for an entity must neither bring back one that has been
// deleted since, nor change another of its id.
func TestWhatIsComputedForAnEntityIsForNoOtherOfItsID(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	from := entity.Origin{Source: "r@1", Seq: 1}
	into := func(created int64) error {
		settled := make(chan error, 1)
		reading := []entity.Reading{at(7, "t", value.Int(1))}
		if err := s.IngestFor(t.Context(), "a", created, from, reading, 50, func(err error) { settled <- err }); err != nil {
			return err
		}
		return <-settled
	}
	edit := func(created int64) error {
		_, err := s.Edit(t.Context(), "a", entity.Edits{From: entity.Origin{Source: "r@1:edit", Seq: 1}, Of: created, Patches: []entity.Patch{merge(entity.Attributes, `{"x":1}`)}})
		return err
	}
	if err := s.Write(t.Context(), "a", []entity.Reading{at(1, "t", value.Int(0))}, 50); err != nil {
		t.Fatal(err)
	}
	a, err := s.Entity(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(int64) error{"reading": into, "edit": edit} {
		if err := f(a.Created + 1); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("%s of another of the id: %v, want ErrNotFound", what, err)
		}
		if err := f(a.Created); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(int64) error{"reading": into, "edit": edit} {
		if err := f(a.Created); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("%s of one that is gone: %v, want ErrNotFound", what, err)
		}
	}
	if _, err := s.Entity(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("the entity has come back: %v", err)
	}
}
