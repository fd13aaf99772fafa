package entity_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// named has n names that no other prefix has.
func named(prefix string, n int) entity.Reading {
	r := entity.Reading{TS: 1}
	for i := range n {
		r.Values = append(r.Values, entity.Sample{Key: fmt.Sprint(prefix, i), Value: value.Int(1)})
	}
	return r
}

func TestNobodyUsesUpTheNamesOfKeysForAllOthers(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{Keys: 100})
	bring := func(by, id, prefix string, n int) error {
		return s.WriteOnce(t.Context(), id, entity.Once{By: by}, []entity.Reading{named(prefix, n)}, 0)
	}
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, entity.ErrTooManyKeys) {
			t.Errorf("got %v, want ErrTooManyKeys", err)
		}
	}
	if err := bring("gateway", "g0", "a", 50); err != nil {
		t.Fatalf("half of all: %v", err)
	}
	refused(bring("gateway", "g1", "b", 1))
	if err := bring("gateway", "g1", "a", 50); err != nil {
		t.Errorf("names that there are: %v", err)
	}
	_, err := s.Edit(t.Context(), "g2", entity.Edits{By: "gateway", Patches: []entity.Patch{merge(entity.Reported, `{"new":1}`)}})
	refused(err)
	if err := s.Delete(t.Context(), "g0", ""); err != nil {
		t.Fatal(err)
	}
	refused(bring("gateway", "g3", "b", 1)) // its history may still have the names

	if err := bring("other", "o0", "c", 25); err != nil {
		t.Errorf("somebody else's: %v", err)
	}
	refused(bring("other", "o1", "d", 1))
	_, err = s.Edit(t.Context(), "e", entity.Edits{By: "third", Patches: []entity.Patch{merge(entity.Reported, `{"new":1}`)}})
	if err != nil {
		t.Errorf("an attribute of a third: %v", err)
	}
	if err := bring("", "mine", "e", 24); err != nil {
		t.Errorf("the runtime's own, up to the limit: %v", err)
	}
	refused(bring("", "mine", "f", 1))
	refused(bring("fourth", "mine", "f", 1))
}

// Names may have been more over several runs. What is there is read all the same.
func TestEntitiesAreReadWhateverNamesOfKeysThereAre(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	s.write("a", named("a", 10))
	s.write("b", named("b", 10))
	s.patch("b", entity.Attributes, `{"c":1,"d":2}`)
	s = s.reopen(entity.Config{Keys: 5})
	for _, id := range []string{"a", "b"} {
		if e := s.entity(id); len(e.Latest) != 10 {
			t.Errorf("%s has %d keys, want 10", id, len(e.Latest))
		}
	}
	s.write("a", named("a", 10))
	if err := s.Write(t.Context(), "a", []entity.Reading{named("new", 1)}, 0); !errors.Is(err, entity.ErrTooManyKeys) {
		t.Errorf("got %v, want ErrTooManyKeys", err)
	}
}
