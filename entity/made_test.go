package entity_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestTheReadingThatMakesAnEntitySaysSo(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), entity.Config{})
	sub := s.subscribe(entity.ChangesQuery{Edits: true})
	begin := sub.Cursor()
	s.write("a", at(20, "t", value.Int(1)), at(10, "t", value.Int(2)))
	s.write("a", at(30, "t", value.Int(3)))
	if _, err := s.Edit(t.Context(), "b", entity.Edits{}); err != nil {
		t.Fatal(err)
	}
	s.write("b", at(30, "t", value.Int(3)))
	if err := s.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	s.write("a", at(40, "t", value.Int(4)))
	want := []bool{true, false, false, false, false, false, true}
	for _, sub := range []*entity.Subscription{sub, s.subscribe(entity.ChangesQuery{Edits: true, Cursor: begin})} { // the second one reads the log
		for i, created := range want {
			if c := next(t, sub); c.Created != created {
				t.Errorf("change %d: created is %t, want %t", i, c.Created, created)
			}
		}
		nothing(t, sub)
	}
}
