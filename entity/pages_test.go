package entity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// A page of entities ends by their bytes: a thousand of a megabyte each took 1.5 GB.
func TestAPageOfEntitiesEndsByItsBytes(t *testing.T) {
	t.Parallel()
	const all, keys = 24, 17 // of 60 kB
	s := open(t, t.TempDir(), entity.Config{})
	for i := range all {
		r := entity.Reading{TS: 1}
		for key := range keys {
			r.Values = append(r.Values, entity.Sample{Key: fmt.Sprint("k", key), Value: value.String(strings.Repeat("x", 60_000))})
		}
		s.write(fmt.Sprintf("large-%02d", i), r)
	}
	found, pages := 0, 0
	for after := ""; ; pages++ {
		page, next, err := s.Entities(t.Context(), entity.Page{Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		if found += len(page); len(page) > all-4 {
			t.Errorf("a page has %d entities of a megabyte", len(page))
		}
		if after = next; next == "" {
			break
		}
	}
	if found != all || pages == 0 {
		t.Errorf("%d entities in %d further pages, want %d in some", found, pages, all)
	}
}
