package sqlite

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// Questions about histories wait for each other and not in the way of an entity that
// comes to life.
func TestLongQueriesLeaveReadersForLoads(t *testing.T) {
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range longReaders {
		end, err := s.beginLong(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer end()
	}
	if _, err := s.Load(t.Context(), "nobody"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("load: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.CountNumbers(ctx, "a", "k", 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a query too many: %v, want it to wait until its context ends", err)
	}
}
